//! What many measurements of one thing say together, on a machine that others use too.
//!
//! Whatever disturbs a measurement makes it longer, so of some measured close together the shortest
//! counts; of these, spread over the whole time and interleaved with all others, the median.

use super::error::CalibrateError;
use super::steady::{Steadiness, steady};
use crate::Constant;

/// The middle of measurements and how far they lie apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The median.
    pub value: f64,
    /// Half of the distance between the quartiles.
    pub spread: f64,
    /// Measurements.
    pub runs: usize,
}

impl Summary {
    /// Of measurements in any order; zeros of none.
    pub fn of(values: &[f64]) -> Summary {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Summary {
            value: quantile(&sorted, 0.5),
            spread: (quantile(&sorted, 0.75) - quantile(&sorted, 0.25)) / 2.0,
            runs: sorted.len(),
        }
    }

    /// As a constant of a description, measured on a day; what is less than nothing (a difference
    /// of equals) is nothing.
    pub fn constant(self, day: &str) -> Constant {
        let runs = self.runs;
        Constant {
            value: rounded(self.value.max(0.0)),
            spread: Some(rounded(self.spread)),
            source: format!("measured by thruway calibrate on {day}, median of {runs} runs"),
        }
    }
}

/// To four digits: more would only claim what nobody measured.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let unit = 10_f64.powi(value.abs().log10().floor() as i32 - 3);
    // Divided by a power of ten, not multiplied by its inverse: 0.07 stays 0.07.
    if unit < 1.0 {
        let parts = (1.0 / unit).round();
        (value * parts).round() / parts
    } else {
        (value / unit).round() * unit
    }
}

/// The value below which a share of the sorted values lies, between two of them in proportion; 0
/// of none.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let at = share.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + (high - low) * at.fract()
}

/// What one more of something costs, run by run: what `with` costs over `base`, where `with` does
/// it `times` more often.
pub fn differences(with: &[f64], base: &[f64], times: f64) -> Vec<f64> {
    with.iter().zip(base).map(|(with, base)| (with - base) / times).collect()
}

/// The cost per packet and the cost per batch, neither of them negative, that fit costs per packet
/// in batches of these sizes best: with the least squares of relative errors.
pub fn parts(sizes: &[f64], costs: &[f64]) -> (f64, f64) {
    // cost = each + batch x, where x = 1 / size.
    let (mut one, mut x, mut xx, mut y, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (size, cost) in sizes.iter().zip(costs) {
        // What costs next to nothing is not to decide all.
        let weight = cost.abs().max(1.0).powi(-2);
        one += weight;
        x += weight / size;
        xx += weight / (size * size);
        y += weight * cost;
        xy += weight * cost / size;
    }
    let batch = (one * xy - x * y) / (one * xx - x * x);
    let each = (y - batch * x) / one;
    match (each < 0.0, batch < 0.0) {
        (false, false) => (each, batch),
        (true, _) => (0.0, (xy / xx).max(0.0)),
        (_, true) => ((y / one).max(0.0), 0.0),
    }
}

/// Something to measure: gives cycles per whatever it counts, each time it is called.
pub struct Probe<'a> {
    /// Measures once.
    pub run: Box<dyn FnMut() -> Result<f64, CalibrateError> + 'a>,
    /// The lowest of each round.
    pub values: Vec<f64>,
}

impl<'a> Probe<'a> {
    /// That was not measured yet.
    pub fn new(run: impl FnMut() -> Result<f64, CalibrateError> + 'a) -> Probe<'a> {
        Probe { run: Box::new(run), values: Vec::new() }
    }

    /// What its rounds say.
    pub fn summary(&self) -> Summary {
        Summary::of(&self.values)
    }
}

/// Measures all in turn, `tries` times a round, and keeps the lowest of each round. Disturbed
/// rounds are measured again.
///
/// # Errors
/// The first that a probe has.
pub fn interleave(
    probes: &mut [Probe<'_>],
    rounds: usize,
    tries: usize,
) -> Result<Steadiness, CalibrateError> {
    let measure = || {
        let mut lowest = vec![f64::INFINITY; probes.len()];
        for _ in 0..tries {
            for (probe, lowest) in probes.iter_mut().zip(&mut lowest) {
                *lowest = lowest.min((probe.run)()?);
            }
        }
        Ok::<_, CalibrateError>((lowest.clone(), lowest))
    };
    let (kept, steadiness) = steady(rounds, measure)?;
    for lowest in kept {
        for (probe, lowest) in probes.iter_mut().zip(lowest) {
            probe.values.push(lowest);
        }
    }
    Ok(steadiness)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn middles_and_quartiles_of_few_values_by_hand() {
        let of = |values: &[f64]| {
            let it = Summary::of(values);
            (it.value, it.spread, it.runs)
        };
        assert_eq!(of(&[]), (0.0, 0.0, 0));
        assert_eq!(of(&[3.0]), (3.0, 0.0, 1));
        assert_eq!(of(&[4.0, 1.0]), (2.5, 0.75, 2));
        // Quartiles at 2 and 4; the outlier moves neither.
        assert_eq!(of(&[5000.0, 1.0, 4.0, 2.0, 3.0]), (3.0, 1.0, 5));
    }

    #[test]
    fn a_cost_comes_apart_into_packet_and_batch() {
        let close = |found: (f64, f64), each: f64, batch: f64| {
            assert!((found.0 - each).abs() < 1e-9, "{found:?}");
            assert!((found.1 - batch).abs() < 1e-9, "{found:?}");
        };
        // 7 each and 30 a batch.
        let sizes = [1.0, 4.0, 32.0];
        close(parts(&sizes, &[37.0, 14.5, 7.9375]), 7.0, 30.0);
        // What seems to cost less the fewer there are costs the same for each.
        let (each, batch) = parts(&sizes, &[5.0, 6.0, 6.0]);
        assert!((5.0..6.0).contains(&each) && batch == 0.0);
        // All by the batch: 64, 16 and 2, less a little.
        let (each, batch) = parts(&sizes, &[64.0, 15.0, 1.5]);
        assert!(each == 0.0 && (40.0..64.0).contains(&batch), "{batch}");
        close(parts(&sizes, &[-0.1, -0.2, -0.1]), 0.0, 0.0);
    }

    #[test]
    fn a_difference_is_paired_run_by_run() {
        // The machine became twice as slow in the second run: the difference as well, no more.
        assert_eq!(differences(&[18.0, 36.0], &[10.0, 20.0], 4.0), [2.0, 4.0]);
    }

    #[test]
    fn the_lowest_of_each_round_counts() {
        let mut constant = [5.0, 3.0, 9.0, 8.0, 4.0, 6.0].into_iter();
        let mut probes = [Probe::new(move || Ok(constant.next().unwrap_or(f64::NAN)))];
        interleave(&mut probes, 2, 3).unwrap();
        assert_eq!(probes[0].values, [3.0, 4.0]);
    }

    #[test]
    fn numbers_have_four_digits_and_are_never_negative() {
        let constant = |value| Summary { value, spread: 0.0, runs: 9 }.constant("2026-01-02").value;
        assert_eq!(
            [constant(123_456.0), constant(12.345_67), constant(0.071_234_9), constant(-3.0)],
            [123_500.0, 12.35, 0.071_23, 0.0]
        );
        assert_eq!(
            Summary::of(&[2.0]).constant("2026-01-02").source,
            "measured by thruway calibrate on 2026-01-02, median of 1 runs"
        );
    }

    proptest! {
        #[test]
        fn a_quantile_has_its_share_below_it(
            mut values in prop::collection::vec(-1e6..1e6_f64, 1..60),
            share in 0.0..=1.0_f64,
        ) {
            values.sort_by(f64::total_cmp);
            let at = quantile(&values, share);
            let below = values.iter().filter(|value| **value < at - 1e-6).count();
            let upto = values.iter().filter(|value| **value <= at + 1e-6).count();
            let wanted = share * (values.len() - 1) as f64;
            prop_assert!(below as f64 <= wanted + 1.0 && wanted <= upto as f64);
        }
    }
}
