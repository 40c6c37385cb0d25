//! TimedSource: the same packet, at intervals.

use thruway_element::{
    Arg, ArgErrors, Args, Cost, CostModel, Cx, Element, Entry, Handler, HandlerError, Handlers,
    Load, Made, Nanos, Operation, Replicas, Spec, Topic, Ty, handler_value,
};

use super::template::{DEFAULT_DATA, Template};
use thruway_elements_support::traffic_profile::making;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "TimedSource",
        topic: Topic::Sources,
        summary: "makes a packet at every interval",
        docs: "Makes a packet with the bytes DATA every INTERVAL, the first after one INTERVAL, \
               LIMIT in all. With STOP, the driver is asked to stop one INTERVAL after the last.",
        example: "TimedSource(10ms, LIMIT 3, STOP true) -> Print(ok) -> Discard",
        ports: "0/1",
        processing: "/h",
        args: &[
            Arg::optional("INTERVAL", Ty::Time, "time between packets").or("0.5"),
            Arg::optional("DATA", Ty::Data, "the packet's bytes").or(DEFAULT_DATA),
            Arg::keyword("LIMIT", Ty::Int, "packets in all; -1 for no limit").or("-1"),
            Arg::keyword("ACTIVE", Ty::Bool, "whether it makes packets").or("true"),
            Arg::keyword("STOP", Ty::Bool, "whether the driver stops after the last").or("false"),
            Arg::keyword("LENGTH", Ty::Int, "length of the packets; -1 for that of DATA").or("-1"),
            Arg::keyword("DATASIZE", Ty::Int, "old name of LENGTH"),
            Arg::keyword("HEADROOM", Ty::UInt, "accepted for Click's sake: frames have their own"),
        ],
        handlers: &[
            Handler::sum("count", "packets made"),
            Handler::both("interval", "time between packets, seconds"),
            Handler::both("limit", "packets in all; -1 for no limit"),
            Handler::both("active", "whether it makes packets"),
            Handler::both("data", "the packet's bytes"),
            Handler::both("length", "length of the packets; -1 for that of DATA"),
            Handler::write("reset", "sets count to zero and starts again"),
        ],
        cost: &[Operation::Make.once(), Operation::Clock.once()],
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
)
.with_cost_model::<TimedSource>()
.with_handlers::<TimedSource>();

/// Timer: a packet is due.
const DUE: u32 = 0;

struct TimedSource {
    template: Template,
    interval: i64,
    limit: i64,
    active: bool,
    stop: bool,
    count: u64,
    /// When the next packet is due; `None` when no timer is set.
    due: Option<i64>,
}

/// Nothing comes more often than a thousand times a millisecond.
const INTERVAL_MIN: i64 = 1_000;

fn interval(Nanos(ns): Nanos) -> Result<i64, String> {
    if ns < INTERVAL_MIN {
        return Err("must be at least 1us; InfiniteSource makes packets without a pause".into());
    }
    Ok(ns)
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let interval = interval(args.get("INTERVAL")?).map_err(|m| args.error("INTERVAL", m))?;
    args.opt::<u32>("HEADROOM")?;
    Ok(Box::new(TimedSource {
        template: Template::from_args(args)?,
        interval,
        limit: args.get("LIMIT")?,
        active: args.get("ACTIVE")?,
        stop: args.get("STOP")?,
        count: 0,
        due: None,
    }))
}

impl TimedSource {
    fn schedule(&mut self, cx: &mut Cx<'_>, at: i64) {
        self.due = Some(at);
        cx.set_timer(DUE, at);
    }
}

/// Nanoseconds as seconds with no more digits than needed.
fn seconds(ns: i64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Element for TimedSource {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.active {
            let at = cx.now().saturating_add(self.interval);
            self.schedule(cx, at);
        }
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        let due = self.due.take().unwrap_or(cx.now());
        if !self.active {
            return;
        }
        if u64::try_from(self.limit).is_ok_and(|limit| self.count >= limit) {
            if self.stop {
                cx.stop();
            }
            return;
        }
        if let Some(mut packet) = cx.packet(self.template.bytes()) {
            packet.set_timestamp(cx.now());
            self.count += 1;
            cx.emit(0, packet);
        }
        // From when it was due, so that lateness does not add up; unless it is late by more.
        let next = due.saturating_add(self.interval).max(cx.now());
        self.schedule(cx, next);
    }
}

impl Handlers for TimedSource {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.count.to_string()),
            "interval" => Ok(seconds(self.interval)),
            "limit" => Ok(self.limit.to_string()),
            "active" => Ok(self.active.to_string()),
            _ => self.template.read(name).ok_or_else(|| HandlerError::no_read(name)),
        }
    }

    fn write_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        let refused = |message| HandlerError::refused(format!("{name}: {message}"));
        match name {
            "interval" => self.interval = interval(handler_value(name, value)?).map_err(refused)?,
            "limit" => self.limit = handler_value(name, value)?,
            "active" => self.active = handler_value(name, value)?,
            "reset" => self.count = 0,
            _ if self.template.write(name, value)? => {}
            _ => return Err(HandlerError::no_write(name)),
        }
        if matches!(name, "active" | "reset") && self.active && self.due.is_none() {
            let now = cx.now();
            self.schedule(cx, now);
        }
        Ok(())
    }
}

impl CostModel for TimedSource {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        let mut cost = making(Load::lines(load.packet_bytes));
        cost.push(Operation::Clock.once());
        Some(cost)
    }

    fn makes(&self) -> Option<Made> {
        self.template.made()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals() {
        assert_eq!(seconds(500_000_000), "0.5");
        assert_eq!(seconds(2_000_000_000), "2");
        assert_eq!(seconds(10_000), "0.00001");
        assert!(interval(Nanos(0)).is_err());
    }
}
