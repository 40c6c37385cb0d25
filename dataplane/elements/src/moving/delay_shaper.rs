//! DelayShaper: packets can be pulled after a delay.

use thruway_element::{
    ArgErrors, Args, Changes, Cx, Element, Entry, HandlerError, Operation, Replicas, Spec, Topic,
};
use thruway_packet::Batch;

use super::held::{self, Held};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "DelayShaper",
        topic: Topic::Moving,
        summary: "lets packets be pulled after a delay",
        docs: "Packets can be pulled DELAY after the time that their timestamp says, but not before \
               those that came earlier; a packet without timestamp counts from when it was first \
               asked for. Packets leave with the present time as their timestamp. One packet at a \
               time is held here; the others wait where they are, usually in a Queue behind a \
               SetTimestamp.",
        example: "TimedSource(10ms, LIMIT 3) -> Queue -> DelayShaper(5ms) -> Unqueue -> Discard",
        processing: "l/l",
        args: &[held::DELAY],
        handlers: &[held::H_DELAY],
        changes: Changes::Nothing,
        cost: &[Operation::Store.once(), Operation::Clock.once()],
        replicas: Replicas::OneThread("it holds the packet that may go next"),
        ..Spec::DEFAULT
    },
    build,
);

const TIMER: u32 = 0;

struct DelayShaper {
    held: Held,
    /// Whether the timer that wakes the puller is set.
    waking: bool,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(DelayShaper { held: Held::from_args(args)?, waking: false }))
}

impl Element for DelayShaper {
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        while batch.len() < max {
            match self.held.due(cx) {
                None => return,
                Some(due) if due > cx.now() => {
                    if !std::mem::replace(&mut self.waking, true) {
                        cx.set_timer(TIMER, due);
                    }
                    return;
                }
                Some(_) => batch.extend(self.held.take()),
            }
            if let Some(last) = batch.iter_mut().last() {
                last.set_timestamp(cx.now());
            }
        }
    }

    fn timer(&mut self, _cx: &mut Cx<'_>, _token: u32) {
        self.waking = false;
    }

    fn holding(&self) -> usize {
        self.held.holding()
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        self.held.read(name)
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        self.held.write(name, value)
    }
}
