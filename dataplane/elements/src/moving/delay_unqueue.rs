//! DelayUnqueue: from pull to push, with a delay.

use thruway_element::{
    ArgErrors, Args, Changes, Cx, Element, Entry, HandlerError, Operation, Replicas, Run, Spec,
    Topic,
};
use thruway_packet::MAX_BATCH;

use super::held::{self, Held};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "DelayUnqueue",
        topic: Topic::Moving,
        summary: "pulls packets and pushes them on after a delay",
        docs: "Pulls packets and pushes each DELAY after the time that its timestamp says, but not \
               before those that it pulled earlier; a packet without timestamp counts from when it \
               is pulled. Packets leave with the time at which they were due as their timestamp. \
               One packet at a time is held here; the others wait where they are, usually in a \
               Queue behind a SetTimestamp.",
        example: "TimedSource(10ms, LIMIT 3) -> Queue -> DelayUnqueue(5ms) -> Discard",
        processing: "l/h",
        args: &[held::DELAY],
        handlers: &[held::H_DELAY],
        task: true,
        changes: Changes::Nothing,
        cost: &[Operation::Store.once(), Operation::Clock.once()],
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
);

struct DelayUnqueue {
    held: Held,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(DelayUnqueue { held: Held::from_args(args)? }))
}

impl Element for DelayUnqueue {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        for _ in 0..MAX_BATCH {
            match self.held.due(cx) {
                None => return Run::Idle,
                Some(due) if due > cx.now() => return Run::At(due),
                Some(_) => self.held.take().into_iter().for_each(|packet| cx.emit(0, packet)),
            }
        }
        Run::Again
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
