//! The packet that a source makes over and over: its bytes, repeated or cut to a length.

use thruway_element::{ArgError, Args, HandlerError, Made, handler_value, text};

use thruway_elements_support::traffic_profile::TrafficProfile;

/// DATA where the user gives none, as in Click.
pub(crate) const DEFAULT_DATA: &str =
    "\"Random bullshit in a packet, at least 64 bytes long. Well, now it is.\"";
/// Largest packet: the largest IP packet behind an Ethernet header.
const LENGTH_MAX: usize = 65_535 + 14;

/// Bytes of a packet, from DATA and LENGTH.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    data: Vec<u8>,
    length: i64,
    bytes: Vec<u8>,
}

impl Template {
    /// From an element's arguments DATA, LENGTH and DATASIZE (Click's old name of LENGTH).
    pub(crate) fn from_args(args: &Args<'_>) -> Result<Template, ArgError> {
        let length = match args.opt("DATASIZE")? {
            Some(length) => length,
            None => args.get("LENGTH")?,
        };
        Template::new(args.get("DATA")?, length).map_err(|message| args.error("LENGTH", message))
    }

    /// `data`, repeated or cut to `length` bytes unless that is negative.
    pub(crate) fn new(data: Vec<u8>, length: i64) -> Result<Template, String> {
        let len = usize::try_from(length).unwrap_or(data.len());
        if len > LENGTH_MAX {
            return Err(format!("a packet has at most {LENGTH_MAX} bytes"));
        }
        let bytes = data.iter().copied().cycle().chain(std::iter::repeat(0)).take(len).collect();
        Ok(Template { data, length, bytes })
    }

    /// The packet's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The packets of a source that makes no others.
    pub(crate) fn made(&self) -> Option<Made> {
        TrafficProfile::of([self.bytes()]).made()
    }

    /// The handlers `data`, `length` and `datasize`; `None` for another.
    pub(crate) fn read(&self, name: &str) -> Option<String> {
        match name {
            "data" => Some(String::from_utf8_lossy(&self.data).into_owned()),
            "length" | "datasize" => Some(self.length.to_string()),
            _ => None,
        }
    }

    /// The same for writing; `Ok(false)` for another.
    pub(crate) fn write(&mut self, name: &str, value: &str) -> Result<bool, HandlerError> {
        let (data, length) = match name {
            "data" => (text::unquote(value), self.length),
            "length" | "datasize" => (self.data.clone(), handler_value(name, value)?),
            _ => return Ok(false),
        };
        *self = Template::new(data, length)
            .map_err(|message| HandlerError::refused(format!("{name}: {message}")))?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        let bytes = |data: &[u8], length| Template::new(data.to_vec(), length).unwrap().bytes;
        assert_eq!(bytes(b"abc", -1), b"abc");
        assert_eq!(bytes(b"abc", 2), b"ab");
        assert_eq!(bytes(b"abc", 7), b"abcabca");
        assert_eq!(bytes(b"", 2), [0, 0]);
        assert!(Template::new(vec![1], 1 << 40).is_err());
    }

    #[test]
    fn handlers() {
        let mut template = Template::new(b"abc".to_vec(), -1).unwrap();
        assert!(template.write("length", "5").unwrap());
        assert_eq!(template.bytes(), b"abcab");
        assert!(template.write("data", "\"x\\x41\"").unwrap());
        assert_eq!(template.bytes(), b"xAxAx");
        assert_eq!(template.read("length").unwrap(), "5");
        assert!(template.write("length", "x").is_err());
        assert!(!template.write("burst", "1").unwrap());
    }
}
