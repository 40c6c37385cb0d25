//! PortInfo: names for ports.

use thruway_element::text::split_words;
use thruway_element::{
    Addresses, Arg, ArgError, ArgErrors, Args, Element, Entry, NOTHING_MORE, Spec, Topic, Ty,
};

/// See the spec.
pub static ENTRY: Entry = Entry {
    spec: Spec {
        name: "PortInfo",
        topic: Topic::Ip,
        summary: "gives names to TCP and UDP ports",
        docs: "Each argument is a name and the port that it stands for: NAME PORT, for both TCP and \
               UDP, or NAME PORT/tcp, NAME PORT/udp. Rules of IPClassifier and IPFilter and the \
               ports of UDPIPEncap may then use the name. A name begins with a letter; one that is \
               given inside of a compound element counts there only.",
        example: "PortInfo(dns 53/udp); InfiniteSource(LIMIT 1, STOP true) \
                  -> UDPIPEncap(1.0.0.1, 1024, 2.0.0.2, dns) -> Discard",
        ports: "0/0",
        processing: "/",
        args: &[Arg::rest("NAME", Ty::Rule("NAME PORT[/PROTOCOL]"), "a name and its port")],
        cost: NOTHING_MORE,
        ..Spec::DEFAULT
    },
    build,
    declare: Some(declare),
};

struct PortInfo;

impl Element for PortInfo {}

fn build(_args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(PortInfo))
}

/// Name, port, and whether it is one of TCP and of UDP.
fn parse(text: &str) -> Result<(&str, u16, bool, bool), String> {
    let words = split_words(text);
    let &[name, port] = &words[..] else {
        return Err(format!("'{text}': expected NAME PORT or NAME PORT/PROTOCOL"));
    };
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(format!("'{name}' is not a name: it must begin with a letter"));
    }
    let (number, protocol) = port.split_once('/').unwrap_or((port, ""));
    let (tcp, udp) = match protocol {
        "" => (true, true),
        "tcp" => (true, false),
        "udp" => (false, true),
        _ => return Err(format!("'{protocol}' is not a protocol; write tcp or udp")),
    };
    let number = number.parse().map_err(|_| format!("'{number}' is not a port, 0 to 65535"))?;
    Ok((name, number, tcp, udp))
}

fn declare(element: &str, args: &[String], addresses: &mut Addresses) -> Result<(), ArgErrors> {
    let scope = element.rsplit_once('/').map_or(String::new(), |(scope, _)| format!("{scope}/"));
    let mut errors = Vec::new();
    for (index, text) in args.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
        match parse(text) {
            Ok((name, port, tcp, udp)) => {
                let named = addresses.entry(&format!("{scope}{name}"));
                named.tcp = tcp.then_some(port).or(named.tcp);
                named.udp = udp.then_some(port).or(named.udp);
            }
            Err(message) => errors.push(ArgError { index: Some(index), message }),
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(ArgErrors(errors)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_protocols() {
        assert_eq!(parse("ssh 22"), Ok(("ssh", 22, true, true)));
        assert_eq!(parse("dns 53/udp"), Ok(("dns", 53, false, true)));
        for wrong in ["ssh", "22 ssh", "ssh 65536", "ssh 22/sctp", "a b c", ""] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
