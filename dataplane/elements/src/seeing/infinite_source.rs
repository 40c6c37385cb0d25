//! InfiniteSource: the same packet, as fast as it is scheduled.

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handler, HandlerError, Run, Spec, Topic, Ty,
    handler_value,
};
use thruway_packet::{Batch, MAX_BATCH, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "InfiniteSource",
        topic: Topic::Seeing,
        summary: "makes packets as fast as it can",
        docs: "Makes packets with the bytes DATA, BURST at a time whenever it is scheduled, LIMIT in \
               all. With LENGTH, DATA is repeated or cut to that length. With STOP, the driver is \
               asked to stop after the last. Connected to a pull input, it makes packets as they \
               are pulled.",
        example: "InfiniteSource(DATA \\<01 02 03>, LIMIT 3, STOP true) -> Print(ok) -> Discard",
        ports: "0/1",
        processing: "/a",
        args: &[
            Arg::optional("DATA", Ty::Data, "the packet's bytes")
                .or("\"Random bullshit in a packet, at least 64 bytes long. Well, now it is.\""),
            Arg::optional("LIMIT", Ty::Int, "packets in all; -1 for no limit").or("-1"),
            Arg::optional("BURST", Ty::Int, "packets per scheduling").or("1"),
            Arg::optional("ACTIVE", Ty::Bool, "whether it makes packets").or("true"),
            Arg::keyword("TIMESTAMP", Ty::Bool, "whether packets bear the time").or("true"),
            Arg::keyword("LENGTH", Ty::Int, "length of the packets; -1 for that of DATA").or("-1"),
            Arg::keyword("STOP", Ty::Bool, "whether the driver stops after the last").or("false"),
        ],
        handlers: &[
            Handler::sum("count", "packets made"),
            Handler::both("active", "whether it makes packets"),
            Handler::both("limit", "packets in all; -1 for no limit"),
            Handler::both("burst", "packets per scheduling"),
            Handler::write("reset", "sets count to zero and starts again"),
        ],
        task: true,
        ..Spec::DEFAULT
    },
    build,
);

struct InfiniteSource {
    data: Vec<u8>,
    limit: i64,
    burst: i32,
    active: bool,
    timestamp: bool,
    stop: bool,
    stopped: bool,
    count: u64,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let burst: i32 = args.get("BURST")?;
    if burst < 1 {
        return Err(args.error("BURST", "must be at least 1").into());
    }
    let mut data: Vec<u8> = args.get("DATA")?;
    if let Ok(length) = usize::try_from(args.get::<i32>("LENGTH")?) {
        data = data.iter().copied().cycle().chain(std::iter::repeat(0)).take(length).collect();
    }
    Ok(Box::new(InfiniteSource {
        data,
        limit: args.get("LIMIT")?,
        burst,
        active: args.get("ACTIVE")?,
        timestamp: args.get("TIMESTAMP")?,
        stop: args.get("STOP")?,
        stopped: false,
        count: 0,
    }))
}

impl InfiniteSource {
    fn allowance(&self, wanted: usize) -> usize {
        match u64::try_from(self.limit) {
            Ok(limit) => wanted.min(limit.saturating_sub(self.count) as usize),
            Err(_) => wanted,
        }
    }

    fn fill(&mut self, cx: &mut Cx<'_>, wanted: usize, mut take: impl FnMut(&mut Cx<'_>, Packet)) {
        for _ in 0..self.allowance(wanted) {
            let Some(mut packet) = cx.packet(&self.data) else { return };
            if self.timestamp {
                packet.set_timestamp(cx.now());
            }
            self.count += 1;
            take(cx, packet);
        }
    }

    /// Asks for the stop, once, when the limit is reached.
    fn check_limit(&mut self, cx: &mut Cx<'_>) {
        if self.stop && !self.stopped && self.allowance(1) == 0 {
            self.stopped = true;
            cx.stop();
        }
    }
}

impl Element for InfiniteSource {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if !self.active {
            return Run::Idle;
        }
        self.check_limit(cx);
        let burst = (self.burst as usize).min(MAX_BATCH);
        if self.allowance(burst) == 0 {
            return Run::Idle;
        }
        self.fill(cx, burst, |cx, packet| cx.emit(0, packet));
        Run::Again
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        if self.active {
            self.fill(cx, max, |_, packet| batch.push(packet));
            self.check_limit(cx);
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.count.to_string()),
            "active" => Ok(self.active.to_string()),
            "limit" => Ok(self.limit.to_string()),
            "burst" => Ok(self.burst.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "active" => self.active = handler_value(name, value)?,
            "limit" => self.limit = handler_value(name, value)?,
            "burst" => self.burst = handler_value::<i32>(name, value)?.max(1),
            "reset" => (self.count, self.stopped) = (0, false),
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}
