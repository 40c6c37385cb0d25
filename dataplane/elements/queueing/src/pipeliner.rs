//! Pipeliner: packets go on in another thread.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Handoff, HandoffQueue, Operation, Reason,
    Replicas, Spec, Threading, Topic, Ty,
};
use thruway_packet::{Batch, MAX_BATCH};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Pipeliner>(Spec {
    name: "Pipeliner",
    topic: Topic::Queueing,
    summary: "hands packets to its own thread, which pushes them on",
    docs: "Each thread that pushes packets into it has a ring of CAPACITY packets; the thread that \
           the element is placed on (StaticThreadSched) empties all rings, up to BURST packets of \
           each at a time, and the elements behind run in that thread only. What that thread \
           pushes itself goes straight through, unless DIRECT_TRAVERSAL is false. A packet that \
           comes to a full ring is dropped or, with BLOCKING true, its thread waits, for a second \
           at most. The thread that empties a ring is woken if it sleeps, so ALWAYS_UP makes no \
           difference.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> p :: Pipeliner -> Discard;\n\
              StaticThreadSched(p 1)",
    ports: "1/1",
    processing: "h/h",
    threading: Threading::Pipeline,
    changes: Changes::Nothing,
    cost: &[Operation::Store.once()],
    replicas: Replicas::Sharing(
        "the rings, one from each thread to the thread that packets are handed to",
    ),
    ..Spec::DEFAULT
})
.with_handoff_queue::<Pipeliner>();

/// Longest wait for room: a thread that stops must not wait for one that has.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Smallest ring, and largest.
const CAPACITIES: std::ops::RangeInclusive<usize> = 4..=1 << 24;

#[derive(Arguments, Handlers)]
#[handler(sum, field = count, "packets that went into a ring")]
#[handler(sum, field = dropped, "packets for which there was no room")]
#[handler(both, field = active, "whether rings are emptied")]
struct Pipeliner {
    /// The thread of this replica, and the one that empties the rings.
    #[new(args.env().thread)]
    thread: usize,
    home: usize,
    /// packets in a ring
    #[arg(optional, or = "1024", via = in_range)]
    capacity: usize,
    /// packets of a ring at a time; 0 for all there are
    #[arg(optional, or = "32", as = i32, via = burst_of)]
    burst: usize,
    /// whether threads wait for room
    #[arg(optional, or = "false")]
    blocking: bool,
    /// whether rings are emptied
    #[arg(keyword, or = "true")]
    active: bool,
    /// whether its own thread uses no ring
    #[arg(keyword, name = "DIRECT_TRAVERSAL", or = "true")]
    direct: bool,
    #[arg(
        keyword, name = "ALWAYS_UP", unread, ty = Ty::Bool,
        "makes no difference: packets wake the thread"
    )]
    #[arg(
        keyword, name = "NOUSELESS", unread, ty = Ty::Bool,
        "makes no difference: nothing is reported of a useless Pipeliner"
    )]
    #[arg(
        keyword, name = "VERBOSE", unread, ty = Ty::Bool,
        "makes no difference: drops are counted, not reported"
    )]
    count: u64,
    dropped: u64,
}

fn in_range(capacity: usize) -> Result<usize, String> {
    let (least, most) = CAPACITIES.into_inner();
    match CAPACITIES.contains(&capacity) {
        true => Ok(capacity),
        false => Err(format!("must be between {least} and {most}")),
    }
}

fn burst_of(burst: i32) -> Result<usize, Infallible> {
    Ok(usize::try_from(burst).ok().filter(|burst| *burst > 0).unwrap_or(MAX_BATCH))
}

impl Pipeliner {
    /// Whether this thread is the one that empties the rings.
    #[inline]
    fn is_home(&self) -> bool {
        self.thread == self.home
    }

    /// Goes on handing packets over as room comes, and says how many.
    #[cold]
    fn wait(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> usize {
        let (mut handed, since) = (0, Instant::now());
        while !batch.is_empty() && since.elapsed() < WAIT_MAX {
            std::thread::yield_now();
            handed += cx.try_handoff(self.home, batch);
        }
        handed
    }
}

impl Element for Pipeliner {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let node = cx.node();
        self.home = cx.threads().home(node);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if self.direct && self.is_home() {
            return;
        }
        let mut handed = cx.try_handoff(self.home, batch);
        if !batch.is_empty() && self.blocking && !self.is_home() {
            handed += self.wait(cx, batch);
        }
        self.count += handed as u64;
        if !batch.is_empty() {
            self.dropped += batch.len() as u64;
            cx.drop_all(Reason::CONGESTION, batch);
        }
    }
}

impl HandoffQueue for Pipeliner {
    fn rings(&self) -> Handoff {
        Handoff { capacity: self.capacity, to_itself: !self.direct }
    }

    fn room(&self) -> usize {
        if self.active { self.burst } else { 0 }
    }

    /// They go on in this thread.
    fn handed(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let _ = (cx, batch);
    }
}
