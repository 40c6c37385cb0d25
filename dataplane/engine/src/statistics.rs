//! All counters of a router at once, for monitoring: the handler `statistics`.

use std::fmt::Write as _;
use std::sync::Arc;

use thruway_clock::ClockStats;
use thruway_element::{NodeStats, Stats};
use thruway_packet::cycles;
use thruway_sync::Counter;
use thruway_sync::atomic::Ordering;

use crate::clock::real_now;
use crate::control::Control;
use crate::layout::Layout;

/// A line each, its words separated by tabs; counts are since the start:
///
/// - `time CYCLES NANOSECONDS`: the cycle counter and the system's clock, now;
/// - `thread NUMBER IDLE MADE PACKETS BATCHES CYCLES`: cycles without anything to do; packets that
///   its sources made; packets and batches that its elements were given, and cycles these took;
/// - `clock NUMBER PHASE HERTZ ERROR LOOKS JUMPS LATE FAILURES`, of each thread: what its clock is
///   at, the cycles per second that it goes by, and how many nanoseconds the system's clock was
///   ahead at the last look;
/// - `sleep NUMBER SLEEPS RINGS`, of each thread: how often it slept (a system call), and how often
///   another thread woke it (another one, and one to take that off);
/// - `gap NUMBER WHEN OWN WHOLE KIND NAME`, of each thread: how long it was away from its round at
///   most, WHEN is worst (since its start) or recent (the last five to ten seconds): OWN
///   nanoseconds for what KIND and NAME say, WHOLE with the time in which it waited for a
///   processor. 0 where no round took as long as half a millisecond;
/// - `element NAME CLASS PACKETS BATCHES CYCLES MADE`, over all threads; MADE are packets that it
///   made besides those that came;
/// - `drop NAME REASON PACKETS FATE`, after the element, for reasons that occurred: `lost`,
///   `diverted` (they left by another output), or `consumed` (they did what they came for).
pub(crate) fn lines(layout: &Layout, control: &Control) -> String {
    let mut text = format!("time\t{}\t{}\n", cycles(), real_now());
    for (thread, stats) in control.stats().iter().enumerate() {
        let sources = stats.iter().enumerate().filter(|(at, _)| layout.checked.ninputs(*at) == 0);
        let made: u64 = sources.map(|(_, node)| node.packets.get()).sum();
        let idle = control.idle_cycles(thread);
        let _ = writeln!(text, "thread\t{thread}\t{idle}\t{made}\t{}", counts(stats.iter()));
    }
    for thread in 0..control.stats().len() {
        let (phase, clock) = control.mailbox(thread).clock.get();
        let ClockStats { hertz, error_ns, looks, jumps, late, failures } = clock;
        let _ = write!(text, "clock\t{thread}\t{phase}\t{hertz}\t{error_ns}\t");
        let _ = writeln!(text, "{looks}\t{jumps}\t{late}\t{failures}");
    }
    for thread in 0..control.stats().len() {
        let mailbox = control.mailbox(thread);
        let rings = mailbox.rings.load(Ordering::Relaxed);
        let _ = writeln!(text, "sleep\t{thread}\t{}\t{rings}", mailbox.sleeps.get());
    }
    text += &gaps(layout, control);
    for (node, decl) in layout.graph.elements.iter().enumerate() {
        let replicas = || control.stats().iter().filter_map(|stats: &Arc<Stats>| stats.get(node));
        let made: u64 = replicas().map(|stats| stats.made.get()).sum();
        let work = counts(replicas());
        let _ = writeln!(text, "element\t{}\t{}\t{work}\t{made}", decl.name, decl.class);
        for (at, drop) in decl.spec.reasons().enumerate() {
            let sum = |of: fn(&NodeStats) -> &[Counter]| -> u64 {
                replicas().map(|stats| of(stats).get(at).map_or(0, Counter::get)).sum()
            };
            let diverted = sum(|stats| &stats.diverted);
            // The two are not read in one moment.
            let other = sum(|stats| &stats.drops).saturating_sub(diverted);
            let fate = if drop.is_consumed { "consumed" } else { "lost" };
            for (count, fate) in [(other, fate), (diverted, "diverted")] {
                if count > 0 {
                    let _ = writeln!(text, "drop\t{}\t{}\t{count}\t{fate}", decl.name, drop.name);
                }
            }
        }
    }
    text
}

/// The lines `gap` of [`lines`].
pub(crate) fn gaps(layout: &Layout, control: &Control) -> String {
    let mut text = String::new();
    for thread in 0..control.stats().len() {
        let gaps = &control.mailbox(thread).gaps;
        for (when, gap) in [("worst", gaps.worst()), ("recent", gaps.recent())] {
            let (own, whole, cause) = (gap.own_ns, gap.whole_ns, gap.cause(layout));
            let _ = writeln!(text, "gap\t{thread}\t{when}\t{own}\t{whole}\t{cause}");
        }
    }
    text
}

/// `PACKETS BATCHES CYCLES` of all of them.
fn counts<'a>(nodes: impl Iterator<Item = &'a NodeStats> + Clone) -> String {
    let sum = |count: fn(&NodeStats) -> u64| nodes.clone().map(count).sum::<u64>();
    let packets = sum(|stats| stats.packets.get());
    format!("{packets}\t{}\t{}", sum(|s| s.batches.get()), sum(|s| s.cycles.get()))
}
