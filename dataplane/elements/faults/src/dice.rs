//! The common part of all faults: a probability, a seed, a switch, a count.

use thruway_element::{
    Arg, ArgErrors, Args, Cx, FromArg, Handler, HandlerError, Handlers, Ty, handler_value,
};

use thruway_elements_support::random::{self, Probability, Random, seed_of};

/// Argument P of faults that happen by chance.
pub(super) const P: Arg = Arg::required("P", Ty::Float, "probability: 0 to 1, or 0% to 100%");
/// Argument SEED.
pub(super) const SEED: Arg =
    Arg::keyword("SEED", Ty::UInt, "start of the random numbers; else each run differs");
/// Argument ACTIVE.
pub(super) const ACTIVE: Arg =
    Arg::keyword("ACTIVE", Ty::Bool, "whether it happens; if not, packets just pass").or("true");

/// Handler of argument P.
pub(super) const H_PROBABILITY: Handler = Handler::both("probability", "probability of the fault");
/// Handler of argument ACTIVE.
pub(super) const H_ACTIVE: Handler = Handler::both("active", "whether the fault happens");
/// Packets seen while active.
pub(super) const H_COUNT: Handler = Handler::sum("count", "packets that came in while active");
/// Handler of argument SEED.
pub(super) const H_SEED: Handler =
    Handler::read("seed", "start of the random numbers: give it as SEED to repeat this run");
/// Sets the counts to zero.
pub(super) const H_RESET: Handler = Handler::write("reset_counts", "sets the counts to zero");

/// The state behind these arguments and handlers.
pub(super) struct Dice {
    /// The element's random numbers.
    pub random: Random,
    seed: u64,
    active: bool,
    count: u64,
}

impl Dice {
    /// From arguments SEED and ACTIVE.
    pub fn from_args(args: &Args<'_>) -> Result<Dice, ArgErrors> {
        let seed = seed_of(args)?;
        let active = args.get("ACTIVE")?;
        Ok(Dice { random: random::of_element(args, seed), seed, active, count: 0 })
    }

    /// Switched on, with these random numbers.
    #[cfg(test)]
    pub fn of(random: Random) -> Dice {
        Dice { random, seed: 0, active: true, count: 0 }
    }

    /// Notes that `n` packets came in; whether the fault is switched on.
    #[inline]
    pub fn see(&mut self, n: usize) -> bool {
        if self.active {
            self.count += n as u64;
        }
        self.active
    }
}

/// The handlers above, but that of the probability.
impl Handlers for Dice {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "active" => Ok(self.active.to_string()),
            "count" => Ok(self.count.to_string()),
            "seed" => Ok(self.seed.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        match name {
            "active" => self.active = handler_value(name, value)?,
            "reset_counts" => self.count = 0,
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}

/// A fault that strikes packets one by one, with a probability.
pub(super) struct Fault {
    /// Its dice.
    pub dice: Dice,
    probability: Probability,
    /// Packets it struck.
    pub struck: u64,
}

impl Fault {
    /// From arguments P, SEED and ACTIVE.
    pub fn from_args(args: &Args<'_>) -> Result<Fault, ArgErrors> {
        let dice = Dice::from_args(args)?;
        Ok(Fault { dice, probability: args.get("P")?, struck: 0 })
    }

    /// The probability in use.
    pub fn probability(&self) -> Probability {
        self.probability
    }

    /// Whether the next packet is struck.
    #[inline]
    pub fn strikes(&mut self) -> bool {
        let hit = self.probability.hits(&mut self.dice.random);
        self.struck += u64::from(hit);
        hit
    }
}

/// All handlers above.
impl Handlers for Fault {
    fn read_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "probability" => Ok(self.probability.value().to_string()),
            _ => self.dice.read_handler(cx, name, param),
        }
    }

    fn write_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        match name {
            "probability" => self.probability = handler_value(name, value)?,
            _ => self.dice.write_handler(cx, name, value)?,
        }
        if name == "reset_counts" {
            self.struck = 0;
        }
        Ok(())
    }
}

/// A whole number argument that must be in a range.
pub(super) fn ranged<T: FromArg + PartialOrd + std::fmt::Display>(
    args: &Args<'_>,
    name: &str,
    range: std::ops::RangeInclusive<T>,
) -> Result<T, ArgErrors> {
    let value: T = args.get(name)?;
    if range.contains(&value) {
        return Ok(value);
    }
    let message = format!("{value} is out of range; from {} to {}", range.start(), range.end());
    Err(args.error(name, message).into())
}
