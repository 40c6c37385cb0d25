//! States of functions that change with packets: which sessions are sent again, and when.
//!
//! In passes, which begin at least an interval apart. A pass gives each session that had packets
//! since it was given last, and no more bytes per second than the rate.

use thruway_element::{ArgErrors, Args, Bandwidth, Cx, Nanos};

const SECOND_NS: i64 = 1_000_000_000;
/// Time for which unused bytes are kept.
const BURST_NS: i64 = 50_000_000;

/// How often, and how much.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// Time between two passes, nanoseconds.
    interval_ns: i64,
    /// Bytes per second.
    rate: i64,
}

impl Pace {
    /// Of the element's arguments.
    pub(super) fn of(args: &Args<'_>) -> Result<Pace, ArgErrors> {
        let interval_ns = args.get::<Nanos>("STATE_TIME")?.0;
        if !(1_000_000..=10 * SECOND_NS).contains(&interval_ns) {
            return Err(args.error("STATE_TIME", "must be from 1ms to 10s").into());
        }
        let rate: Bandwidth = args.get("STATE_RATE")?;
        let rate = i64::try_from(rate.0).unwrap_or(i64::MAX);
        if !(100_000..=100_000_000_000).contains(&rate) {
            return Err(args.error("STATE_RATE", "must be from 100kB/s to 100GB/s").into());
        }
        Ok(Pace { interval_ns, rate })
    }
}

/// See the module.
pub(super) struct States {
    pace: Pace,
    /// The functions of sessions, each with how many of its sessions are left in this pass.
    left: Vec<(u32, usize)>,
    /// When the next pass may begin.
    pass_at: i64,
    /// Bytes that may be sent now; less than 0 after a record that was longer.
    bytes: i64,
    counted_at: i64,
}

impl States {
    /// Of these functions.
    pub(super) fn new(pace: Pace, functions: &[u32]) -> States {
        let left = functions.iter().map(|node| (*node, 0)).collect();
        States { pace, left, pass_at: i64::MIN, bytes: 0, counted_at: i64::MAX }
    }

    /// How many sessions wait to be sent again.
    pub(super) fn count(&self, cx: &mut Cx<'_>) -> usize {
        self.left.iter().map(|(node, _)| cx.transfers().count_changed(*node)).sum()
    }

    /// Begins a pass, if one is due.
    pub(super) fn look(&mut self, cx: &mut Cx<'_>) {
        self.refill(cx.now());
        if cx.now() >= self.pass_at && self.left.iter().all(|(_, left)| *left == 0) {
            self.begin(cx);
            self.pass_at = cx.now().saturating_add(self.pace.interval_ns);
        }
    }

    /// Begins a pass now.
    pub(super) fn begin(&mut self, cx: &mut Cx<'_>) {
        self.left.iter_mut().for_each(|(node, left)| *left = cx.transfers().count_changed(*node));
    }

    /// Bytes for the time since the last call.
    fn refill(&mut self, now: i64) {
        let since = now.saturating_sub(self.counted_at).clamp(0, BURST_NS);
        self.counted_at = now;
        let of =
            |time| (i128::from(self.pace.rate) * i128::from(time) / i128::from(SECOND_NS)) as i64;
        self.bytes = self.bytes.saturating_add(of(since)).min(of(BURST_NS));
    }

    /// Whether bytes are left for now.
    pub(super) fn may_send(&self) -> bool {
        self.bytes > 0
    }

    /// So many bytes were sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes as i64);
    }

    /// The next session of this pass, as level and record.
    pub(super) fn next(&mut self, cx: &mut Cx<'_>) -> Option<(u8, u32)> {
        for (node, left) in self.left.iter_mut().filter(|(_, left)| *left > 0) {
            if let Some(session) = cx.transfers().next_changed(*node) {
                *left -= 1;
                return Some(session);
            }
            *left = 0;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_follow_the_rate_whatever_the_ticks_are() {
        let pace = Pace { interval_ns: 1, rate: 1_000_000 };
        let mut states = States::new(pace, &[]);
        let mut sent = 0;
        let mut now = 7;
        for tick in 0..2000 {
            now += if tick % 3 == 0 { 500_000 } else { 5_000_000 };
            states.refill(now);
            while states.may_send() {
                states.sent(700);
                sent += 700;
            }
        }
        let wanted = now / 1000;
        assert!((sent - wanted).abs() < 10_000, "{sent} instead of {wanted}");
        // A pause gives no more than a burst.
        states.refill(now + 10 * SECOND_NS);
        assert!(states.bytes <= 50_000);
    }
}
