//! LinkUnqueue: a link between pull and push.

use std::collections::VecDeque;

use thruway_element::{
    Arguments, Bandwidth, Buffer, Changes, Cx, Element, Entry, HandlerError, Handlers, Nanos,
    Operation, Replicas, Run, Spec, Storage, Threading, Topic, handler_value, reasons,
};
use thruway_packet::{Anno, Batch, MAX_BATCH, Packet};

use thruway_elements_support::text::interval;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<LinkUnqueue>(Spec {
    name: "LinkUnqueue",
    topic: Topic::Queueing,
    summary: "pulls packets and pushes them on as a link would",
    docs: "Behaves as a serial link: a packet takes the time that its bytes (those that a \
           capture left out included) need at BANDWIDTH, after the packets before it, and \
           LATENCY besides. Packets are pulled only as fast as the link takes them; so a Queue \
           in front of it is the link's queue. Packets leave with the time at which they were \
           due as their timestamp. With BANDWIDTH 0 only LATENCY counts.",
    example: "InfiniteSource(LIMIT 9) -> Queue -> LinkUnqueue(5ms, 1Mbps) -> Discard",
    processing: "l/h",
    drops: Cut::DROPS,
    threading: Threading::Task,
    changes: Changes::Nothing,
    cost: &[Operation::Store.once(), Operation::Clock.once()],
    replicas: Replicas::Single,
    ..Spec::DEFAULT
})
.with_buffer::<LinkUnqueue>();

reasons! {
    /// Why a packet does not arrive.
    enum Cut {
        Reset = "reset": "the link was emptied by a handler",
    }
}

const TIMER: u32 = 0;
/// Packets for which room is made beforehand.
const ROOM: usize = 256;
const SECOND: u128 = 1_000_000_000;

/// When things happen on a link.
#[derive(Debug, Clone, Copy, Arguments, Handlers)]
struct Link {
    /// time from end to end of the link
    #[arg(required, via = Nanos::not_negative)]
    latency: i64,
    /// bytes a second; 0 for no limit
    #[arg(required, as = Bandwidth)]
    bandwidth: u64,
}

impl Link {
    /// When the last bit of `bytes` arrives, if those before it arrive at `before`.
    fn arrival(&self, before: i64, bytes: u64) -> i64 {
        let transfer = (u128::from(bytes) * SECOND).checked_div(u128::from(self.bandwidth));
        before.saturating_add(i64::try_from(transfer.unwrap_or(0)).unwrap_or(i64::MAX))
    }
}

#[derive(Arguments, Handlers)]
#[handler(
    both, name = "latency", "time from end to end; writing it empties the link",
    get = interval(self.link.latency), write = self.write_latency(cx, value)
)]
#[handler(
    both, name = "bandwidth", "bytes a second; writing it empties the link",
    get = self.link.bandwidth, run = {
        self.link.bandwidth = handler_value::<Bandwidth>(name, value)?.0;
        self.empty(cx);
    }
)]
#[handler(sum, name = "size", "packets on the link", get = self.line.len())]
#[handler(write, name = "reset", "drops all packets on the link", run = self.empty(cx))]
struct LinkUnqueue {
    #[part]
    link: Link,
    /// Packets on the link; their timestamps say when they arrive.
    #[new(VecDeque::with_capacity(ROOM))]
    line: VecDeque<Packet>,
    /// Whether packets have come one after the other without a pause.
    busy: bool,
    /// When the timer is set for.
    alarm: Option<i64>,
    #[new(Batch::with_room())]
    one: Batch,
}

impl LinkUnqueue {
    fn write_latency(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        let latency = handler_value::<Nanos>("latency", value)?.not_negative();
        let refused = |why| HandlerError::refused(format!("latency: {why}"));
        self.link.latency = latency.map_err(refused)?;
        self.empty(cx);
        Ok(())
    }

    fn empty(&mut self, cx: &mut Cx<'_>) {
        for packet in self.line.drain(..) {
            cx.drop(Cut::Reset, packet);
        }
        self.busy = false;
        self.set_alarm(cx);
    }

    /// Takes packets while the beginning of the link is free. Says whether there were any.
    fn fill(&mut self, cx: &mut Cx<'_>) -> bool {
        let end = cx.now().saturating_add(self.link.latency);
        let mut took = false;
        for _ in 0..MAX_BATCH {
            let last = self.line.back().map(Packet::timestamp);
            if last.is_some_and(|last| last > end) {
                return took;
            }
            cx.pull(0, 1, &mut self.one);
            let Some(mut packet) = self.one.pop() else {
                self.busy = false;
                return took;
            };
            let bytes = packet.len() as u64 + u64::from(packet.anno_number(Anno::EXTRA_LENGTH));
            let before = last.filter(|_| self.busy).unwrap_or(end);
            packet.set_timestamp(self.link.arrival(before, bytes));
            self.line.push_back(packet);
            (self.busy, took) = (true, true);
        }
        took
    }

    /// Sets the timer for what happens next: a packet arrives, or the next may begin.
    fn set_alarm(&mut self, cx: &mut Cx<'_>) {
        let arrives = self.line.front().map(Packet::timestamp);
        let last = self.line.back().filter(|_| self.busy).map(Packet::timestamp);
        let begins = last.map(|last| last.saturating_sub(self.link.latency));
        let next = [arrives, begins].into_iter().flatten().min();
        if next == self.alarm {
            return;
        }
        if self.alarm.is_some() {
            cx.clear_timer(TIMER);
        }
        if let Some(at) = next {
            cx.set_timer(TIMER, at);
        }
        self.alarm = next;
    }
}

impl Element for LinkUnqueue {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        let mut worked = self.fill(cx);
        while self.line.front().is_some_and(|first| first.timestamp() <= cx.now())
            && let Some(packet) = self.line.pop_front()
        {
            cx.emit(0, packet);
            worked = true;
        }
        if worked {
            return Run::Again;
        }
        // The task is idle rather than waiting for a time: packets may come meanwhile.
        self.set_alarm(cx);
        Run::Idle
    }

    fn timer(&mut self, _cx: &mut Cx<'_>, _token: u32) {
        self.alarm = None;
    }
}

impl Buffer for LinkUnqueue {
    fn holding(&self) -> usize {
        self.line.len()
    }

    fn storage(&self) -> Option<Storage> {
        Some(Storage { len: self.line.len(), capacity: i32::MAX as usize })
    }
}

#[cfg(test)]
mod tests {
    use super::Link;

    #[test]
    fn arrivals() {
        let link = Link { latency: 5, bandwidth: 12_500 };
        assert_eq!(link.arrival(1_000, 20), 1_601_000);
        assert_eq!(Link { bandwidth: 0, ..link }.arrival(7, 1_500), 7);
        assert_eq!(Link { bandwidth: 1, ..link }.arrival(i64::MAX - 1, u64::MAX), i64::MAX);
    }
}
