//! ADD: attaches a pod. What fails is undone.

use rustix::io::Errno;
use serde_json::Value;

use crate::call::{Call, Verb};
use crate::chain;
use crate::config::{Config, Network};
use crate::error::CniError;
use crate::host;
use crate::ipam::Ipam;
use crate::netlink::{Link, Route};
use crate::plug::{Sides, exists};
use crate::result::{CniResult, Interface, Wanted, network_of};

/// The least MTU with IPv6, in bytes (RFC 8200, section 5).
const MTU_IPV6_MIN: u32 = 1280;

/// Attaches a pod.
///
/// # Errors
/// The call, the configuration or the IPAM plugin's answer is wrong; the kernel refused something;
/// the chain does not run. Then nothing is left of it.
pub fn add(call: &Call, network: &Network) -> Result<CniResult, CniError> {
    let config = Config::read(network, call)?;
    let previous = network.previous()?.unwrap_or_default();
    let ipam = Ipam::find(call, network)?;
    let mut sides = Sides::open(call, network.identity(call).alias()?)?;
    // A call before this one that was killed.
    if sides.remove()? {
        ipam.iter().try_for_each(|ipam| ipam.ask(Verb::Del))?;
    }
    let name = &call.interface;
    if sides.inside.link(name).map_err(|error| CniError::io(name, error))?.is_some() {
        return Err(exists(name));
    }
    let done = attach(call, &config, &mut sides, ipam.as_ref());
    if done.is_err() {
        // What made it fail is what the runtime hears of; DEL follows.
        let _ = sides.remove();
        ipam.iter().for_each(|ipam| drop(ipam.ask(Verb::Del)));
    }
    let (link, given) = done?;
    Ok(result(call, &config, link, (previous, given)).of_version(network.version))
}

/// Makes the interface, has addresses reserved for it, and waits for the chain.
fn attach(
    call: &Call,
    config: &Config,
    sides: &mut Sides,
    ipam: Option<&Ipam<'_>>,
) -> Result<(Link, CniResult), CniError> {
    let link = sides.plug(call, config)?;
    let given = ipam.map_or_else(|| Ok(CniResult::default()), Ipam::add)?;
    let wanted = given.read()?;
    check_mtu(&link, &wanted)?;
    set_parameters(sides, &link.name, &wanted)?;
    configure(sides, &link, &wanted)?;
    config.chain.iter().try_for_each(chain::wait_ready)?;
    Ok((link, given))
}

fn check_mtu(link: &Link, wanted: &Wanted) -> Result<(), CniError> {
    let mtu = link.mtu;
    let has_ipv6 = wanted.addresses.iter().any(|one| one.ip.is_ipv6());
    if has_ipv6 && mtu < MTU_IPV6_MIN {
        let why = format!("mtu {mtu}: IPv6 needs {MTU_IPV6_MIN}");
        return Err(CniError::config(why));
    }
    Ok(())
}

/// Has the interface announce its addresses when it comes up, since others may remember a pod that
/// had them before.
fn set_parameters(sides: &Sides, name: &str, wanted: &Wanted) -> Result<(), CniError> {
    let has_ipv6 = wanted.addresses.iter().any(|one| one.ip.is_ipv6());
    sides.pod.within(|| {
        if has_ipv6 {
            host::set("ipv6", name, "disable_ipv6", "0")?;
            host::set("ipv6", name, "ndisc_notify", "1")?;
        }
        host::set("ipv4", name, "arp_notify", "1")
    })
}

fn configure(sides: &mut Sides, link: &Link, wanted: &Wanted) -> Result<(), CniError> {
    let Link { index, name, .. } = link;
    let inside = &mut sides.inside;
    for address in &wanted.addresses {
        let (ip, len) = (address.ip, address.len);
        let step = format!("address {ip}/{len} at interface '{name}'");
        inside.add_address(*index, address).map_err(|error| CniError::io(step, error))?;
    }
    inside.set_up(*index).map_err(|error| match error {
        Errno::ADDRINUSE | Errno::BUSY => {
            let mac = link.mac.map(|mac| mac.to_string()).unwrap_or_default();
            CniError::config(format!("another pod of this port has the Ethernet address {mac}"))
        }
        error => CniError::io(format!("interface '{name}' up"), error),
    })?;
    for route in &wanted.routes {
        let Route { to, .. } = route;
        let step = format!("route to {}/{} by interface '{name}'", to.ip, to.len);
        let added = inside.add_route(*index, route).map_err(|error| CniError::io(&step, error))?;
        if !added && !is_expected(route, wanted) {
            let why = format!("{step}: the pod has another route there; give it a priority");
            return Err(CniError::interface(why));
        }
    }
    Ok(())
}

/// Whether a route may be there already: another network's default route stays, and that of an
/// address's own network is the kernel's.
fn is_expected(route: &Route, wanted: &Wanted) -> bool {
    let is_own = |address| network_of(address) == route.to;
    route.to.len == 0 || wanted.addresses.iter().copied().any(is_own)
}

/// The result: what plugins before this one gave, and behind it the port and the pod's interface.
fn result(
    call: &Call,
    config: &Config,
    link: Link,
    (previous, given): (CniResult, CniResult),
) -> CniResult {
    let mut result = previous;
    result.interfaces.push(Interface { name: config.port.clone(), ..Interface::default() });
    let index = result.interfaces.len();
    let mut interface = Interface {
        name: link.name,
        mac: link.mac.map(|mac| mac.to_string()).unwrap_or_default(),
        sandbox: call.netns.clone(),
        ..Interface::default()
    };
    interface.rest.insert("mtu".into(), link.mtu.into());
    result.interfaces.push(interface);
    for mut ip in given.ips {
        ip.interface = Some(index);
        result.ips.push(ip);
    }
    result.routes.extend(given.routes);
    // The network's own name servers come first, as those of a configuration do elsewhere.
    let is_given = |dns: &Value| dns.as_object().is_some_and(|dns| !dns.is_empty());
    if let Some(dns) = [config.dns.clone(), given.dns].into_iter().find(is_given) {
        result.dns = dns;
    }
    result
}
