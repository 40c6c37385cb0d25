//! AddressInfo: names for addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

use thruway_element::text::split_words;
use thruway_element::{
    Addresses, ArgError, ArgErrors, Arguments, Element, Entry, Handlers, Ip6Prefix, IpPrefix,
    NOTHING_MORE, Replicas, Spec, Topic, Ty,
};
use thruway_port::interface;
use thruway_wire::MacAddr;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<AddressInfo>(Spec {
    name: "AddressInfo",
    topic: Topic::Ip,
    summary: "gives names to addresses",
    docs: "Each argument is a name and the addresses that it stands for: an IPv4 address or \
           prefix, an IPv6 address or prefix, an Ethernet address. Other elements' arguments \
           may then use the name where an address of one of those types is expected, with a \
           suffix (:ip, :ipnet, :ip6, :eth) if the reader should see which; NAME:bcast is the \
           broadcast address of its prefix, NAME:gw the first address of that, unless the very \
           name NAME:gw is given. A prefix with host \
           bits is an address too. A name given inside of a compound element counts there \
           only, and may stand for what another name does.\n\
           An address may also be the name of a network interface of this host, with or \
           without such a suffix (:ip6net too): it stands for the addresses that the interface \
           has when the configuration is read, IFACE:gw for the gateway of the default route by \
           it. A name alone is the interface of that name.",
    example: "AddressInfo(me 1.0.0.1/24 02:00:00:00:00:01); \
              InfiniteSource(LIMIT 1, STOP true) -> ARPResponder(me) -> Discard",
    ports: "0/0",
    processing: "/",
    cost: NOTHING_MORE,
    replicas: Replicas::Single,
    ..Spec::DEFAULT
})
.declaring(declare);

#[derive(Arguments, Handlers)]
#[arg(
    rest, name = "NAME", unread, ty = Ty::Rule("NAME ADDRESS..."), "a name and its addresses"
)]
struct AddressInfo;

impl Element for AddressInfo {}

/// The meaning of one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Address {
    Ip(Ipv4Addr),
    Net(IpPrefix),
    Ip6(Ipv6Addr),
    Net6(Ip6Prefix),
    Ether(MacAddr),
}

/// Enters one address under a name; the last one of a type counts.
fn enter(addresses: &mut Addresses, name: &str, address: Address) {
    let named = addresses.entry(name);
    match address {
        Address::Ip(ip) => named.ip = Some(ip),
        Address::Net(net) => {
            named.prefix = Some(net);
            if net.addr.to_bits() & !net.mask.to_bits() != 0 {
                named.ip = Some(net.addr);
            }
        }
        Address::Ip6(ip) => named.ip6 = Some(ip),
        Address::Net6(net) => {
            named.prefix6 = Some(net);
            let host = u128::MAX.checked_shr(u32::from(net.length)).unwrap_or(0);
            if net.addr.to_bits() & host != 0 {
                named.ip6 = Some(net.addr);
            }
        }
        Address::Ether(mac) => named.ether = Some(mac),
    }
}

/// The address that is written `word`.
fn written(word: &str) -> Option<Address> {
    if let Ok(mac) = word.parse() {
        return Some(Address::Ether(mac));
    }
    if let Some((ip, length)) = word.split_once('/')
        && let (Ok(addr), Ok(length @ 0..=128)) = (ip.parse(), length.parse())
    {
        return Some(Address::Net6(Ip6Prefix { addr, length }));
    }
    let ip = word.parse().map(Address::Ip).or_else(|_| word.parse().map(Address::Ip6)).ok();
    ip.or_else(|| word.contains('/').then(|| IpPrefix::parse(word)).flatten().map(Address::Net))
}

/// The addresses that a name which is known already stands for, of the type that its suffix says.
fn named(from: &str, word: &str, addresses: &Addresses) -> Vec<Address> {
    let kind = suffix_of(word).1;
    let of = |kinds: &[&str]| kind.is_empty() || kinds.contains(&kind.as_str());
    let mut found = Vec::new();
    if of(NET) {
        let net = addresses.look_up(from, word, |named| named.prefix);
        found.extend(net.map(Address::Net));
    }
    found.extend(addresses.ip(from, word).map(Address::Ip));
    if of(NET6) {
        found.extend(addresses.look_up(from, word, |named| named.prefix6).map(Address::Net6));
    }
    if of(IP6) {
        found.extend(addresses.look_up(from, word, |named| named.ip6).map(Address::Ip6));
    }
    if of(ETHER) {
        found.extend(addresses.look_up(from, word, |named| named.ether).map(Address::Ether));
    }
    found
}

/// Suffixes by type of address.
const IP: &[&str] = &["ip", "ip4"];
const NET: &[&str] = &["net", "ipnet", "ip4net"];
const IP6: &[&str] = &["ip6"];
const NET6: &[&str] = &["ip6net"];
const ETHER: &[&str] = &["eth", "ether", "ethernet"];

/// A name without its suffix, and that in small letters; empty where there is none.
fn suffix_of(word: &str) -> (&str, String) {
    let (name, kind) = word.rsplit_once(':').unwrap_or((word, ""));
    (name, kind.to_ascii_lowercase())
}

/// The addresses of the interface that `word` names, of the type that its suffix says.
fn of_interface(word: &str) -> Result<Vec<Address>, String> {
    let (name, kind) = suffix_of(word);
    let of = |kinds: &[&str]| kind.is_empty() || kinds.contains(&kind.as_str());
    let interface = interface::find(name)
        .map_err(|why| format!("'{word}' is neither an address nor an interface: {why}"))?;
    let mut found = Vec::new();
    // Of several addresses the first one counts, so it is entered last.
    for (addr, length) in interface.ipv4().collect::<Vec<_>>().into_iter().rev() {
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        if of(NET) {
            found.push(Address::Net(IpPrefix { addr, mask: mask.into() }));
        }
        match kind.as_str() {
            "bcast" => found.push(Address::Ip((addr.to_bits() | !mask).into())),
            "gw" => found.push(Address::Ip((addr.to_bits() & mask | 1).into())),
            _ if of(IP) => found.push(Address::Ip(addr)),
            _ => {}
        }
    }
    if kind == "gw" {
        found.extend(interface::gateway(name).map(Address::Ip));
    }
    for (addr, length) in interface.ipv6().collect::<Vec<_>>().into_iter().rev() {
        if of(NET6) {
            found.push(Address::Net6(Ip6Prefix { addr, length }));
        }
        if of(IP6) {
            found.push(Address::Ip6(addr));
        }
    }
    if of(ETHER) {
        found.extend(interface.mac.map(|mac| Address::Ether(MacAddr(mac))));
    }
    match found.is_empty() {
        true => Err(format!("interface '{name}' has no address of type '{kind}'")),
        false => Ok(found),
    }
}

fn declare(element: &str, args: &[String], addresses: &mut Addresses) -> Result<(), ArgErrors> {
    let mut errors = Vec::new();
    for (index, text) in args.iter().enumerate() {
        if let Err(message) = declare_one(element, text, addresses) {
            errors.push(ArgError { index: Some(index), message });
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(ArgErrors(errors)) }
}

fn declare_one(element: &str, text: &str, addresses: &mut Addresses) -> Result<(), String> {
    let scope = element.rfind('/').map_or("", |end| &element[..=end]);
    let words = split_words(text);
    let Some((name, rest)) = words.split_first() else { return Ok(()) };
    let full = format!("{scope}{name}");
    if rest.is_empty() {
        let found = of_interface(name);
        let found = found.map_err(|why| format!("expected NAME ADDRESS...; {why}"))?;
        found.into_iter().for_each(|address| enter(addresses, &full, address));
    }
    for word in rest {
        let found = match (written(word), named(element, word, addresses)) {
            (Some(address), _) => vec![address],
            (None, known) if known.is_empty() => of_interface(word)?,
            (None, known) => known,
        };
        found.into_iter().for_each(|address| enter(addresses, &full, address));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(args: &[&str]) -> Vec<String> {
        args.iter().map(|arg| (*arg).to_owned()).collect()
    }

    #[test]
    fn names_by_type_and_scope() {
        let mut addresses = Addresses::default();
        let args = texts(&["a 1.0.0.1/24 2:0:0:0:0:1", "b ::1 10.0.0.0/8", "c 2001:db8::5/64", ""]);
        declare("AddressInfo@1", &args, &mut addresses).unwrap();
        declare("in/AddressInfo@2", &texts(&["a 9.9.9.9"]), &mut addresses).unwrap();
        let ip = |from, name| addresses.look_up(from, name, |named| named.ip);
        assert_eq!(ip("x", "a"), Some([1, 0, 0, 1].into()));
        assert_eq!(ip("x", "a:ip"), Some([1, 0, 0, 1].into()));
        assert_eq!(ip("in/x", "a"), Some([9, 9, 9, 9].into()));
        assert_eq!(ip("x", "b"), None);
        let mac = addresses.look_up("in/x", "a", |named| named.ether);
        assert_eq!(mac, Some(MacAddr([2, 0, 0, 0, 0, 1])));
        let net = addresses.look_up("x", "b", |named| named.prefix).unwrap();
        assert_eq!((net.addr.octets(), net.length()), ([10, 0, 0, 0], Some(8)));
        let six = addresses.look_up("x", "c", |named| named.ip6.zip(named.prefix6)).unwrap();
        assert_eq!((six.0.to_string(), six.1.length), ("2001:db8::5".into(), 64));
    }

    #[test]
    fn interfaces_and_nonsense() {
        let mut addresses = Addresses::default();
        let errors = declare("a", &texts(&["x no-such-if", "y"]), &mut addresses).unwrap_err();
        assert_eq!(errors.0.iter().map(|e| e.index).collect::<Vec<_>>(), [Some(0), Some(1)]);
        assert!(errors.0[0].message.contains("'no-such-if' is neither"), "{errors}");
        let args = [
            "a 10.1.2.3/24 2:0:0:0:0:1",
            "b a:bcast",
            "c a:gw a:ETHER",
            "d a:ip4net",
            "a:gw 9.9.9.9",
        ];
        declare("AddressInfo@1", &texts(&args), &mut addresses).unwrap();
        let ip = |name| addresses.ip("x", name).map(|ip| ip.to_string());
        assert_eq!(
            ["b", "c", "d", "a:gw"].map(ip).map(Option::unwrap_or_default),
            ["10.1.2.255", "10.1.2.1", "10.1.2.3", "9.9.9.9"]
        );
        assert!(addresses.look_up("x", "c", |named| named.ether).is_some());
        // Every Linux has it, though perhaps without addresses.
        if interface::find("lo").is_ok_and(|lo| lo.ipv4().next().is_some()) {
            declare("a", &texts(&["me lo:ip"]), &mut addresses).unwrap();
            let me = addresses.look_up("x", "me", |named| named.ip).unwrap();
            assert!(me.is_loopback());
            declare("a", &texts(&["all lo:bcast", "net lo:ip4net"]), &mut addresses).unwrap();
            let ip = |name| addresses.ip("x", name);
            assert_eq!(ip("all"), ip("net:bcast"));
            assert!(ip("all") != Some(me));
        }
    }
}
