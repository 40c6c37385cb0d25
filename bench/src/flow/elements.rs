//! The bench's own elements: a source of packets of many sessions, and functions that do next to
//! nothing per packet, so that what is measured is what leads to them.

use rustix::time::{ClockId, clock_gettime};
use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, HandlerError, Handlers, Opening, PerSession,
    Pressing, Reason, Run, Session, Spec, Threading, Topic, Ty, Verdict, Wants, handler_value,
};
use thruway_packet::{Batch, Image, Marks, Packet};

use super::order::{Order, draw};
use crate::traffic::{self, Flow};

/// All of them.
pub const ELEMENTS: &[&Entry] = &[&SOURCE, &NONE, &PASS, &COUNT];

/// Packets of a batch.
pub const BURST: usize = 128;
/// Bytes of a packet.
pub const LEN: usize = 64;

static SOURCE: Entry = Entry::built::<SessionSource>(
    Spec {
        name: "SessionSource",
        topic: Topic::Sessions,
        summary: "64-byte UDP packets of many sessions, from memory",
        ports: "0/1",
        processing: "a/h",
        args: &[Arg::required("SESSIONS", Ty::UInt, "how many sessions")],
        threading: Threading::Task,
        ..Spec::DEFAULT
    },
    |args| Ok(Box::new(SessionSource::new(args.get("SESSIONS")?))),
);

/// See the entry.
#[derive(Handlers)]
#[handler(read, field = count, "packets so far")]
#[handler(write, name = "order", "once, uniform or zipf", write = self.write_order(value))]
#[handler(write, field = left, "packets until the driver is asked to stop")]
#[handler(
    write, name = "timed", "keeps the time of each batch, so many at most",
    run = self.times = Vec::with_capacity(handler_value(name, value)?)
)]
#[handler(
    read, name = "times", "CPU time of each batch until the next, nanoseconds",
    read = self.read_times()
)]
struct SessionSource {
    sessions: u32,
    order: Order,
    /// Sessions in the order of their packets; empty for all once.
    drawn: Vec<u32>,
    cursor: usize,
    left: u64,
    count: u64,
    frames: Frames,
    batch: Batch,
    /// Of the batches, as long as there is room.
    times: Vec<u64>,
    began: Option<u64>,
    /// Elements behind it that can have packets wait: isolated functions.
    pressing: Pressing,
}

/// Images of packets, of which each belongs to some session.
pub struct Frames {
    frames: Box<[[u8; LEN]; BURST]>,
    /// Sum of the header's words without the addresses.
    base_sum: u32,
    marks: Marks,
}

impl Frames {
    /// All of no session yet.
    pub fn new() -> Frames {
        let template = traffic::packet(&Flow { src: 0, ..flow(0) });
        let sum = !u16::from_be_bytes([template[24], template[25]]);
        Frames {
            frames: Box::new([template; BURST]),
            base_sum: u32::from(sum),
            marks: Packet::new(&template).map(|packet| packet.marks()).unwrap_or_else(no_memory),
        }
    }

    /// Makes one a packet of this session; gives it for what else is to be in it.
    pub fn set(&mut self, at: usize, number: u32) -> &mut [u8; LEN] {
        let Flow { src, sport, .. } = flow(number);
        let frame = &mut self.frames[at];
        frame[26..30].copy_from_slice(&src.to_be_bytes());
        frame[34..36].copy_from_slice(&sport.to_be_bytes());
        let sum = self.base_sum + (src >> 16) + (src & 0xffff);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    /// The first of them, as packets.
    pub fn fill(&self, packets: usize, batch: &mut Batch) -> usize {
        let images = self.frames[..packets].iter();
        let marks = &self.marks;
        batch.fill(images.map(|frame| Image { bytes: frame, len: LEN, timestamp: 0, marks }))
    }
}

/// Addresses and ports of a session: 65,536 hosts, which use one port after the other.
fn flow(number: u32) -> Flow {
    Flow {
        src: 10 << 24 | number & 0xffff,
        dst: u32::from_be_bytes([198, 51, 100, 1]),
        sport: 1024 + (number >> 16) as u16,
        dport: 443,
    }
}

impl SessionSource {
    fn new(sessions: u32) -> SessionSource {
        SessionSource {
            sessions,
            order: Order::Once,
            drawn: Vec::new(),
            cursor: 0,
            left: 0,
            count: 0,
            frames: Frames::new(),
            batch: Batch::with_room(),
            times: Vec::new(),
            began: None,
            pressing: Pressing::default(),
        }
    }

    /// The next packet's session.
    #[inline]
    fn next(&mut self) -> u32 {
        let number = match self.order {
            Order::Once => self.cursor as u32,
            _ => self.drawn[self.cursor],
        };
        let len = if self.order == Order::Once { self.sessions as usize } else { self.drawn.len() };
        self.cursor = if self.cursor + 1 >= len { 0 } else { self.cursor + 1 };
        number
    }

    fn fill(&mut self, packets: usize) {
        for at in 0..packets {
            let number = self.next();
            self.frames.set(at, number);
        }
        self.frames.fill(packets, &mut self.batch);
    }

    /// Ends the time of one batch and begins that of the next.
    fn clock(&mut self) {
        if self.times.len() == self.times.capacity() {
            return;
        }
        let now = clock_gettime(ClockId::ThreadCPUTime);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        if let Some(before) = self.began.replace(now) {
            self.times.push(now - before);
        }
    }
}

/// The bench cannot begin without memory for one packet.
fn no_memory() -> Marks {
    panic!("no memory for a packet")
}

impl Element for SessionSource {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        self.clock();
        if self.left == 0 {
            self.began = None;
            return Run::Idle;
        }
        if self.pressing.is_felt(cx) {
            return Run::Again;
        }
        self.fill(self.left.min(BURST as u64) as usize);
        self.left -= self.batch.len() as u64;
        self.count += self.batch.len() as u64;
        cx.emit_all(0, &mut self.batch);
        if self.left == 0 {
            cx.stop();
        }
        Run::Again
    }
}

impl SessionSource {
    fn write_order(&mut self, value: &str) -> Result<(), HandlerError> {
        self.order = value.parse().map_err(HandlerError::Refused)?;
        self.drawn = draw(self.order, self.sessions);
        self.cursor = 0;
        Ok(())
    }

    fn read_times(&mut self) -> Result<String, HandlerError> {
        let times: Vec<String> = self.times.iter().map(u64::to_string).collect();
        Ok(times.join(" "))
    }
}

static NONE: Entry = Entry::new(
    Spec {
        name: "NoSession",
        topic: Topic::Sessions,
        summary: "hands each packet to a function that does nothing, without a session",
        processing: "h/h",
        changes: Changes::Nothing,
        ..Spec::DEFAULT
    },
    // It is the flow manager that finds sessions, and it has nothing to do with this one.
    build::<Pass>,
);

static PASS: Entry = Entry::new(
    Spec {
        name: "SessionPass",
        topic: Topic::Sessions,
        summary: "wants a session and does nothing with it",
        processing: "h/h",
        wants: Wants::session::<u64>("connection"),
        changes: Changes::Nothing,
        ..Spec::DEFAULT
    },
    build::<Pass>,
);

static COUNT: Entry = Entry::new(
    Spec {
        name: "SessionCount",
        topic: Topic::Sessions,
        summary: "counts each session's packets",
        processing: "h/h",
        wants: Wants::session::<u64>("connection"),
        changes: Changes::Nothing,
        ..Spec::DEFAULT
    },
    build::<Count>,
);

pub fn build<F: PerSession + Default + Send + 'static>(
    _args: &Args<'_>,
) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(Function(F::default())))
}

/// A function as an element, of as many outputs as inputs.
struct Function<F>(F);

impl<F: PerSession + Send + 'static> Element for Function<F> {
    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        cx.per_session(&mut self.0, batch);
        cx.pass_on(port, batch);
    }
}

/// Does nothing.
#[derive(Default)]
pub struct Pass;

impl PerSession for Pass {
    type State = u64;

    fn open(&mut self, _: &mut Opening<'_>, _: &mut Packet, _: &mut u64) -> Result<(), Reason> {
        Ok(())
    }

    fn each(&mut self, _: &mut Packet, _: &mut Session<'_, u64>) -> Verdict {
        Verdict::Pass
    }
}

/// Counts.
#[derive(Default)]
struct Count;

impl PerSession for Count {
    type State = u64;

    fn open(&mut self, _: &mut Opening<'_>, _: &mut Packet, _: &mut u64) -> Result<(), Reason> {
        Ok(())
    }

    #[inline]
    fn each(&mut self, _: &mut Packet, session: &mut Session<'_, u64>) -> Verdict {
        *session.state += 1;
        Verdict::Pass
    }
}
