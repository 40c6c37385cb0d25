//! Ethernet addresses.

use std::fmt;
use std::str::FromStr;

/// The address of one station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Mac, String> {
        let refused = |why: &str| format!("'{text}' is no address of a station: {why}");
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            let is_byte =
                |part: &&str| part.len() == 2 && part.bytes().all(|c| c.is_ascii_hexdigit());
            let part = parts.next().filter(is_byte);
            let part = part.and_then(|part| u8::from_str_radix(part, 16).ok());
            *byte = part.ok_or_else(|| refused("write it as 02:00:00:00:00:01"))?;
        }
        match bytes {
            _ if parts.next().is_some() => Err(refused("it has more than six bytes")),
            _ if bytes[0] & 1 != 0 => Err(refused("it is that of a group; its first byte is odd")),
            _ if bytes == [0; 6] => Err(refused("it is zero")),
            _ => Ok(Mac(bytes)),
        }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_stations_are_read() {
        for text in ["02:00:00:00:00:01", "aa-bb-cc-dd-ee-0f"] {
            let mac: Mac = text.parse().expect("an address");
            assert_eq!(mac.to_string(), text.replace('-', ":"));
        }
        for text in
            ["", "02:00:00:00:00", "02:00:00:00:00:01:02", "2:0:0:0:0:1", "00:00:00:00:00:00"]
        {
            text.parse::<Mac>().expect_err(text);
        }
        assert!("01:00:5e:00:00:01".parse::<Mac>().expect_err("a group").contains("group"));
        assert!("+2:00:00:00:00:01".parse::<Mac>().is_err());
    }
}
