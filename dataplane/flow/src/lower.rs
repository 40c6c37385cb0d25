//! One test as written, completed from the test before it, lowered to word tests.

use crate::ast::{Base, Expr, Word};
use crate::names::{PROTO_ANY_TRANSPORT, PROTO_TCP_OR_UDP};

/// The end of the packet's path that a test refers to: source or destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Src,
    Dst,
    Either,
    Both,
}

/// A header named by a qualifier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Header {
    #[default]
    Unsaid,
    Ip,
    Ether,
}

/// A field of up to 32 bits, within one aligned word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// `None`: in the IP header; else in the transport header of this protocol.
    pub proto: Option<u16>,
    pub bit: u32,
    pub bits: u32,
}

impl Field {
    pub(crate) const ICMP_TYPE: Field = Field { proto: Some(1), bit: 0, bits: 8 };
    const TOS: Field = Field { proto: None, bit: 8, bits: 8 };
    const PROTO: Field = Field { proto: None, bit: 72, bits: 8 };
    const SPORT: Field = Field { proto: Some(PROTO_ANY_TRANSPORT), bit: 0, bits: 16 };
    const DPORT: Field = Field { proto: Some(PROTO_ANY_TRANSPORT), bit: 16, bits: 16 };

    fn limit(self) -> u32 {
        u32::MAX >> (32 - self.bits)
    }

    /// A word test of this field: `field & mask` in `lo..=hi`.
    fn within(self, mask: u32, lo: u32, hi: u32) -> Expr {
        let shift = 32 - (self.bit % 32) - self.bits;
        let base = if self.proto.is_some() { Base::Transport } else { Base::Network };
        let at = (self.bit / 32 * 4) as u16;
        Expr::Test(Word { base, at, mask: mask << shift, lo: lo << shift, hi: hi << shift })
    }
}

/// The field of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    None,
    Host,
    Net,
    Proto,
    Port,
    TcpFlags,
    Frag,
    Unfrag,
    Ect,
    Ce,
    Field(Field),
}

/// The value of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Data {
    #[default]
    None,
    Int(u32),
    Range(u32, u32),
    Address(u32),
    Prefix(u32, u32),
    Ether([u8; 6]),
    Named(Kind, u32),
}

/// Comparison; `<=`, `>=` and `!=` are the negated forms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Op {
    #[default]
    Equal,
    Greater,
    Less,
}

/// A test as parsed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Primitive {
    pub kind: Kind,
    pub direction: Option<Direction>,
    pub proto: Option<u16>,
    pub header: Header,
    pub mask: Option<u32>,
    pub op: Op,
    pub op_negated: bool,
    pub data: Data,
}

/// A comparison ready for any field: constant, or membership and whether to turn it.
enum Relation {
    Const(bool),
    Within { mask: u32, lo: u32, hi: u32, negated: bool },
}

type Checked<T> = Result<T, String>;

impl Primitive {
    pub(crate) fn set_kind(&mut self, kind: Kind) -> Checked<()> {
        if self.kind != Kind::None {
            return Err("a test looks at one field: join two tests with 'and'".into());
        }
        self.kind = kind;
        Ok(())
    }

    pub(crate) fn set_direction(&mut self, direction: Direction) -> Checked<()> {
        if self.direction.is_some() {
            return Err("'src' or 'dst' is given twice".into());
        }
        self.direction = Some(direction);
        Ok(())
    }

    pub(crate) fn set_proto(&mut self, proto: u16) -> Checked<()> {
        if self.proto.is_some_and(|p| p != proto) {
            return Err("two transport protocols in one test: join two tests with 'or'".into());
        }
        self.proto = Some(proto);
        Ok(())
    }

    pub(crate) fn set_header(&mut self, header: Header) -> Checked<()> {
        if self.header != Header::Unsaid && self.header != header {
            return Err("'ip' and 'ether' in one test".into());
        }
        self.header = header;
        Ok(())
    }

    /// Completes omitted parts from the value and from the test before.
    pub(crate) fn inherit(&mut self, previous: &Primitive) -> Checked<()> {
        if self.kind != Kind::None {
            return Ok(());
        }
        let kind = match self.data {
            Data::Int(_) | Data::Range(..) => match previous.kind {
                Kind::Field(_) | Kind::Proto | Kind::Port => previous.kind,
                _ => return Err("a number alone: name its field, such as 'port' or 'ttl'".into()),
            },
            Data::Address(_) | Data::Ether(_) => Kind::Host,
            Data::Prefix(..) => Kind::Net,
            Data::Named(kind, _) => kind,
            Data::None if self.proto.is_some() => Kind::Proto,
            Data::None => {
                return Err("the test is not complete: a field or value is missing".into());
            }
        };
        self.kind = kind;
        if matches!(kind, Kind::Host | Kind::Net | Kind::Port) {
            self.direction = self.direction.or(previous.direction);
        }
        match kind {
            Kind::Port => self.proto = self.proto.or(previous.proto),
            Kind::Field(f) => self.proto = self.proto.or(f.proto),
            _ => {}
        }
        Ok(())
    }

    /// The expression of this test. Sets the parts that a following test inherits.
    pub(crate) fn lower(&mut self, warnings: &mut Vec<String>) -> Checked<Expr> {
        let directed = matches!(self.kind, Kind::Host | Kind::Net | Kind::Port);
        if self.direction.is_some() && !directed {
            warnings.push("'src' or 'dst' has no meaning here".into());
        }
        let test = match self.kind {
            Kind::Host | Kind::Net if matches!(self.data, Data::Ether(_)) => self.ether()?,
            _ if self.header == Header::Ether => {
                return Err("'ether' takes 'host' and an Ethernet address".into());
            }
            Kind::Host | Kind::Net => self.host()?,
            Kind::Proto => return self.protocol(warnings),
            Kind::Port => self.port(warnings)?,
            Kind::TcpFlags => self.tcp_flags()?,
            Kind::Frag | Kind::Unfrag => self.fragment()?,
            Kind::Ect | Kind::Ce => self.congestion(warnings)?,
            Kind::Field(field) => self.field(field, warnings)?,
            Kind::None => return Err("the test is not complete".into()),
        };
        Ok(Expr::all(self.guarded(test)))
    }

    /// The conditions that a test of a transport header implies: its protocol, a first fragment.
    fn guarded(&self, test: Expr) -> Vec<Expr> {
        let mut list = Vec::new();
        list.extend(self.proto.and_then(protocol_is));
        let in_transport = match self.kind {
            Kind::Port | Kind::TcpFlags => true,
            Kind::Field(f) => f.proto.is_some(),
            _ => false,
        };
        if in_transport {
            list.push(Expr::Test(Word::equal(Base::Network, 4, 0x1fff, 0)));
        }
        list.push(test);
        list
    }

    fn toward(&self, src: Expr, dst: Expr) -> Expr {
        match self.direction.unwrap_or(Direction::Either) {
            Direction::Src => src,
            Direction::Dst => dst,
            Direction::Either => Expr::Any(vec![src, dst]),
            Direction::Both => Expr::All(vec![src, dst]),
        }
    }

    fn no_order(&self, what: &str) -> Checked<()> {
        if self.op == Op::Equal {
            Ok(())
        } else {
            Err(format!("{what} cannot be compared by size"))
        }
    }

    fn host(&self) -> Checked<Expr> {
        self.no_order("an address")?;
        let (value, mask) = match (self.kind, self.data) {
            (Kind::Host, Data::Address(a)) => (a, u32::MAX),
            (Kind::Net, Data::Prefix(a, m)) => (a, m),
            (Kind::Host, _) => return Err("'host' wants an address such as 10.0.0.1".into()),
            _ => return Err("'net' wants a prefix such as 10.0.0.0/8".into()),
        };
        let mask = self.mask.unwrap_or(mask);
        let at = |at| Expr::Test(Word::equal(Base::Network, at, mask, value));
        Ok(self.toward(at(12), at(16)).negated_if(self.op_negated))
    }

    fn ether(&self) -> Checked<Expr> {
        self.no_order("an address")?;
        let Data::Ether(a) = self.data else { return Err("an Ethernet address is missing".into()) };
        if self.header == Header::Ip || self.kind == Kind::Net || self.mask.is_some() {
            return Err("an Ethernet address is tested by 'ether host', without mask".into());
        }
        let word = |at, mask, v| Expr::Test(Word::equal(Base::Frame, at, mask, v));
        let two = |x: u8, y: u8| u32::from(u16::from_be_bytes([x, y]));
        let dst = Expr::All(vec![
            word(0, u32::MAX, u32::from_be_bytes([a[0], a[1], a[2], a[3]])),
            word(4, 0xffff_0000, two(a[4], a[5]) << 16),
        ]);
        let src = Expr::All(vec![
            word(4, 0xffff, two(a[0], a[1])),
            word(8, u32::MAX, u32::from_be_bytes([a[2], a[3], a[4], a[5]])),
        ]);
        Ok(self.toward(src, dst).negated_if(self.op_negated))
    }

    /// A protocol test is its own guard; only a plain one lets a following port inherit it.
    fn protocol(&mut self, warnings: &mut Vec<String>) -> Checked<Expr> {
        let value = match self.data {
            Data::Int(v) | Data::Named(_, v) => Some(v),
            Data::Range(..) => None,
            Data::None => self.proto.map(u32::from),
            _ => return Err("'proto' wants a protocol name or number".into()),
        };
        if let (Some(p), Some(v)) = (self.proto, value)
            && u32::from(p) != v
        {
            return Err("two transport protocols in one test".into());
        }
        self.proto = None;
        let plain = self.op == Op::Equal && self.mask.is_none();
        match value {
            None if !matches!(self.data, Data::Range(..)) => {
                Err("'proto' wants a protocol name or number".into())
            }
            Some(v) if v >= 256 && matches!(self.data, Data::Int(_)) => {
                Err(format!("protocol {v} is out of range 0-255"))
            }
            Some(v) if v >= 256 && !plain => Err("this protocol takes no operator or mask".into()),
            Some(v) if plain => {
                let proto = v as u16;
                self.proto = (!self.op_negated).then_some(proto);
                let test = protocol_is(proto).unwrap_or(Expr::Const(true));
                Ok(test.negated_if(self.op_negated))
            }
            other => {
                self.data = other.map_or(self.data, Data::Int);
                self.compare(&[Field::PROTO], warnings)
            }
        }
    }

    fn port(&mut self, warnings: &mut Vec<String>) -> Checked<Expr> {
        if !matches!(self.data, Data::Int(_) | Data::Range(..) | Data::Named(Kind::Port, _)) {
            return Err("'port' wants a port name or number".into());
        }
        let proto = *self.proto.get_or_insert(PROTO_TCP_OR_UDP);
        if !matches!(proto, 6 | 17 | 33 | 132 | PROTO_TCP_OR_UDP) {
            return Err(format!("protocol {proto} has no ports"));
        }
        self.compare(&[Field::SPORT, Field::DPORT], warnings)
    }

    fn tcp_flags(&mut self) -> Checked<Expr> {
        let flags = match self.data {
            Data::Int(v) | Data::Named(Kind::TcpFlags, v) => v,
            _ => return Err("'tcp opt' wants a flag: syn, fin, ack, rst, psh or urg".into()),
        };
        if *self.proto.get_or_insert(6) != 6 {
            return Err("'tcp opt' is for TCP only".into());
        }
        if self.op != Op::Equal || self.op_negated || self.mask.is_some() {
            return Err("'tcp opt' takes no operator or mask".into());
        }
        if flags > 255 {
            return Err(format!("TCP flags {flags} are out of range 0-255"));
        }
        Ok(Expr::Test(Word::equal(Base::Transport, 12, flags << 16, flags << 16)))
    }

    fn no_value(&self, what: &str) -> Checked<()> {
        if self.data == Data::None && self.mask.is_none() {
            return Ok(());
        }
        Err(format!("'{what}' takes no value: join the next test with 'and'"))
    }

    fn fragment(&self) -> Checked<Expr> {
        self.no_value("ip frag")?;
        let whole = Expr::Test(Word::equal(Base::Network, 4, 0x3fff, 0));
        Ok(whole.negated_if(self.kind == Kind::Frag))
    }

    /// ECN's two bits (RFC 3168 section 5): `ect` is any but zero, `ce` is both.
    fn congestion(&mut self, warnings: &mut Vec<String>) -> Checked<Expr> {
        let bits = Field { proto: None, bit: Field::TOS.bit + 6, bits: 2 };
        if self.kind == Kind::Ect && self.data != Data::None {
            return self.field(bits, warnings);
        }
        self.no_value(if self.kind == Kind::Ce { "ip ce" } else { "ip ect" })?;
        Ok(match self.kind {
            Kind::Ce => bits.within(3, 3, 3),
            _ => Expr::Not(Box::new(bits.within(3, 0, 0))),
        })
    }

    fn field(&mut self, field: Field, warnings: &mut Vec<String>) -> Checked<Expr> {
        match self.data {
            Data::Int(_) | Data::Range(..) | Data::Named(Kind::Field(_), _) => {
                self.compare(&[field], warnings)
            }
            _ => Err("a number is missing after the field".into()),
        }
    }

    /// The comparison, of one field or (two) of source and destination.
    fn compare(&self, fields: &[Field], warnings: &mut Vec<String>) -> Checked<Expr> {
        let limit = fields.first().map_or(0, |f| f.limit());
        match self.relation(limit)? {
            Relation::Const(b) => {
                warnings.push(format!("the comparison is always {b} (range 0-{limit})"));
                Ok(Expr::Const(b))
            }
            // As in Click: a negated one-bit test requires the other value, which a short packet
            // does not have.
            Relation::Within { mask, lo, negated: true, .. }
                if mask.is_power_of_two() && fields.len() == 1 && self.is_equality() =>
            {
                Ok(fields[0].within(mask, lo ^ mask, lo ^ mask))
            }
            Relation::Within { mask, lo, hi, negated } => {
                let test = match fields {
                    [one] => one.within(mask, lo, hi),
                    [src, dst, ..] => {
                        self.toward(src.within(mask, lo, hi), dst.within(mask, lo, hi))
                    }
                    [] => Expr::Const(false),
                };
                Ok(test.negated_if(negated))
            }
        }
    }

    /// Whether it compares with one value by `==` or `!=`.
    fn is_equality(&self) -> bool {
        self.op == Op::Equal && !matches!(self.data, Data::Range(..))
    }

    fn relation(&self, limit: u32) -> Checked<Relation> {
        let mask = self.mask.unwrap_or(limit);
        if mask & !limit != 0 {
            return Err(format!("mask {mask:#x} is out of range 0-{limit:#x}"));
        }
        let (value, negated) = match self.data {
            Data::Range(lo, hi) => return self.range(lo, hi, limit),
            Data::Int(v) | Data::Named(_, v) => (v, self.op_negated),
            _ => return Err("a number is missing".into()),
        };
        Ok(match self.op {
            Op::Equal if value > limit => {
                return Err(format!("value {value} is out of range 0-{limit}"));
            }
            Op::Equal => {
                let value = value & mask;
                Relation::Within { mask, lo: value, hi: value, negated }
            }
            Op::Greater if value >= mask => Relation::Const(negated),
            Op::Greater => Relation::Within { mask, lo: value + 1, hi: mask, negated },
            Op::Less if value == 0 => Relation::Const(negated),
            Op::Less if value > mask => Relation::Const(!negated),
            Op::Less => Relation::Within { mask, lo: value, hi: mask, negated: !negated },
        })
    }

    fn range(&self, lo: u32, hi: u32, limit: u32) -> Checked<Relation> {
        if lo > hi || hi > limit {
            return Err(format!("range {lo}-{hi} is not within 0-{limit}"));
        }
        if self.op != Op::Equal || self.mask.is_some() {
            return Err("a range takes no mask and no '<' or '>'".into());
        }
        Ok(Relation::Within { mask: limit, lo, hi, negated: self.op_negated })
    }
}

/// The test for a protocol; none for "any transport protocol".
fn protocol_is(proto: u16) -> Option<Expr> {
    let one = |p: u32| Field::PROTO.within(0xff, p, p);
    match proto {
        PROTO_ANY_TRANSPORT.. => None,
        PROTO_TCP_OR_UDP => Some(Expr::Any(vec![one(6), one(17)])),
        p => Some(one(u32::from(p))),
    }
}
