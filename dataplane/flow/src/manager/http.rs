//! A header's value as a field of a session's key: looked for in one packet, without a stream.

/// Bytes of a payload that are searched.
const SEARCHED_MAX: usize = 2048;

/// A hash of the value of the HTTP header `name` (in small letters) in the TCP segment that begins
/// with its header at `transport`; 0 if there is none.
pub fn header_hash(name: &str, transport: &[u8]) -> u32 {
    let header_len = transport.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
    let payload = transport.get(header_len..).unwrap_or(&[]);
    let payload = &payload[..payload.len().min(SEARCHED_MAX)];
    value_of(name, payload).map_or(0, hash)
}

/// The value of a header in the first lines of a message, without surrounding blanks.
fn value_of<'a>(name: &str, payload: &'a [u8]) -> Option<&'a [u8]> {
    let lines = payload.split(|byte| *byte == b'\n').skip(1);
    let mut lines = lines.take_while(|line| !line.trim_ascii().is_empty());
    lines.find_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (found, value) = line.split_at(colon);
        found.eq_ignore_ascii_case(name.as_bytes()).then(|| value[1..].trim_ascii())
    })
}

/// FNV-1a, 32 bits: only makes a number of the value; the table hashes again, with its secret.
fn hash(value: &[u8]) -> u32 {
    let hash = value
        .iter()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    hash.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(payload: &str) -> Vec<u8> {
        let mut bytes = vec![0; 20];
        bytes[12] = 0x50;
        bytes.extend_from_slice(payload.as_bytes());
        bytes
    }

    #[test]
    fn a_header_is_found_whatever_its_letters() {
        let one = segment("GET / HTTP/1.1\r\nHost:  a.example \r\nX: y\r\n\r\n");
        let same = segment("GET /b HTTP/1.1\r\nX: z\r\nhOST:a.example\r\n\r\n");
        let other = segment("GET / HTTP/1.1\r\nHost: b.example\r\n\r\n");
        assert_ne!(header_hash("host", &one), 0);
        assert_eq!(header_hash("host", &one), header_hash("host", &same));
        assert_ne!(header_hash("host", &one), header_hash("host", &other));
    }

    #[test]
    fn none_is_zero() {
        for bytes in [
            segment(""),
            segment("GET / HTTP/1.1\r\n\r\nHost: in the body\r\n"),
            segment("Host: in the first line\r\n"),
            vec![0; 5],
            vec![],
        ] {
            assert_eq!(header_hash("host", &bytes), 0);
        }
    }
}
