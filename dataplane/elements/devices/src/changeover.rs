//! An interface goes from one group of packet sockets to another one, with more or fewer of them,
//! while frames come.
//!
//! The new group is opened beside the former one, so for a while each frame comes to both. (With a
//! socket more in one group, frames would be lost or come twice while it joins.) First, packets
//! are made of what the former sockets give, and what the new ones have is passed over. Then no
//! thread passes anything over any more, and the former sockets let nothing in. What they have is
//! taken, and noted; of what the new sockets have, frames that were noted are left out. So each
//! frame is taken once, whenever the kernel delivers it. The kernel stamps each frame once, when it
//! comes: by that and its first bytes it is known again.
//!
//! No thread takes anything from a new socket before all former ones are empty and what they gave
//! has passed: so no packet of a flow overtakes another one.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use thruway_port::af_packet::{Frame, Stamps};
use thruway_sync::atomic::{AtomicUsize, Ordering};

/// The kernel stamps frames so long after it was asked to.
const LEAD: Duration = Duration::from_millis(200);
/// A frame that came before the former sockets were shut is in the new ones' rings by then.
const LAG: Duration = Duration::from_millis(200);
/// The same after so many frames: several times what the rings hold.
const TURNED: usize = 1 << 16;
/// Bytes of a frame by which it is known again.
const KNOWN_BY: usize = 64;
/// How often a replica looks, nanoseconds.
pub(super) const LOOK_NS: i64 = 2_000_000;

/// By which a frame is known again.
pub(super) fn key(frame: &Frame<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (frame.timestamp_ns, frame.bytes.len()).hash(&mut hasher);
    frame.bytes[..frame.bytes.len().min(KNOWN_BY)].hash(&mut hasher);
    hasher.finish()
}

/// What the replicas share. Each step begins when all have finished the one before.
pub(super) struct Changeover {
    begin: Instant,
    replicas: usize,
    /// Replicas that read former sockets.
    readers: usize,
    /// Of these, those that may begin.
    ready: AtomicUsize,
    /// Replicas that pass nothing over any more.
    frozen: AtomicUsize,
    /// Readers that still have former sockets.
    left: AtomicUsize,
    /// What former sockets gave, once they are closed.
    taken: Mutex<Arc<HashSet<u64>>>,
    _stamps: Stamps,
}

impl Changeover {
    /// Of an interface whose new sockets are open, one for each replica, and whose former ones so
    /// many replicas read.
    ///
    /// # Errors
    /// The kernel does not stamp frames.
    pub(super) fn begin(
        name: &str,
        (replicas, readers): (usize, usize),
    ) -> Result<Arc<Changeover>, String> {
        let stamps = Stamps::begin(name).map_err(|error| error.to_string())?;
        Ok(Arc::new(Changeover {
            begin: Instant::now(),
            replicas,
            readers,
            ready: AtomicUsize::new(0),
            frozen: AtomicUsize::new(0),
            left: AtomicUsize::new(readers),
            taken: Mutex::default(),
            _stamps: stamps,
        }))
    }

    /// A reader has emptied its former sockets.
    fn leave(&self, taken: HashSet<u64>) {
        Arc::make_mut(&mut *self.taken.lock()).extend(taken);
        // Release: to the Acquire of those that wait, so that its packets are before theirs.
        self.left.fetch_sub(1, Ordering::Release);
    }
}

/// One replica's part, with former sockets of this type.
pub(super) struct Change<S> {
    over: Arc<Changeover>,
    /// The former sockets that it reads.
    pub(super) former: Vec<S>,
    is_ready: bool,
    is_frozen: bool,
    /// What its former sockets gave.
    pub(super) noted: HashSet<u64>,
    /// What all gave, and when all had closed theirs.
    known: Option<(Arc<HashSet<u64>>, Instant)>,
    /// Frames of the new socket since.
    seen: usize,
    /// There was something at the last look.
    pub(super) found: bool,
}

impl<S> Change<S> {
    pub(super) fn new(over: Arc<Changeover>, former: Vec<S>) -> Change<S> {
        Change {
            over,
            former,
            is_ready: false,
            is_frozen: false,
            noted: HashSet::new(),
            known: None,
            seen: 0,
            found: false,
        }
    }

    /// Goes on with the next step, if it is time; `is_changing` says whether a former socket still
    /// takes the place of others.
    pub(super) fn advance(&mut self, is_changing: impl Fn(&S) -> bool) {
        let over = &self.over;
        let may_begin = || self.former.iter().all(|former| !is_changing(former));
        if !self.is_ready && over.begin.elapsed() > LEAD && !self.former.is_empty() && may_begin() {
            self.is_ready = true;
            over.ready.fetch_add(1, Ordering::Release);
        }
        if !self.is_frozen && over.ready.load(Ordering::Acquire) == over.readers {
            self.is_frozen = true;
            // Release: what was passed over came before the former sockets are shut.
            over.frozen.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether former sockets may be shut: nothing is passed over any more.
    pub(super) fn may_shut(&self) -> bool {
        self.over.frozen.load(Ordering::Acquire) == self.over.replicas
    }

    /// Whether what the new socket has is passed over.
    pub(super) fn passes_over(&self) -> bool {
        !self.is_frozen
    }

    /// A former socket is empty, and takes nothing more; what it gave has passed.
    pub(super) fn drop_former(&mut self, at: usize) -> S {
        let former = self.former.swap_remove(at);
        if self.former.is_empty() {
            self.over.leave(std::mem::take(&mut self.noted));
        }
        former
    }

    /// What all former sockets gave, once they are closed.
    pub(super) fn known(&mut self) -> Option<Arc<HashSet<u64>>> {
        if self.known.is_none() && self.over.left.load(Ordering::Acquire) == 0 {
            self.known = Some((Arc::clone(&*self.over.taken.lock()), Instant::now()));
        }
        self.known.as_ref().map(|(known, _)| Arc::clone(known))
    }

    /// The new socket gave so many frames, and may have no more now: whether all is as if there
    /// had been no other one.
    pub(super) fn is_done(&mut self, count: usize, is_empty: bool) -> bool {
        self.seen += count;
        let is_late = self.known.as_ref().is_some_and(|(_, since)| since.elapsed() > LAG);
        is_late && (is_empty || self.seen > TURNED)
    }
}

impl<S> Drop for Change<S> {
    /// A replica that ends before leaves the others nothing to wait for.
    fn drop(&mut self) {
        if !self.former.is_empty() {
            self.over.leave(HashSet::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_waits_for_all() {
        let over = Changeover::begin("lo", (2, 1)).expect("a socket");
        let part = || Change::<()>::new(Arc::clone(&over), Vec::new());
        let (mut one, mut other) = (part(), part());
        one.advance(|()| false);
        assert!(one.passes_over(), "the reader is not ready");
        over.ready.fetch_add(1, Ordering::Release);
        one.advance(|()| false);
        assert!(!one.passes_over() && other.passes_over() && !one.may_shut());
        other.advance(|()| false);
        assert!(one.may_shut() && one.known().is_none());
        over.leave(HashSet::from([7]));
        assert!(one.known().is_some_and(|known| known.contains(&7)));
        assert!(!one.is_done(0, true), "a late frame may come");
        std::thread::sleep(LAG);
        assert!(!one.is_done(1, false) && one.is_done(0, true) && one.is_done(TURNED, false));
    }
}
