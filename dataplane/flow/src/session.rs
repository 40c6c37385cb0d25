//! The definition of a session: a set of fields that a function declares, and its text.
//!
//! ```
//! use thruway_flow::session::{KeyField, SessionDef};
//! let connection = SessionDef::parse("connection").unwrap();
//! assert!(connection.bidirectional && connection.fields.len() == 5);
//! let list = SessionDef::parse("src, dst, dst port").unwrap();
//! assert_eq!(list.fields, [KeyField::Src, KeyField::Dst, KeyField::DstPort]);
//! ```

use std::fmt;

use crate::ast::Base;
use crate::error::RuleError;
use crate::lexer::{Token, tokens};

/// Most words of a key that is not the five-tuple: raw words and programs together.
pub const RAW_WORDS_MAX: usize = 4;
/// Farthest byte that a raw word may reach.
pub const RAW_OFFSET_MAX: u16 = 256;

/// Four bytes of a packet, masked; big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyWord {
    /// The base of the offset.
    pub base: Base,
    /// Offset of the first of the four bytes.
    pub at: u16,
    /// The bits that count.
    pub mask: u32,
}

/// A field with a value computed from the packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyProgram {
    /// A hash of the value of this HTTP header (its name in small letters) in the TCP payload, 0
    /// where the packet has none.
    HttpHeader(String),
}

/// One field of a session's key. Addresses are those of the IP header, of either version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyField {
    /// Source address.
    Src,
    /// Destination address.
    Dst,
    /// Source port; of ICMP queries the identifier.
    SrcPort,
    /// Destination port; of ICMP queries the identifier.
    DstPort,
    /// Protocol of the transport layer.
    Protocol,
    /// Bytes from a fixed place.
    Word(KeyWord),
    /// A computed value.
    Program(KeyProgram),
}

impl KeyField {
    /// The same field of packets in the other direction; `None` if there is none.
    pub fn mirrored(&self) -> Option<KeyField> {
        match self {
            KeyField::Src => Some(KeyField::Dst),
            KeyField::Dst => Some(KeyField::Src),
            KeyField::SrcPort => Some(KeyField::DstPort),
            KeyField::DstPort => Some(KeyField::SrcPort),
            KeyField::Protocol => Some(KeyField::Protocol),
            KeyField::Word(_) | KeyField::Program(_) => None,
        }
    }

    /// Whether it needs a whole transport header: packets without one have no such session.
    pub fn needs_ports(&self) -> bool {
        matches!(self, KeyField::SrcPort | KeyField::DstPort)
    }
}

impl fmt::Display for KeyField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyField::Src => f.write_str("src"),
            KeyField::Dst => f.write_str("dst"),
            KeyField::SrcPort => f.write_str("src port"),
            KeyField::DstPort => f.write_str("dst port"),
            KeyField::Protocol => f.write_str("proto"),
            KeyField::Word(word) => {
                let base = match word.base {
                    Base::Frame => "frame",
                    Base::Network => "ip",
                    Base::Transport => "transp",
                };
                write!(f, "{base}[{}]/{:08x}", word.at, word.mask)
            }
            KeyField::Program(KeyProgram::HttpHeader(name)) => write!(f, "http-header {name}"),
        }
    }
}

/// A session: all packets that have the same values in these fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionDef {
    /// The fields, sorted, each once; never empty.
    pub fields: Vec<KeyField>,
    /// Whether packets in the other direction (source and destination exchanged) belong to it.
    pub bidirectional: bool,
}

/// Definitions with a name.
const NAMED: &[(&str, &[KeyField], bool)] = {
    use KeyField::{Dst, DstPort, Protocol, Src, SrcPort};
    &[
        ("connection", &[Src, Dst, SrcPort, DstPort, Protocol], true),
        ("flow", &[Src, Dst, SrcPort, DstPort, Protocol], false),
        ("pair", &[Src, Dst], true),
        ("source", &[Src], false),
        ("destination", &[Dst], false),
    ]
};

impl SessionDef {
    /// Both directions of a five-tuple.
    pub fn connection() -> SessionDef {
        SessionDef::named("connection").expect("it is in the list")
    }

    fn named(name: &str) -> Option<SessionDef> {
        let (_, fields, bidirectional) = NAMED.iter().find(|named| named.0 == name)?;
        Some(SessionDef { fields: fields.to_vec(), bidirectional: *bidirectional })
    }

    /// Reads a definition: `connection`, `flow`, `pair`, `source`, `destination`, or a list of
    /// fields with commas between: `src`, `dst`, `src port`, `dst port`, `proto`,
    /// `frame[14]/0fff0000`, `ip[8]/00ff0000`, `transp[0]/ffff0000` (four bytes from an offset,
    /// under a mask in hexadecimal), `http-header NAME`; `both ways` at the end joins the two
    /// directions.
    ///
    /// # Errors
    /// The first mistake, with the bytes it is about.
    pub fn parse(text: &str) -> Result<SessionDef, RuleError> {
        if let Some(named) = SessionDef::named(text.trim()) {
            return Ok(named);
        }
        let mut fields = Vec::new();
        let mut bidirectional = false;
        let mut at = 0;
        for part in text.split(',') {
            let (begin, end) = (at, at + part.len());
            at = end + 1;
            let words = tokens(part);
            let texts: Vec<&str> = words.iter().map(|word| word.text).collect();
            if texts == ["both", "ways"] {
                bidirectional = true;
                continue;
            }
            let field =
                field(part, &words).map_err(|message| RuleError::new(begin..end, message))?;
            if fields.contains(&field) {
                return Err(RuleError::new(begin..end, format!("'{field}' stands twice")));
            }
            fields.push(field);
        }
        fields.sort();
        SessionDef { fields, bidirectional }.checked(text)
    }

    fn checked(self, text: &str) -> Result<SessionDef, RuleError> {
        let error = |message: String| Err(RuleError::new(0..text.len(), message));
        let named: Vec<&str> = NAMED.iter().map(|named| named.0).collect();
        if self.fields.is_empty() {
            return error(format!(
                "a session needs at least one field: {}, or a list such as 'src, dst'",
                named.join(", ")
            ));
        }
        let raw = self.fields.iter().filter(|field| field.mirrored().is_none()).count();
        if raw > RAW_WORDS_MAX {
            return error(format!("a session may have {RAW_WORDS_MAX} raw words or programs"));
        }
        let alone = self.fields.iter().find(|field| match field.mirrored() {
            Some(mirror) => !self.fields.contains(&mirror),
            None => true,
        });
        match alone {
            Some(field) if self.bidirectional => error(format!(
                "'both ways' needs the opposite of '{field}' in the list too: exchange would \
                 change the key"
            )),
            _ => Ok(self),
        }
    }
}

/// One field.
fn field(part: &str, words: &[Token<'_>]) -> Result<KeyField, String> {
    let texts: Vec<&str> = words.iter().map(|word| word.text).collect();
    match texts[..] {
        ["src"] | ["ip", "src"] => Ok(KeyField::Src),
        ["dst"] | ["ip", "dst"] => Ok(KeyField::Dst),
        ["src", "port"] => Ok(KeyField::SrcPort),
        ["dst", "port"] => Ok(KeyField::DstPort),
        ["proto"] | ["ip", "proto"] => Ok(KeyField::Protocol),
        ["http-header", name] => {
            Ok(KeyField::Program(KeyProgram::HttpHeader(name.to_ascii_lowercase())))
        }
        [] => Err("expected a field, found nothing".into()),
        _ => raw(part.trim()).unwrap_or_else(|| {
            let expected = "src, dst, src port, dst port, proto, http-header NAME, \
                            frame[14]/0fff0000, ip[..]/.., transp[..]/..";
            Err(format!("'{}' is no field; expected one of {expected}", part.trim()))
        }),
    }
}

/// `base[at]/mask`; `None` when it does not look like one.
fn raw(text: &str) -> Option<Result<KeyField, String>> {
    let (base, rest) = text.split_once('[')?;
    let base = match base.trim() {
        "frame" => Base::Frame,
        "ip" => Base::Network,
        "transp" => Base::Transport,
        _ => return None,
    };
    let (at, mask) = rest.split_once(']')?;
    let mask = mask.trim().strip_prefix('/').unwrap_or("ffffffff").trim();
    let at: u16 = match at.trim().parse() {
        Ok(at) if at <= RAW_OFFSET_MAX => at,
        _ => return Some(Err(format!("'{at}' is no offset from 0 to {RAW_OFFSET_MAX}"))),
    };
    Some(match u32::from_str_radix(mask, 16) {
        Ok(0) => Err("a mask of 0 looks at nothing: leave the field out".into()),
        Ok(mask) if text.len() < 64 => Ok(KeyField::Word(KeyWord { base, at, mask })),
        _ => Err(format!("'{mask}' is no mask of up to 8 hexadecimal digits")),
    })
}

impl fmt::Display for SessionDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = NAMED.iter().find(|(_, fields, bidirectional)| {
            *fields == self.fields.as_slice() && *bidirectional == self.bidirectional
        });
        if let Some((name, ..)) = named {
            return f.write_str(name);
        }
        for (at, field) in self.fields.iter().enumerate() {
            write!(f, "{}{field}", if at == 0 { "" } else { ", " })?;
        }
        f.write_str(if self.bidirectional { ", both ways" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is written: a definition that is read back as it is shown, or a mistake at its
        /// place.
        #[test]
        fn any_text_is_read_or_refused(
            text in "(src|dst|port|proto|frame|ip|both ways|http-header|[ ,/\\[\\]0-9a-f]){0,12}|.{0,24}",
        ) {
            match SessionDef::parse(&text) {
                Ok(read) => {
                    prop_assert!(!read.fields.is_empty());
                    prop_assert_eq!(SessionDef::parse(&read.to_string()).unwrap(), read);
                }
                Err(error) => {
                    prop_assert!(error.span.start <= error.span.end);
                    prop_assert!(error.span.end <= text.len());
                }
            }
        }
    }

    #[test]
    fn definitions_are_read_and_shown() {
        for text in ["connection", "flow", "pair", "source", "destination", "src, dst port"] {
            assert_eq!(SessionDef::parse(text).unwrap().to_string(), text);
        }
        let custom = SessionDef::parse("frame[14]/0fff0000, http-header Host, src").unwrap();
        assert_eq!(custom.to_string(), "src, frame[14]/0fff0000, http-header host");
        assert_eq!(SessionDef::parse("dst, src, both ways").unwrap().to_string(), "pair");
        assert_eq!(SessionDef::parse(&custom.to_string()).unwrap(), custom);
    }

    #[test]
    fn mistakes_are_reported() {
        for (text, wanted) in [
            ("", "expected a field"),
            ("src, src", "stands twice"),
            ("both ways", "at least one field"),
            ("src, both ways", "opposite of 'src'"),
            ("frame[12]/0", "looks at nothing"),
            ("frame[999]/ff", "no offset"),
            ("ip[4]/zz", "no mask"),
            ("colour", "is no field"),
            ("src, colour", "is no field"),
        ] {
            let error = SessionDef::parse(text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
