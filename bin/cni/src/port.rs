//! Ports that pods share. A port is a veth pair: the chain reads and writes the end that has the
//! port's name; the interfaces of pods are at the other end. It stays when pods go, so that a chain
//! does not notice.

use crate::config::inner_end;
use crate::error::CniError;
use crate::host;
use crate::identity::{interim_name, port_alias};
use crate::lock::Lock;
use crate::netlink::{Link, LinkKind, RouteSocket, filter};

/// MTU of a port if nobody says otherwise, in bytes: that of Ethernet.
const MTU: u32 = 1500;

/// A port that is there: its ends.
#[derive(Debug)]
pub struct Port {
    /// The chain's end.
    pub outer: Link,
    /// The end of the pods.
    pub inner: Link,
}

fn io(step: &str, error: rustix::io::Errno) -> CniError {
    CniError::io(step, error)
}

/// The port of this name, made if it is not there.
///
/// # Errors
/// There is another interface of its name; its MTU is less than the one asked for; the kernel
/// refused something.
pub fn ensure(socket: &mut RouteSocket, name: &str, mtu: Option<u32>) -> Result<Port, CniError> {
    let _lock = Lock::acquire()?;
    let port = match look(socket, name)? {
        Some(port) => {
            host::keep_shut(name)?;
            port
        }
        None => make(socket, name, mtu.unwrap_or(MTU))?,
    };
    let least = port.outer.mtu.min(port.inner.mtu);
    if let Some(mtu) = mtu.filter(|mtu| *mtu > least) {
        return Err(CniError::config(format!(
            "mtu {mtu}: port '{name}' has {least}; give less, or remove the port while it has no \
             pods (thruway-cni port delete {name})"
        )));
    }
    // Somebody may have taken it down.
    for link in [&port.inner, &port.outer].into_iter().filter(|link| !link.up) {
        socket.set_up(link.index).map_err(|error| io(&link.name, error))?;
    }
    Ok(port)
}

/// The port of this name, if it is there and whole.
///
/// # Errors
/// An interface of its name is not this plugin's; the kernel refused the question.
pub fn look(socket: &mut RouteSocket, name: &str) -> Result<Option<Port>, CniError> {
    let (outer, inner) = ends(socket, name)?;
    let (Some(outer), Some(inner)) = (outer, inner) else { return Ok(None) };
    let paired = outer.lower == inner.index && !outer.lower_is_elsewhere;
    Ok(paired.then_some(Port { outer, inner }))
}

/// Both ends, as far as they are there.
fn ends(socket: &mut RouteSocket, name: &str) -> Result<(Option<Link>, Option<Link>), CniError> {
    let mut own = |name: &str, alias: &str| {
        let found = socket.link(name).map_err(|error| io(name, error))?;
        match found {
            Some(link) if link.alias != alias => Err(foreign(&link)),
            found => Ok(found),
        }
    };
    let alias = port_alias(name);
    Ok((own(name, &alias)?, own(&inner_end(name), &alias)?))
}

/// An interface that is something else's.
pub fn foreign(link: &Link) -> CniError {
    let used_as = match link.alias.as_str() {
        "" => "it is no port of thruway-cni".to_owned(),
        alias => format!("it is used as '{alias}'"),
    };
    let name = &link.name;
    CniError::interface(format!(
        "interface '{name}' exists, and {used_as}; choose another port, or remove it: \
         ip link del {name}"
    ))
}

/// Makes a port. Its ends get their names when they are complete, so whatever ends this process
/// leaves a port, or ends with interim names, which the next call removes.
fn make(socket: &mut RouteSocket, name: &str, mtu: u32) -> Result<Port, CniError> {
    let alias = port_alias(name);
    let interim = (interim_name('p', &alias), interim_name('q', &alias));
    let (outer, inner) = ends(socket, name)?;
    let leftover = socket.link(&interim.0).map_err(|error| io(&interim.0, error))?;
    for link in [outer, inner, leftover].into_iter().flatten() {
        socket.delete_link(link.index).map_err(|error| io(&link.name, error))?;
    }
    let done = complete(socket, name, &interim, mtu);
    if done.is_err() {
        remove_if_there(socket, &interim.0);
    }
    done
}

fn complete(
    socket: &mut RouteSocket,
    name: &str,
    interim: &(String, String),
    mtu: u32,
) -> Result<Port, CniError> {
    let alias = port_alias(name);
    let step = format!("port '{name}'");
    let failed = |error| io(&step, error);
    let kind = LinkKind::Veth { peer: interim.1.clone() };
    socket.add_link(&interim.0, &kind, Some(mtu), None).map_err(failed)?;
    let inner = finish_end(socket, &interim.1, &inner_end(name), &alias)?;
    let outer = finish_end(socket, &interim.0, name, &alias)?;
    let shut = host::shut(name);
    let up = shut.and_then(|()| {
        socket.set_up(inner.index).map_err(failed)?;
        socket.set_up(outer.index).map_err(failed)
    });
    if let Err(error) = up {
        remove_if_there(socket, name);
        return Err(error);
    }
    Ok(Port { outer, inner })
}

/// Gives an end that is down its alias, its parameters, and then its name.
pub fn finish_end(
    socket: &mut RouteSocket,
    interim: &str,
    name: &str,
    alias: &str,
) -> Result<Link, CniError> {
    let missing = || CniError::interface(format!("interface '{interim}' disappeared"));
    let mut link = socket.link(interim).map_err(|error| io(interim, error))?.ok_or_else(missing)?;
    socket.set_alias(link.index, alias).map_err(|error| io(interim, error))?;
    host::quiet(socket, &link)?;
    socket.rename(link.index, name).map_err(|error| io(name, error))?;
    name.clone_into(&mut link.name);
    Ok(link)
}

/// Undoes what failed; that this fails, too, is no news.
pub fn remove_if_there(socket: &mut RouteSocket, name: &str) {
    if let Ok(Some(link)) = socket.link(name) {
        let _ = socket.delete_link(link.index);
    }
}

/// Removes a port, and with it the interfaces of its pods; false if it is not there.
///
/// # Errors
/// An interface of its name is something else's; the kernel refused it.
pub fn delete(socket: &mut RouteSocket, name: &str) -> Result<bool, CniError> {
    let _lock = Lock::acquire()?;
    let (outer, inner) = ends(socket, name)?;
    let links = [outer, inner];
    for link in links.iter().flatten() {
        socket.delete_link(link.index).map_err(|error| io(&link.name, error))?;
    }
    filter::open(name).map_err(|error| io(name, error))?;
    Ok(links.iter().any(Option::is_some))
}
