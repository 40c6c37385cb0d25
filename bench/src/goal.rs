//! What is wanted of a bench, and what it reached.

use std::fmt;

/// A value and its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    pub what: String,
    reached: f64,
    limit: f64,
    /// Whether the limit is the most, or the least.
    is_most: bool,
}

impl Goal {
    /// One that may be so much at most.
    pub fn most(what: impl Into<String>, reached: f64, limit: f64) -> Goal {
        Goal { what: what.into(), reached, limit, is_most: true }
    }

    /// One that must be so much at least.
    pub fn least(what: impl Into<String>, reached: f64, limit: f64) -> Goal {
        Goal { what: what.into(), reached, limit, is_most: false }
    }

    /// Whether it is reached.
    pub fn is_reached(&self) -> bool {
        if self.is_most { self.reached <= self.limit } else { self.reached >= self.limit }
    }
}

/// Prints all goals if they `count`; whether none that counts is missed.
pub fn judge(goals: &[Goal], count: bool) -> bool {
    if !count {
        return true;
    }
    goals.iter().for_each(|goal| outln!("{goal}"));
    goals.iter().all(Goal::is_reached)
}

/// What was wanted and not reached.
#[cfg(test)]
pub fn missed(goals: Vec<Goal>) -> Vec<String> {
    goals.into_iter().filter(|goal| !goal.is_reached()).map(|goal| goal.what).collect()
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Goal { what, reached, limit, is_most } = self;
        let word = if *is_most { "at most" } else { "at least" };
        let verdict = if self.is_reached() { "met" } else { "missed" };
        write!(f, "{what}: {reached:.2}, {word} {limit}: {verdict}")
    }
}
