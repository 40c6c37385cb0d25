//! IP and TCP options as text, and back.
//!
//! Options are separated by `;` (commas are read too); padding is not written; one bad option makes
//! the whole field `?`; no options are `.`.

use std::fmt::Write;
use std::net::Ipv4Addr;

/// End of options, and padding: the same in IP (RFC 791 section 3.1) and TCP (RFC 9293 section
/// 3.1).
const EOL: u8 = 0;
const NOP: u8 = 1;

/// IP options: record route, timestamp, loose and strict source route (RFC 791 section 3.1).
const IP_RR: u8 = 7;
const IP_TS: u8 = 68;
const IP_LSRR: u8 = 131;
const IP_SSRR: u8 = 137;

/// TCP options (RFC 9293 section 3.2, RFC 7323, RFC 2018).
const TCP_MSS: u8 = 2;
const TCP_WSCALE: u8 = 3;
const TCP_SACK_OK: u8 = 4;
const TCP_SACK: u8 = 5;
const TCP_TIMESTAMP: u8 = 8;

/// Options take at most this much of a header, bytes.
pub(super) const OPTIONS_MAX: usize = 40;

/// Which TCP options a field shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    All,
    /// All but the timestamp.
    NoTimestamp,
    /// Those about selective acknowledgements.
    Sack,
}

fn be32(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

/// The options one after the other: each with its length byte and data; `None` for one that does
/// not fit. Padding is left out.
fn walk(mut rest: &[u8], mut each: impl FnMut(u8, &[u8]) -> Option<()>) -> Option<()> {
    while let [kind, after @ ..] = rest {
        match *kind {
            EOL => break,
            NOP => rest = after,
            kind => {
                let len = usize::from(*after.first()?);
                let option = rest.get(..len).filter(|_| len >= 2)?;
                each(kind, &option[2..])?;
                rest = &rest[len..];
            }
        }
    }
    Some(())
}

/// Writes what `text` gives for each option.
fn write_all(
    out: &mut String,
    options: &[u8],
    mut text: impl FnMut(&mut String, u8, &[u8]) -> Option<()>,
) {
    let start = out.len();
    let walked = walk(options, |kind, data| {
        if out.len() > start {
            out.push(';');
        }
        let before = out.len();
        text(out, kind, data)?;
        if out.len() == before && before > start {
            // Not shown: nor is its separator.
            out.pop();
        }
        Some(())
    });
    if walked.is_none() {
        out.truncate(start);
        out.push('?');
    } else if out.len() == start {
        out.push('.');
    }
}

/// An option that has no form of its own: `NUMBER` or `NUMBER=BYTE:BYTE...`.
fn write_plain(out: &mut String, kind: u8, data: &[u8]) {
    let _ = write!(out, "{kind}");
    for (at, byte) in data.iter().enumerate() {
        let _ = write!(out, "{}{byte}", if at == 0 { '=' } else { ':' });
    }
}

/// Writes TCP options.
pub(super) fn write_tcp(out: &mut String, options: &[u8], shown: Shown) {
    write_all(out, options, |out, kind, data| {
        let sack = matches!(kind, TCP_SACK_OK | TCP_SACK);
        let hidden = match shown {
            Shown::All => false,
            Shown::NoTimestamp => kind == TCP_TIMESTAMP,
            Shown::Sack => !sack,
        };
        let well_formed = match kind {
            TCP_MSS => data.len() == 2,
            TCP_WSCALE => data.len() == 1,
            TCP_SACK_OK => data.is_empty(),
            TCP_SACK => data.len() % 8 == 0,
            TCP_TIMESTAMP => data.len() == 8,
            _ => true,
        };
        if !well_formed {
            return None;
        }
        if !hidden {
            write_tcp_option(out, kind, data);
        }
        Some(())
    });
}

fn write_tcp_option(out: &mut String, kind: u8, data: &[u8]) {
    let _ = match (kind, data) {
        (TCP_MSS, [high, low]) => write!(out, "mss{}", u16::from_be_bytes([*high, *low])),
        (TCP_WSCALE, [shift]) => write!(out, "wscale{shift}"),
        (TCP_SACK_OK, _) => write!(out, "sackok"),
        (TCP_TIMESTAMP, _) => write!(out, "ts{}:{}", be32(data), be32(&data[4..])),
        (TCP_SACK, _) => {
            let block = |block: &[u8]| format!("sack{}-{}", be32(block), be32(&block[4..]));
            let blocks: Vec<String> = data.chunks_exact(8).map(block).collect();
            write!(out, "{}", blocks.join(";"))
        }
        _ => {
            write_plain(out, kind, data);
            Ok(())
        }
    };
}

/// Writes IP options.
pub(super) fn write_ip(out: &mut String, options: &[u8]) {
    write_all(out, options, |out, kind, data| match kind {
        IP_RR => write_route(out, "rr", data, true),
        IP_LSRR => write_route(out, "lsrr", data, false),
        IP_SSRR => write_route(out, "ssrr", data, false),
        IP_TS => write_timestamps(out, data),
        _ => {
            write_plain(out, kind, data);
            Some(())
        }
    });
}

/// A route: addresses in braces, `^` at the pointer; of a recorded route only what is recorded,
/// then `+` and how many more have room.
fn write_route(out: &mut String, name: &str, data: &[u8], recorded: bool) -> Option<()> {
    let (pointer, addresses) = data.split_first()?;
    // The pointer counts from the option's first byte, from 1: 4 is the first address.
    let at = usize::from(*pointer).checked_sub(4)?;
    let _ = write!(out, "{name}{{");
    let mut separator = "";
    let mut left = 0;
    for (number, address) in addresses.chunks_exact(4).enumerate() {
        if number * 4 >= at && recorded {
            left += 1;
            continue;
        }
        separator = if number * 4 == at { "^" } else { separator };
        let _ = write!(out, "{separator}{}", Ipv4Addr::from_bits(be32(address)));
        separator = ",";
    }
    if !recorded && at == addresses.len() / 4 * 4 {
        out.push('^');
    }
    out.push('}');
    if left > 0 {
        let _ = write!(out, "+{left}");
    }
    Some(())
}

/// Timestamps: see the manual of ToIPSummaryDump.
fn write_timestamps(out: &mut String, data: &[u8]) -> Option<()> {
    let [pointer, flags, entries @ ..] = data else { return None };
    let at = usize::from(*pointer).checked_sub(5)?;
    let kind = flags & 0xF;
    let size = if matches!(kind, 1..=3) { 8 } else { 4 };
    out.push_str(match kind {
        0 => "ts{",
        1 => "ts.ip{",
        3 => "ts.preip{",
        _ => "",
    });
    if !matches!(kind, 0 | 1 | 3) {
        let _ = write!(out, "ts.{kind}{{");
    }
    let (mut separator, mut left) = ("", 0);
    for (number, entry) in entries.chunks_exact(size).enumerate() {
        let beyond = number * size >= at;
        if beyond && kind != 3 {
            left += 1;
            continue;
        }
        separator = if number * size == at { "^" } else { separator };
        out.push_str(separator);
        separator = ",";
        if size == 8 {
            let _ = write!(out, "{}", Ipv4Addr::from_bits(be32(entry)));
        }
        if !beyond {
            let time = be32(&entry[size - 4..]);
            let nonstandard = if time >> 31 == 1 { "!" } else { "" };
            let equals = if size == 8 { "=" } else { "" };
            let _ = write!(out, "{equals}{nonstandard}{}", time & 0x7FFF_FFFF);
        }
    }
    if at == entries.len() / size * size {
        out.push('^');
    }
    out.push('}');
    if left > 0 {
        let _ = write!(out, "+{left}");
    }
    if flags >> 4 > 0 {
        let _ = write!(out, "++{}", flags >> 4);
    }
    Some(())
}

/// Adds one option: its number, its length, its data.
fn push_option(out: &mut Vec<u8>, kind: u8, data: &[u8]) -> Option<()> {
    out.push(kind);
    out.push(u8::try_from(data.len() + 2).ok()?);
    out.extend_from_slice(data);
    Some(())
}

/// The meaning of `NUMBER`, `NUMBER=BYTE:BYTE`, `nop` or `eol`.
fn parse_plain(out: &mut Vec<u8>, text: &str) -> Option<()> {
    match text {
        "nop" => out.push(NOP),
        "eol" => out.push(EOL),
        _ => {
            let (kind, data) = text.split_once('=').map_or((text, None), |(k, d)| (k, Some(d)));
            let kind = kind.parse().ok()?;
            let bytes = data.map(|data| data.split(':').map(str::parse::<u8>).collect());
            let bytes: Result<Vec<u8>, _> = bytes.unwrap_or(Ok(Vec::new()));
            push_option(out, kind, &bytes.ok()?)?;
        }
    }
    Some(())
}

/// Two numbers with a separator between them, big-endian one after the other.
fn pair(text: &str, separators: &[char]) -> Option<[u8; 8]> {
    let (first, second) = text.split_once(separators)?;
    let (first, second): (u32, u32) = (first.parse().ok()?, second.parse().ok()?);
    let value = u64::from(first) << 32 | u64::from(second);
    Some(value.to_be_bytes())
}

/// The bytes of TCP options; `None` when the text is none.
pub(super) fn parse_tcp(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut sack: Vec<u8> = Vec::new();
    let flush = |out: &mut Vec<u8>, sack: &mut Vec<u8>| {
        let block = std::mem::take(sack);
        if block.is_empty() { Some(()) } else { push_option(out, TCP_SACK, &block) }
    };
    for option in text.split([';', ',']).filter(|_| text != ".") {
        let block = option.strip_prefix("sack").filter(|rest| *rest != "ok");
        if let Some(block) = block {
            // Neighbouring blocks are one option.
            sack.extend_from_slice(&pair(block, &['-', ':'])?);
            continue;
        }
        flush(&mut out, &mut sack)?;
        if option == "sackok" {
            push_option(&mut out, TCP_SACK_OK, &[])?;
        } else if let Some(size) = option.strip_prefix("mss") {
            push_option(&mut out, TCP_MSS, &size.parse::<u16>().ok()?.to_be_bytes())?;
        } else if let Some(shift) = option.strip_prefix("wscale") {
            push_option(&mut out, TCP_WSCALE, &[shift.parse().ok()?])?;
        } else if let Some(times) = option.strip_prefix("ts") {
            if out.is_empty() {
                // As stacks send it: RFC 7323 appendix A.
                out.extend([NOP, NOP]);
            }
            push_option(&mut out, TCP_TIMESTAMP, &pair(times, &[':'])?)?;
        } else {
            parse_plain(&mut out, option)?;
        }
    }
    flush(&mut out, &mut sack)?;
    (out.len() <= OPTIONS_MAX).then_some(out)
}

/// The bytes of IP options; `None` when the text is none.
pub(super) fn parse_ip(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for option in text.split(';').filter(|_| text != ".") {
        let routes = [("rr{", IP_RR), ("ssrr{", IP_SSRR), ("lsrr{", IP_LSRR)];
        let route = routes.iter().find_map(|(name, kind)| Some((option.strip_prefix(name)?, kind)));
        match route {
            None if option.starts_with("ts") => {
                push_option(&mut out, IP_TS, &parse_timestamps(&option[2..])?)?;
            }
            Some((text, kind)) => push_option(&mut out, *kind, &parse_route(text)?)?,
            None => parse_plain(&mut out, option)?,
        }
    }
    (out.len() <= OPTIONS_MAX).then_some(out)
}

/// Pointer and addresses of a route, written behind its opening brace.
fn parse_route(text: &str) -> Option<Vec<u8>> {
    let (addresses, room) = text.split_once('}')?;
    let mut data = vec![0];
    let mut pointer = None;
    for part in addresses.split_inclusive([',', '^']) {
        let address = part.trim_end_matches([',', '^']);
        if !address.is_empty() {
            data.extend(address.parse::<Ipv4Addr>().ok()?.octets());
        }
        if part.ends_with('^') {
            pointer = Some(data.len());
        }
    }
    // The option's number and length stand before, and pointers count from 1.
    data[0] = u8::try_from(pointer.unwrap_or(data.len()) + 3).ok()?;
    data.resize(data.len() + 4 * parse_room(room)?, 0);
    Some(data)
}

/// `+N`, how many more entries have room, or nothing.
fn parse_room(text: &str) -> Option<usize> {
    match text.strip_prefix('+') {
        Some(number) => number.parse().ok().filter(|number| *number <= 9),
        None => text.is_empty().then_some(0),
    }
}

/// Pointer, flags and entries of a timestamp option, written behind its `ts`.
fn parse_timestamps(text: &str) -> Option<Vec<u8>> {
    let (kind, rest) = text.split_once('{')?;
    let (entries, rest) = rest.split_once('}')?;
    let (room, overflow) = rest.split_once("++").map_or((rest, "0"), |(room, over)| (room, over));
    let overflow = overflow.parse::<u8>().ok().filter(|overflow| *overflow < 16)?;
    let kind = match kind {
        "" => u8::from(entries.contains('.')),
        ".ip" => 1,
        ".preip" => 3,
        number => number.strip_prefix('.')?.parse().ok().filter(|kind| *kind < 16)?,
    };
    let size = if matches!(kind, 1..=3) { 8 } else { 4 };
    let mut data = vec![0, overflow << 4 | kind];
    let mut pointer = None;
    for part in entries.split_inclusive([',', '^']) {
        let entry = part.trim_end_matches([',', '^']);
        if !entry.is_empty() {
            push_timestamp(&mut data, entry, size == 8)?;
        }
        if part.ends_with('^') {
            pointer = Some(data.len());
        }
    }
    // As for routes.
    data[0] = u8::try_from(pointer.unwrap_or(data.len()) + 3).ok()?;
    data.resize(data.len() + size * parse_room(room)?, 0);
    Some(data)
}

/// One entry: `TIME`, or `ADDRESS`, `ADDRESS=TIME`, `ADDRESS=?`. A time with `!` is none of the
/// standard's.
fn push_timestamp(data: &mut Vec<u8>, entry: &str, addressed: bool) -> Option<()> {
    let (address, time) = match entry.split_once('=') {
        _ if !addressed => (None, entry),
        Some((address, time)) => (Some(address), time),
        None => (Some(entry), "?"),
    };
    if let Some(address) = address {
        data.extend(address.parse::<Ipv4Addr>().ok()?.octets());
    }
    let (number, high) = time.strip_prefix('!').map_or((time, 0), |number| (number, 1 << 31));
    let number = if number == "?" { 0 } else { number.parse::<u32>().ok()? };
    data.extend((number | high).to_be_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(options: &[u8], shown: Shown) -> String {
        let mut out = String::new();
        write_tcp(&mut out, options, shown);
        out
    }

    fn ip(options: &[u8]) -> String {
        let mut out = String::new();
        write_ip(&mut out, options);
        out
    }

    #[test]
    fn tcp_options_have_their_texts() {
        let bytes = [2, 4, 5, 0x78, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 10];
        assert_eq!(tcp(&bytes, Shown::All), "mss1400;sackok;ts1:2;wscale10");
        assert_eq!(tcp(&bytes, Shown::NoTimestamp), "mss1400;sackok;wscale10");
        assert_eq!(tcp(&bytes, Shown::Sack), "sackok");
        assert_eq!(tcp(&[1, 1, 0, 0], Shown::All), ".");
        assert_eq!(tcp(&[98, 2, 99, 5, 0, 5, 10], Shown::All), "98;99=0:5:10");
        for bad in [&[2, 3, 1][..], &[2], &[9, 1], &[9, 0], &[5, 3, 1], &[1, 9, 40]] {
            assert_eq!(tcp(bad, Shown::All), "?", "{bad:?}");
        }
        let sack = parse_tcp("sack95-98;sack100-102").unwrap();
        assert_eq!(sack.len(), 18);
        assert_eq!(tcp(&sack, Shown::Sack), "sack95-98;sack100-102");
    }

    #[test]
    fn texts_of_options_come_back() {
        for text in ["mss1400;sackok;wscale10", "98;99=0:5:10", ".", "ts669063908:38382731"] {
            assert_eq!(tcp(&parse_tcp(text).unwrap(), Shown::All), text);
        }
        let routes = ["rr{10.0.0.1,20.0.0.2}+5", "ssrr{1.0.0.1,1.0.0.2^1.0.0.3}", "lsrr{^1.0.0.1}"];
        for text in routes.into_iter().chain(["rr{}+2", "148=0:0", "ssrr{1.0.0.1^}"]) {
            assert_eq!(ip(&parse_ip(text).unwrap()), text);
        }
        for bad in ["mss70000", "mss", "ts1", "sack1", "x", "99=256", "1=2;;", "sack1-2;y"] {
            assert_eq!(parse_tcp(bad), None, "{bad}");
        }
        for bad in ["rr{1.0.0}", "rr{1.0.0.1", "rr{}+99", "rr{1.0.0.1,1.0.0.1}+9"] {
            assert_eq!(parse_ip(bad), None, "{bad}");
        }
    }

    #[test]
    fn timestamps_have_their_texts() {
        let plain = [68, 16, 13, 0, 0, 0, 0, 1, 0x80, 0, 0, 45, 0, 0, 0, 0];
        assert_eq!(ip(&plain), "ts{1,!45}+1");
        let with_address = [68, 20, 13, 0x31, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(ip(&with_address), "ts.ip{1.0.0.1=1}+1++3");
        let given = [68, 20, 13, 3, 1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 2, 0, 0, 0, 0];
        assert_eq!(ip(&given), "ts.preip{1.0.0.1=1^1.0.0.2}");
        assert_eq!(ip(&[68, 4, 2, 0]), "?");
    }

    #[test]
    fn texts_of_timestamps_come_back() {
        for text in
            ["ts{1,!45}+1", "ts{7^}", "ts.ip{1.0.0.1=1}+1++3", "ts.preip{1.0.0.1=1^1.0.0.2}"]
        {
            assert_eq!(ip(&parse_ip(text).unwrap()), text);
        }
        for (text, shown) in [
            ("ts{1^0,0};rr{}+1", "ts{1}+2;rr{}+1"),
            ("ts{1,^5}", "ts{1}+1"),
            ("ts{1.0.0.1=!5}++15", "ts.ip{1.0.0.1=!5^}++15"),
            ("ts.3{1.0.0.1=1,^1.0.0.2=?}+1", "ts.preip{1.0.0.1=1^1.0.0.2,0.0.0.0}"),
        ] {
            assert_eq!(ip(&parse_ip(text).unwrap()), shown);
        }
        for bad in ["ts", "ts{", "ts.x{1}", "ts{1}+", "ts{x}", "ts{1}++16", "ts.ip{1}", "ts{1}y"] {
            assert_eq!(parse_ip(bad), None, "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(0u8..=255, 0..44)) {
            ip(&bytes);
            for shown in [Shown::All, Shown::NoTimestamp, Shown::Sack] {
                tcp(&bytes, shown);
            }
        }

        #[test]
        fn no_text_breaks_it(text in "[a-z0-9.;,:^{}+=-]{0,30}") {
            parse_tcp(&text);
            parse_ip(&text);
        }
    }
}
