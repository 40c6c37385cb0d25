//! What is measured, and what we want to reach.

/// By what means packets come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The kernel forwards by itself.
    Kernel,
    /// Thruway by AF_XDP.
    Xdp,
    /// Thruway by packet sockets.
    Packet,
    /// DPDK's testpmd by AF_XDP (net_af_xdp).
    TestpmdXdp,
    /// DPDK's testpmd by packet sockets (net_af_packet).
    TestpmdPacket,
}

impl Kind {
    /// Whether it is testpmd, which looks for packets without end.
    pub fn is_testpmd(self) -> bool {
        matches!(self, Kind::TestpmdXdp | Kind::TestpmdPacket)
    }
}

/// Where reception at the middle's interface is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reception {
    /// On the core that forwards, and counted as its work.
    Forwarder,
    /// On the core of the load, as a card does it, or another core for a card. A process has a
    /// [peer](super::peer) then, so that it always has something to do.
    Load,
}

/// What is done to packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Nothing: in here, out there.
    Forward,
    /// Five routes, four next hops, IPv4 headers checked and changed.
    Route,
    /// `examples/nat.click`, and masquerading by nftables.
    Nat,
    /// [`Work::Route`] behind a filter of twenty rules, in the kernel by nftables.
    Filter,
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub kind: Kind,
    pub work: Work,
    pub reception: Reception,
    /// All packets are of one flow.
    pub one_flow: bool,
    /// The row that it is compared with.
    pub baseline: Option<&'static str>,
    /// Wanted: millions of packets a second of the core that forwards.
    pub goal_mpps: Option<f64>,
    /// Wanted: times the baseline's rate.
    pub goal_ratio: Option<f64>,
}

const fn case(name: &'static str, kind: Kind, work: Work) -> Case {
    Case {
        name,
        kind,
        work,
        reception: Reception::Forwarder,
        one_flow: false,
        baseline: None,
        goal_mpps: None,
        goal_ratio: None,
    }
}

/// A case with reception on another core.
const fn apart(name: &'static str, kind: Kind, work: Work) -> Case {
    Case { reception: Reception::Load, ..case(name, kind, work) }
}

const ROUTING: &str = "kernel/route";
const ROUTING_ONE: &str = "kernel/route-1";
const MASQUERADE: &str = "kernel/nat";
const FILTERING: &str = "kernel/filter";
const FORWARD_APART: &str = "apart/xdp-forward";
const PACKET_APART: &str = "apart/packet-forward";
const ROUTING_APART: &str = "apart/kernel-route";
const MASQUERADE_APART: &str = "apart/kernel-nat";

/// Every row; baselines precede rows that are compared with them.
pub const CASES: [Case; 19] = [
    case(ROUTING, Kind::Kernel, Work::Route),
    Case {
        baseline: Some(ROUTING),
        goal_mpps: Some(2.0),
        goal_ratio: Some(1.4),
        ..case("xdp/route", Kind::Xdp, Work::Route)
    },
    Case { baseline: Some(ROUTING), ..case("xdp/forward", Kind::Xdp, Work::Forward) },
    Case {
        baseline: Some(ROUTING),
        goal_mpps: Some(1.5),
        ..case("packet/forward", Kind::Packet, Work::Forward)
    },
    Case { baseline: Some(ROUTING), ..case("packet/route", Kind::Packet, Work::Route) },
    case(MASQUERADE, Kind::Kernel, Work::Nat),
    Case {
        baseline: Some(MASQUERADE),
        goal_ratio: Some(1.5),
        ..case("xdp/nat", Kind::Xdp, Work::Nat)
    },
    case(FILTERING, Kind::Kernel, Work::Filter),
    Case { baseline: Some(FILTERING), ..case("xdp/filter", Kind::Xdp, Work::Filter) },
    Case { one_flow: true, ..case(ROUTING_ONE, Kind::Kernel, Work::Route) },
    Case {
        one_flow: true,
        baseline: Some(ROUTING_ONE),
        ..case("xdp/route-1", Kind::Xdp, Work::Route)
    },
    apart(ROUTING_APART, Kind::Kernel, Work::Route),
    Case { baseline: Some(ROUTING_APART), ..apart(FORWARD_APART, Kind::Xdp, Work::Forward) },
    Case {
        baseline: Some(ROUTING_APART),
        goal_mpps: Some(2.0),
        goal_ratio: Some(1.4),
        ..apart("apart/xdp-route", Kind::Xdp, Work::Route)
    },
    apart(MASQUERADE_APART, Kind::Kernel, Work::Nat),
    Case {
        baseline: Some(MASQUERADE_APART),
        goal_ratio: Some(1.5),
        ..apart("apart/xdp-nat", Kind::Xdp, Work::Nat)
    },
    Case {
        baseline: Some(ROUTING_APART),
        goal_mpps: Some(1.5),
        ..apart(PACKET_APART, Kind::Packet, Work::Forward)
    },
    Case {
        baseline: Some(FORWARD_APART),
        ..apart("apart/testpmd-xdp", Kind::TestpmdXdp, Work::Forward)
    },
    Case {
        baseline: Some(PACKET_APART),
        ..apart("apart/testpmd-packet", Kind::TestpmdPacket, Work::Forward)
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn baselines_are_there_and_come_first() {
        for (at, case) in CASES.iter().enumerate() {
            let before = &CASES[..at];
            assert!(before.iter().all(|other| other.name != case.name), "{case:?}");
            if let Some(name) = case.baseline {
                let base = before.iter().find(|other| other.name == name).expect("it is before");
                assert_eq!((base.one_flow, base.reception), (case.one_flow, case.reception));
            }
        }
    }
}
