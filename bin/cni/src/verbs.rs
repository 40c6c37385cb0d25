//! DEL, CHECK, GC and STATUS.

use crate::call::{Call, Verb};
use crate::chain;
use crate::config::{Config, Mode, Network};
use crate::error::{CniError, Code};
use crate::identity::Identity;
use crate::ipam::Ipam;
use crate::netlink::{Link, RouteSocket, filter};
use crate::plug::{Sides, forget_filter, host_socket, remove_all, remove_from_host};
use crate::pod::PodNamespace;
use crate::port;
use crate::result::CniResult;

/// Detaches a pod. What is gone already is no error.
///
/// # Errors
/// The kernel refused something; the IPAM plugin did, or is not there.
pub fn del(call: &Call, network: &Network) -> Result<(), CniError> {
    let alias = network.identity(call).alias()?;
    let mut host = host_socket()?;
    remove_from_host(&mut host, &alias)?;
    // The namespace may be gone, and with it the interface.
    if let Ok(pod) = PodNamespace::open(&call.netns) {
        remove_all(&mut pod.socket()?, |link| link.alias == alias)?;
    }
    // An address goes to another pod only when no interface has it any more.
    let released = match Ipam::find(call, network)? {
        Some(ipam) => ipam.ask(Verb::Del),
        None => Ok(()),
    };
    // What ADD would have refused has no port.
    if let Ok(Config { mode: Mode::Direct, port, .. }) = Config::read(network, call) {
        forget_filter(&mut host, &port)?;
    }
    released
}

/// Removes what belongs to no valid attachment of a network. Interfaces in pods' namespaces go with
/// these.
///
/// # Errors
/// The runtime does not name the valid attachments; the kernel or the IPAM plugin refused it.
pub fn gc(call: &Call, network: &Network) -> Result<(), CniError> {
    let valid = network.valid_attachments()?;
    let useless = |link: &Link| {
        let identity = Identity::of_alias(&link.alias);
        identity.is_some_and(|one| one.network == network.name && !valid.contains(&one))
    };
    remove_all(&mut host_socket()?, useless)?;
    Ipam::find(call, network)?.map_or(Ok(()), |ipam| ipam.ask(Verb::Gc))
}

/// Whether pods could be attached.
///
/// # Errors
/// They could not: the configuration is wrong, the IPAM plugin is not there or not ready, the
/// chain does not run.
pub fn status(call: &Call, network: &Network) -> Result<(), CniError> {
    let config = Config::read(network, call)?;
    let mut host = host_socket()?;
    let not_available = |error: CniError| CniError { code: Code::NotAvailable as u32, ..error };
    if let Mode::Shared(_) = config.mode {
        port::look(&mut host, &config.port).map_err(not_available)?;
    }
    if let Some(ipam) = Ipam::find(call, network).map_err(not_available)? {
        ipam.ask(Verb::Status)?;
    }
    config.chain.iter().try_for_each(chain::look).map_err(not_available)
}

/// Whether a pod is attached as ADD did it.
///
/// # Errors
/// It is not; the message has what is missing.
pub fn check(call: &Call, network: &Network) -> Result<(), CniError> {
    let config = Config::read(network, call)?;
    let previous = network.previous()?;
    let previous = previous.ok_or_else(|| CniError::config("prevResult is missing"))?;
    let mut sides = Sides::open(call, network.identity(call).alias()?)?;
    let port = check_port(&mut sides.host, &config, &sides.alias)?;
    let name = &call.interface;
    let link = sides.inside.link(name).map_err(|error| CniError::io(name, error))?;
    let link = link.filter(|link| link.alias == sides.alias);
    let Some(link) = link else {
        return Err(CniError::interface(format!(
            "the pod has no interface '{name}' of this plugin"
        )));
    };
    if !link.up {
        return Err(CniError::interface(format!("interface '{name}' of the pod is down")));
    }
    if link.lower != port {
        let why = format!("interface '{name}' is not at port '{}'", config.port);
        return Err(CniError::interface(why));
    }
    check_result(&mut sides.inside, &link, &previous)?;
    if let Some(ipam) = Ipam::find(call, network)? {
        ipam.ask(Verb::Check)?;
    }
    config.chain.iter().try_for_each(chain::look)
}

/// The number of the interface that a pod's interface is at.
fn check_port(host: &mut RouteSocket, config: &Config, alias: &str) -> Result<u32, CniError> {
    let name = &config.port;
    let io = |error| CniError::io(name, error);
    let missing = || CniError::interface(format!("port '{name}' is not there"));
    let (ends, at) = match config.mode {
        Mode::Shared(_) => {
            let port = port::look(host, name)?.ok_or_else(missing)?;
            let at = port.inner.index;
            (vec![port.outer, port.inner], at)
        }
        Mode::Direct => {
            let link = host.link(name).map_err(io)?.ok_or_else(missing)?;
            if link.alias != alias {
                return Err(port::foreign(&link));
            }
            let at = link.index;
            (vec![link], at)
        }
    };
    if let Some(down) = ends.iter().find(|end| !end.up) {
        let why = format!("interface '{0}' is down: ip link set {0} up", down.name);
        return Err(CniError::interface(why));
    }
    if !filter::is_shut(name).map_err(io)? {
        let why = format!(
            "the host's stack sees what port '{name}' receives: table thruway-cni-{name} of \
             nftables is gone; `thruway-cni port add {name}` makes it anew"
        );
        return Err(CniError::interface(why));
    }
    Ok(at)
}

/// Whether an interface has what the result of ADD says.
fn check_result(
    inside: &mut RouteSocket,
    link: &Link,
    previous: &CniResult,
) -> Result<(), CniError> {
    let name = &link.name;
    let io = |error| CniError::io(name, error);
    let own = |one: &crate::result::Interface| one.name == *name && !one.sandbox.is_empty();
    let Some(at) = previous.interfaces.iter().position(own) else {
        return Err(CniError::config(format!("prevResult has no interface '{name}'")));
    };
    let expected = &previous.interfaces[at].mac;
    let mac = link.mac.map(|mac| mac.to_string()).unwrap_or_default();
    if !expected.eq_ignore_ascii_case(&mac) {
        let why = format!("interface '{name}' has address {mac}, and had {expected}");
        return Err(CniError::interface(why));
    }
    let mut of_it = previous.clone();
    of_it.ips.retain(|ip| ip.interface == Some(at));
    let wanted = of_it.read()?;
    let there = inside.addresses(link.index).map_err(io)?;
    if let Some(lost) = wanted.addresses.iter().find(|one| !there.contains(one)) {
        let why = format!("interface '{name}' has no address {}/{} any more", lost.ip, lost.len);
        return Err(CniError::interface(why));
    }
    // Routes of other plugins' interfaces are not told apart; default routes may be others'.
    if previous.interfaces.len() > 2 {
        return Ok(());
    }
    let there = inside.routes(link.index).map_err(io)?;
    let lost = wanted.routes.iter().filter(|route| route.to.len > 0).find(|route| {
        let table = route.table.unwrap_or(crate::netlink::MAIN);
        !there.iter().any(|(to, _, at)| *to == route.to && *at == table)
    });
    match lost {
        None => Ok(()),
        Some(route) => Err(CniError::interface(format!(
            "interface '{name}' has no route to {}/{} any more",
            route.to.ip, route.to.len
        ))),
    }
}
