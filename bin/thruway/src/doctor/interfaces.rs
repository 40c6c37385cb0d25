//! Interfaces: by what means each can be used, and what FromDevice would take.

use thruway_port::{af_xdp, interface};

use super::finding::Finding;
use super::host::Host;
use super::rights::lacks_for_xdp;

/// Largest MTU with frames that fit AF_XDP's here, bytes.
const MTU_MAX: i64 = 1706;
/// <linux/if_arp.h>
const ETHERNET: i64 = 1;
/// Interfaces that are reported.
const INTERFACES_MAX: usize = 64;

/// One finding for each Ethernet interface.
pub fn findings(host: &Host) -> Vec<Finding> {
    let names = host.list("sys/class/net");
    let ethernet = names
        .iter()
        .filter(|name| host.number(&format!("sys/class/net/{name}/type")) == Some(ETHERNET));
    ethernet.take(INTERFACES_MAX).map(|name| one(host, name)).collect()
}

/// What is known of one.
struct Facts {
    status: Vec<String>,
    remedies: Vec<String>,
    has_hardware: bool,
    /// Why AF_XDP would not be taken.
    against: Option<String>,
}

fn one(host: &Host, name: &str) -> Finding {
    let place = format!("sys/class/net/{name}");
    let driver = host.link(&format!("{place}/device/driver"));
    let mut facts = Facts {
        status: Vec::new(),
        remedies: Vec::new(),
        has_hardware: driver.is_some(),
        against: None,
    };
    let state = host.line(&format!("{place}/operstate")).unwrap_or_default();
    if state != "up" && state != "unknown" {
        facts.status.push(if state.is_empty() {
            "state unavailable".to_owned()
        } else {
            state.clone()
        });
    }
    if let Some(driver) = driver {
        facts.status.push(format!("driver {driver}"));
    }
    queues(host, &place, name, &mut facts);
    mtu(host, &place, name, &mut facts);
    if let Some(node) = host.number(&format!("{place}/device/numa_node")).filter(|node| *node >= 0)
    {
        facts.status.push(format!("NUMA node {node}"));
    }
    if !lacks_for_xdp(host).is_empty() {
        facts.against.get_or_insert_with(|| "AF_XDP is not allowed".to_owned());
    }
    if host.is_here() {
        mode(name, &mut facts);
    } else {
        facts.status.push("modes of AF_XDP unavailable".to_owned());
    }
    let what = format!("interface {name}");
    match &facts.against {
        Some(why) => facts.status.push(format!("FromDevice takes AF_PACKET: {why}")),
        None if host.is_here() => facts.status.push("FromDevice takes AF_XDP".to_owned()),
        None => {}
    }
    let status = facts.status.join(", ");
    match facts.remedies.is_empty() {
        true => Finding::good(&what, status),
        false => Finding::better(&what, status, facts.remedies.join("; ")),
    }
}

fn queues(host: &Host, place: &str, name: &str, facts: &mut Facts) {
    let queues = host.list(&format!("{place}/queues"));
    let count = |prefix: &str| queues.iter().filter(|queue| queue.starts_with(prefix)).count();
    let (rx, tx) = (count("rx-"), count("tx-"));
    facts.status.push(format!("{rx} rx and {tx} tx queues"));
    if rx == 1 && facts.has_hardware {
        facts.remedies.push(format!(
            "for several threads: more queues, where the driver has them (ethtool -L {name} combined N)"
        ));
    }
}

fn mtu(host: &Host, place: &str, name: &str, facts: &mut Facts) {
    let Some(mtu) = host.number(&format!("{place}/mtu")) else { return };
    facts.status.push(format!("MTU {mtu}"));
    if mtu > MTU_MAX {
        facts.against = Some(format!("frames of MTU {mtu} do not fit AF_XDP's"));
        facts.remedies.push(format!("for AF_XDP: ip link set {name} mtu {MTU_MAX} or less"));
    }
}

/// What only the running kernel reports.
fn mode(name: &str, facts: &mut Facts) {
    let features = interface::index(name).and_then(af_xdp::features);
    let (status, native) = match features {
        None => ("AF_XDP mode unavailable", None),
        Some(features) if features.zero_copy => {
            ("AF_XDP native, zero copy (wants run --huge-pages)", Some(true))
        }
        Some(features) if features.native => ("AF_XDP native, with a copy", Some(true)),
        Some(_) => ("AF_XDP generic only", Some(false)),
    };
    facts.status.push(status.to_owned());
    if native == Some(false) {
        facts.against.get_or_insert_with(|| "its driver has no XDP".to_owned());
    }
    if native == Some(false) && facts.has_hardware {
        facts.remedies.push(
            "a driver with XDP of its own (most physical ones, virtio_net with several queues, veth)"
                .to_owned(),
        );
    }
    if interface::strips_tags(name) {
        facts.status.push("VLAN tags taken out by hardware".to_owned());
        facts.remedies.push(format!("for VLANs by AF_XDP: ethtool -K {name} rxvlan off"));
    }
    if interface::is_tap(name) {
        facts.against.get_or_insert_with(|| "a TAP device has segments of up to 64 kB".to_owned());
    }
    if let Some(use_) = interface::used_by_host(name) {
        facts.against.get_or_insert_with(|| format!("{use_}, and AF_XDP would take its packets"));
    }
}
