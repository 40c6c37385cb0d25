//! What escapes functions of streams, or could, and what an element does about it.

/// A case in which functions cannot inspect what they are there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exception {
    /// The case.
    pub what: &'static str,
    /// What is done in it.
    pub done: &'static str,
    /// Whether something that no function inspected reaches its receiver then.
    pub fails: Fails,
    /// The argument that decides; empty where nothing does.
    pub argument: &'static str,
}

/// Reason why an exception fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fails {
    /// What was not inspected passes.
    Open,
    /// It does not.
    Closed,
}

impl Fails {
    /// Closed, unless this holds.
    pub const fn open_if(open: bool) -> Fails {
        if open { Fails::Open } else { Fails::Closed }
    }

    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Fails::Open => "open",
            Fails::Closed => "closed",
        }
    }
}

impl Exception {
    /// Packets that are nothing to a context, as their outer headers say.
    pub const OTHERS: Exception = Exception {
        what: "other protocols; payload of tunnels (IP in IP, GRE, MPLS, PPPoE...)",
        done: "pass",
        fails: Fails::Open,
        argument: "",
    };

    /// Packets that a context cannot show to functions (`thruway_stream::unseen`).
    pub const fn unseen(refuses: bool) -> Exception {
        Exception {
            what: "fragments; packets without a session; IP headers that hide their payload",
            done: if refuses { "drop" } else { "pass" },
            fails: Fails::open_if(!refuses),
            argument: "UNSEEN",
        }
    }
}
