//! Unqueue: from pull to push.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, NOTHING_MORE,
    Replicas, Run, Spec, Topic, Ty, handler_value,
};
use thruway_packet::{Batch, MAX_BATCH};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Unqueue",
        topic: Topic::Moving,
        summary: "pulls packets and pushes them on",
        docs: "Pulls up to BURST packets whenever it is scheduled and pushes them; a negative BURST \
               stands for all there are (at most 256 at a time), and 0 moves nothing. It sleeps \
               while nothing can be pulled. After LIMIT packets it stops moving until reset is \
               written or the limit raised.",
        example: "InfiniteSource(LIMIT 3) -> Queue -> Unqueue(LIMIT 3) -> Discard",
        processing: "l/h",
        args: &[
            Arg::optional("BURST", Ty::Int, "packets per scheduling; -1 for all there are").or("1"),
            Arg::keyword("ACTIVE", Ty::Bool, "whether it moves packets").or("true"),
            Arg::keyword("LIMIT", Ty::Int, "packets to move in all; -1 for no limit").or("-1"),
        ],
        handlers: &[
            Handler::sum("count", "packets moved"),
            Handler::both("active", "whether it moves packets"),
            Handler::both("burst", "packets per scheduling"),
            Handler::both("limit", "packets to move in all; -1 for no limit"),
            Handler::write("reset", "sets count to zero, so that LIMIT more may pass"),
            Handler::write("reset_counts", "the same"),
        ],
        task: true,
        changes: Changes::Nothing,
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
);

struct Unqueue {
    burst: i32,
    active: bool,
    limit: i64,
    count: u64,
    batch: Batch,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(Unqueue {
        burst: args.get("BURST")?,
        active: args.get("ACTIVE")?,
        limit: args.get::<i32>("LIMIT")?.into(),
        count: 0,
        batch: Batch::with_room(),
    }))
}

impl Unqueue {
    /// Packets to move now.
    fn allowance(&self) -> usize {
        let burst = usize::try_from(self.burst).unwrap_or(MAX_BATCH).min(MAX_BATCH);
        match u64::try_from(self.limit) {
            Ok(limit) => burst.min(limit.saturating_sub(self.count) as usize),
            Err(_) => burst,
        }
    }
}

impl Element for Unqueue {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        let allowance = self.allowance();
        if !self.active || allowance == 0 {
            return Run::Idle;
        }
        cx.pull(0, allowance, &mut self.batch);
        if self.batch.is_empty() {
            return Run::Idle;
        }
        self.count += self.batch.len() as u64;
        cx.emit_all(0, &mut self.batch);
        Run::Again
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.count.to_string()),
            "active" => Ok(self.active.to_string()),
            "burst" => Ok(self.burst.to_string()),
            "limit" => Ok(self.limit.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "active" => self.active = handler_value(name, value)?,
            "burst" => self.burst = handler_value(name, value)?,
            "limit" => self.limit = handler_value::<i32>(name, value)?.into(),
            "reset" | "reset_counts" => self.count = 0,
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}
