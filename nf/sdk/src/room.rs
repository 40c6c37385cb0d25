//! How a function waits for room in the auxiliary ring: Algorithm 6 of the paper drops what finds
//! the ring full; here it waits for its host, as the host waits for it.
//!
//! It cannot wait for ever for the host to take what is in the ring if that waits for this function
//! in turn: two functions that follow each other in opposite order in two threads. Nor can a packet
//! wait for those that were added to the same packet. What then has no room is dropped, and the
//! host counts it.

use std::time::{Duration, Instant};

use thruway_exchange::Control;
use thruway_nf_abi::control::DRAIN;

/// Longest wait for room.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Looks before it lets others have the processor, and before it sleeps between two looks.
const SPINS: u32 = 200;
const YIELDS: u32 = 220;
/// Time between two looks then: about two exchanges.
const PAUSE: Duration = Duration::from_micros(20);

/// How long it has waited.
#[derive(Default)]
pub(crate) struct Wait {
    looks: u32,
    since: Option<Instant>,
}

impl Wait {
    /// Waits a little; false when it has waited long enough, or is to end.
    pub fn goes_on(&mut self, control: &Control) -> bool {
        self.looks = self.looks.saturating_add(1);
        match self.looks {
            0..SPINS => std::hint::spin_loop(),
            SPINS..YIELDS => std::thread::yield_now(),
            _ => {
                let since = *self.since.get_or_insert_with(Instant::now);
                if since.elapsed() >= WAIT_MAX || control.command() == DRAIN {
                    return false;
                }
                std::thread::sleep(PAUSE);
            }
        }
        true
    }
}
