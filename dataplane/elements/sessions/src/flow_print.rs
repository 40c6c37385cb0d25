//! FlowPrint: shows which sessions packets belong to.

use std::any::Any;

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, HotSwap, Opening, Operation, PerSession,
    Reason, Replicas, Session, Spec, Topic, Verdict, Wants,
};
use thruway_packet::{Batch, Packet};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<FlowPrint>(Spec {
    name: "FlowPrint",
    topic: Topic::Sessions,
    summary: "prints which sessions packets belong to",
    docs: "Writes a line to standard error for each run of packets of one session in a batch: \
           how many there are, the session's number (sessions are counted from 1 in each \
           thread, as they begin), and how many packets of it have come so far. Packets \
           without a session are counted in a line of their own. It formats text and is for \
           looking, not for speed.",
    example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier ~> FlowPrint \
              -> Discard",
    processing: "a/a",
    wants: Wants::session::<Count>("connection"),
    changes: Changes::Nothing,
    cost: &[Operation::SessionState.once(), Operation::Format.once()],
    replicas: Replicas::Apart("each numbers the sessions of its thread"),
    ..Spec::DEFAULT
})
.with_hot_swap::<FlowPrint>();

/// The state of a session.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Count {
    number: u64,
    packets: u64,
}

/// Packets that follow each other in a batch and belong to one session, or to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    packets: u64,
    /// Number of the session, and packets of it so far; `None`: these have no session.
    session: Option<(u64, u64)>,
}

impl Run {
    fn line(&self) -> String {
        let Run { packets, session } = self;
        match session {
            Some((number, count)) => {
                format!("{packets} packets from flow {number}. Count : {count}.")
            }
            None => format!("{packets} packets not from a specific flow..."),
        }
    }
}

/// The function proper.
#[derive(Default)]
struct Runs {
    sessions: u64,
    /// Of this batch.
    runs: Vec<Run>,
}

impl Runs {
    /// A packet of a session (its number, and packets of it so far), or of none.
    fn add(&mut self, session: Option<(u64, u64)>) {
        let number = |session: Option<(u64, u64)>| session.map(|(number, _)| number);
        match self.runs.last_mut().filter(|last| number(last.session) == number(session)) {
            Some(last) => *last = Run { packets: last.packets + 1, session },
            None => self.runs.push(Run { packets: 1, session }),
        }
    }
}

impl PerSession for Runs {
    type State = Count;

    fn open(
        &mut self,
        _opening: &mut Opening<'_>,
        _packet: &mut Packet,
        state: &mut Count,
    ) -> Result<(), Reason> {
        self.sessions += 1;
        *state = Count { number: self.sessions, packets: 0 };
        Ok(())
    }

    fn each(&mut self, _packet: &mut Packet, session: &mut Session<'_, Count>) -> Verdict {
        session.state.packets += 1;
        self.add(Some((session.state.number, session.state.packets)));
        Verdict::Pass
    }

    fn without(&mut self, _packet: &mut Packet) -> Verdict {
        self.add(None);
        Verdict::Pass
    }
}

#[derive(Arguments, Handlers)]
struct FlowPrint {
    runs: Runs,
}

impl Element for FlowPrint {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.per_session(&mut self.runs, batch);
        self.runs.runs.drain(..).for_each(|run| cx.log(&run.line()));
    }
}

impl HotSwap for FlowPrint {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(self.runs.sessions))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(sessions) = state.downcast::<u64>() {
            self.runs.sessions = *sessions;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_one_session_are_one_line() {
        let mut runs = Runs::default();
        let sessions = [Some((1, 1)), Some((1, 2)), None, None, Some((2, 1)), Some((1, 3))];
        sessions.into_iter().for_each(|session| runs.add(session));
        let lines: Vec<String> = runs.runs.iter().map(Run::line).collect();
        assert_eq!(
            lines,
            [
                "2 packets from flow 1. Count : 2.",
                "2 packets not from a specific flow...",
                "1 packets from flow 2. Count : 1.",
                "1 packets from flow 1. Count : 3.",
            ]
        );
    }
}
