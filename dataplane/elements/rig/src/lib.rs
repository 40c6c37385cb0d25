//! A test rig for one element: feeds batches in, and inspects the packets of each output.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use parking_lot::Mutex;
use thruway_element::{
    Addresses, ArgErrors, Args, Buffer, Calls, Cx, Driver, Element, Entry, Env, Flows,
    HandlerError, Host, NodeStats, Outbox, Run, SessionMover, Shared, Staged, Target, Threads,
    Wiring,
};
use thruway_packet::{Batch, Packet};

/// The element and its surroundings.
pub struct Rig {
    entry: &'static Entry,
    element: Box<dyn Element>,
    out: Outbox,
    host: Alone,
}

/// An engine that only takes messages.
#[derive(Default)]
struct Alone {
    lines: Vec<String>,
    timers: Vec<(u32, i64)>,
    others: Others,
}

/// Replicas in other threads: threads, the own one, packets in a ring at most, and the rings.
#[derive(Default)]
struct Others {
    all: Vec<usize>,
    own: usize,
    capacity: usize,
    rings: Arc<Rings>,
}

/// By the threads that a ring leads from and to.
type Rings = Mutex<HashMap<(usize, usize), Vec<Packet>>>;

impl Others {
    /// Takes what others have handed over.
    fn take(&self) -> Vec<Batch> {
        let mut rings = self.rings.lock();
        let mine =
            rings.iter_mut().filter(|((_, to), packets)| *to == self.own && !packets.is_empty());
        mine.map(|(_, packets)| packets.drain(..).collect()).collect()
    }
}

impl Host for Alone {
    fn pull(&mut self, _: &mut Outbox, _: (u32, usize), _: usize, _: &mut Batch) {}
    fn set_timer(&mut self, _: u32, token: u32, at: i64) {
        self.timers.push((token, at));
    }
    fn clear_timer(&mut self, _: u32, token: u32) {
        self.timers.retain(|(set, _)| *set != token);
    }
    fn watch(&mut self, _: RawFd, _: Option<OwnedFd>) {}
    fn log(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }
}

impl Threads for Alone {
    fn handoff(&mut self, _: u32, thread: usize, batch: &mut Batch) -> usize {
        let Others { own, capacity, rings, .. } = &self.others;
        let mut rings = rings.lock();
        let ring = rings.entry((*own, thread)).or_default();
        let room = batch.len().min(capacity - ring.len());
        ring.extend(batch.drain_front(room));
        room
    }
    fn having(&self, _: u32) -> &[usize] {
        &self.others.all
    }
}

impl Wiring for Alone {
    fn inputs(&self, _: u32) -> usize {
        1
    }
    fn input_of(&self, slot: u32) -> Option<(u32, usize)> {
        Some((1, slot as usize))
    }
}

impl Calls for Alone {}
impl Driver for Alone {}
impl Flows for Alone {}

impl Rig {
    /// An initialised element with this many outputs.
    pub fn new<S: AsRef<str>>(
        entry: &'static Entry,
        texts: &[S],
        outputs: usize,
    ) -> Result<Rig, ArgErrors> {
        Rig::with_inputs(entry, texts, 1, outputs)
    }

    /// The same with several inputs; [`Rig::push_at`] serves them.
    pub fn with_inputs<S: AsRef<str>>(
        entry: &'static Entry,
        texts: &[S],
        inputs: usize,
        outputs: usize,
    ) -> Result<Rig, ArgErrors> {
        let texts: Vec<String> = texts.iter().map(|text| text.as_ref().to_owned()).collect();
        let (addresses, shared) = (Addresses::default(), Shared::default());
        let env = Env::alone("tested", entry.spec.name, &addresses, &shared);
        let env = Env { inputs, outputs, ..env };
        let element = (entry.build)(&Args::sort(&entry.spec, &texts, &env)?)?;
        Rig::around(element, entry, outputs).map_err(ArgErrors::whole)
    }

    /// Initialised replicas of an element in so many threads.
    pub fn replicas<S: AsRef<str>>(
        entry: &'static Entry,
        texts: &[S],
        outputs: usize,
        threads: usize,
    ) -> Result<Vec<Rig>, ArgErrors> {
        let texts: Vec<String> = texts.iter().map(|text| text.as_ref().to_owned()).collect();
        let (addresses, shared) = (Addresses::default(), Shared::default());
        let rings = Arc::default();
        let replica = |thread| {
            let env = Env::alone("tested", entry.spec.name, &addresses, &shared);
            let env = Env { thread, threads, rank: thread, inputs: 1, outputs, ..env };
            let element = (entry.build)(&Args::sort(&entry.spec, &texts, &env)?)?;
            let capacity = entry.rings(&*element).capacity;
            let (all, rings) = ((0..threads).collect(), Arc::clone(&rings));
            let others = Others { all, own: thread, capacity, rings };
            Rig::among(others, element, entry, outputs).map_err(ArgErrors::whole)
        };
        (0..threads).map(replica).collect()
    }

    /// An element of the entry's class that was built already; initializes it.
    pub fn around(
        element: Box<dyn Element>,
        entry: &'static Entry,
        outputs: usize,
    ) -> Result<Rig, String> {
        Rig::among(Others::default(), element, entry, outputs)
    }

    fn among(
        others: Others,
        element: Box<dyn Element>,
        entry: &'static Entry,
        outputs: usize,
    ) -> Result<Rig, String> {
        // The second node stands for the downstream.
        let targets = [(0..outputs as u32).map(Target::Slot).collect(), Vec::new()];
        let stats = Arc::new(vec![NodeStats::new(&entry.spec)]);
        let mut out = Outbox::new(targets, outputs, stats);
        out.set_staged(Staged::of(others.all.len(), others.own));
        let mut rig = Rig { entry, element, out, host: Alone { others, ..Alone::default() } };
        rig.with(|element, cx| element.initialize(cx))?;
        Ok(rig)
    }

    /// Runs the task once, behind what other replicas handed over; what it says, and what leaves by
    /// each output.
    pub fn run(&mut self) -> (Run, Vec<Vec<Packet>>) {
        for mut batch in self.host.others.take() {
            let entry = self.entry;
            self.with(|element, cx| {
                entry.handed(element, cx, &mut batch);
                cx.emit_all(0, &mut batch);
            });
        }
        let said = self.with(|element, cx| element.run(cx));
        (said, self.left())
    }

    /// Lets time pass, nanoseconds.
    pub fn pass(&mut self, ns: i64) {
        self.out.set_now(self.out.now() + ns);
    }

    /// The same; timers go off when they are due. What leaves by each output.
    pub fn pass_on_time(&mut self, ns: i64) -> Vec<Vec<Packet>> {
        let end = self.out.now() + ns;
        let mut left: Vec<Vec<Packet>> = self.left();
        loop {
            let next = (0..self.host.timers.len()).min_by_key(|at| self.host.timers[*at].1);
            let Some(at) = next.filter(|at| self.host.timers[*at].1 <= end) else { break };
            let (token, due) = self.host.timers.swap_remove(at);
            self.out.set_now(self.out.now().max(due));
            self.with(|element, cx| element.timer(cx, token));
            left.iter_mut().zip(self.left()).for_each(|(all, more)| all.extend(more));
        }
        self.out.set_now(end);
        left
    }

    /// Packets that other replicas have still to take from this one.
    pub fn handing(&self) -> usize {
        let Others { own, rings, .. } = &self.host.others;
        let rings = rings.lock();
        rings.iter().filter(|((from, _), _)| from == own).map(|(_, packets)| packets.len()).sum()
    }

    /// Packets that the element holds.
    pub fn holding(&self) -> usize {
        self.entry.buffer(&*self.element).map_or(0, Buffer::holding)
    }

    /// The element's interface for sessions that move.
    pub fn session_mover(&self) -> Option<&dyn SessionMover> {
        self.entry.session_mover(&*self.element)
    }

    /// Has the element's state taken over by that of another, as in a hot swap.
    pub fn hand_over_to(&mut self, next: &mut Rig) {
        let old = self.entry.hot_swap_mut(&mut *self.element);
        let new = next.entry.hot_swap_mut(&mut *next.element);
        if let (Some(old), Some(new)) = (old, new)
            && let Some(state) = old.hand_over()
        {
            new.take_over(state);
        }
    }

    /// Ends the element.
    pub fn finish(&mut self) -> Result<(), String> {
        self.with(|element, cx| element.finish(cx))
    }

    fn left(&mut self) -> Vec<Vec<Packet>> {
        self.out.pending_mut().iter_mut().map(|batch| batch.drain().collect()).collect()
    }

    fn with<T>(&mut self, f: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> T) -> T {
        f(&mut *self.element, &mut Cx::new(0, &mut self.out, &mut self.host))
    }

    /// The packets of each output after one batch went in.
    pub fn push(&mut self, packets: impl IntoIterator<Item = Packet>) -> Vec<Vec<Packet>> {
        self.push_at(0, packets)
    }

    /// The same, in at this input.
    pub fn push_at(
        &mut self,
        port: usize,
        packets: impl IntoIterator<Item = Packet>,
    ) -> Vec<Vec<Packet>> {
        let mut batch: Batch = packets.into_iter().collect();
        self.with(|element, cx| {
            element.process(cx, port, &mut batch);
            if !batch.is_empty() {
                cx.emit_all(0, &mut batch);
            }
        });
        self.left()
    }

    /// Has a batch processed, and what `between` does done, then runs the task; what has left by
    /// output 0 comes back in the batch. Allocates nothing itself.
    pub fn turn(&mut self, batch: &mut Batch, between: impl FnOnce()) {
        self.with(|element, cx| element.process(cx, 0, batch));
        between();
        let _ = self.with(|element, cx| element.run(cx));
        batch.append(&mut self.out.pending_mut()[0]);
    }

    /// Allocations while a batch of copies of a frame passes, once another one has passed.
    pub fn allocations(&mut self, port: usize, bytes: &[u8]) -> u64 {
        let mut count = 0;
        for _ in 0..2 {
            let packet = || Packet::new(bytes).expect("memory");
            let mut batch: Batch = (0..64).map(|_| packet()).collect();
            let process = || self.with(|element, cx| element.process(cx, port, &mut batch));
            count = allocation_counter::measure(process).count_total;
            let done: usize = batch.len() + self.left().iter().map(Vec::len).sum::<usize>();
            assert!(done >= 64 || self.drops().iter().sum::<u64>() >= 64);
        }
        count
    }

    /// Drops so far, by reason.
    pub fn drops(&self) -> Vec<u64> {
        self.out.counters(0).drops.iter().map(|count| count.get()).collect()
    }

    /// Lines that the element logged for the user.
    pub fn messages(&self) -> &[String] {
        &self.host.lines
    }

    /// Reads a handler.
    pub fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        let entry = self.entry;
        self.with(|element, cx| entry.read(element, cx, name, param))
    }

    /// Writes a handler.
    pub fn write(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        let entry = self.entry;
        self.with(|element, cx| entry.write(element, cx, name, value))
    }
}
