//! PortInfo: names for ports.

use thruway_element::text::split_words;
use thruway_element::{
    Addresses, ArgError, ArgErrors, Arguments, Element, Entry, Handlers, NOTHING_MORE, Replicas,
    Spec, Topic, Ty,
};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<PortInfo>(Spec {
    name: "PortInfo",
    topic: Topic::Ip,
    summary: "gives names to TCP and UDP ports",
    docs: "Each argument is a name and the port that it stands for: NAME PORT, for both TCP and \
           UDP, or NAME PORT/tcp, NAME PORT/udp; more names may follow, and a comment behind \
           a #, so that lines of /etc/services are such arguments. Rules of IPClassifier and IPFilter and the \
           ports of UDPIPEncap may then use the name. A name begins with a letter; one that is \
           given inside of a compound element counts there only.",
    example: "PortInfo(dns 53/udp); InfiniteSource(LIMIT 1, STOP true) \
              -> UDPIPEncap(1.0.0.1, 1024, 2.0.0.2, dns) -> Discard",
    ports: "0/0",
    processing: "/",
    cost: NOTHING_MORE,
    replicas: Replicas::Single,
    ..Spec::DEFAULT
})
.declaring(declare);

#[derive(Arguments, Handlers)]
#[arg(
    rest, name = "NAME", unread, ty = Ty::Rule("NAME PORT[/PROTOCOL] [NAME...]"),
    "a name, its port, other names"
)]
struct PortInfo;

impl Element for PortInfo {}

/// Names, port, and whether it is one of TCP and of UDP.
fn parse(text: &str) -> Result<(Vec<&str>, u16, bool, bool), String> {
    let mut names = split_words(text.split_once('#').map_or(text, |(entry, _)| entry));
    if names.is_empty() {
        return Ok((names, 0, false, false));
    }
    if names.len() < 2 {
        return Err(format!("'{text}': expected NAME PORT or NAME PORT/PROTOCOL"));
    }
    let port = names.remove(1);
    if let Some(name) =
        names.iter().find(|name| !name.starts_with(|c: char| c.is_ascii_alphabetic()))
    {
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
    Ok((names, number, tcp, udp))
}

fn declare(element: &str, args: &[String], addresses: &mut Addresses) -> Result<(), ArgErrors> {
    let scope = element.rsplit_once('/').map_or(String::new(), |(scope, _)| format!("{scope}/"));
    let mut errors = Vec::new();
    for (index, text) in args.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
        match parse(text) {
            Ok((names, port, tcp, udp)) => {
                for name in names {
                    let named = addresses.entry(&format!("{scope}{name}"));
                    named.tcp = tcp.then_some(port).or(named.tcp);
                    named.udp = udp.then_some(port).or(named.udp);
                }
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
        assert_eq!(parse("ssh 22"), Ok((vec!["ssh"], 22, true, true)));
        assert_eq!(parse("dns 53/udp"), Ok((vec!["dns"], 53, false, true)));
        assert_eq!(parse("www 80/tcp http # web"), Ok((vec!["www", "http"], 80, true, false)));
        assert_eq!(parse(" # nothing"), Ok((vec![], 0, false, false)));
        for wrong in ["ssh", "22 ssh", "ssh 65536", "ssh 22/sctp", "a b c", "a 5 6", "a # 5"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
