//! Loss: packets that get lost.

use thruway_element::{
    ArgErrors, Args, Arguments, Changes, Cx, Element, Entry, HandlerError, Handlers, Operation,
    Replicas, Spec, Topic, Ty, Verdict, reasons,
};
use thruway_packet::Batch;

use super::dice::{self, Dice, Fault, ranged};
use thruway_elements_support::random::Probability;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Loss>(Spec {
    name: "Loss",
    topic: Topic::Faults,
    summary: "loses packets at random, singly or in bursts",
    docs: "Loses each packet with probability P; what is lost goes out of output 1, or is \
           dropped where there is none. With BURST above 1, losses come in runs of BURST packets \
           on average, and P is still the part that is lost in the long run (Gilbert's model \
           of two states); between two runs at least one packet gets through, so that P cannot \
           exceed BURST / (BURST + 1).\n\n\
           With SEED, two runs lose the same packets. An element's choices depend on SEED, on \
           the element's name and on the thread, so several elements may have the same SEED.",
    example: "InfiniteSource(LIMIT 100, STOP true) -> l :: Loss(10%, SEED 1) -> Discard;\n\
              l[1] -> Print(lost) -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    drops: Lost::DROPS,
    changes: Changes::Nothing,
    cost: &[Operation::Random.once()],
    replicas: Replicas::Apart("each draws numbers of its own, and has its own bursts"),
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet goes no further.
    enum Lost {
        Lost = "lost": "chance was against it",
    }
}

/// Longest mean run, in packets.
const BURST_MAX: f64 = 1e6;

/// Gilbert's chain: good and bad states, and the chances to change between them.
struct Chain {
    burst: f64,
    bad: bool,
    enter: Probability,
    leave: Probability,
}

impl Chain {
    /// For losses of probability `p` in runs of `burst` packets on average; `None` when there is
    /// no such chain.
    fn new(p: f64, burst: f64) -> Option<Chain> {
        // Of every burst + gap packets, burst are lost: gap = burst * (1 - p) / p.
        let enter = if p == 0.0 { 0.0 } else { p / (burst * (1.0 - p)) };
        let (enter, leave) = (Probability::new(enter)?, Probability::new(1.0 / burst)?);
        Some(Chain { burst, bad: false, enter, leave })
    }

    /// Whether the next packet is lost.
    #[inline]
    fn next(&mut self, dice: &mut Dice) -> bool {
        let turn = if self.bad { self.leave } else { self.enter };
        self.bad ^= turn.hits(&mut dice.random);
        self.bad
    }
}

#[derive(Arguments, Handlers)]
#[handler(
    both, name = "probability", "probability of the fault",
    get = self.fault.probability().value(), write = self.write_probability(cx, value)
)]
#[handler(like = dice::H_ACTIVE)]
#[handler(like = dice::H_COUNT)]
#[handler(sum, name = "lost", "packets lost", get = self.fault.struck)]
#[handler(
    read, name = "burst", "packets lost one after the other, on average",
    get = self.chain.as_ref().map_or(1.0, |chain| chain.burst)
)]
#[handler(like = dice::H_SEED)]
#[handler(like = dice::H_RESET)]
struct Loss {
    #[arg(like = dice::P, unread)]
    #[arg(
        keyword, name = "BURST", unread, ty = Ty::Float, or = "1",
        "packets lost one after the other, on average"
    )]
    #[arg(like = dice::SEED, unread)]
    #[arg(like = dice::ACTIVE, unread)]
    #[new(Fault::from_args(args)?)]
    #[part]
    fault: Fault,
    /// For runs of more than one packet.
    #[new(chain_of(args, &fault)?)]
    chain: Option<Chain>,
}

fn chain_of(args: &Args<'_>, fault: &Fault) -> Result<Option<Chain>, ArgErrors> {
    let burst = ranged(args, "BURST", 1.0..=BURST_MAX)?;
    if burst <= 1.0 {
        return Ok(None);
    }
    let possible = Chain::new(fault.probability().value(), burst);
    Ok(Some(possible.ok_or_else(|| args.error("P", impossible(burst)))?))
}

fn impossible(burst: f64) -> String {
    format!("with BURST {burst} at most {} can be lost", burst / (burst + 1.0))
}

impl Loss {
    fn write_probability(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        let (name, before) = ("probability", self.fault.probability());
        self.fault.write_handler(cx, name, value)?;
        let Some(chain) = self.chain.as_mut().filter(|_| self.fault.probability() != before) else {
            return Ok(());
        };
        match Chain::new(self.fault.probability().value(), chain.burst) {
            Some(new) => *chain = Chain { bad: chain.bad, ..new },
            None => {
                self.fault.write_handler(cx, name, &before.value().to_string())?;
                return Err(HandlerError::refused(format!("{name}: {}", impossible(chain.burst))));
            }
        }
        Ok(())
    }

    #[inline]
    fn loses(&mut self) -> bool {
        let Some(chain) = &mut self.chain else { return self.fault.strikes() };
        let lost = chain.next(&mut self.fault.dice);
        self.fault.struck += u64::from(lost);
        lost
    }
}

impl Element for Loss {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if !self.fault.dice.see(batch.len()) {
            return;
        }
        cx.filter(batch, |_| match self.loses() {
            true => Verdict::reject(1, Lost::Lost),
            false => Verdict::Pass,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_elements_support::random::Random;

    #[test]
    fn limits() {
        assert!(Chain::new(0.5, 1.5).is_some());
        assert!(Chain::new(0.7, 2.0).is_none());
        assert!(Chain::new(1.0, 2.0).is_none());
        let chain = Chain::new(0.0, 5.0).unwrap();
        assert_eq!(chain.enter.value(), 0.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// In the long run, `p` of the packets are lost, in runs of `burst`.
        #[test]
        fn long_run(seed: u64, percent in 1u32..50, burst in 2u32..6) {
            let (p, burst) = (f64::from(percent) / 100.0, f64::from(burst));
            let mut chain = Chain::new(p, burst).unwrap();
            let mut dice = Dice::of(Random::from_seed(seed));
            let lost: Vec<bool> = (0..100_000).map(|_| chain.next(&mut dice)).collect();
            let losses = lost.iter().filter(|l| **l).count() as f64;
            let runs = lost.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
            prop_assert!((losses / 1e5 - p).abs() < 0.2 * p + 0.005, "{losses}");
            prop_assert!((losses / runs - burst).abs() < 0.25 * burst, "{losses} {runs}");
        }
    }
}
