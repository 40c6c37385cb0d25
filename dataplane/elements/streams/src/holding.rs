//! The common part of functions that hold bytes back: arguments and counters.

use thruway_element::{Arg, ArgErrors, Args, Handler, Nanos, Size, Ty};
use thruway_stream::stage::{Hold, Stage};

/// How much all sessions may hold back.
pub(super) const TOTAL: Arg =
    Arg::keyword("TOTAL", Ty::Size, "bytes of memory held back of all sessions").or("8M");

/// Sessions closed for want of memory.
pub(super) const GIVEN_UP: Handler =
    Handler::sum("given_up", "sessions closed because held-back bytes took too much memory");

/// The values of HOLD and [`TOTAL`].
pub(super) fn hold(args: &Args<'_>) -> Result<Hold, ArgErrors> {
    let time = args.get::<Nanos>("HOLD")?.0;
    if time < 0 {
        return Err(args.error("HOLD", "must not be negative").into());
    }
    let total = args.get::<Size>("TOTAL")?.0 / args.env().threads.max(1) as u64;
    Ok(Hold { time, total, ..Hold::default() })
}

/// The value of [`GIVEN_UP`].
pub(super) fn given_up(stage: &Stage) -> u64 {
    stage.counts.evicted + stage.counts.overheld
}
