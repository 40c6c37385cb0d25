//! How the threads that read a port of DPDK share its queues.

use std::ops::Range;

use thruway_element::{Arg, ArgErrors, Args, Share, Ty};
use thruway_port::dpdk;

use super::super::sharing;

pub(in super::super) const QUEUE: Arg =
    Arg::optional("QUEUE", Ty::UInt, "the first queue to read; the next free one");
pub(in super::super) const N_QUEUES: Arg = Arg::optional(
    "N_QUEUES",
    Ty::UInt,
    "queues to read; one for each thread that reads, one with QUEUE",
);

/// The number of queues to read, if the arguments say it.
pub(in super::super) fn wanted(args: &Args<'_>) -> Result<Option<u16>, ArgErrors> {
    match args.opt("N_QUEUES")? {
        Some(0) => Err(args.error("N_QUEUES", "must be at least 1").into()),
        None if args.given("QUEUE") => Ok(Some(1)),
        wanted => Ok(wanted),
    }
}

/// The threads that may read a port: those that the user allows, one for each queue at most.
/// DPDK's drivers are not asked, since it does not run yet: where a port has fewer queues than is
/// thought here, it is refused when it is opened.
pub(in super::super) fn shares(args: &Args<'_>) -> Result<Share, ArgErrors> {
    let share = sharing::allowed(args)?;
    let port: String = args.get("PORT")?;
    let queues = wanted(args)?.map(usize::from).or_else(|| reported(&port));
    let most = [share.most, queues].into_iter().flatten().min();
    let node = if args.get("NUMA")? { dpdk::node(&port) } else { None };
    Ok(Share { most, node, ..share })
}

/// The queues that the arguments of a virtual device give it, where it has no more.
fn reported(port: &str) -> Option<usize> {
    let mut arguments = port.split(',');
    let name = arguments.next().unwrap_or_default();
    if name.starts_with("net_af_packet") {
        let pairs = arguments.find_map(|argument| argument.strip_prefix("qpairs="));
        return Some(pairs.and_then(|pairs| pairs.parse().ok()).unwrap_or(1));
    }
    // Another element may give the arguments, and then this one does not know.
    let is_source = |argument: &&str| argument.starts_with("rx_") || argument.starts_with("iface=");
    let sources = arguments.filter(is_source).count();
    (name.starts_with("net_pcap") && sources > 0).then_some(sources)
}

/// The part of an element's queues that the replica of this rank reads: as many as another's, or
/// one more.
pub(in super::super) fn part(all: Range<u16>, rank: usize, threads: usize) -> Range<u16> {
    let at = |rank: usize| all.start + (all.len() * rank / threads.max(1)) as u16;
    at(rank)..at(rank + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_devices_tell_their_queues() {
        assert_eq!(reported("net_af_packet0,iface=x"), Some(1));
        assert_eq!(reported("net_af_packet0,iface=x,qpairs=4"), Some(4));
        assert_eq!(reported("net_pcap0,rx_pcap=a,rx_pcap=b,tx_pcap=c"), Some(2));
        assert_eq!(reported("net_pcap1,iface=x"), Some(1));
        for other in ["net_pcap0", "net_pcap0,tx_pcap=c", "net_tap0,iface=x", "0000:02:00.0", ""] {
            assert_eq!(reported(other), None, "{other}");
        }
    }

    #[test]
    fn every_queue_is_one_threads() {
        assert_eq!(part(3..4, 0, 1), 3..4);
        let parts: Vec<_> = (0..3).map(|rank| part(2..9, rank, 3)).collect();
        assert_eq!(parts, [2..4, 4..6, 6..9]);
    }
}
