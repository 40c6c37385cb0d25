//! Repeat: packets that arrive more than once.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
};
use thruway_packet::Batch;

use super::dice::{self, Fault, ranged};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Repeat>(Spec {
    name: "Repeat",
    topic: Topic::Faults,
    summary: "repeats packets at random",
    docs: "Every packet goes on; with probability P, COPIES copies of it follow right behind. \
           With SEED, two runs repeat the same packets (see Loss).",
    example: "InfiniteSource(LIMIT 100, STOP true) -> Repeat(10%, SEED 1) -> Counter \
              -> Discard",
    processing: "h/h",
    changes: Changes::Nothing,
    cost: &[Operation::Random.once()],
    replicas: Replicas::Apart("each draws numbers of its own"),
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
#[handler(like = dice::H_PROBABILITY)]
#[handler(like = dice::H_ACTIVE)]
#[handler(like = dice::H_COUNT)]
#[handler(sum, name = "repeated", "packets repeated", get = self.fault.struck)]
#[handler(like = dice::H_SEED)]
#[handler(like = dice::H_RESET)]
struct Repeat {
    /// copies that follow, 1 to 255
    #[arg(like = dice::P, unread)]
    #[arg(keyword, or = "1")]
    #[new(ranged(args, "COPIES", 1..=u8::MAX)?)]
    copies: u8,
    #[arg(like = dice::SEED, unread)]
    #[arg(like = dice::ACTIVE, unread)]
    #[new(Fault::from_args(args)?)]
    #[part]
    fault: Fault,
}

impl Element for Repeat {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if !self.fault.dice.see(batch.len()) {
            return;
        }
        for packet in batch.drain() {
            let copies = if self.fault.strikes() { self.copies } else { 0 };
            // The copies are made before the packet is given away, and sent behind it: they are
            // all alike, so the first copy may as well go first.
            for _ in 0..copies {
                if let Some(copy) = cx.duplicate(&packet) {
                    cx.emit(0, copy);
                }
            }
            cx.emit(0, packet);
        }
    }
}
