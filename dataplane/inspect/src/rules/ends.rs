//! Addresses and ports in a rule's head.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How deep lists may stand in lists.
pub const NESTING_MAX: usize = 8;
/// How many members all lists of one end may have together.
pub const MEMBERS_MAX: usize = 4096;

/// What a rule says about one side of a packet's address or port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Spec<T> {
    /// `any`
    Any,
    /// `$NAME`: what the configuration says.
    Variable(String),
    /// One thing.
    One(T),
    /// `[a,b,!c]`: a or b, but not c.
    List(Vec<Spec<T>>),
    /// `!`
    Not(Box<Spec<T>>),
}

/// Addresses from one to another, of the same family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AddressRange {
    /// The first.
    pub first: IpAddr,
    /// The last, not below the first.
    pub last: IpAddr,
}

/// Ports from one to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PortRange {
    /// The first.
    pub first: u16,
    /// The last, not below the first.
    pub last: u16,
}

/// What can stand in a [`Spec`].
pub trait Member: Sized {
    /// What it is called in errors.
    const NAME: &'static str;

    /// Reads one; none where the text is not one.
    fn parse(text: &str) -> Option<Self>;
}

impl Member for PortRange {
    const NAME: &'static str = "port";

    fn parse(text: &str) -> Option<PortRange> {
        let (first, last) = match text.split_once(':') {
            None => (text, text),
            Some(("", last)) => ("0", last),
            Some((first, "")) => (first, "65535"),
            Some(both) => both,
        };
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last).then_some(PortRange { first, last })
    }
}

impl Member for AddressRange {
    const NAME: &'static str = "address";

    fn parse(text: &str) -> Option<AddressRange> {
        if let Some((address, len)) = text.split_once('/') {
            return prefix(address.trim().parse().ok()?, len.trim());
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last): (IpAddr, IpAddr) =
            (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first.is_ipv4() == last.is_ipv4() && first <= last).then_some(AddressRange { first, last })
    }
}

/// The addresses of a prefix; for IPv4 its length may be written as a mask.
fn prefix(address: IpAddr, len: &str) -> Option<AddressRange> {
    match address {
        IpAddr::V4(address) => {
            let ones = match len.parse::<Ipv4Addr>() {
                Ok(mask) => {
                    let mask = mask.to_bits();
                    (mask.leading_ones() == mask.count_ones()).then_some(mask.leading_ones())?
                }
                Err(_) => len.parse().ok()?,
            };
            let host = u32::MAX.checked_shr(ones).unwrap_or(0);
            let first = Ipv4Addr::from_bits(address.to_bits() & !host);
            (ones <= 32).then(|| AddressRange {
                first: first.into(),
                last: Ipv4Addr::from_bits(first.to_bits() | host).into(),
            })
        }
        IpAddr::V6(address) => {
            let ones: u32 = len.parse().ok()?;
            let host = u128::MAX.checked_shr(ones).unwrap_or(0);
            let first = Ipv6Addr::from_bits(address.to_bits() & !host);
            (ones <= 128).then(|| AddressRange {
                first: first.into(),
                last: Ipv6Addr::from_bits(first.to_bits() | host).into(),
            })
        }
    }
}

impl<T: Member> Spec<T> {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Spec<T>, String> {
        let mut members = 0;
        parse(text, 0, &mut members)
    }
}

fn parse<T: Member>(text: &str, depth: usize, members: &mut usize) -> Result<Spec<T>, String> {
    let text = text.trim();
    *members += 1;
    if depth > NESTING_MAX {
        return Err(format!("lists stand in each other more than {NESTING_MAX} deep"));
    }
    if *members > MEMBERS_MAX {
        return Err(format!("more than {MEMBERS_MAX} members in a list"));
    }
    if let Some(rest) = text.strip_prefix('!') {
        return match parse(rest, depth + 1, members)? {
            Spec::Any => Err(format!("'!any' is no {} at all", T::NAME)),
            spec => Ok(Spec::Not(Box::new(spec))),
        };
    }
    if let Some(rest) = text.strip_prefix('[') {
        let inner = rest.strip_suffix(']').ok_or_else(|| format!("'[' without ']' in '{text}'"))?;
        let parts = split(inner)?;
        return parts
            .into_iter()
            .map(|part| parse(part, depth + 1, members))
            .collect::<Result<Vec<_>, _>>()
            .map(Spec::List);
    }
    if text.eq_ignore_ascii_case("any") {
        return Ok(Spec::Any);
    }
    if let Some(name) = text.strip_prefix('$') {
        let good = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        return if good {
            Ok(Spec::Variable(name.to_owned()))
        } else {
            Err(format!("'{text}' is no name of a variable"))
        };
    }
    T::parse(text).map(Spec::One).ok_or_else(|| format!("'{text}' is no {}", T::NAME))
}

/// What stands between the commas outside of brackets.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let (mut depth, mut from, mut parts) = (0i32, 0, Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
        if depth < 0 {
            return Err(format!("']' without '[' in '{text}'"));
        }
    }
    parts.push(&text[from..]);
    if parts.iter().any(|part| part.trim().is_empty()) {
        return Err(format!("an empty member in '[{text}]'"));
    }
    Ok(parts)
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (first, last) if first == last => write!(f, "{first}"),
            (first, last) => write!(f, "{first}:{last}"),
        }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (first, last) if first == last => write!(f, "{first}"),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

impl<T: fmt::Display> fmt::Display for Spec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spec::Any => f.write_str("any"),
            Spec::Variable(name) => write!(f, "${name}"),
            Spec::One(one) => write!(f, "{one}"),
            Spec::Not(spec) => write!(f, "!{spec}"),
            Spec::List(specs) => {
                f.write_str("[")?;
                for (i, spec) in specs.iter().enumerate() {
                    write!(f, "{}{spec}", if i > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (text, back) in [
            ("any", "any"),
            ("$HOME_NET", "$HOME_NET"),
            ("10.0.0.0/8", "10.0.0.0-10.255.255.255"),
            ("10.0.0.77/255.255.255.0", "10.0.0.0-10.0.0.255"),
            ("0.0.0.0/0", "0.0.0.0-255.255.255.255"),
            ("2001:db8::/64", "2001:db8::-2001:db8::ffff:ffff:ffff:ffff"),
            ("![10.0.0.1, !$X,[1.2.3.4-1.2.3.9]]", "![10.0.0.1,!$X,[1.2.3.4-1.2.3.9]]"),
        ] {
            let spec = Spec::<AddressRange>::parse(text).unwrap();
            assert_eq!(spec.to_string(), back);
            assert_eq!(Spec::parse(back), Ok(spec));
        }
        for text in
            ["", "[", "[]", "[1.2.3.4", "[1.2.3.4,]", "!any", "1.2.3", "1.2.3.4/33", "$", "$a b"]
        {
            assert!(Spec::<AddressRange>::parse(text).is_err(), "{text}");
        }
        assert!(Spec::<AddressRange>::parse(&format!("{}1.1.1.1", "!".repeat(10_000))).is_err());
    }

    #[test]
    fn ports_are_ranges() {
        for (text, first, last) in
            [("80", 80, 80), (":80", 0, 80), ("80:", 80, 65535), ("1:2", 1, 2)]
        {
            assert_eq!(Spec::parse(text), Ok(Spec::One(PortRange { first, last })));
        }
        for text in ["65536", "2:1", ":", "http", "80-90"] {
            assert!(Spec::<PortRange>::parse(text).is_err(), "{text}");
        }
    }
}
