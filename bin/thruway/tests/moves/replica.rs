//! A replica of a function whose sessions can move: a plain ring, and entries in a vector.

use std::any::Any;
use std::collections::VecDeque;

use thruway_element::{
    Arg, Buffer, Changes, Cx, Element, Ended, Entry, HotSwap, Opening, PerSession, Reason, Run,
    Session, SessionFunction, SessionMover, Spec, Threading, Ty, Verdict, Wants,
};
use thruway_packet::{Batch, Packet};

use crate::stage::{Kept, Stamp, Standing, with};

/// Packets that a replica can have.
pub const CAPACITY: usize = 32;
/// When fewer slots are free, sources wait.
pub const KEPT_FREE: usize = CAPACITY / 4;
/// Packets that it treats at a time.
const SPEED: usize = 3;
/// How often it looks.
pub const LOOK_NS: i64 = 10_000;

pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Replica",
        ports: "1/1",
        processing: "h/h",
        args: &[Arg::required("NUMBER", Ty::UInt, "")],
        threading: Threading::Task,
        changes: Changes::Nothing,
        drops: Lost::DROPS,
        wants: Wants::session::<EntryNumber>("connection"),
        ..Spec::DEFAULT
    },
    |args| {
        let number: u32 = args.get("NUMBER")?;
        Ok(Box::new(Replica { number: number as usize, ring: VecDeque::new(), given: 0, of: None }))
    },
)
.with_session_function::<Replica>()
.with_session_mover::<Replica>()
.with_buffer::<Replica>()
.with_hot_swap::<Replica>();

thruway_element::reasons! {
    enum Lost {
        Full = "ring-full": "it has as many as it can",
        Dead = "dead": "it is dead",
    }
}

/// What the flow manager keeps of a session: the number of its entry.
type EntryNumber = u64;

/// The entry of such a state.
fn entry_of(state: &[u8]) -> usize {
    u64::from_ne_bytes(state.try_into().expect("a state")) as usize
}

enum Item {
    Packet(usize, Packet),
    Released(usize),
}

struct Replica {
    number: usize,
    ring: VecDeque<Item>,
    given: u64,
    /// Of the batch in hand.
    of: Option<Vec<usize>>,
}

/// The stamp at the end of a packet.
pub fn stamp(packet: &Packet) -> Stamp {
    Stamp::read(*packet.data().last_chunk().expect("a long packet"))
}

impl Replica {
    fn own<R>(&self, work: impl FnOnce(&mut Standing) -> R) -> R {
        with(|stage| work(&mut stage.replicas[self.number]))
    }

    fn packets(&self) -> usize {
        self.ring.iter().filter(|item| matches!(item, Item::Packet(..))).count()
    }

    fn take(&mut self, kept: Kept) -> EntryNumber {
        self.own(|own| {
            let free = own.entries.iter().position(Option::is_none);
            let entry = free.unwrap_or(own.entries.len());
            own.entries.resize(own.entries.len().max(entry + 1), None);
            own.entries[entry] = Some(kept);
            entry as u64
        })
    }

    fn lose(&mut self, cx: &mut Cx<'_>, packet: Packet, why: Lost) {
        let stamp = stamp(&packet);
        with(|stage| *stage.lost.entry(stamp.of).or_default() += 1);
        cx.drop(why, packet);
    }

    fn press(&self, cx: &mut Cx<'_>) {
        cx.press_back(CAPACITY - self.packets() < KEPT_FREE);
        let waiting = self.packets();
        self.own(|own| own.waiting = waiting);
    }

    /// Gives a packet back.
    fn treat(&mut self, cx: &mut Cx<'_>, entry: usize, packet: Packet) {
        let stamp = stamp(&packet);
        self.own(|own| {
            let kept = own.entries[entry].as_mut().expect("its session is here");
            assert_eq!(kept.of, stamp.of, "it is this session's");
            kept.count += 1;
        });
        cx.emit(0, packet);
    }
}

impl PerSession for Replica {
    type State = EntryNumber;

    fn open(
        &mut self,
        _: &mut Opening<'_>,
        packet: &mut Packet,
        state: &mut EntryNumber,
    ) -> Result<(), Reason> {
        *state = self.take(Kept { of: stamp(packet).of, count: 0 });
        Ok(())
    }

    fn each(&mut self, _: &mut Packet, session: &mut Session<'_, EntryNumber>) -> Verdict {
        self.of.get_or_insert_default().push(*session.state as usize);
        Verdict::Pass
    }
}

impl Element for Replica {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.press(cx);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let before = batch.len();
        self.of = Some(Vec::new());
        cx.per_session(self, batch);
        let entries = self.of.take().unwrap_or_default();
        assert_eq!((before, entries.len()), (batch.len(), batch.len()), "all have sessions");
        let is_dead = self.own(|own| own.is_dead);
        for (entry, packet) in entries.into_iter().zip(batch.drain()) {
            if is_dead {
                self.lose(cx, packet, Lost::Dead);
            } else if self.packets() == CAPACITY {
                self.lose(cx, packet, Lost::Full);
            } else {
                self.ring.push_back(Item::Packet(entry, packet));
                self.given += 1;
            }
        }
        self.press(cx);
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        let (is_dead, stands) = self.own(|own| (own.is_dead, own.stands));
        let most = if is_dead { usize::MAX } else { SPEED };
        for _ in 0..if stands && !is_dead { 0 } else { most } {
            match self.ring.pop_front() {
                None => break,
                Some(Item::Released(entry)) => self.own(|own| own.entries[entry] = None),
                Some(Item::Packet(_, packet)) if is_dead => self.lose(cx, packet, Lost::Dead),
                Some(Item::Packet(entry, packet)) => self.treat(cx, entry, packet),
            }
        }
        self.press(cx);
        Run::At(cx.now() + LOOK_NS)
    }
}

impl Buffer for Replica {
    fn holding(&self) -> usize {
        self.packets()
    }

    fn accepts(&self) -> bool {
        !self.own(|own| own.is_dead) && self.packets() < CAPACITY
    }
}

impl SessionFunction for Replica {
    fn closed(&mut self, _cx: &mut Cx<'_>, state: &[u8], _why: Ended) {
        let entry = entry_of(state);
        self.ring.push_back(Item::Released(entry));
    }
}

impl SessionMover for Replica {
    fn record_len(&self) -> Result<usize, String> {
        Ok(8)
    }

    fn given(&self) -> u64 {
        self.given
    }

    fn is_done_with(&self, given: u64) -> bool {
        self.given - self.packets() as u64 >= given
    }

    fn room(&self) -> usize {
        let is_dead = self.own(|own| own.is_dead);
        if is_dead { usize::MAX } else { (CAPACITY - self.packets()).saturating_sub(KEPT_FREE) }
    }

    fn copy_record(&self, state: &[u8], record: &mut [u8]) -> Option<bool> {
        let entry = entry_of(state);
        let kept = self.own(|own| own.entries[entry])?;
        record.copy_from_slice(&Stamp { of: kept.of, number: kept.count }.bytes());
        Some(true)
    }

    fn take_record(&mut self, record: &[u8], _is_known: bool, state: &mut [u8]) -> bool {
        let Stamp { of, number } = Stamp::read(record.try_into().expect("of this length"));
        let taken = self.take(Kept { of, count: number });
        state.copy_from_slice(&taken.to_ne_bytes());
        true
    }

    fn leave(&mut self, state: &[u8]) {
        let entry = entry_of(state);
        assert!(
            !self.ring.iter().any(|item| matches!(item, Item::Packet(of, _) if *of == entry)),
            "no packet of it is here"
        );
        self.own(|own| own.entries[entry] = None);
    }
}

impl HotSwap for Replica {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((std::mem::take(&mut self.ring), self.given)))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let state = state.downcast::<(VecDeque<Item>, u64)>().expect("a replica's");
        (self.ring, self.given) = *state;
    }
}
