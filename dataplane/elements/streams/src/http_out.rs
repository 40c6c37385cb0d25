//! HTTPOut: the end of what HTTPIn began.

use std::any::Any;

use thruway_element::{
    Args, Arguments, Buffer, Changes, Cx, Element, Ended, Entry, Handlers, HotSwap, Layer,
    Operation, Purpose, Replicas, SessionFunction, Size, Spec, StreamMember, StreamPlan, Topic,
    Wants,
};
use thruway_packet::{Batch, Packet};
use thruway_stream::http::{Leave, LeaveState};
use thruway_stream::stage::Memory;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::http_in::{self, DROPS};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<HttpOut>(Spec {
    name: "HTTPOut",
    topic: Topic::Streams,
    summary: "ends the context of HTTP/1: the length of bodies is written anew where it may differ",
    docs: "Where functions since HTTPIn hold bytes back or change lengths, the end of each body \
           that they saw is rewritten: by Content-Length where all of it is in one packet, else in \
           chunks. Bodies of requests, and of answers to clients of HTTP/1.0, which know no \
           chunks, are held until their length is known, HOLD_MAX bytes at most; beyond these, \
           requests go on in chunks, answers to old clients end with the connection, and \
           connections on which an old client sends more are closed. Sums of the body \
           (Content-MD5, Digest and the like) are removed from rewritten heads.\n\n\
           Where functions do neither, messages leave as they came.",
    example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier ~> TCPIn \
              -> HTTPIn -> HTTPOut(HOLD_MAX 4K) -> TCPOut -> Discard",
    ports: "1-/=",
    flow: "#/#",
    drops: &DROPS,
    wants: Wants::session::<SessionState>("connection"),
    changes: Changes::Nothing,
    cost: &[Operation::SessionState.once()],
    purpose: Purpose::EndContext(Layer::Http),
    replicas: Replicas::Apart("each follows the connections of its thread"),
    large_packets: true,
    ..Spec::DEFAULT
})
.with_stream_member::<HttpOut>()
.with_session_function::<HttpOut>()
.with_buffer::<HttpOut>()
.with_hot_swap::<HttpOut>();

/// Most fields of a head as functions may leave it.
const FIELDS_MAX: usize = 4096;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Clone, Copy)]
#[repr(C)]
struct SessionState {
    memory: Memory,
    leave: LeaveState,
}

#[derive(Arguments, Handlers)]
#[handler(
    sum, name = "lengths", "messages with a new Content-Length",
    get = self.leave.counts.lengths
)]
#[handler(
    sum, name = "chunked", "messages that went on in chunks", get = self.leave.counts.chunked
)]
#[handler(
    sum, name = "until_close", "answers that were made to end with the connection",
    get = self.leave.counts.until_close
)]
#[handler(
    sum, name = "too_long", "connections closed: an old client sent more than HOLD_MAX",
    get = self.leave.counts.too_long
)]
#[handler(
    sum, name = "bad_head", "connections closed: a function made a head that is none",
    get = self.leave.counts.bad_head
)]
#[handler(
    sum, name = "no_memory", "connections closed because packet memory was used up",
    get = self.leave.counts.no_memory
)]
#[handler(sum, name = "held", "messages held now", get = (self.leave.holding() as u64))]
struct HttpOut {
    /// bytes of a body held until its length is known
    #[arg(keyword, name = "HOLD_MAX", via = hold_of, or = "16K")]
    hold_bytes: usize,
    #[new(leave(args, hold_bytes))]
    leave: Leave,
    out: Vec<Packet>,
}

fn hold_of(Size(bytes): Size) -> Result<usize, String> {
    if bytes > Leave::MAX_HOLD as u64 {
        return Err(format!("must be at most {} bytes", Leave::MAX_HOLD));
    }
    Ok(bytes as usize)
}

fn leave(args: &Args<'_>, hold_bytes: usize) -> Leave {
    let mut leave = Leave::new(hold_bytes, FIELDS_MAX);
    leave.share(args.env().threads);
    leave
}

impl Element for HttpOut {
    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        let (leave, out) = (&mut self.leave, &mut self.out);
        http_in::process::<SessionState>(cx, port, batch, out, |state, at, packet, out| {
            leave.packet((&mut state.memory, &mut state.leave), at, packet, out);
        });
    }
}

impl HotSwap for HttpOut {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let fresh = Leave::new(self.hold_bytes, FIELDS_MAX);
        Some(Box::new(std::mem::replace(&mut self.leave, fresh)))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(leave) = state.downcast::<Leave>() {
            self.leave.take_over(*leave);
        }
    }
}

impl Buffer for HttpOut {
    fn holding(&self) -> usize {
        self.leave.holding()
    }
}

impl SessionFunction for HttpOut {
    fn closed(&mut self, _cx: &mut Cx<'_>, state: &[u8], _why: Ended) {
        if let Ok(mut state) = SessionState::read_from_bytes(state) {
            self.leave.forget(&mut state.memory);
        }
    }
}

impl StreamMember for HttpOut {
    fn take_stream(&mut self, plan: &StreamPlan) {
        self.leave.set_resize(plan.needs.resize || plan.needs.stall);
    }
}
