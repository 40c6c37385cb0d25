//! Which VLANs the ports of a switch have (IEEE 802.1Q).

use thruway_element::ArgErrors;
use thruway_element::text::split_words;
use thruway_element::{Args, FromArg};

use crate::vlan_tag::MAX_ID;

/// The VLAN of ports that are not configured (IEEE 802.1Q table 9-2, the default PVID).
const DEFAULT_VLAN: u16 = 1;
/// Largest VLAN that a port may have; 4095 is reserved.
const MAX_VLAN: u16 = MAX_ID - 1;
/// How a port is written.
const EXPECTED: &str = "expected PORT NUMBER ACCESS VLAN or PORT NUMBER TRUNK VLANS [NATIVE VLAN]";

/// The VLANs of one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Port {
    /// The VLAN of frames without a tag, coming in and going out.
    untagged: Option<u16>,
    /// A bit for each VLAN that the port has.
    has: Box<[u64; 64]>,
    access: bool,
}

/// Why a frame may not come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The port does not have its VLAN.
    Vlan,
    /// It has no tag, and the port no VLAN for such frames.
    Untagged,
}

impl Port {
    fn new(access: bool) -> Port {
        Port { untagged: None, has: Box::new([0; 64]), access }
    }

    fn access(vlan: u16) -> Port {
        let mut port = Port::new(true);
        port.add(vlan, vlan);
        port.untagged = Some(vlan);
        port
    }

    fn add(&mut self, first: u16, last: u16) {
        for vlan in first..=last {
            self.has[usize::from(vlan / 64)] |= 1 << (vlan % 64);
        }
    }

    /// Whether frames of a VLAN (at most 4095) come in and go out here.
    #[inline]
    pub(super) fn has(&self, vlan: u16) -> bool {
        self.has[usize::from(vlan / 64) % 64] & 1 << (vlan % 64) != 0
    }

    /// The VLAN of a frame that comes in with a tag of this control information, or without.
    #[inline]
    pub(super) fn admit(&self, tci: Option<u16>) -> Result<u16, Refused> {
        match tci.map_or(0, |tci| tci & MAX_ID) {
            // Without a tag, or one for the priority alone.
            0 => self.untagged.ok_or(Refused::Untagged),
            vlan if self.has(vlan) => Ok(vlan),
            _ => Err(Refused::Vlan),
        }
    }

    /// Whether frames of a VLAN go out with a tag.
    #[inline]
    pub(super) fn tags(&self, vlan: u16) -> bool {
        self.untagged != Some(vlan)
    }
}

/// The port as its argument is written, but for the number.
impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let (true, Some(vlan)) = (self.access, self.untagged) {
            return write!(f, "ACCESS {vlan}");
        }
        write!(f, "TRUNK")?;
        let mut vlan = 1;
        while vlan <= MAX_VLAN {
            let end = (vlan..=MAX_VLAN + 1).find(|end| !self.has(*end)).unwrap_or(MAX_ID);
            match end - vlan {
                0 => {}
                1 => write!(f, " {vlan}")?,
                _ => write!(f, " {vlan}-{}", end - 1)?,
            }
            vlan = end.max(vlan) + 1;
        }
        self.untagged.map_or(Ok(()), |vlan| write!(f, " NATIVE {vlan}"))
    }
}

/// A VLAN identifier.
pub(super) fn vlan(word: &str) -> Result<u16, String> {
    let wrong = || format!("'{word}' is not a VLAN; it must be from 1 to {MAX_VLAN}");
    let vlan = word.parse::<u16>().map_err(|_| wrong())?;
    if (1..=MAX_VLAN).contains(&vlan) { Ok(vlan) } else { Err(wrong()) }
}

/// One VLAN, a range of them, or all.
fn vlans(word: &str) -> Result<(u16, u16), String> {
    match word.split_once('-') {
        _ if word == "ALL" => Ok((1, MAX_VLAN)),
        None => vlan(word).map(|vlan| (vlan, vlan)),
        Some((first, last)) => match (vlan(first)?, vlan(last)?) {
            (first, last) if first <= last => Ok((first, last)),
            _ => Err(format!("'{word}': the range ends before it begins")),
        },
    }
}

fn trunk(words: &[&str]) -> Result<Port, String> {
    let mut port = Port::new(false);
    let (words, native) = match words {
        [words @ .., keyword, native] if *keyword == "NATIVE" => (words, Some(vlan(native)?)),
        words => (words, None),
    };
    if words.is_empty() {
        return Err(format!("a trunk without VLANs; {EXPECTED}"));
    }
    for word in words {
        let (first, last) = vlans(word)?;
        port.add(first, last);
    }
    if let Some(native) = native {
        port.add(native, native);
        port.untagged = Some(native);
    }
    Ok(port)
}

/// The port, of `count`, that an argument is about, and its VLANs.
fn parse(args: &Args<'_>, text: &str, count: usize) -> Result<(usize, Port), String> {
    let words = split_words(text);
    let (number, port) = match &words[..] {
        [first, number, kind, rest @ ..] if *first == "PORT" => {
            let number = usize::from_arg(number, args.env())?;
            match (*kind, rest) {
                ("ACCESS", [word]) => (number, Port::access(vlan(word)?)),
                ("TRUNK", words) => (number, trunk(words)?),
                _ => return Err(EXPECTED.to_owned()),
            }
        }
        [word, ..] if *word != "PORT" => return Err(format!("unknown '{word}'; {EXPECTED}")),
        _ => return Err(EXPECTED.to_owned()),
    };
    if number < count {
        Ok((number, port))
    } else {
        Err(format!("there is no port {number}; there are {count}"))
    }
}

/// The VLANs of `count` ports, `None` where no argument speaks of any.
pub(super) fn ports(args: &Args<'_>, count: usize) -> Result<Option<Box<[Port]>>, ArgErrors> {
    if args.rest().len() == 0 {
        return Ok(None);
    }
    let mut ports: Vec<Option<Port>> = vec![None; count];
    let mut errors = Vec::new();
    for (index, text) in args.rest() {
        match parse(args, text, count) {
            Ok((number, _)) if ports[number].is_some() => {
                errors.push(args.rest_error(index, format!("port {number} is configured twice")));
            }
            Ok((number, port)) => ports[number] = Some(port),
            Err(message) => errors.push(args.rest_error(index, message)),
        }
    }
    let or_default = |port: Option<Port>| port.unwrap_or_else(|| Port::access(DEFAULT_VLAN));
    let ports = ports.into_iter().map(or_default).collect();
    if errors.is_empty() { Ok(Some(ports)) } else { Err(ArgErrors(errors)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn trunk_of(text: &str) -> Result<Port, String> {
        trunk(&split_words(text))
    }

    #[test]
    fn frames_of_a_trunk() {
        let port = trunk_of("10 20-22 NATIVE 30").unwrap();
        assert_eq!(port.to_string(), "TRUNK 10 20-22 30 NATIVE 30");
        assert_eq!(port.admit(None), Ok(30));
        assert_eq!(port.admit(Some(0xe000)), Ok(30));
        assert_eq!(port.admit(Some(0xe015)), Ok(21));
        assert_eq!(port.admit(Some(23)), Err(Refused::Vlan));
        assert_eq!(port.admit(Some(0xffff)), Err(Refused::Vlan));
        assert!(port.tags(10) && !port.tags(30));
        assert_eq!(trunk_of("5").unwrap().admit(None), Err(Refused::Untagged));
        assert_eq!(trunk_of("ALL").unwrap().to_string(), "TRUNK 1-4094");
    }

    #[test]
    fn frames_of_an_access_port() {
        let port = Port::access(7);
        assert_eq!([port.admit(None), port.admit(Some(0x2000)), port.admit(Some(7))], [Ok(7); 3]);
        assert_eq!(port.admit(Some(8)), Err(Refused::Vlan));
        assert!(!port.tags(7));
    }

    proptest! {
        /// The text form reads back, whatever VLANs these are.
        #[test]
        fn shown_and_read_again(vlans in prop::collection::btree_set(1u16..=MAX_VLAN, 1..80),
                                native in prop::option::of(1u16..=MAX_VLAN)) {
            let mut text: Vec<String> = vlans.iter().map(ToString::to_string).collect();
            text.extend(native.map(|vlan| format!("NATIVE {vlan}")));
            let port = trunk_of(&text.join(" ")).unwrap();
            for vlan in 0..=MAX_ID {
                prop_assert_eq!(port.has(vlan), vlans.contains(&vlan) || native == Some(vlan));
            }
            let shown = port.to_string();
            prop_assert_eq!(trunk_of(shown.strip_prefix("TRUNK").unwrap()).unwrap(), port);
        }

        #[test]
        fn any_words(text in "[ -~]{0,40}") {
            let _ = trunk_of(&text);
        }
    }
}
