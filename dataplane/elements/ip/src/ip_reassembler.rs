//! IPReassembler: whole packets from fragments.

mod partial;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use thruway_element::{
    AnnoArg, Arg, ArgErrors, Args, Cx, Element, Entry, Handlers, Operation, Reason, Replicas,
    ShortCut, Spec, Threading, Topic, Ty, Verdict, reasons,
};
use thruway_packet::{Anno, Batch, Packet};
use thruway_wire::Header;
use thruway_wire::ipv4::Ipv4Header;

use partial::{Fragment, Partial};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<IpReassembler>(
    Spec {
        name: "IPReassembler",
        topic: Topic::Ip,
        summary: "makes whole IP packets of fragments",
        docs: "Expects packets whose IP header is marked; those that are no fragments pass \
               unchanged. Fragments are held until a packet is whole (RFC 791 section 3.2); it \
               then begins with its IP header, has the annotations of its first fragment and the \
               timestamp of its last. Where fragments overlap, the bytes of the later one \
               count.\n\n\
               A packet without a new fragment for 30 seconds of packet time (checked every 10 \
               seconds, when fragments come) is given up: what there is of it, at its place, \
               leaves by output 1, or is dropped where there is none. So are the oldest ones when \
               all that is held exceeds HIMEM bytes, until it is 3/4 of that. Fragments that \
               cannot be (empty, beyond 65,535 bytes, beyond the last, or not the last and no \
               multiple of 8 bytes long) are dropped. With MAX_MTU_ANNO, that annotation of a \
               whole packet gets the length of its longest fragment.\n\n\
               Where several threads bring packets, those that one host sends another by one \
               protocol are put together by one of them, to which the others hand their fragments; \
               a whole packet goes on in that thread. Each may hold its part of HIMEM, and one \
               packet in any case.",
        example: "InfiniteSource(\\<4500001c0001000040110000010000010200000200010002000800000000>, \
                  LIMIT 1, STOP true) -> MarkIPHeader -> SetIPChecksum -> IPFragmenter(24) \
                  -> IPReassembler -> CheckIPHeader -> Print(ok) -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        args: &[
            Arg::keyword("HIMEM", Ty::Size, "most bytes of fragments held").or("262144"),
            Arg::keyword("MAX_MTU_ANNO", Ty::Anno, "annotation for the longest fragment's length"),
        ],
        drops: IpReassemblerDrop::DROPS,
        threading: Threading::Handoff,
        cost: &[Operation::HeaderRead.once()],
        replicas: Replicas::Apart(
            "each puts together what some hosts send others, and hands it the fragments of the rest",
        ),
        short_cut: ShortCut::Passes,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet is not whole in the end.
    enum IpReassemblerDrop {
        NoHeader = "no-ip-header": "no IP header is marked",
        Fragment = "bad-fragment": "its length or place cannot be",
        Timeout = "timeout": "the other fragments did not come",
        Memory = "himem": "there were too many bytes of other fragments",
        Joined = "joined": "its bytes went on in the whole packet",
        Unfinished = "unfinished": "the other fragments had not come when the run ended",
    }
}

/// Nanoseconds without a fragment after which a packet is given up.
const REAP_TIMEOUT: i64 = 30_000_000_000;
/// Nanoseconds between two looks for such packets.
const REAP_INTERVAL: i64 = 10_000_000_000;
/// Least HIMEM in bytes: one packet must fit.
const MIN_HIMEM: usize = 65_536;

/// Which packet a fragment is of (RFC 791 section 3.2).
type Key = (u32, u32, u16, u8);

#[derive(Handlers)]
#[handler(sum, name = "held", "packets of which there are some fragments", get = self.held.len())]
#[handler(sum, field = memory, "bytes held")]
#[handler(sum, field = handed, "fragments handed over to another thread")]
struct IpReassembler {
    held: HashMap<Key, Partial>,
    memory: usize,
    himem: usize,
    mtu_anno: Option<Anno>,
    /// When packets to give up are looked for next.
    reap_at: i64,
    /// Packets given up in this batch.
    given_up: Vec<(IpReassemblerDrop, Partial)>,
    /// Fragments of this batch, and those before, of packets that became whole, but for the last.
    joined: usize,
    /// The thread of this replica, and the threads of all.
    thread: usize,
    threads: Vec<usize>,
    /// Fragments that were handed over.
    handed: u64,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let himem: u32 = args.get("HIMEM")?;
    let mtu_anno = match args.opt::<AnnoArg>("MAX_MTU_ANNO")? {
        Some(AnnoArg(anno)) => Some(
            Anno::at(anno.offset.into(), 2)
                .ok_or_else(|| args.error("MAX_MTU_ANNO", "there are fewer than 2 bytes"))?,
        ),
        None => None,
    };
    Ok(Box::new(IpReassembler {
        held: HashMap::new(),
        memory: 0,
        himem: (himem as usize / args.env().threads.max(1)).max(MIN_HIMEM),
        mtu_anno,
        reap_at: i64::MIN,
        given_up: Vec::new(),
        joined: 0,
        thread: args.env().thread,
        threads: Vec::new(),
        handed: 0,
    }))
}

/// The fate of an arriving packet.
enum Fate {
    /// It is no fragment.
    Whole,
    /// It completed a packet, which takes its place.
    Completed(Partial),
    /// It is held.
    Held,
    /// The replica in another thread puts its packet together.
    Other(usize),
    Drop(IpReassemblerDrop),
}

impl IpReassembler {
    /// The other thread that puts a fragment's packet together. One does so for all that one host
    /// sends another by one protocol, so that whole packets keep their order; fragments of a packet
    /// may come in by several threads where the first one is spread by its ports, for the others
    /// have none, or where a sender changes its queue.
    #[inline]
    fn other(&self, ip: &Ipv4Header) -> Option<usize> {
        if self.threads.len() < 2 {
            return None;
        }
        let pair = u64::from(ip.src()) << 32 | u64::from(ip.dst());
        let mixed = (pair ^ u64::from(ip.protocol())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
        let other = self.threads[((place * self.threads.len() as u64) >> 32) as usize];
        (other != self.thread).then_some(other)
    }

    fn take(&mut self, packet: &mut Packet, now: i64) -> Fate {
        let Ok((ip, options, payload)) = Ipv4Header::parse_with_options(packet.network()) else {
            return Fate::Drop(IpReassemblerDrop::NoHeader);
        };
        if !ip.is_fragment() {
            return Fate::Whole;
        }
        if let Some(other) = self.other(ip) {
            return Fate::Other(other);
        }
        let Some(fragment) = Fragment::new(ip, options, payload) else {
            return Fate::Drop(IpReassemblerDrop::Fragment);
        };
        let time = match packet.timestamp() {
            0 => now,
            time => time,
        };
        self.reap(time);
        let key = (ip.src(), ip.dst(), ip.id(), ip.protocol());
        let partial = self.held.entry(key).or_default();
        let before = partial.memory();
        let fits = partial.add(&fragment, packet, time);
        let whole = partial.is_whole();
        self.memory = self.memory - before + partial.memory();
        if !fits {
            return Fate::Drop(IpReassemblerDrop::Fragment);
        }
        if !whole {
            return Fate::Held;
        }
        match self.forget(&key) {
            Some(partial) => Fate::Completed(partial),
            None => Fate::Held,
        }
    }

    fn forget(&mut self, key: &Key) -> Option<Partial> {
        let partial = self.held.remove(key)?;
        self.memory -= partial.memory();
        Some(partial)
    }

    /// Gives up what is too old, and the oldest when there is too much.
    fn reap(&mut self, now: i64) {
        let old = now >= self.reap_at;
        if !old && self.memory <= self.himem {
            return;
        }
        let mut ages: Vec<(i64, Key)> =
            self.held.iter().map(|(key, partial)| (partial.last(), *key)).collect();
        ages.sort_unstable();
        let low = self.himem / 4 * 3;
        let mut too_much = self.memory > self.himem;
        for (last, key) in ages {
            let why = match () {
                () if old && last < now.saturating_sub(REAP_TIMEOUT) => IpReassemblerDrop::Timeout,
                () if too_much && self.memory > low => IpReassemblerDrop::Memory,
                () => break,
            };
            if let Some(partial) = self.forget(&key) {
                self.given_up.push((why, partial));
            }
        }
        too_much &= self.memory > low;
        debug_assert!(!too_much);
        if old {
            self.reap_at = now.saturating_add(REAP_INTERVAL);
        }
    }

    /// Sends what there is of packets that were given up.
    #[cold]
    fn emit_given_up(&mut self, cx: &mut Cx<'_>) {
        for (why, partial) in self.given_up.drain(..) {
            cx.count_drops(why, partial.count());
            if cx.outputs() > 1
                && let Some(packet) = partial.assemble()
            {
                cx.count_made(1);
                cx.emit(1, packet);
            }
        }
    }

    /// The packet itself, or the whole one that it completed.
    fn judge(&mut self, packet: &mut Packet, now: i64) -> Verdict {
        match self.take(packet, now) {
            Fate::Whole => Verdict::Pass,
            Fate::Drop(bad) => Verdict::drop(bad),
            // Its bytes are kept; the frame goes.
            Fate::Held => Verdict::To(HELD),
            Fate::Other(thread) => Verdict::To(OTHER + thread),
            Fate::Completed(partial) => {
                self.joined += partial.count() - 1;
                let Some(mut whole) = partial.assemble() else {
                    return Verdict::Drop(Reason::NO_MEMORY);
                };
                if let Some(anno) = self.mtu_anno {
                    whole.set_anno_number(anno, partial.longest().into());
                }
                std::mem::swap(packet, &mut whole);
                Verdict::Pass
            }
        }
    }
}

/// Not an output: the fragment is held.
const HELD: usize = usize::MAX;
/// From here on not an output either, but a thread.
const OTHER: usize = usize::MAX / 2;

impl Element for IpReassembler {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let node = cx.node();
        self.threads = cx.threads().having(node).to_vec();
        match cx.is_pull_input(0) && self.threads.len() > 1 {
            true => {
                Err("several threads pull packets here: have one of them do so, or push".into())
            }
            false => Ok(()),
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let now = cx.now();
        batch.extract(
            |packet| match self.judge(packet, now) {
                Verdict::Pass => None,
                other => Some(other),
            },
            |packet, verdict| match verdict {
                Verdict::To(HELD) => drop(packet),
                Verdict::To(other) if other >= OTHER => cx.stage(other - OTHER, packet),
                other => cx.apply(packet, other),
            },
        );
        if self.joined > 0 {
            cx.count_drops(IpReassemblerDrop::Joined, std::mem::take(&mut self.joined));
        }
        if !self.given_up.is_empty() {
            self.emit_given_up(cx);
        }
        self.handed += cx.handoff_staged() as u64;
    }

    /// Counts the fragments that can no longer be completed.
    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let unfinished = self.held.drain().map(|(_, partial)| partial.count()).sum();
        self.memory = 0;
        cx.count_drops(IpReassemblerDrop::Unfinished, unfinished);
        Ok(())
    }
}
