//! A rate limit as RatedUnqueue and RatedSplitter are given it: so many packets or bytes a second,
//! and how much may follow at once on a pause.

use std::any::Any;
use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Bandwidth, Cx, HandlerError, Nanos, Ty, handler_value,
};
use thruway_packet::{Batch, Packet};
use thruway_sync::Credit;
use thruway_sync::atomic::{AtomicU64, Ordering};

use thruway_elements_support::pace::{Pace, TokenLevel};
use thruway_elements_support::rate::{TokenBucket, bandwidth_text};

/// Argument BURST_DURATION, of all.
pub(super) const BURST_DURATION: Arg =
    Arg::keyword("BURST_DURATION", Ty::Time, "bucket size, in time").or("20ms");

/// Argument RATE, in bytes or packets.
pub(super) const fn rate(bytes: bool) -> Arg {
    match bytes {
        true => Arg::required("RATE", Ty::Bandwidth, "bytes a second"),
        false => Arg::required("RATE", Ty::UInt, "packets a second"),
    }
}

/// Description of handler `rate`.
pub(super) const fn about_rate(bytes: bool) -> &'static str {
    if bytes { "bytes a second, with unit" } else { "packets a second" }
}

/// Argument BURST_BYTES or BURST_SIZE.
pub(super) const fn burst(bytes: bool) -> Arg {
    match bytes {
        true => Arg::keyword("BURST_BYTES", Ty::UInt, "bucket size, in bytes"),
        false => Arg::keyword("BURST_SIZE", Ty::UInt, "bucket size, in packets"),
    }
}
/// The unit of counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Packets,
    Bytes,
}

/// The bucket's size.
#[derive(Debug, Clone, Copy)]
enum Burst {
    Milliseconds(u64),
    Tokens(u64),
}

impl Burst {
    fn capacity(self, rate: u64) -> u64 {
        match self {
            Burst::Milliseconds(ms) => {
                let tokens = u128::from(rate) * u128::from(ms) / 1000;
                u64::try_from(tokens).unwrap_or(u64::MAX)
            }
            Burst::Tokens(n) => n,
        }
    }
}

/// The limit and where it stands.
pub(super) struct Limit {
    /// Of one thread.
    pub(super) bucket: TokenBucket,
    /// Where several threads keep to the limit together: instead of the bucket.
    common: Option<Arc<Common>>,
    pub(super) unit: Unit,
    burst: Burst,
    /// When packets were counted last, of those in common.
    last: Option<i64>,
}

/// The state of a limit that threads share.
struct Common {
    rate: AtomicU64,
    credit: Credit,
    /// Of which time it is what the credit was set to; 0 before it was. Not for packets.
    set_at: AtomicU64,
}

impl Common {
    /// The rate and burst, and the time by which tokens come: at a rate of 0 it stands still.
    fn pace(&self, burst: Burst, now: i64) -> Result<(Pace, i64), String> {
        // Relaxed: a thread that sees a new rate a moment later keeps to the old one until then.
        let rate = self.rate.load(Ordering::Relaxed);
        Ok((pace(rate, burst)?, if rate == 0 { 0 } else { now }))
    }
}

/// A bucket that never fills is one that fills slowly, by a clock that stands still.
fn pace(rate: u64, burst: Burst) -> Result<Pace, String> {
    Pace::new(rate.max(1), burst.capacity(rate).max(1))
}

impl Limit {
    /// By the arguments RATE, BURST_DURATION and BURST_SIZE or BURST_BYTES: bytes are counted
    /// where the name of the class says Bandwidth.
    pub(super) fn from_args(args: &Args<'_>) -> Result<Limit, ArgErrors> {
        let (unit, size) = if args.class().starts_with("Bandwidth") {
            (Unit::Bytes, "BURST_BYTES")
        } else {
            (Unit::Packets, "BURST_SIZE")
        };
        let burst = match args.opt(size)? {
            Some(_) if args.given("BURST_DURATION") => {
                return Err(ArgErrors::whole(format!("give BURST_DURATION or {size}, not both")));
            }
            Some(n) => Burst::Tokens(n),
            None => {
                let Nanos(ns) = args.get("BURST_DURATION")?;
                let ms = u64::try_from(ns / 1_000_000);
                Burst::Milliseconds(ms.map_err(|_| args.error("BURST_DURATION", "is negative"))?)
            }
        };
        let rate = match unit {
            Unit::Packets => args.get::<u32>("RATE")?.into(),
            Unit::Bytes => args.get::<Bandwidth>("RATE")?.0,
        };
        let bucket = TokenBucket::new(rate, burst.capacity(rate));
        let common = match args.env().threads {
            0 | 1 => None,
            _ => {
                pace(rate, burst).map_err(|why| args.error(size, why))?;
                Some(args.shared("limit", || Common {
                    rate: AtomicU64::new(rate),
                    credit: Credit::default(),
                    set_at: AtomicU64::new(0),
                }))
            }
        };
        Ok(Limit { bucket, common, unit, burst, last: None })
    }

    /// Begins with a full bucket, unless another configuration left one.
    pub(super) fn begin(&mut self, cx: &Cx<'_>) {
        self.last = Some(cx.now());
        if self.common.as_ref().is_some_and(|common| common.set_at.load(Ordering::Relaxed) == 0) {
            self.set_common_level(TokenLevel { at: cx.now(), tokens: i64::MAX });
        }
    }

    /// Sets what is there, unless another replica knew what was later.
    fn set_common_level(&mut self, level: TokenLevel) {
        let Some(common) = &self.common else { return };
        let at = level.at.max(1) as u64;
        if common.set_at.fetch_max(at, Ordering::Relaxed) <= at
            && let Ok((pace, at)) = common.pace(self.burst, level.at)
        {
            pace.set_level(&common.credit, TokenLevel { at, ..level });
        }
    }

    /// How many packets of a batch may pass, from its first on: they are counted.
    #[inline]
    pub(super) fn admit(&mut self, now: i64, batch: &Batch) -> usize {
        let (unit, threshold) = (self.unit, self.threshold());
        let tokens = |packet: &Packet| if unit == Unit::Bytes { packet.len() as u64 } else { 1 };
        let Some(common) = &self.common else {
            self.bucket.refill(now);
            let passes = |packet: &&Packet| {
                let passes = self.bucket.holds(threshold);
                self.bucket.spend(if passes { tokens(packet) } else { 0 });
                passes
            };
            return batch.iter().take_while(passes).count();
        };
        self.last = Some(now);
        // Impossible rates were refused when they were set.
        let Ok((pace, now)) = common.pace(self.burst, now) else { return 0 };
        let mut count = 0;
        pace.spend(&common.credit, now, |there| {
            let mut sum = 0;
            let passes = |packet: &&Packet| {
                let passes = match unit {
                    Unit::Packets => pace.affords(there, sum + 1),
                    Unit::Bytes => !pace.owes(there, sum),
                };
                sum += if passes { tokens(packet) } else { 0 };
                passes
            };
            count = batch.iter().take_while(passes).count();
            sum
        });
        count
    }

    /// The level for the next configuration's limit.
    pub(super) fn hand_over(&self) -> Option<Box<dyn Any + Send>> {
        let level = match (&self.common, self.last) {
            (None, _) => self.bucket.level()?,
            (Some(common), last) => {
                let at = last?;
                let (pace, now) = common.pace(self.burst, at).ok()?;
                TokenLevel { at, ..pace.level(&common.credit, now) }
            }
        };
        Some(Box::new(level))
    }

    /// Goes on with what another configuration left: whole tokens, as far as there is room.
    pub(super) fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(level) = state.downcast::<TokenLevel>() else { return };
        match self.common {
            None => self.bucket.set_level(*level),
            Some(_) => self.set_common_level(*level),
        }
    }

    /// Tokens a second.
    fn rate(&self) -> u64 {
        match &self.common {
            Some(common) => common.rate.load(Ordering::Relaxed),
            None => self.bucket.rate(),
        }
    }

    /// Tokens there must be for the next packet: a packet, or no debt of bytes, as in Click.
    pub(super) fn threshold(&self) -> u64 {
        match self.unit {
            Unit::Packets => 1,
            Unit::Bytes => 0,
        }
    }

    /// Handler `rate`.
    pub(super) fn rate_text(&self) -> String {
        match self.unit {
            Unit::Packets => self.rate().to_string(),
            Unit::Bytes => bandwidth_text(self.rate()),
        }
    }

    /// Handler `rate`, written at this time.
    pub(super) fn write_rate(
        &mut self,
        name: &str,
        value: &str,
        at: i64,
    ) -> Result<(), HandlerError> {
        let rate = match self.unit {
            Unit::Packets => handler_value::<u32>(name, value)?.into(),
            Unit::Bytes => handler_value::<Bandwidth>(name, value)?.0,
        };
        let Some(common) = &self.common else {
            self.bucket.set_rate(rate, self.burst.capacity(rate));
            return Ok(());
        };
        pace(rate, self.burst).map_err(|why| HandlerError::refused(format!("{name}: {why}")))?;
        let before = common.pace(self.burst, at);
        let level = before.map(|(pace, now)| pace.level(&common.credit, now));
        common.rate.store(rate, Ordering::Relaxed);
        if let Ok(level) = level {
            self.set_common_level(TokenLevel { at, ..level });
        }
        Ok(())
    }
}
