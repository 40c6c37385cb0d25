//! A rule as text, in one form: buffers in front, modifiers behind their content.

use std::fmt::{self, Display, Formatter, Write};

use crate::rules::ast::{About, Arrow, Rule};
use crate::rules::buffer::{Buffer, Side};
use crate::rules::condition::{Condition, FlagsMode};
use crate::rules::matches::{
    ByteJump, ByteTest, Compare, Content, DataAt, Fast, Form, JumpFrom, Match, Number, Order, Pcre,
};
use crate::rules::session::{Flow, FlowBit, FlowBitOp, Threshold, ThresholdKind, Track, View};

impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let arrow = match self.arrow {
            Arrow::Forth => "->",
            Arrow::Both => "<>",
        };
        write!(f, "{} {} ", self.action.name(), self.protocol.name())?;
        write!(f, "{} {} {arrow} ", self.source.addresses, self.source.ports)?;
        write!(f, "{} {} (", self.destination.addresses, self.destination.ports)?;
        write!(f, "msg:\"{}\"; {}", Escaped(&self.about.msg), self.flow)?;
        for bit in &self.flow_bits {
            write!(f, "flowbits:{bit}; ")?;
        }
        if self.quiet {
            f.write_str("noalert; ")?;
        }
        for condition in &self.conditions {
            write!(f, "{condition}; ")?;
        }
        let mut buffer = Buffer::Payload;
        for part in &self.parts {
            if part.buffer != buffer {
                buffer = part.buffer;
                write!(f, "{}; ", buffer.name())?;
            }
            write!(f, "{}; ", part.matches)?;
        }
        if let Some(threshold) = &self.threshold {
            write!(f, "{threshold}; ")?;
        }
        write!(f, "{})", self.about)
    }
}

impl Display for About {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.classtype.is_empty() {
            write!(f, "classtype:{}; ", self.classtype)?;
        }
        if let Some(priority) = self.priority {
            write!(f, "priority:{priority}; ")?;
        }
        for reference in &self.references {
            write!(f, "reference:{reference}; ")?;
        }
        for metadata in &self.metadata {
            write!(f, "metadata:{metadata}; ")?;
        }
        write!(f, "gid:{}; sid:{}; rev:{};", self.gid, self.sid, self.rev)
    }
}

/// Text between quotes.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            if matches!(c, '\\' | '"' | ';' | ':') {
                f.write_char('\\')?;
            }
            f.write_char(c)?;
        }
        Ok(())
    }
}

impl Display for Flow {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let words = [
            self.side.map(|side| match side {
                Side::ToServer => "to_server",
                Side::ToClient => "to_client",
            }),
            self.established.map(|yes| if yes { "established" } else { "not_established" }),
            self.view.map(|view| match view {
                View::Stream => "only_stream",
                View::Packet => "no_stream",
            }),
        ];
        let words: Vec<&str> = words.into_iter().flatten().collect();
        if words.is_empty() { Ok(()) } else { write!(f, "flow:{}; ", words.join(",")) }
    }
}

impl Display for FlowBit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let known: Option<&(&str, FlowBitOp)> =
            FlowBitOp::NAMES.iter().find(|(_, op)| *op == self.op);
        write!(f, "{},{}", known.map_or("", |(name, _)| name), self.names.join("|"))
    }
}

impl Display for Threshold {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            ThresholdKind::Limit => "threshold:type limit, ",
            ThresholdKind::Every => "threshold:type threshold, ",
            ThresholdKind::Both => "threshold:type both, ",
            ThresholdKind::Filter => "detection_filter:",
        })?;
        let track = match self.track {
            Track::BySource => "by_src",
            Track::ByDestination => "by_dst",
            Track::ByRule => "by_rule",
        };
        write!(f, "track {track}, count {}, seconds {}", self.count, self.seconds)
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Condition::PayloadLen(range) => write!(f, "dsize:{range}"),
            Condition::Ttl(range) => write!(f, "ttl:{range}"),
            Condition::IpProtocol(range) => write!(f, "ip_proto:{range}"),
            Condition::IpId(id) => write!(f, "id:{id}"),
            Condition::IcmpType(range) => write!(f, "itype:{range}"),
            Condition::IcmpCode(range) => write!(f, "icode:{range}"),
            Condition::IcmpId(id) => write!(f, "icmp_id:{id}"),
            Condition::IcmpSeq(seq) => write!(f, "icmp_seq:{seq}"),
            Condition::TcpSeq(seq) => write!(f, "seq:{seq}"),
            Condition::TcpAck(ack) => write!(f, "ack:{ack}"),
            Condition::SameAddress => f.write_str("sameip"),
            Condition::TcpWindow { window, negated } => {
                write!(f, "window:{}{window}", if *negated { "!" } else { "" })
            }
            Condition::TcpFlags { flags, mode, ignore } => {
                let mode = match mode {
                    FlagsMode::Exactly => "",
                    FlagsMode::All => "+",
                    FlagsMode::Any => "*",
                    FlagsMode::Not => "!",
                };
                write!(f, "tcp.flags:{mode}{}", Flags(*flags))?;
                if *ignore == 0 { Ok(()) } else { write!(f, ",{}", Flags(*ignore)) }
            }
        }
    }
}

/// TCP's flags as letters; `0` where there are none.
struct Flags(u8);

impl Display for Flags {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_char('0');
        }
        let set = "FSRPAUEC".chars().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1);
        set.map(|(_, letter)| letter).try_for_each(|letter| f.write_char(letter))
    }
}

impl Display for Match {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Match::Content(content) => content.fmt(f),
            Match::Pcre(pcre) => pcre.fmt(f),
            Match::DataAt(data) => data.fmt(f),
            Match::ByteTest(test) => test.fmt(f),
            Match::ByteJump(jump) => jump.fmt(f),
            Match::Size(range) => write!(f, "bsize:{range}"),
        }
    }
}

const fn not(negated: bool) -> &'static str {
    if negated { "!" } else { "" }
}

const fn relative(relative: bool) -> &'static str {
    if relative { ",relative" } else { "" }
}

impl Display for Content {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "content:{}\"{}\"", not(self.negated), Bytes(&self.bytes))?;
        let words = [
            (self.nocase, "; nocase"),
            (self.raw, "; rawbytes"),
            (self.ends, "; endswith"),
            (self.fast == Fast::Yes, "; fast_pattern"),
            (self.fast == Fast::Only, "; fast_pattern:only"),
        ];
        for (_, word) in words.iter().filter(|(given, _)| *given) {
            f.write_str(word)?;
        }
        if let Fast::Cut { offset, len } = self.fast {
            write!(f, "; fast_pattern:{offset},{len}")?;
        }
        let places = [
            ("offset", self.offset.map(i64::from)),
            ("depth", self.depth.map(i64::from)),
            ("distance", self.distance.map(i64::from)),
            ("within", self.within.map(i64::from)),
        ];
        for (name, place) in places {
            if let Some(place) = place {
                write!(f, "; {name}:{place}")?;
            }
        }
        Ok(())
    }
}

/// Bytes as a content's text: letters and digits as they are, everything else as hex.
struct Bytes<'a>(&'a [u8]);

impl Display for Bytes<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for run in self.0.chunk_by(|a, b| is_plain(*a) == is_plain(*b)) {
            if is_plain(run[0]) {
                run.iter().try_for_each(|byte| f.write_char(char::from(*byte)))?;
                continue;
            }
            f.write_char('|')?;
            for (i, byte) in run.iter().enumerate() {
                write!(f, "{}{byte:02X}", if i > 0 { " " } else { "" })?;
            }
            f.write_char('|')?;
        }
        Ok(())
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" ./_-<>=&?%+,'()[]{}*#@!$^~".contains(&byte)
}

impl Display for Pcre {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let relative = if self.relative { "R" } else { "" };
        write!(f, "pcre:{}\"/{}/{}{relative}\"", not(self.negated), self.pattern, self.flags)
    }
}

impl Display for DataAt {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "isdataat:{}{}{}", not(self.negated), self.bytes, relative(self.relative))
    }
}

impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(relative(self.relative))?;
        f.write_str(match self.form {
            Form::Binary(Order::Big) => "",
            Form::Binary(Order::Little) => ",little",
            Form::Digits(8) => ",string,oct",
            Form::Digits(16) => ",string,hex",
            Form::Digits(_) => ",string,dec",
        })
    }
}

impl Display for ByteTest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let compare = match self.compare {
            Compare::Less => "<",
            Compare::More => ">",
            Compare::Equal => "=",
            Compare::AtMost => "<=",
            Compare::AtLeast => ">=",
            Compare::And => "&",
            Compare::Xor => "^",
        };
        let ByteTest { number, negated, value, mask, .. } = self;
        let Number { bytes, offset, .. } = number;
        write!(f, "byte_test:{bytes},{}{compare},{value},{offset}{number}", not(*negated))?;
        mask.map_or(Ok(()), |mask| write!(f, ",bitmask {mask:#x}"))
    }
}

impl Display for ByteJump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Number { bytes, offset, .. } = self.number;
        write!(f, "byte_jump:{bytes},{offset}{}", self.number)?;
        if self.multiplier != 1 {
            write!(f, ",multiplier {}", self.multiplier)?;
        }
        if self.align {
            f.write_str(",align")?;
        }
        if self.from == JumpFrom::Beginning {
            f.write_str(",from_beginning")?;
        }
        if self.post_offset != 0 {
            write!(f, ",post_offset {}", self.post_offset)?;
        }
        Ok(())
    }
}
