//! A rate limit as RatedUnqueue and RatedSplitter are given it: so many packets or bytes a second,
//! and how much may follow at once on a pause.

use thruway_element::{Arg, ArgErrors, Args, Bandwidth, HandlerError, Nanos, Ty, handler_value};

use crate::rate::{TokenBucket, bandwidth_text};

/// Argument BURST_DURATION, of all.
pub(super) const BURST_DURATION: Arg =
    Arg::keyword("BURST_DURATION", Ty::Time, "what the bucket holds, in time").or("20ms");
/// Argument BURST_SIZE, where packets are counted.
pub(super) const BURST_SIZE: Arg =
    Arg::keyword("BURST_SIZE", Ty::UInt, "what the bucket holds, in packets");
/// Argument BURST_BYTES, where bytes are counted.
pub(super) const BURST_BYTES: Arg =
    Arg::keyword("BURST_BYTES", Ty::UInt, "what the bucket holds, in bytes");

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Packets,
    Bytes,
}

/// What the bucket holds.
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
    pub(super) bucket: TokenBucket,
    pub(super) unit: Unit,
    burst: Burst,
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
        Ok(Limit { bucket: TokenBucket::new(rate, burst.capacity(rate)), unit, burst })
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
            Unit::Packets => self.bucket.rate().to_string(),
            Unit::Bytes => bandwidth_text(self.bucket.rate()),
        }
    }

    /// Handler `rate`, written.
    pub(super) fn write_rate(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        let rate = match self.unit {
            Unit::Packets => handler_value::<u32>(name, value)?.into(),
            Unit::Bytes => handler_value::<Bandwidth>(name, value)?.0,
        };
        self.bucket.set_rate(rate, self.burst.capacity(rate));
        Ok(())
    }
}
