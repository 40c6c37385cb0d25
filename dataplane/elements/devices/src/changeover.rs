//! An interface goes from one group of packet sockets to another one, with more or fewer of them,
//! while frames come.
//!
//! The new group is opened beside the former one, so for a while each frame comes to both. The
//! kernel stamps each frame once, and a time in the near future divides them: what came until then
//! is taken from the former sockets, what came later from the new ones. So each frame is taken
//! once. (With a socket more in one group, frames would be lost or come twice while it joins.)
//!
//! No thread takes anything from a new socket before all former ones are empty and what they gave
//! has passed: so no packet of a flow overtakes another one.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thruway_packet::Batch;
use thruway_port::af_packet::Stamps;
use thruway_sync::atomic::{AtomicUsize, Ordering};

use super::device_in::DeviceIn;

/// From opening until the dividing time: the kernel stamps frames by then.
const LEAD: Duration = Duration::from_millis(100);
/// After the dividing time: a frame that came before is in its ring by then.
const LAG: Duration = Duration::from_millis(30);
/// After that the rings of new sockets have no frame from before the dividing time.
const TURNED: Duration = Duration::from_secs(1);
/// How often a replica looks, nanoseconds.
pub(super) const LOOK_NS: i64 = 5_000_000;

/// What the replicas share.
pub(super) struct Changeover {
    /// The dividing time, nanoseconds since 1970.
    cut_ns: u64,
    /// Replicas that still read former sockets.
    readers: AtomicUsize,
    _stamps: Stamps,
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn now_ns() -> u64 {
    nanoseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

impl Changeover {
    /// Of an interface whose new sockets are open, and whose former ones so many replicas read.
    ///
    /// # Errors
    /// The kernel does not stamp frames.
    pub(super) fn begin(name: &str, readers: usize) -> Result<Arc<Changeover>, String> {
        let stamps = Stamps::begin(name).map_err(|error| error.to_string())?;
        let cut_ns = now_ns().saturating_add(nanoseconds(LEAD));
        Ok(Arc::new(Changeover { cut_ns, readers: AtomicUsize::new(readers), _stamps: stamps }))
    }

    /// Whether a frame that came at this time is taken from the former sockets.
    pub(super) fn is_former(&self, timestamp_ns: u64) -> bool {
        timestamp_ns <= self.cut_ns
    }

    /// Whether the former sockets have all frames that they are to give.
    pub(super) fn is_cut(&self) -> bool {
        now_ns() > self.cut_ns.saturating_add(nanoseconds(LAG))
    }

    /// Whether new sockets have no frame any more that the former ones gave.
    fn is_long_ago(&self) -> bool {
        now_ns() > self.cut_ns.saturating_add(nanoseconds(TURNED))
    }

    /// A replica has emptied its former sockets.
    fn leave(&self) {
        // Release: to the Acquire of those that wait, so that its packets are before theirs.
        self.readers.fetch_sub(1, Ordering::Release);
    }

    /// Whether all have.
    fn is_over(&self) -> bool {
        self.readers.load(Ordering::Acquire) == 0
    }
}

/// One replica's part.
pub(super) struct Change {
    pub(super) over: Arc<Changeover>,
    /// The former sockets that it reads.
    pub(super) former: Vec<Box<DeviceIn>>,
    /// The first that came by the new sockets after the dividing time.
    pub(super) held: Batch,
}

/// What a replica may do next.
pub(super) enum Step {
    /// Take packets of the former sockets.
    Former,
    /// Discard copies of those.
    Copies,
    /// Take packets of the new sockets.
    New,
}

impl Change {
    pub(super) fn new(over: Arc<Changeover>, former: Vec<Box<DeviceIn>>) -> Change {
        Change { over, former, held: Batch::new() }
    }

    pub(super) fn step(&self) -> Step {
        match () {
            () if !self.former.is_empty() => Step::Former,
            () if !self.over.is_over() => Step::Copies,
            () => Step::New,
        }
    }

    /// A former socket is empty, and takes nothing more.
    pub(super) fn drop_former(&mut self, at: usize) -> Box<DeviceIn> {
        let former = self.former.swap_remove(at);
        if self.former.is_empty() {
            self.over.leave();
        }
        former
    }

    /// Whether all is as if there had been none, where the new socket gave so many frames.
    pub(super) fn is_done(&self, count: usize) -> bool {
        self.held.is_empty() && (count == 0 || self.over.is_long_ago())
    }
}

impl Drop for Change {
    /// A replica that ends before leaves the others nothing to wait for.
    fn drop(&mut self) {
        if !self.former.is_empty() {
            self.over.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_divides_frames_and_all_wait_for_the_last() {
        let over = Changeover::begin("lo", 2).expect("a socket");
        let cut = over.cut_ns;
        assert!(over.is_former(cut) && over.is_former(1) && !over.is_former(cut + 1));
        assert!(!over.is_cut(), "in the future");
        let own = Change::new(Arc::clone(&over), Vec::new());
        assert!(matches!(own.step(), Step::Copies));
        over.leave();
        assert!(matches!(own.step(), Step::Copies));
        over.leave();
        assert!(matches!(own.step(), Step::New) && own.is_done(0) && !own.is_done(1));
        std::thread::sleep(LEAD + LAG);
        assert!(over.is_cut());
    }
}
