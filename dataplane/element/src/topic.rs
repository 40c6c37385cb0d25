//! Topics of elements: the manual's headings.

use std::fmt;

/// Heading of the manual and crate of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// Sources of packets, and sinks.
    Sources,
    /// Counting, printing, numbering, timestamps.
    Counters,
    /// Scripts, control sockets, settings of the router.
    Control,
    /// Captures and summaries.
    Captures,
    /// Interfaces, devices, sockets.
    Devices,
    /// Queues, schedulers, shapers, switches, tees, paint.
    Queueing,
    /// Ethernet, VLANs, raw bytes.
    Ethernet,
    /// Internet protocol, version 4 and elements for both versions.
    Ip,
    /// Internet protocol, version 6.
    Ip6,
    /// Hops between hosts: a chain continues on another one.
    Hops,
    /// Functions that keep state for each session.
    Sessions,
    /// Functions of the payload of sessions, and the contexts that they stand in.
    Streams,
    /// Click's translators of addresses, with tables of their own.
    Rewriters,
    /// Functions that run as processes of their own.
    Nf,
    /// Faults to inject.
    Faults,
}

impl Topic {
    /// All topics, in the manual's order.
    pub const ALL: [Topic; 15] = [
        Topic::Sources,
        Topic::Counters,
        Topic::Control,
        Topic::Captures,
        Topic::Devices,
        Topic::Queueing,
        Topic::Ethernet,
        Topic::Ip,
        Topic::Ip6,
        Topic::Hops,
        Topic::Sessions,
        Topic::Streams,
        Topic::Rewriters,
        Topic::Nf,
        Topic::Faults,
    ];

    /// Whether packets come from outside of the router, or leave it, in elements of this topic.
    pub fn is_port(self) -> bool {
        matches!(self, Topic::Captures | Topic::Devices)
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Topic::Sources => "sources and sinks",
            Topic::Counters => "counters, printing, timestamps",
            Topic::Control => "scripts, control sockets, settings",
            Topic::Captures => "captures",
            Topic::Devices => "devices and sockets",
            Topic::Queueing => "queues, schedulers, shapers, switches",
            Topic::Ethernet => "Ethernet and bytes",
            Topic::Ip => "IP",
            Topic::Ip6 => "IPv6",
            Topic::Hops => "hops between hosts",
            Topic::Sessions => "sessions",
            Topic::Streams => "streams",
            Topic::Rewriters => "rewriters",
            Topic::Nf => "isolated functions",
            Topic::Faults => "faults to inject",
        })
    }
}
