//! In which order the packets of many sessions come.

use std::str::FromStr;

use thruway_random::Random;

/// Which session the next packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One packet of each, in turn.
    Once,
    /// Any, as likely as any other.
    Uniform,
    /// The session of rank r about as often as 1/r (Zipf's law); ranks are spread over the
    /// sessions.
    Zipf,
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Order, String> {
        match text {
            "once" => Ok(Order::Once),
            "uniform" => Ok(Order::Uniform),
            "zipf" => Ok(Order::Zipf),
            _ => Err(format!("'{text}' is none of once, uniform and zipf")),
        }
    }
}

/// Packets that are drawn for so many sessions: several of each, as far as 32 MB hold them.
fn packets(sessions: u32) -> usize {
    (sessions as usize * 4).clamp(1 << 16, 1 << 23)
}

/// The sessions of successive packets, the same everywhere; none for [`Order::Once`].
pub fn draw(order: Order, sessions: u32) -> Vec<u32> {
    let mut random = Random::from_seed(u64::from(sessions));
    let mut next = || match order {
        Order::Uniform => random.below(u64::from(sessions)) as u32,
        _ => zipf(&mut random, sessions),
    };
    match order {
        Order::Once => Vec::new(),
        _ => (0..packets(sessions)).map(|_| next()).collect(),
    }
}

fn zipf(random: &mut Random, sessions: u32) -> u32 {
    let share = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let rank = f64::from(sessions).powf(share) as u64;
    (rank * 2_654_435_761 % u64::from(sessions)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn counts(order: Order) -> (usize, usize) {
        let mut counts = HashMap::new();
        let drawn = draw(order, 10_000);
        drawn.iter().for_each(|session| *counts.entry(session).or_insert(0_usize) += 1);
        assert!(drawn.iter().all(|session| *session < 10_000));
        (counts.len(), counts.values().copied().max().unwrap_or(0) * 100 / drawn.len())
    }

    #[test]
    fn uniform_is_even_and_zipf_is_heavy_tailed() {
        let (seen, share) = counts(Order::Uniform);
        assert!(seen > 9_900 && share == 0, "{seen} {share}");
        let (seen, share) = counts(Order::Zipf);
        // The first of 10,000 ranks has ln 2 / ln 10,000 of the packets.
        assert!((2_000..9_900).contains(&seen) && (6..=8).contains(&share), "{seen} {share}");
    }
}
