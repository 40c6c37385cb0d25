//! A rule, as it was written: its head and what it says of itself.

use crate::rules::condition::Condition;
use crate::rules::ends::{AddressRange, PortRange, Spec};
use crate::rules::matches::Part;
use crate::rules::session::{Flow, FlowBit, Threshold};

/// What is done when a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Leaves the packet or session alone: no other rule is reported.
    Pass,
    /// Alerts, and ends the session; packets outside sessions are dropped.
    Drop,
    /// The same, and notifies the endpoints.
    Reject,
    /// Alerts.
    Alert,
}

impl Action {
    /// All, in the order in which they are obeyed.
    pub const ALL: [Action; 4] = [Action::Pass, Action::Drop, Action::Reject, Action::Alert];

    /// As written in rules.
    pub const fn name(self) -> &'static str {
        match self {
            Action::Pass => "pass",
            Action::Drop => "drop",
            Action::Reject => "reject",
            Action::Alert => "alert",
        }
    }
}

/// The packets or sessions of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// All of IP.
    Ip,
    /// ICMP over IPv4 and IPv6.
    Icmp,
    /// UDP.
    Udp,
    /// TCP: the stream, and packets if the rule has positions from their beginning.
    Tcp,
    /// TCP, each packet on its own.
    TcpPacket,
    /// TCP, the stream only.
    TcpStream,
    /// HTTP/1.
    Http,
    /// TLS records over TCP.
    Tls,
    /// SSH.
    Ssh,
    /// SMTP.
    Smtp,
    /// FTP's control connection.
    Ftp,
    /// DNS, over UDP or TCP.
    Dns,
}

impl Protocol {
    /// Names in rules. What is not here is refused.
    pub const NAMES: [(&'static str, Protocol); 12] = [
        ("ip", Protocol::Ip),
        ("icmp", Protocol::Icmp),
        ("udp", Protocol::Udp),
        ("tcp", Protocol::Tcp),
        ("tcp-pkt", Protocol::TcpPacket),
        ("tcp-stream", Protocol::TcpStream),
        ("http", Protocol::Http),
        ("tls", Protocol::Tls),
        ("ssh", Protocol::Ssh),
        ("smtp", Protocol::Smtp),
        ("ftp", Protocol::Ftp),
        ("dns", Protocol::Dns),
    ];

    /// As written in rules.
    pub fn name(self) -> &'static str {
        Protocol::NAMES
            .iter()
            .find(|(_, protocol)| *protocol == self)
            .map_or("ip", |(name, _)| name)
    }
}

/// The arrow between the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arrow {
    /// `->`
    Forth,
    /// `<>`: either end may be the sender.
    Both,
}

/// One end in a rule's head.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct End {
    /// Its addresses.
    pub addresses: Spec<AddressRange>,
    /// Its ports; any where the protocol has none.
    pub ports: Spec<PortRange>,
}

/// What a rule says of itself: for events, not for matching.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    /// `msg`, without quotes and escapes.
    pub msg: String,
    /// `sid`, above 0.
    pub sid: u32,
    /// `gid`; 1 where not given.
    pub gid: u32,
    /// `rev`; 0 where not given.
    pub rev: u32,
    /// `classtype`; empty where not given.
    pub classtype: String,
    /// `priority`, 1 (high) to 255; where not given, that of the class.
    pub priority: Option<u8>,
    /// `reference`s, as written.
    pub references: Vec<String>,
    /// `metadata`, as written.
    pub metadata: Vec<String>,
}

/// A rule, as it was written, in one of its notations: modifiers behind their content,
/// buffers in front of what they are for.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// What to do.
    pub action: Action,
    /// The matched packets.
    pub protocol: Protocol,
    /// The left end.
    pub source: End,
    /// Between them.
    pub arrow: Arrow,
    /// The right end.
    pub destination: End,
    /// What it says of itself.
    pub about: About,
    /// `flow`.
    pub flow: Flow,
    /// `flowbits`, in order, `noalert` apart.
    pub flow_bits: Vec<FlowBit>,
    /// `noalert`, `flowbits:noalert`: it is not reported.
    pub quiet: bool,
    /// `threshold` or `detection_filter`.
    pub threshold: Option<Threshold>,
    /// What headers must be like.
    pub conditions: Vec<Condition>,
    /// What buffers must contain, in the order written.
    pub parts: Vec<Part>,
}
