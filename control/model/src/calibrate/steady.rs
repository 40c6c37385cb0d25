//! Rounds that something else disturbed are refused and measured again.
//!
//! A round measures many things one after the other. What else runs on the core, or on the host of
//! a virtual machine, makes some of them longer, and never one of them shorter. So a round is
//! refused where many of its values lie far above what most rounds have for the same thing.

/// Beyond this multiple of its lower quartile a value is far above.
const FAR: f64 = 1.3;
/// ... if it is by so many cycles: what takes next to nothing varies by more than that.
const FAR_CYCLES: f64 = 2.0;
/// A round with a larger share of such values is refused.
const FAR_SHARE: f64 = 0.2;

/// How rounds went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Steadiness {
    /// Rounds that count.
    pub rounds: usize,
    /// Rounds that were refused and measured again.
    pub refused: usize,
    /// Rounds that count and were disturbed: after so many again, there was an end.
    pub disturbed: usize,
}

impl Steadiness {
    /// What a user should know; `what` was measured.
    pub fn note(&self, what: &str) -> Option<String> {
        let Steadiness { rounds, refused, disturbed } = self;
        if *disturbed > 0 {
            return Some(format!(
                "{what}: unsteady: {disturbed} of {rounds} rounds are disturbed although {refused} \
                 were measured again; something else runs here: calibrate again when it does not"
            ));
        }
        let was = if *refused == 1 { "round was" } else { "rounds were" };
        (*refused > 0).then(|| {
            format!("{what}: {refused} {was} disturbed by something else and measured again")
        })
    }
}

/// Measures so many rounds, and as many again at most in the place of disturbed ones. `measure`
/// gives what a round found, and its values, in the same order each time.
///
/// # Errors
/// The first that `measure` has.
pub fn steady<T, E>(
    rounds: usize,
    mut measure: impl FnMut() -> Result<(T, Vec<f64>), E>,
) -> Result<(Vec<T>, Steadiness), E> {
    let mut kept: Vec<(T, Vec<f64>)> = Vec::with_capacity(rounds);
    let mut refused = 0;
    loop {
        while kept.len() < rounds {
            kept.push(measure()?);
        }
        let values: Vec<&[f64]> = kept.iter().map(|(_, values)| values.as_slice()).collect();
        let disturbed = disturbed(&values);
        if disturbed.is_empty() || refused >= rounds {
            let steadiness = Steadiness { rounds, refused, disturbed: disturbed.len() };
            return Ok((kept.into_iter().map(|(found, _)| found).collect(), steadiness));
        }
        // From the last on, for the numbers of the others to stay.
        for at in disturbed.into_iter().rev().take(rounds - refused) {
            kept.remove(at);
            refused += 1;
        }
    }
}

/// The numbers of disturbed rounds, ascending.
fn disturbed(rounds: &[&[f64]]) -> Vec<usize> {
    let things = rounds.iter().map(|values| values.len()).min().unwrap_or(0);
    let usual: Vec<f64> = (0..things)
        .map(|thing| {
            let mut all: Vec<f64> = rounds.iter().map(|values| values[thing]).collect();
            all.sort_by(f64::total_cmp);
            all[(all.len() - 1) / 4]
        })
        .collect();
    let is_far = |(value, usual): (&f64, &f64)| *value > usual * FAR && *value > usual + FAR_CYCLES;
    let is_disturbed = |values: &[f64]| {
        let far = values.iter().zip(&usual).filter(|pair| is_far(*pair)).count();
        far as f64 > FAR_SHARE * things as f64
    };
    (0..rounds.len()).filter(|round| is_disturbed(rounds[*round])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// Measures ten things round by round, of which the rounds with these numbers take longer.
    fn measured(rounds: usize, is_long: impl Fn(usize) -> bool) -> (Vec<usize>, Steadiness) {
        let mut nth = 0;
        let measure = || {
            let factor = if is_long(nth) { 3.0 } else { 1.0 };
            let values = (0..10).map(|thing| f64::from(10 + thing) * factor).collect();
            nth += 1;
            Ok::<_, Infallible>((nth - 1, values))
        };
        steady(rounds, measure).unwrap_or_else(|never| match never {})
    }

    #[test]
    fn disturbed_rounds_are_measured_again() {
        let (kept, steadiness) = measured(5, |round| round == 1 || round == 3 || round == 5);
        assert_eq!(kept, [0, 2, 4, 6, 7]);
        assert_eq!(steadiness, Steadiness { rounds: 5, refused: 3, disturbed: 0 });
        let note = steadiness.note("operations").unwrap();
        assert!(note.starts_with("operations: 3 rounds were disturbed"), "{note}");
        let (_, quiet) = measured(5, |_| false);
        assert_eq!((quiet.refused, quiet.note("operations")), (0, None));
    }

    #[test]
    fn there_is_an_end_and_it_is_said() {
        // Every second one, and from the fifth on all.
        let (kept, steadiness) = measured(5, |round| round % 2 == 1 || round > 4);
        assert_eq!((kept.len(), steadiness.refused), (5, 5));
        assert_eq!(steadiness.disturbed, 2);
        let note = steadiness.note("operations").unwrap();
        assert!(note.contains("unsteady: 2 of 5") && note.contains("calibrate again"), "{note}");
    }

    #[test]
    fn one_thing_that_varies_does_not_disturb_a_round() {
        let mut nth = 0.0;
        let measure = || {
            nth += 1.0;
            let mut values = vec![10.0; 10];
            values[3] *= nth;
            // Next to nothing may be a multiple of it.
            values[4] = nth * 0.1;
            Ok::<_, Infallible>(((), values))
        };
        let (_, steadiness) = steady(6, measure).unwrap_or_else(|never| match never {});
        assert_eq!(steadiness, Steadiness { rounds: 6, refused: 0, disturbed: 0 });
    }
}
