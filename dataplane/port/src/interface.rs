//! What is known of the machine's network interfaces: index, state, addresses, MTU.

use crate::error::PortError;
pub use crate::interface_driver::{is_for_large_packets, is_tap, rx_queues, strips_tags};
use crate::interface_exists::exists;
use crate::interface_request::{control_socket, request_about};
use crate::system::IfCommand;
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;

mod host_use;

pub use host_use::used_by_host;

/// A network interface of this network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The kernel's number for it.
    pub index: u32,
    /// Whether it is administratively up.
    pub is_up: bool,
    /// Its hardware (MAC) address, if it has one of six bytes.
    pub mac: Option<[u8; 6]>,
    /// Whether its frames have Ethernet headers (as loopback's do); otherwise they start with IP.
    pub is_ethernet: bool,
    /// Its addresses with their prefix lengths in bits, in the kernel's order.
    pub addresses: Vec<(IpAddr, u8)>,
}

impl Interface {
    /// The IPv4 addresses with their prefix lengths.
    pub fn ipv4(&self) -> impl Iterator<Item = (Ipv4Addr, u8)> {
        self.addresses.iter().filter_map(|&(address, bits)| match address {
            IpAddr::V4(address) => Some((address, bits)),
            IpAddr::V6(_) => None,
        })
    }

    /// The IPv6 addresses with their prefix lengths, the link-local one among them.
    pub fn ipv6(&self) -> impl Iterator<Item = (Ipv6Addr, u8)> {
        self.addresses.iter().filter_map(|&(address, bits)| match address {
            IpAddr::V6(address) => Some((address, bits)),
            IpAddr::V4(_) => None,
        })
    }
}

/// All interfaces, in the kernel's order.
///
/// # Errors
/// The kernel did not answer.
pub fn list() -> Result<Vec<Interface>, PortError> {
    let mut head = std::ptr::null_mut();
    // JUSTIFICATION: the addresses of interfaces come as a linked list from C.
    // SAFETY: `head` is a place for the list's address; it is freed below.
    if unsafe { libc::getifaddrs(&raw mut head) } != 0 {
        return Err(PortError::system("*", "getifaddrs", io::Error::last_os_error()));
    }
    let mut interfaces = Vec::new();
    let mut at = head;
    // JUSTIFICATION: addresses of interfaces come as a linked list from C.
    // SAFETY: `at` is null or an entry of the list, which lives until it is freed.
    while let Some(entry) = unsafe { at.as_ref() } {
        add_entry(&mut interfaces, entry);
        at = entry.ifa_next;
    }
    // JUSTIFICATION: the list is the C library's to free.
    // SAFETY: the list came from `getifaddrs` and no reference to it is left.
    unsafe { libc::freeifaddrs(head) };
    Ok(interfaces)
}

/// The interface called `name`.
///
/// # Errors
/// [`PortError::NoSuchInterface`], with the names there are.
pub fn find(name: &str) -> Result<Interface, PortError> {
    let interfaces = list()?;
    match interfaces.iter().find(|i| i.name == name) {
        Some(interface) => Ok(interface.clone()),
        None => {
            let names: Vec<&str> = interfaces.iter().map(|i| i.name.as_str()).collect();
            Err(PortError::NoSuchInterface { name: name.to_owned(), existing: names.join(", ") })
        }
    }
}

/// The kernel's number for the interface that is called `name` now, if there is one.
pub fn index(name: &str) -> Option<u32> {
    let socket = control_socket(name).ok()?;
    rustix::net::netdevice::name_to_index(&socket, name).ok()
}

/// The NUMA node that the device behind `name` is at, if it is at one.
pub fn node(name: &str) -> Option<usize> {
    // The name is a path's component: it must not contain another path.
    if name.contains('/') || name.starts_with('.') {
        return None;
    }
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/device/numa_node")).ok()?;
    // -1 of a device that is at none.
    text.trim().parse().ok()
}

/// Whether an interface can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceState {
    /// It is up.
    Up,
    /// It is down.
    Down,
    /// It is no more; there may be another one of its name.
    Gone,
}

/// The state of the interface that was found as `interface`.
pub fn state(interface: &Interface) -> InterfaceState {
    let name = &interface.name;
    let is_there = || index(name) == Some(interface.index);
    if !is_there() {
        return InterfaceState::Gone;
    }
    let flags = || -> Result<i16, PortError> {
        let (mut request, socket) = (request_about(name)?, control_socket(name)?);
        let asked = request.call(&socket, IfCommand::GET_FLAGS);
        asked.map_err(|e| PortError::system(name, "SIOCGIFFLAGS", e))?;
        Ok(request.flags())
    };
    match flags() {
        Ok(flags) if flags & libc::IFF_UP as i16 != 0 => InterfaceState::Up,
        // An interface is down before it disappears. Only then is the kernel asked under its lock,
        // which holds up packets.
        Ok(_) if exists(name) && is_there() => InterfaceState::Down,
        Ok(_) | Err(_) => InterfaceState::Gone,
    }
}

/// What shows that a link was lost or came back: it differs then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkMark {
    /// There is a carrier.
    is_running: bool,
    /// How often the carrier came or went, where the system says so.
    changes: Option<u64>,
}

/// The mark of the link of `name` now; `None` where there is no such interface.
pub fn link_mark(name: &str) -> Option<LinkMark> {
    if name.contains('/') || name.starts_with('.') {
        return None;
    }
    let (mut request, socket) = (request_about(name).ok()?, control_socket(name).ok()?);
    request.call(&socket, IfCommand::GET_FLAGS).ok()?;
    let is_running = request.flags() & libc::IFF_RUNNING as i16 != 0;
    let changes = std::fs::read_to_string(format!("/sys/class/net/{name}/carrier_changes"));
    let changes = changes.ok().and_then(|text| text.trim().parse().ok());
    Some(LinkMark { is_running, changes })
}

/// An address by which the host's own stack uses `name`. A link-local IPv6 address does not count:
/// every interface that is up has one.
pub fn host_address(name: &str) -> Option<(IpAddr, u8)> {
    let addresses = addresses(name).ok()?;
    addresses.into_iter().find(|(address, _)| match address {
        IpAddr::V4(address) => !address.is_loopback(),
        IpAddr::V6(address) => !address.is_unicast_link_local() && !address.is_loopback(),
    })
}

/// The hardware address of `name`.
///
/// # Errors
/// There is no such interface, or it has no address of six bytes (a tunnel).
pub fn mac(name: &str) -> Result<[u8; 6], PortError> {
    let none = || PortError::BadArgument {
        name: name.to_owned(),
        what: "it has no Ethernet address; name an Ethernet interface".to_owned(),
    };
    find(name)?.mac.ok_or_else(none)
}

/// The addresses of `name` with their prefix lengths.
///
/// # Errors
/// There is no such interface.
pub fn addresses(name: &str) -> Result<Vec<(IpAddr, u8)>, PortError> {
    Ok(find(name)?.addresses)
}

/// The gateway of the host's default route by `name`, if there is one.
pub fn gateway(name: &str) -> Option<Ipv4Addr> {
    let routes = std::fs::read_to_string("/proc/net/route").ok()?;
    default_gateway(&routes, name)
}

/// The gateway of the default route by `name` in the kernel's table: numbers are hexadecimal, in
/// memory's order of bytes.
fn default_gateway(routes: &str, name: &str) -> Option<Ipv4Addr> {
    routes.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [interface, destination, gateway, _, _, _, _, mask, ..] = words[..] else {
            return None;
        };
        let number = |word| u32::from_str_radix(word, 16).ok();
        let is_default = interface == name && number(destination)? == 0 && number(mask)? == 0;
        let gateway = number(gateway).filter(|gateway| is_default && *gateway != 0)?;
        Some(Ipv4Addr::from(gateway.to_ne_bytes()))
    })
}

/// The largest packet that `name` sends, in bytes, without the link's header.
///
/// # Errors
/// There is no such interface.
pub fn mtu(name: &str) -> Result<usize, PortError> {
    mtu_by(&control_socket(name)?, name)
}

/// As [`mtu`], by a socket of any kind.
pub(crate) fn mtu_by(socket: &impl AsFd, name: &str) -> Result<usize, PortError> {
    let mut request = request_about(name)?;
    request
        .call(socket, IfCommand::GET_MTU)
        .map_err(|e| PortError::system(name, "SIOCGIFMTU", e))?;
    Ok(usize::try_from(request.mtu()).unwrap_or(0))
}

/// Adds what one entry of the list says to its interface.
fn add_entry(interfaces: &mut Vec<Interface>, entry: &libc::ifaddrs) {
    // JUSTIFICATION: addresses of interfaces come as a linked list from C.
    // SAFETY: the kernel's list names every entry with a C string, which lives as long as the list.
    let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy();
    // Aliases ("eth0:1") belong to their interface.
    let name = name.split(':').next().unwrap_or_default();
    let index = interfaces.iter().position(|i| i.name == name).unwrap_or_else(|| {
        interfaces.push(Interface { name: name.to_owned(), ..Interface::default() });
        interfaces.len() - 1
    });
    let interface = &mut interfaces[index];
    interface.is_up |= entry.ifa_flags & libc::IFF_UP as u32 != 0;
    // JUSTIFICATION: addresses of interfaces come as a linked list from C.
    // SAFETY: null or a socket address that lives as long as the list.
    let Some(address) = (unsafe { entry.ifa_addr.as_ref() }) else { return };
    if i32::from(address.sa_family) == libc::AF_PACKET {
        // JUSTIFICATION: the family says which structure it is.
        // SAFETY: the family says that this is a link-layer address, of that length and alignment.
        let link = unsafe { &*entry.ifa_addr.cast::<libc::sockaddr_ll>() };
        add_link(interface, link);
    } else if let Some(address) = ip_address(entry.ifa_addr) {
        let mask = ip_address(entry.ifa_netmask);
        interface.addresses.push((address, mask.map_or(address_bits(address), prefix_len)));
    }
}

fn add_link(interface: &mut Interface, link: &libc::sockaddr_ll) {
    interface.index = link.sll_ifindex.cast_unsigned();
    interface.is_ethernet = matches!(link.sll_hatype, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK);
    if link.sll_halen == 6 {
        interface.mac = link.sll_addr[..6].try_into().ok();
    }
}

/// The IP address in a socket address, if that is what it is.
fn ip_address(address: *const libc::sockaddr) -> Option<IpAddr> {
    // JUSTIFICATION: addresses of interfaces come as a linked list from C.
    // SAFETY: null, or a socket address from `getifaddrs`, which lives as long as the list.
    let family = unsafe { address.as_ref() }?.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // JUSTIFICATION: the family says which structure it is.
            // SAFETY: the family says that this is an IPv4 address, of that length and alignment.
            let inet = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from_bits(u32::from_be(inet.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // JUSTIFICATION: the family says which structure it is.
            // SAFETY: the family says that this is an IPv6 address, of that length and alignment.
            let inet = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(inet.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

fn address_bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The prefix length of a mask, in bits.
fn prefix_len(mask: IpAddr) -> u8 {
    let bits = match mask {
        IpAddr::V4(mask) => mask.to_bits().leading_ones(),
        IpAddr::V6(mask) => mask.to_bits().leading_ones(),
    };
    bits as u8
}

#[cfg(test)]
mod tests {
    #[test]
    fn default_routes_have_a_gateway() {
        let one = u32::from_ne_bytes([10, 0, 0, 1]);
        let routes = format!(
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\n\
             a\t0000000A\t{one:08X}\t0003\t0\t0\t0\t000000FF\t0\t0\t0\n\
             b\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0\n\
             b\t00000000\t{one:08X}\t0003\t0\t0\t9\t00000000\t0\t0\t0\nb\t0\n"
        );
        let gateway = |name| super::default_gateway(&routes, name);
        assert_eq!(
            [gateway("a"), gateway("b"), gateway("c")],
            [None, Some([10, 0, 0, 1].into()), None]
        );
        assert_eq!(super::default_gateway("", "a"), None);
    }

    use super::*;

    #[test]
    fn loopback_is_found_with_its_address() {
        let lo = find("lo").expect("every namespace has a loopback");
        assert!(lo.index > 0);
        assert!(lo.is_ethernet);
        if lo.is_up {
            assert!(lo.ipv4().any(|a| a == (Ipv4Addr::LOCALHOST, 8)));
            assert!(addresses("lo").expect("there").contains(&(Ipv4Addr::LOCALHOST.into(), 8)));
        }
        assert!(mtu("lo").expect("has one") >= 1500);
    }

    #[test]
    fn a_missing_interface_is_named_with_those_that_exist() {
        let text = mac("nonesuch0").expect_err("no such interface").to_string();
        assert!(text.contains("'nonesuch0'") && text.contains("lo"), "{text}");
        assert!(mtu("a-name-that-is-too-long-for-linux").is_err());
    }

    #[test]
    fn masks_have_prefix_lengths() {
        assert_eq!(prefix_len(Ipv4Addr::new(255, 255, 240, 0).into()), 20);
        assert_eq!(prefix_len(Ipv6Addr::from_bits(u128::MAX << 64).into()), 64);
    }
}
