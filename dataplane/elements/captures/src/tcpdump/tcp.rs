//! A TCP header in tcpdump's output, in its old form and in that since version 4.

use super::words::number;

/// A segment in a line. Numbers are as printed: some relative, some not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Segment {
    pub flags: u16,
    pub seq: Option<u32>,
    pub ack: Option<u32>,
    pub window: u16,
    pub urgent: u16,
    pub payload_len: u32,
    /// In the syntax of summaries; blocks of SACK apart.
    pub options: Vec<Opt>,
}

/// One option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Opt {
    /// As summaries write it.
    Plain(String),
    /// Sequence numbers, relative as acknowledgements are.
    Sack(u32, u32),
}

const ACK: u16 = 16;

/// The segment that the text behind the addresses describes.
pub(super) fn parse(body: &str) -> Segment {
    match body.strip_prefix("Flags [").and_then(|rest| rest.split_once(']')) {
        Some((flags, rest)) => parse_new(flags, rest),
        None => parse_old(body),
    }
}

fn flag(letter: char) -> u16 {
    "FSRPAUEW".find(letter).map_or(0, |at| 1 << at)
}

/// `seq 1:10, ack 1, win 5, options [...], length 9`.
fn parse_new(flags: &str, rest: &str) -> Segment {
    let dot = if flags.contains('.') { ACK } else { 0 };
    let mut segment = Segment {
        flags: flags.chars().map(flag).fold(dot, |all, flag| all | flag),
        ..Segment::default()
    };
    let (before, options, behind) = match rest.split_once("options [") {
        Some((before, rest)) => {
            let (options, behind) = rest.split_once(']').unwrap_or((rest, ""));
            (before, options, behind)
        }
        None => (rest, "", ""),
    };
    segment.options = options_of(options);
    for part in before.split(", ").chain(behind.split(", ")) {
        let Some((name, value)) = part.trim_matches([' ', ',']).split_once(' ') else { continue };
        let first = value.split([' ', ':', ',']).next().unwrap_or("");
        match name {
            "seq" => segment.seq = number(first),
            "ack" => segment.ack = number(first),
            "win" => segment.window = number(first).unwrap_or(0).min(u32::from(u16::MAX)) as u16,
            "urg" => segment.urgent = number(first).unwrap_or(0) as u16,
            "length" => segment.payload_len = number(first.trim_end_matches(':')).unwrap_or(0),
            _ => {}
        }
    }
    segment
}

/// `P 1:10(9) ack 1 win 5 <mss 1460> (DF)`; of a quiet tcpdump, `tcp 9`.
fn parse_old(body: &str) -> Segment {
    let (text, options) = match body.split_once('<') {
        Some((before, rest)) => (before, rest.split_once('>').map_or(rest, |(inner, _)| inner)),
        None => (body, ""),
    };
    let mut segment = Segment { options: options_of(options), ..Segment::default() };
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or("");
    if first == "tcp" {
        segment.flags = ACK;
        segment.payload_len = words.next().and_then(number).unwrap_or(0);
        return segment;
    }
    segment.flags = first.chars().map(flag).fold(0, |all, flag| all | flag);
    while let Some(word) = words.next() {
        let mut value = || words.next().and_then(number);
        match word {
            "ack" => {
                segment.flags |= ACK;
                segment.ack = value();
            }
            "win" => segment.window = value().unwrap_or(0).min(u32::from(u16::MAX)) as u16,
            "urg" => segment.urgent = value().unwrap_or(0) as u16,
            _ => {
                if let Some((seq, len)) = range(word) {
                    (segment.seq, segment.payload_len) = (Some(seq), len);
                }
            }
        }
    }
    segment
}

/// `SEQ:END(LENGTH)`.
fn range(word: &str) -> Option<(u32, u32)> {
    let (seq, rest) = word.split_once(':')?;
    let (_, len) = rest.split_once('(')?;
    Some((number(seq)?, number(len.trim_end_matches(')'))?))
}

fn options_of(text: &str) -> Vec<Opt> {
    let mut options = Vec::new();
    for option in text.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        let words: Vec<&str> = option.split_whitespace().collect();
        let plain = match words.as_slice() {
            ["sackOK"] => "sackok".to_owned(),
            ["nop" | "eol"] => option.to_owned(),
            ["mss" | "wscale", value] => format!("{}{value}", words[0]),
            ["timestamp", value, echo] | ["TS", "val", value, "ecr", echo] => {
                format!("ts{value}:{echo}")
            }
            ["sack", ..] => {
                options.extend(blocks(option));
                continue;
            }
            _ => continue,
        };
        options.push(Opt::Plain(plain));
    }
    options
}

/// The blocks `{FROM:TO}` of an option.
fn blocks(option: &str) -> impl Iterator<Item = Opt> {
    option.split('{').skip(1).filter_map(|block| {
        let (from, to) = block.split_once('}')?.0.split_once(':')?;
        Some(Opt::Sack(number(from)?, number(to)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(texts: &[&str]) -> Vec<Opt> {
        texts.iter().map(|text| Opt::Plain((*text).to_owned())).collect()
    }

    #[test]
    fn both_forms_say_the_same() {
        let expected = Segment {
            flags: 0x18,
            seq: Some(1),
            ack: Some(7),
            window: 502,
            urgent: 0,
            payload_len: 9,
            options: plain(&["nop", "nop", "ts5:6"]),
        };
        let old = "P [tcp sum ok] 1:10(9) ack 7 win 502 <nop,nop,timestamp 5 6> (DF)";
        let new = "Flags [P.], cksum 0x1 (correct), seq 1:10, ack 7, win 502, \
                   options [nop,nop,TS val 5 ecr 6], length 9";
        assert_eq!(parse(old), expected);
        assert_eq!(parse(new), expected);
    }

    #[test]
    fn handshakes_and_sacks() {
        let syn = parse("SWE 1:1(0) win 5840 <mss 1460,sackOK,timestamp 3 0,nop,wscale 0>");
        assert_eq!((syn.flags, syn.seq, syn.ack), (0xC2, Some(1), None));
        assert_eq!(syn.options, plain(&["mss1460", "sackok", "ts3:0", "nop", "wscale0"]));
        let ack = parse(". ack 5 win 1 <nop,nop,sack sack 2 {3279:4503}{5000:6000} > (ttl 64)");
        assert_eq!((ack.flags, ack.seq), (16, None));
        assert_eq!(ack.options[2..], [Opt::Sack(3279, 4503), Opt::Sack(5000, 6000)]);
        let reset = parse("Flags [R], seq 9, win 0, length 0");
        assert_eq!((reset.flags, reset.seq, reset.payload_len), (4, Some(9), 0));
        assert_eq!(parse("tcp 48").payload_len, 48);
        assert_eq!(parse("Flags [none], win 5, length 0").flags, 0);
    }
}
