//! A process that takes most of the forwarding core's time.
//!
//! Where the core of the load receives for the middle as well, it offers less than a forwarder can
//! take, which then looks in vain, sleeps and wakes for a few packets each: that is not what a
//! packet costs under load. With the core for a third of the time the forwarder finds more than it
//! can take, every time that it has it. Its rate per second is a third then; what counts is that of
//! its processor time.

use std::time::{Duration, Instant};

use super::companion::Companion;
use super::site::PEER_PRIORITY;

/// How long it has the core, and the forwarder then: what that sends at two million a second fits
/// the 256 frames of a cable, and what comes meanwhile its rings.
const TAKES: Duration = Duration::from_micros(200);
const LEAVES: Duration = Duration::from_micros(100);

/// From now on.
pub fn begin(core: usize) -> Companion {
    Companion::begin((core, PEER_PRIORITY), || {
        let begin = Instant::now();
        while begin.elapsed() < TAKES {
            std::hint::spin_loop();
        }
        std::thread::sleep(LEAVES);
        Ok(())
    })
}
