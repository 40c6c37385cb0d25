//! Test elements with observable effects.

pub mod router;

use std::sync::Arc;

use parking_lot::Mutex;
use thruway_element::{
    Arg, Args, Cx, Element, Entry, Handler, HandlerError, Handlers, Handoff, HandoffQueue, Purpose,
    Registry, Replicas, Run, Spec, Threading, Ty, Verdict,
};
use thruway_packet::{Batch, Packet};

/// The packets that recorders saw, in order: the recorder's name and the packet's first byte.
pub static LOG: Mutex<Vec<(String, u8)>> = Mutex::new(Vec::new());

/// The signal that `Await` waits for.
pub const SIGNAL: i32 = 10;

/// Elements for tests.
pub static ELEMENTS: &[&Entry] = &[
    &SOURCE, &RECORD, &COPY, &SPLIT, &TICK, &SINK, &PULLER, &STORE, &SCHED, &BURST, &EITHER,
    &REFUSE, &BOMB, &SINGLE, &HAND, &AWAIT, &ASK,
];

/// These elements alone.
pub static REGISTRY: Registry = Registry(&[ELEMENTS]);

static SOURCE: Entry = Entry::new(
    Spec {
        name: "Source",
        ports: "0/-",
        processing: "h/h",
        threading: Threading::Task,
        args: &[
            Arg::required("COUNT", Ty::UInt, ""),
            Arg::optional("BURST", Ty::UInt, "").or("1"),
            Arg::keyword("STOP", Ty::Bool, "").or("true"),
        ],
        handlers: &[Handler::sum("count", "")],
        ..Spec::DEFAULT
    },
    |args| {
        Ok(Box::new(Source0 {
            left: args.get("COUNT")?,
            burst: args.get("BURST")?,
            made: 0,
            stop: args.get("STOP")?,
        }))
    },
)
.with_handlers::<Source0>();

struct Source0 {
    left: u64,
    burst: u64,
    made: u64,
    stop: bool,
}

impl Element for Source0 {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if self.left == 0 {
            if std::mem::take(&mut self.stop) {
                cx.stop();
            }
            return Run::Idle;
        }
        for _ in 0..self.burst.min(self.left) {
            self.left -= 1;
            if let Some(packet) = Packet::new(&[self.made as u8; 60]) {
                cx.emit(self.made as usize % cx.outputs(), packet);
            }
            self.made += 1;
        }
        Run::Again
    }
}

impl Handlers for Source0 {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.made.to_string())
    }
}

macro_rules! simple {
    ($entry:ident, $name:literal, $ports:literal, $processing:literal, $build:expr) => {
        static $entry: Entry = Entry::new(
            Spec { name: $name, ports: $ports, processing: $processing, ..Spec::DEFAULT },
            $build,
        );
    };
}

simple!(RECORD, "Record", "1/0-1", "a/a", |args: &Args<'_>| Ok(Box::new(Record(
    args.name().into()
))));
simple!(COPY, "Copy", "1/-", "h/h", |_: &Args<'_>| Ok(Box::new(Copy0)));
simple!(SPLIT, "Split", "1/2", "a/ah", |_: &Args<'_>| Ok(Box::new(Split)));
simple!(SINK, "Sink", "1/0", "h/h", |_: &Args<'_>| Ok(Box::new(Sink)));
static SCHED: Entry = Entry::new(
    Spec {
        name: "StaticThreadSched",
        ports: "0/0",
        args: &[Arg::rest("PLACE", Ty::Any, "")],
        purpose: Purpose::AssignTasks,
        ..Spec::DEFAULT
    },
    |_args| Ok(Box::new(Sink)),
);
simple!(BURST, "Multiply", "1/1", "h/h", |_: &Args<'_>| Ok(Box::new(Multiply)));

struct Record(String);

impl Element for Record {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let mut log = LOG.lock();
        log.extend(batch.iter().map(|packet| (self.0.clone(), packet.data()[0])));
    }
}

/// To every output, in order, as a tee.
struct Copy0;

impl Element for Copy0 {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            for port in 0..cx.outputs() {
                let copy = cx.duplicate(&packet).unwrap();
                cx.emit(port, copy);
            }
        }
    }
}

/// Odd packets to output 1.
struct Split;

impl Element for Split {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |p| if p.data()[0] % 2 == 1 { Verdict::To(1) } else { Verdict::Pass });
    }
}

struct Sink;
impl Element for Sink {}

/// Many packets out of one.
struct Multiply;

impl Element for Multiply {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            for _ in 0..40 {
                let copy = cx.duplicate(&packet).unwrap();
                cx.emit(0, copy);
            }
        }
    }
}

static TICK: Entry =
    Entry::new(Spec { name: "Tick", ports: "0/1", processing: "h/h", ..Spec::DEFAULT }, |_args| {
        Ok(Box::new(Tick(0)))
    });

/// A packet every second, three in all.
struct Tick(u8);

impl Element for Tick {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.set_timer(7, cx.now() + 1_000_000_000);
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        assert_eq!(token, 7);
        self.0 += 1;
        cx.emit(0, Packet::new(&[self.0]).unwrap());
        if self.0 == 3 {
            cx.stop();
        } else {
            cx.set_timer(7, cx.now() + 1_000_000_000);
        }
    }
}

static PULLER: Entry = Entry::new(
    Spec {
        name: "Puller",
        ports: "1/1",
        processing: "l/h",
        threading: Threading::Task,
        ..Spec::DEFAULT
    },
    |_args| Ok(Box::new(Puller(Batch::new()))),
);

struct Puller(Batch);

impl Element for Puller {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        cx.pull(0, 8, &mut self.0);
        if self.0.is_empty() {
            return Run::Idle;
        }
        cx.emit_all(0, &mut self.0);
        Run::Again
    }
}

static STORE: Entry =
    Entry::new(Spec { name: "Store", ports: "1/1", processing: "h/l", ..Spec::DEFAULT }, |args| {
        Ok(Box::new(Store(args.shared("store", Mutex::default))))
    });

/// A queue that threads share (with a lock: this is a test).
struct Store(Arc<Mutex<Vec<Packet>>>);

impl Element for Store {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        self.0.lock().extend(batch.drain());
    }

    fn pull(&mut self, _cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        let mut stored = self.0.lock();
        let n = max.min(stored.len());
        batch.extend(stored.drain(..n));
    }
}

thruway_element::reasons! {
    /// Why Refuse drops.
    enum Refused {
        Low = "low": "its first byte is below 4",
        High = "high": "its first byte is 8 or more",
    }
}

static REFUSE: Entry = Entry::new(
    Spec {
        name: "Refuse",
        ports: "1/1-2",
        processing: "a/ah",
        drops: Refused::DROPS,
        ..Spec::DEFAULT
    },
    |_args| Ok(Box::new(Refuse)),
);

/// Drops low packets, and sends high ones to output 1 if there is one.
struct Refuse;

impl Element for Refuse {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| match packet.data()[0] {
            ..4 => Verdict::drop(Refused::Low),
            8.. => Verdict::reject(1, Refused::High),
            _ => Verdict::Pass,
        });
    }
}

static BOMB: Entry = Entry::new(Spec { name: "Bomb", ..Spec::DEFAULT }, |_args| Ok(Box::new(Bomb)));

/// Panics.
struct Bomb;

impl Element for Bomb {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch) {
        panic!("boom");
    }
}

static ASK: Entry = Entry::new(
    Spec {
        name: "Ask",
        ports: "0/0",
        threading: Threading::Task,
        args: &[
            Arg::required("CALL", Ty::Str, ""),
            Arg::optional("COUNT", Ty::UInt, "").or("0"),
            Arg::keyword("STOP", Ty::Bool, "").or("false"),
        ],
        handlers: &[Handler::sum("count", ""), Handler::read("ask", "")],
        ..Spec::DEFAULT
    },
    |args| {
        let (call, left) = (args.get("CALL")?, args.get("COUNT")?);
        Ok(Box::new(Ask { call, left, stop: args.get("STOP")?, wrong: 0 }))
    },
)
.with_handlers::<Ask>();

/// Reads another element's handler again and again, and when its own handler `ask` is read; `count`
/// is how often that failed.
struct Ask {
    call: String,
    left: u64,
    stop: bool,
    wrong: u64,
}

impl Element for Ask {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if self.left == 0 {
            if std::mem::take(&mut self.stop) {
                cx.stop();
            }
            return Run::Idle;
        }
        self.left -= 1;
        self.wrong += u64::from(cx.read_handler(&self.call).is_err());
        Run::Again
    }
}

impl Handlers for Ask {
    fn read_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        if name == "ask" { cx.read_handler(&self.call) } else { Ok(self.wrong.to_string()) }
    }
}

static SINGLE: Entry = Entry::new(
    Spec { name: "Single", replicas: Replicas::OneThread("it is a test"), ..Spec::DEFAULT },
    |_args| Ok(Box::new(Single)),
);

/// For one thread.
struct Single;

impl Element for Single {}

static EITHER: Entry = Entry::new(
    Spec {
        name: "Either",
        ports: "0/1",
        processing: "a/a",
        threading: Threading::Task,
        args: &[Arg::required("COUNT", Ty::UInt, "")],
        ..Spec::DEFAULT
    },
    |args| Ok(Box::new(Either(args.get("COUNT")?))),
);

/// A source that is pulled, stops the driver after its last packet, and must not run by itself.
struct Either(u64);

impl Element for Either {
    fn run(&mut self, _cx: &mut Cx<'_>) -> Run {
        panic!("it is pulled");
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        for _ in 0..self.0.min(max as u64) {
            batch.push(Packet::new(&[0]).unwrap());
            self.0 -= 1;
        }
        if self.0 == 0 {
            cx.stop();
        }
    }
}

static HAND: Entry = Entry::new(
    Spec {
        name: "Hand",
        threading: Threading::Handoff,
        args: &[
            Arg::required("COUNT", Ty::UInt, ""),
            Arg::optional("CAPACITY", Ty::UInt, "").or("4096"),
        ],
        handlers: &[Handler::both("active", ""), Handler::sum("handed", "")],
        ..Spec::DEFAULT
    },
    |args| {
        Ok(Box::new(Hand {
            left: args.get("COUNT")?,
            thread: args.env().thread,
            capacity: args.get("CAPACITY")?,
            active: true,
            handed: 0,
        }))
    },
)
.with_handoff_queue::<Hand>()
.with_handlers::<Hand>();

/// Packets pushed by any thread go on in thread 0, which stops after COUNT packets.
struct Hand {
    left: usize,
    thread: usize,
    capacity: usize,
    active: bool,
    handed: usize,
}

impl Element for Hand {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if self.thread != 0 {
            self.handed += cx.handoff(0, batch);
            return;
        }
        self.left = self.left.saturating_sub(batch.len());
        if self.left == 0 {
            cx.stop();
        }
    }
}

impl Handlers for Hand {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "active" => Ok(self.active.to_string()),
            "handed" => Ok(self.handed.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        match name {
            "active" => self.active = thruway_element::handler_value(name, value)?,
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}

impl HandoffQueue for Hand {
    fn rings(&self) -> Handoff {
        Handoff { capacity: self.capacity, ..Handoff::default() }
    }

    fn room(&self) -> usize {
        if self.active { 32 } else { 0 }
    }

    fn handed(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        self.process(cx, 0, batch);
    }
}

static AWAIT: Entry = Entry::new(
    Spec { name: "Await", ports: "0/0", handlers: &[Handler::write("run", "")], ..Spec::DEFAULT },
    |args| Ok(Box::new(Await(args.name().into()))),
)
.with_handlers::<Await>();

/// Writes down a signal and stops the driver.
struct Await(String);

impl Element for Await {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let node = cx.node();
        cx.driver().take_signal(node, SIGNAL)
    }
}

impl Handlers for Await {
    fn write_handler(
        &mut self,
        cx: &mut Cx<'_>,
        _name: &str,
        _value: &str,
    ) -> Result<(), HandlerError> {
        LOG.lock().push((self.0.clone(), 0));
        cx.stop();
        Ok(())
    }
}
