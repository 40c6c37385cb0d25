//! The element over a function that the test itself plays.

mod hop;
mod kept;
mod moves;
mod refusals;

use std::sync::{Arc, Mutex};

use thruway_element::{Addresses, Args, Env, HandlerError, Later, Promise, Run, Shared};
use thruway_exchange::{Arena, Control, Doorbell, Location, Mapped, PeerFault, Storage, WakeLine};
use thruway_nf_abi::control::{SIGNED, WAITING};
use thruway_nf_abi::{LinkShape, Ring, SlotHead, Word, flag};
use thruway_packet::Packet;
use thruway_region::Pages;
use thruway_sync::atomic::{AtomicU32, Ordering};

use super::backend::{Function, HostEnd, Property};
use super::lost::Lost;
use super::nf::ENTRY;
use super::replica::Nf;
use thruway_elements_rig::Rig;

/// A function whose process is the test.
struct Played {
    generation: AtomicU32,
    /// The generation that is there as soon as somebody takes a link; 0: none.
    meanwhile: AtomicU32,
    threshold: AtomicU32,
    ready: Mutex<Option<Mapped>>,
    faults: Mutex<Vec<(u32, PeerFault)>>,
    hangs: Mutex<Vec<u32>>,
    unanswered: Mutex<Vec<Promise>>,
    arena: Mutex<Option<Arc<Arena>>>,
    /// Of the last link that was taken.
    control: Mutex<Option<Control>>,
}

impl Function for Played {
    fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    fn take_end(&self, _replica: u32) -> Option<HostEnd> {
        let storage = self.ready.lock().unwrap().take()?;
        let meanwhile = self.meanwhile.swap(0, Ordering::Relaxed);
        if meanwhile != 0 {
            self.generation.store(meanwhile, Ordering::Relaxed);
        }
        let generation = self.generation();
        let control = Control::create().unwrap();
        *self.control.lock().unwrap() = Some(control.clone());
        let bell = Doorbell::new(control, None);
        let wake = WakeLine::new().unwrap();
        Some(HostEnd { generation, storage, bell, wake: Arc::new(wake) })
    }

    fn arena(&self) -> Option<Arc<Arena>> {
        self.arena.lock().unwrap().clone()
    }

    fn report_fault(&self, generation: u32, fault: PeerFault) {
        self.faults.lock().unwrap().push((generation, fault));
    }

    fn describe(&self, what: Property) -> String {
        format!("{what:?}")
    }

    fn set_worker_threshold(&self, threshold: u32) {
        self.threshold.store(threshold, Ordering::Relaxed);
    }

    fn watch(&self) {}

    fn report_hang(&self, generation: u32) {
        self.hangs.lock().unwrap().push(generation);
    }

    fn ask(&self, write: bool, text: &str) -> Later {
        let (promise, later) = Promise::new();
        match text {
            "mute" => self.unanswered.lock().unwrap().push(promise),
            _ if write => {
                promise.keep(Err(HandlerError::refused(format!("no handler '{text}'"))));
            }
            _ => promise.keep(Ok(text.to_uppercase())),
        }
        later
    }

    fn stop(&self) {
        self.generation.store(0, Ordering::Relaxed);
    }
}

/// The element, the function behind it, and the other end of its link.
struct Stage {
    rig: Rig,
    function: Arc<Played>,
    storage: Mapped,
    done: u32,
}

const SHAPE: LinkShape =
    LinkShape { slots: 8, aux_slots: 4, injection_slots: 4, ..LinkShape::DEFAULT };

impl Stage {
    fn new(more: &[&str]) -> Stage {
        Stage::of(&SHAPE, more)
    }

    fn of(shape: &LinkShape, more: &[&str]) -> Stage {
        Stage::with(shape, more, None)
    }

    fn with(shape: &LinkShape, more: &[&str], arena: Option<Arena>) -> Stage {
        let slots = format!("SLOTS {}", shape.slots);
        let texts = ["EXEC /bin/true", &slots, "WORKER_THRESHOLD 1"];
        let texts: Vec<String> = texts.iter().chain(more).map(|&text| text.into()).collect();
        let (addresses, shared) = (Addresses::default(), Shared::default());
        let env = Env { inputs: 2, outputs: 2, ..Env::alone("nf", "Nf", &addresses, &shared) };
        let nf = Nf::of(&Args::sort(&ENTRY.spec, &texts, &env).unwrap()).unwrap();
        let function = Arc::new(Played {
            generation: AtomicU32::new(0),
            meanwhile: AtomicU32::new(0),
            threshold: AtomicU32::new(0),
            ready: Mutex::default(),
            faults: Mutex::default(),
            hangs: Mutex::default(),
            unanswered: Mutex::default(),
            arena: Mutex::new(arena.map(Arc::new)),
            control: Mutex::default(),
        });
        let played: Arc<dyn Function> = Arc::clone(&function) as Arc<dyn Function>;
        nf.shared_state().start(|| Ok(played)).unwrap();
        let storage = Mapped::create(shape, None, Pages::Normal).unwrap();
        function.generation.store(1, Ordering::Relaxed);
        *function.ready.lock().unwrap() = Some(storage.clone());
        let rig = Rig::around(Box::new(nf), &ENTRY, 2).unwrap();
        Stage { rig, function, storage, done: 0 }
    }

    /// The process is gone.
    fn dies(&mut self) {
        self.function.generation.store(0, Ordering::Relaxed);
    }

    /// The next one runs.
    fn revives(&mut self, generation: u32) {
        self.storage = Mapped::create(&SHAPE, None, Pages::Normal).unwrap();
        self.done = 0;
        *self.function.ready.lock().unwrap() = Some(self.storage.clone());
        self.function.generation.store(generation, Ordering::Relaxed);
    }

    /// Lets the function do something with each waiting slot and give it back; how many.
    fn works(&mut self, mut with: impl FnMut(&mut SlotHead, &mut Vec<u8>)) -> u32 {
        let end = self.storage.word(Word::MasterProduced).load(Ordering::Acquire);
        let count = end.wrapping_sub(self.done);
        while self.done != end {
            let mut head = self.storage.head(Ring::Primary, self.done);
            let place = Location::Slot(Ring::Primary, self.done);
            let mut bytes = vec![0; head.len.into()];
            self.storage.copy_out(place, head.start.into(), &mut bytes);
            let before = bytes.clone();
            with(&mut head, &mut bytes);
            if bytes != before {
                head.flags &= !flag::KEPT;
            }
            head.len = bytes.len() as u16;
            self.storage.copy_in(place, head.start.into(), &bytes);
            self.storage.set_head(Ring::Primary, self.done, head);
            self.done = self.done.wrapping_add(1);
        }
        self.storage.word(Word::WorkerProduced).store(end, Ordering::Release);
        count
    }

    fn push(&mut self, bytes: &[&[u8]]) -> Vec<Vec<Vec<u8>>> {
        let packets: Vec<Packet> = bytes.iter().map(|bytes| Packet::new(bytes).unwrap()).collect();
        texts(self.rig.push(packets))
    }

    fn run(&mut self) -> Vec<Vec<Vec<u8>>> {
        texts(self.rig.run().1)
    }

    fn dropped(&self, why: Lost) -> u64 {
        self.rig.drops()[why as usize]
    }
}

fn texts(outputs: Vec<Vec<Packet>>) -> Vec<Vec<Vec<u8>>> {
    let bytes =
        |packets: Vec<Packet>| packets.iter().map(|packet| packet.data().to_vec()).collect();
    outputs.into_iter().map(bytes).collect()
}

#[test]
fn packets_come_back_changed_steered_and_in_order() {
    let mut stage = Stage::new(&[]);
    assert_eq!(stage.push(&[b"one", b"two", b"three"]), [vec![], vec![]] as [Vec<Vec<u8>>; 2]);
    assert_eq!(stage.rig.holding(), 3);
    stage.works(|head, bytes| {
        bytes.make_ascii_uppercase();
        if bytes == b"TWO" {
            head.output = 1;
            head.start -= 4;
            bytes.splice(..0, *b"new ");
        }
    });
    let [zero, one] = <[_; 2]>::try_from(stage.run()).unwrap();
    assert_eq!(zero, [b"ONE".to_vec(), b"THREE".to_vec()]);
    assert_eq!(one, [b"new TWO".to_vec()]);
    assert_eq!(stage.rig.holding(), 0);
    assert_eq!(stage.rig.read("packets_in", "").unwrap(), "3");
    assert_eq!(stage.rig.read("packets_out", "").unwrap(), "3");
    assert_eq!(stage.rig.read("occupancy_max", "").unwrap(), "3");
    assert_eq!(stage.rig.read("slots", "").unwrap(), "8");
}

#[test]
fn drops_are_counted() {
    let mut stage = Stage::new(&[]);
    stage.push(&[b"a", b"b", b"", &[0; 2000]]);
    stage.works(|head, bytes| head.flags = if bytes == b"a" { flag::DROPPED } else { 0 });
    assert_eq!(stage.run()[0], [b"b".to_vec()]);
    assert_eq!(stage.dropped(Lost::Dropped), 1);
    assert_eq!(stage.dropped(Lost::Empty), 1);
    assert_eq!(stage.dropped(Lost::TooLong), 1);
}

#[test]
fn a_full_ring_holds_some_and_drops_the_others() {
    let mut stage = Stage::new(&[]);
    for _ in 0..3 {
        stage.push(&[&b"x"[..]; 100]);
    }
    assert_eq!(stage.rig.holding(), 8 + 255);
    assert_eq!(stage.dropped(Lost::Full), 300 - 8 - 255);
    let mut came = 0;
    for _ in 0..100 {
        stage.works(|_, _| {});
        came += stage.run()[0].len();
    }
    assert_eq!((came, stage.rig.holding()), (8 + 255, 0));
}

/// The context has let it in, or made it: whether it has content makes no difference.
#[test]
fn in_a_context_of_streams_all_waits_for_a_full_ring() {
    let arena = Arena::create(8, 16).unwrap();
    let mut stage = Stage::with(&SHAPE, &["STREAM resize"], Some(arena));
    for _ in 0..10 {
        stage.push(&[&b"x"[..]; 100]);
    }
    assert_eq!((stage.dropped(Lost::Full), stage.rig.holding()), (0, 1000));
    let mut came = 0;
    for _ in 0..200 {
        stage.works(|_, _| {});
        came += stage.run()[0].len();
    }
    assert_eq!((came, stage.rig.holding()), (1000, 0));
}

#[test]
fn an_idle_element_sleeps_and_work_wakes_it() {
    let mut stage = Stage::new(&[]);
    assert_eq!(stage.rig.run().0, Run::Idle);
    assert_eq!(stage.storage.word(Word::MasterWaits).load(Ordering::Relaxed), 1);
    stage.push(&[b"x"]);
    assert_eq!(stage.storage.word(Word::MasterWaits).load(Ordering::Relaxed), 0);
    // Patient for a while, then asleep although a packet is under way.
    let patient = (0..1000).take_while(|_| stage.rig.run().0 == Run::Again).count();
    assert!((10..200).contains(&patient), "{patient}");
    assert_eq!(stage.storage.word(Word::MasterWaits).load(Ordering::Relaxed), 1);
    stage.works(|_, _| {});
    assert_eq!(stage.run()[0].len(), 1);
}

#[test]
fn failure_open_passes_what_it_had_and_what_comes() {
    let mut stage = Stage::new(&["ON_FAILURE open"]);
    stage.push(&[b"1", b"2"]);
    stage.dies();
    assert_eq!(stage.push(&[b"3"])[0], [b"1".to_vec(), b"2".to_vec(), b"3".to_vec()]);
    stage.revives(2);
    assert!(stage.push(&[b"4"])[0].is_empty());
    stage.works(|_, bytes| bytes.push(b'!'));
    assert_eq!(stage.run()[0], [b"4!".to_vec()]);
    assert!(stage.rig.drops().iter().all(|count| *count == 0));
}

#[test]
fn failure_closed_drops_both() {
    let mut stage = Stage::new(&["ON_FAILURE closed"]);
    stage.push(&[b"1", b"2"]);
    stage.dies();
    assert!(stage.push(&[b"3"])[0].is_empty());
    assert_eq!(stage.dropped(Lost::Failed), 3);
}

/// A process in waiting takes over within the time between two reads of the element.
#[test]
fn a_function_that_is_back_at_once_is_not_missed() {
    let mut stage = Stage::new(&["ON_FAILURE closed"]);
    stage.push(&[b"1"]);
    stage.revives(2);
    stage.dies();
    stage.function.meanwhile.store(2, Ordering::Relaxed);
    stage.run();
    assert!(stage.push(&[b"2"])[0].is_empty());
    assert_eq!(stage.works(|_, bytes| bytes.push(b'!')), 1);
    assert_eq!(stage.run()[0], [b"2!".to_vec()]);
    assert_eq!(stage.dropped(Lost::Failed), 1);
}

#[test]
fn failure_restart_lets_new_ones_wait_for_a_while() {
    let mut stage = Stage::new(&["ON_FAILURE restart", "HOLD 1s"]);
    stage.push(&[b"1"]);
    stage.dies();
    stage.push(&[b"2", b"3"]);
    assert!(matches!(stage.rig.run().0, Run::At(_)));
    assert_eq!((stage.dropped(Lost::Failed), stage.rig.holding()), (1, 2));
    stage.revives(2);
    stage.run();
    stage.works(|_, _| {});
    assert_eq!(stage.run()[0], [b"2".to_vec(), b"3".to_vec()]);
    // The next time nobody comes.
    stage.dies();
    stage.push(&[b"4"]);
    stage.rig.pass(999_999_999);
    stage.run();
    assert_eq!(stage.rig.holding(), 1);
    stage.rig.pass(2);
    stage.run();
    stage.push(&[b"5"]);
    assert_eq!((stage.dropped(Lost::Failed), stage.rig.holding()), (3, 0));
}

/// Its ring is empty: what comes before the element's task runs is not lost for want of room.
#[test]
fn what_comes_first_to_a_function_that_is_back_finds_room() {
    let mut stage = Stage::new(&["ON_FAILURE restart", "HOLD 1s"]);
    stage.dies();
    for _ in 0..5 {
        stage.push(&[&b"x"[..]; 51]);
    }
    assert_eq!(stage.rig.holding(), 255);
    stage.revives(2);
    stage.push(&[&b"y"[..]; 8]);
    assert_eq!((stage.dropped(Lost::Full), stage.rig.holding()), (0, 263));
}

#[test]
fn a_fault_ends_the_link_and_is_reported() {
    let mut stage = Stage::new(&[]);
    stage.push(&[b"1", b"2"]);
    stage.storage.word(Word::WorkerProduced).store(5, Ordering::Relaxed);
    stage.run();
    let (generation, fault) = stage.function.faults.lock().unwrap()[0];
    assert_eq!((generation, fault.name()), (1, "index"));
    assert_eq!(stage.dropped(Lost::Failed), 2);
    // The same generation does not come back.
    stage.push(&[b"3"]);
    assert_eq!(stage.dropped(Lost::Failed), 3);
}

#[test]
fn what_a_fault_follows_still_counts() {
    let mut stage = Stage::new(&[]);
    stage.push(&[b"1", b"2"]);
    stage.works(|head, bytes| head.output = if bytes == b"2" { 7 } else { 0 });
    assert_eq!(stage.run()[0], [b"1".to_vec()]);
    assert_eq!(stage.dropped(Lost::Failed), 1);
}

#[test]
fn a_stop_counts_what_is_lost() {
    let mut stage = Stage::new(&[]);
    stage.push(&[b"1", b"2"]);
    stage.rig.finish().unwrap();
    assert_eq!(stage.dropped(Lost::Unfinished), 2);
    assert_eq!(stage.rig.read("packets_in", "").unwrap(), "2");
}

/// How often the function was reported as hanging, by generation.
fn hangs(stage: &Stage) -> usize {
    stage.function.hangs.lock().unwrap().len()
}

#[test]
fn a_function_hangs_that_has_a_packet_for_longer_than_hang() {
    let mut stage = Stage::new(&["HANG 1s"]);
    let ms = |n: i64| n * 1_000_000;
    // Without packets it cannot.
    stage.run();
    stage.rig.pass_on_time(ms(5000));
    stage.push(&[b"1"]);
    stage.run();
    stage.rig.pass_on_time(ms(999));
    assert_eq!(hangs(&stage), 0);
    // HANG, and LATENCY, after which it is woken at the latest.
    stage.rig.pass_on_time(ms(2));
    assert_eq!(*stage.function.hangs.lock().unwrap(), [1]);
}

#[test]
fn what_a_function_gives_back_does_not_excuse_what_it_keeps() {
    let mut stage = Stage::new(&["HANG 1s"]);
    stage.push(&[b"1", b"2", b"3"]);
    stage.run();
    // One packet at a time, just before the time is up.
    stage.rig.pass_on_time(900_000_000);
    stage.done += 1;
    stage.storage.word(Word::WorkerProduced).store(1, Ordering::Release);
    assert_eq!(stage.run()[0].len(), 1);
    stage.push(&[b"4"]);
    stage.rig.pass_on_time(99_000_000);
    assert_eq!(hangs(&stage), 0);
    stage.rig.pass_on_time(2_000_000);
    assert_eq!(hangs(&stage), 1);
    // What came later has its own time.
    let mut stage = Stage::new(&["HANG 1s"]);
    stage.push(&[b"1"]);
    stage.run();
    for _ in 0..10 {
        stage.rig.pass_on_time(900_000_000);
        stage.push(&[b"2"]);
        stage.done = stage.done.wrapping_add(1);
        stage.storage.word(Word::WorkerProduced).store(stage.done, Ordering::Release);
        assert_eq!(stage.run()[0].len(), 1);
    }
    assert_eq!(hangs(&stage), 0);
}

#[test]
fn a_function_that_is_not_woken_yet_does_not_hang() {
    let mut stage = Stage::new(&["HANG 1s", "MASTER_THRESHOLD 4", "AGE 2s"]);
    stage.push(&[b"1"]);
    stage.run();
    stage.rig.pass_on_time(2_900_000_000);
    assert_eq!(hangs(&stage), 0);
    stage.rig.pass_on_time(100_000_000);
    assert_eq!(hangs(&stage), 1);
}

/// Packets that wait for a threshold are not forgotten when it is taken away.
#[test]
fn a_threshold_of_nothing_wakes_for_those_that_wait() {
    let mut stage = Stage::new(&["MASTER_THRESHOLD 4", "AGE 2s"]);
    stage.run();
    let control = stage.function.control.lock().unwrap().clone().expect("a link");
    control.status().store(WAITING, Ordering::Relaxed);
    stage.push(&[b"1"]);
    stage.run();
    assert_eq!(control.status().load(Ordering::Relaxed), WAITING, "one is not above four");
    stage.rig.write("master_threshold", "0").unwrap();
    stage.rig.pass_on_time(2_000_000_000);
    stage.run();
    assert_eq!(control.status().load(Ordering::Relaxed), SIGNED);
}

#[test]
fn an_answer_that_does_not_come_is_not_waited_for() {
    let mut stage = Stage::new(&[]);
    let Err(HandlerError::Later(later)) = stage.rig.read("handler", "mute") else {
        panic!("no answer that comes later");
    };
    assert_eq!(later.get(), None);
    stage.push(&[b"1"]);
    stage.works(|_, _| {});
    assert_eq!(stage.run()[0].len(), 1);
    stage.function.unanswered.lock().unwrap().pop().expect("a question").keep(Ok("!".into()));
    assert_eq!(later.get(), Some(Ok("!".into())));
}

#[test]
fn handlers_lead_to_the_function() {
    let mut stage = Stage::new(&[]);
    assert_eq!(stage.rig.read("handler", "count").unwrap(), "COUNT");
    assert!(stage.rig.write("handler", "reset").is_err());
    assert_eq!(stage.rig.read("state", "").unwrap(), "State");
    stage.rig.write("master_threshold", "7").unwrap();
    assert_eq!(stage.rig.read("master_threshold", "").unwrap(), "7");
    assert!(stage.rig.write("master_threshold", "8").is_err());
    stage.rig.write("worker_threshold", "5").unwrap();
    assert_eq!(stage.rig.read("worker_threshold", "").unwrap(), "5");
    assert_eq!(stage.function.threshold.load(Ordering::Relaxed), 5);
    // The next process gets it, too.
    stage.function.threshold.store(0, Ordering::Relaxed);
    stage.revives(2);
    stage.run();
    assert_eq!(stage.function.threshold.load(Ordering::Relaxed), 5);
    stage.rig.write("age", "5us").unwrap();
    assert_eq!(stage.rig.read("age", "").unwrap(), "5000");
}
