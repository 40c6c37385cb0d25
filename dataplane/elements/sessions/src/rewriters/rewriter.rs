//! The one rewriter of which the elements are classes.

use std::any::Any;

use thruway_element::{
    Cost, CostModel, Cx, Element, HotSwap, Load, Names, Operation, Verdict, reasons,
};
use thruway_elements_support::reaching::finding;
use thruway_flow::table::Found;
use thruway_packet::{Anno, Batch, MAX_BATCH, Packet};
use thruway_wire::flow::FiveTuple;

use crate::rewrite::{Ends, set_ends};
use crate::rewriters::class::{Class, NO_KEY, Quoted};
use crate::rewriters::input::{Decision, Rule};
use crate::rewriters::store::{FlowDirection, Key, New, Owner, Rewritten, Store, key_of, ticks};
use thruway_elements_support::random::Secret;

reasons! {
    /// Why a packet goes no further.
    pub(super) enum RewriterDrop {
        NoMapping = "no-mapping": "no mapping knows it, and its input makes none",
        NoFlow = "no-flow": "a fragment, cut short, or of another protocol, and its input passes none",
        Failed = "mapping-failed": "no port or address is free for it, or there is no room for its mapping",
    }
}

/// How often the table is looked through for what is over, while there is more, in nanoseconds.
const REAP_AGAIN_NS: i64 = 1_000_000;

/// One input.
pub(super) struct Input {
    pub rule: Rule,
    /// Mappings that could not be made.
    pub failures: u64,
}

/// Where the mappings are.
#[derive(Clone)]
pub(super) enum Keeper {
    /// Here.
    Own,
    /// At the rewriter of this name, which shares its capacity.
    Named(String),
    /// At this element.
    Node(u32),
}

/// The annotations that are set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Annos {
    pub dst: bool,
    /// Of the packet that made the mapping, for replies.
    pub reply: Option<Anno>,
    /// The number of the mapping.
    pub aggregate: bool,
}

/// Room for what is found out about a batch.
#[derive(Default)]
struct Work {
    keys: Vec<Key>,
    found: Vec<Found>,
}

/// See the module.
pub(super) struct Rewriter {
    pub class: Class,
    pub inputs: Vec<Input>,
    pub outputs: usize,
    /// Number of its thread among those that reach it.
    pub rank: usize,
    pub annos: Annos,
    /// Nanoseconds; 0 for never.
    pub reap_ns: i64,
    pub keeper: Keeper,
    /// The mappings; absent where they are elsewhere, or lent.
    pub store: Option<Box<Store>>,
    /// Its number among the rewriters that share them.
    pub owner: u16,
    /// Its limits, until it has joined.
    pub limits: Owner,
    pub random: Secret,
    pub names: Names,
    /// What the inputs were made of, to be compared with a successor's.
    pub texts: Vec<String>,
    work: Work,
}

impl Work {
    fn new() -> Work {
        let (keys, found) = (Vec::with_capacity(MAX_BATCH), Vec::with_capacity(MAX_BATCH));
        Work { keys, found }
    }

    /// Finds the mappings of all packets.
    #[inline]
    fn look_up(&mut self, class: Class, owner: u16, store: &Store, batch: &mut Batch) {
        self.keys.clear();
        let key = |packet: &Packet| match class.flow(packet) {
            Some(flow) => key_of(&flow, owner),
            None => NO_KEY,
        };
        self.keys.extend(batch.iter().map(key));
        self.found.clear();
        self.found.resize(self.keys.len(), Found::NONE);
        store.find_batch(&self.keys, &mut self.found);
    }
}

/// A rewriter while it works on a batch.
struct Working<'a> {
    class: Class,
    owner: u16,
    input: &'a mut Input,
    number: u16,
    annos: Annos,
    random: &'a mut Secret,
    store: &'a mut Store,
    now: u32,
}

impl Working<'_> {
    /// A packet, with what was found by its key.
    #[inline]
    fn one(&mut self, packet: &mut Packet, key: &Key, found: Found) -> Verdict {
        let direction = match self.store.is_changed {
            false => self.store.direction(found),
            true => self.store.find(key),
        };
        match direction {
            Some(direction) => self.pass(packet, direction, false),
            None => self.other(packet, key),
        }
    }

    /// A packet with an unknown key.
    #[inline(never)]
    fn other(&mut self, packet: &mut Packet, key: &Key) -> Verdict {
        if *key == NO_KEY {
            return self.without(RewriterDrop::NoFlow);
        }
        let Some(flow) = self.class.flow(packet) else { return self.without(RewriterDrop::NoFlow) };
        let reply = self.class.reply_flow(packet);
        let (class, owner, now) = (self.class, self.owner, self.now);
        let known = reply.and_then(|reply| self.store.find(&key_of(&reply, owner)));
        let known = known
            .or_else(|| adopt(self.store, class, &flow, (owner, now)))
            .or_else(|| adopt(self.store, class, &reply?, (owner, now)));
        if let Some(direction) = known {
            return self.pass(packet, direction, false);
        }
        if !class.begins(&flow) {
            return self.without(RewriterDrop::NoMapping);
        }
        let anno = self.annos.reply.map_or(0, |anno| packet.anno_number(anno) as u8);
        match begin(self, &flow, anno) {
            Ok(direction) => self.pass(packet, direction, true),
            Err(verdict) => verdict,
        }
    }

    /// A packet that no mapping can be made for.
    fn without(&self, why: RewriterDrop) -> Verdict {
        match &self.input.rule {
            Rule::Pass(output) => to(*output),
            _ => Verdict::drop(why),
        }
    }

    /// A packet of a mapping.
    #[inline]
    fn pass(&mut self, packet: &mut Packet, direction: FlowDirection, is_first: bool) -> Verdict {
        let class = self.class;
        let segment = class.segment(packet);
        let track = |state, is_reply, flags| {
            class.track(segment.as_ref().map(|segment| (segment, flags)), state, is_reply)
        };
        let packet_is = (segment.as_ref(), is_first);
        let Some(rewritten) = self.store.meet(direction, self.now, packet_is, track) else {
            return Verdict::drop(RewriterDrop::Failed);
        };
        let ends = class.ends(&rewritten);
        if set_ends(packet, &ends, rewritten.ip, rewritten.transport).is_err() {
            return Verdict::drop(RewriterDrop::NoFlow);
        }
        if let Some(dst) = ends.dst.filter(|_| self.annos.dst) {
            packet.set_dst_ip(dst.to_be_bytes());
        }
        self.annotate(packet, direction, &rewritten);
        to(usize::from(rewritten.output))
    }

    #[inline]
    fn annotate(&mut self, packet: &mut Packet, direction: FlowDirection, rewritten: &Rewritten) {
        if let (true, Some(anno)) = (rewritten.is_reply, self.annos.reply) {
            packet.set_anno_number(anno, rewritten.anno.into());
        }
        if self.annos.aggregate {
            packet.set_anno_number(Anno::AGGREGATE, direction.index);
        }
        if let Some(number) = rewritten.sequences {
            self.store.sequences.apply(number, rewritten.is_reply, packet);
        }
    }
}

#[inline]
fn to(output: usize) -> Verdict {
    if output == 0 { Verdict::Pass } else { Verdict::To(output) }
}

/// The mapping of a flow that another thread has made, made known here.
#[inline(never)]
fn adopt(
    store: &mut Store,
    class: Class,
    flow: &FiveTuple<u32>,
    (owner, now): (u16, u32),
) -> Option<FlowDirection> {
    let (record, mut new) = store.known_elsewhere(flow, owner)?;
    (new.ip, new.transport) = class.deltas(&new.flow, &new.rewritten);
    store.begin(&new, Some(record), now).ok()?;
    store.find(&key_of(flow, owner))
}

/// Taken values that are inspected for a free one before an unanswered mapping is evicted.
const FREE_LOOKS: u32 = 256;

/// Which values are taken where a mapping is wanted, while free ones may be scarce.
///
/// A flood takes all of a range, and each value would stay in use until its mapping times out. Of
/// the inspected mappings that are evictable, one of the longest idle is evicted.
struct Scarce<'a> {
    store: &'a Store,
    class: Class,
    owner: u16,
    now: u32,
    /// Taken values that were looked at.
    looks: u32,
    /// Longest idle time, in ticks, of an evictable mapping.
    idle: u32,
}

impl Scarce<'_> {
    fn decide(&mut self, input: &Input, flow: &FiveTuple<u32>, random: &mut Secret) -> Decision {
        let (class, owner) = (self.class, self.owner);
        input.rule.decide(flow, random, |to| {
            let completed = class.completed(flow, *to);
            completed.is_none_or(|to| self.is_taken(&key_of(&to.reversed(), owner)))
        })
    }

    fn is_taken(&mut self, key: &Key) -> bool {
        if !self.store.is_taken(key) {
            return false;
        }
        self.looks += 1;
        let Some(idle) = self.store.yields(key, self.now) else { return true };
        self.idle = self.idle.max(idle);
        self.looks <= FREE_LOOKS || idle < self.idle / 2
    }
}

/// Makes a mapping for a flow, if the input says so.
fn begin(
    work: &mut Working<'_>,
    flow: &FiveTuple<u32>,
    anno: u8,
) -> Result<FlowDirection, Verdict> {
    let (class, owner) = (work.class, work.owner);
    let mut scarce = Scarce { store: work.store, class, owner, now: work.now, looks: 0, idle: 0 };
    let decision = match scarce.decide(work.input, flow, work.random) {
        Decision::Fail => {
            scarce.looks = FREE_LOOKS;
            scarce.decide(work.input, flow, work.random)
        }
        decision => decision,
    };
    let (rewritten, outputs) = match decision {
        Decision::Drop => return Err(Verdict::drop(RewriterDrop::NoMapping)),
        Decision::Pass(output) => return Err(to(output)),
        Decision::Map(rewritten, outputs) => (class.completed(flow, rewritten), outputs),
        Decision::Fail => {
            work.input.failures += 1;
            return Err(Verdict::drop(RewriterDrop::Failed));
        }
    };
    let made = rewritten.and_then(|rewritten| {
        let (ip, transport) = class.deltas(flow, &rewritten);
        let input = work.number;
        let new = New { owner, input, flow: *flow, rewritten, outputs, ip, transport, anno };
        work.store.begin(&new, None, work.now).ok()
    });
    made.ok_or_else(|| {
        work.input.failures += 1;
        Verdict::drop(RewriterDrop::Failed)
    })
}

impl Rewriter {
    pub(super) fn new(class: Class, limits: Owner, random: Secret, names: Names) -> Rewriter {
        Rewriter {
            class,
            inputs: Vec::new(),
            outputs: 0,
            rank: 0,
            annos: Annos { dst: true, reply: None, aggregate: false },
            reap_ns: 0,
            keeper: Keeper::Own,
            store: None,
            owner: 0,
            limits,
            random,
            names,
            texts: Vec::new(),
            work: Work::new(),
        }
    }

    /// The mapping of a flow, made as if a packet had come to `input` if there is none.
    pub(super) fn find_or_begin(
        &mut self,
        cx: &mut Cx<'_>,
        flow: &FiveTuple<u32>,
        input: Option<usize>,
    ) -> Option<FlowDirection> {
        let now = ticks(cx.now());
        self.with(cx, |this, store| {
            let known = store.find(&key_of(flow, this.owner));
            let known = known.or_else(|| adopt(store, this.class, flow, (this.owner, now)));
            if known.is_some() {
                return known;
            }
            let number = input?;
            let mut work = Working {
                class: this.class,
                owner: this.owner,
                input: this.inputs.get_mut(number)?,
                number: number as u16,
                annos: this.annos,
                random: &mut this.random,
                store,
                now,
            };
            begin(&mut work, flow, 0).ok()
        })?
    }

    /// What an answer to the packet that an ICMP error quotes would become, if a mapping knows it.
    pub(super) fn answer_to(
        &mut self,
        cx: &mut Cx<'_>,
        quoted: &Quoted,
    ) -> Option<(Ends, Rewritten)> {
        let back = self.class.quoted_back(quoted)?;
        let now = ticks(cx.now());
        self.with(cx, |this, store| {
            let (class, owner) = (this.class, this.owner);
            let dst = FiveTuple { src: 0, dst: quoted.src, ..back };
            let flows = [Some(back), (class == Class::Address).then_some(dst)];
            let here = |flow: &FiveTuple<u32>| store.find(&key_of(flow, owner));
            let known = flows.iter().flatten().find_map(here);
            let mut elsewhere = flows.iter().flatten();
            let direction = known
                .or_else(|| elsewhere.find_map(|flow| adopt(store, class, flow, (owner, now))))?;
            store.peek(direction).map(|rewritten| (class.ends(&rewritten), rewritten))
        })?
    }

    /// Looks through the table, and sees to it that it is done again.
    fn reap(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        let more = self.with(cx, |_, store| store.reap(ticks(now)));
        let wait = if more == Some(true) { REAP_AGAIN_NS } else { self.reap_ns };
        cx.set_timer(0, now.saturating_add(wait));
    }
}

impl Element for Rewriter {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.join(cx)?;
        if self.reap_ns > 0 {
            cx.set_timer(0, cx.now().saturating_add(self.reap_ns));
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        let Some(mut store) = self.take(cx) else {
            return cx.drop_all(RewriterDrop::Failed, batch);
        };
        self.work.look_up(self.class, self.owner, &store, batch);
        store.is_changed = false;
        if let Some(input) = self.inputs.get_mut(port) {
            let mut work = Working {
                class: self.class,
                owner: self.owner,
                input,
                number: port as u16,
                annos: self.annos,
                random: &mut self.random,
                store: &mut store,
                now: ticks(cx.now()),
            };
            let mut looked_up = self.work.keys.iter().zip(&self.work.found);
            cx.filter(batch, |packet| match looked_up.next() {
                Some((key, found)) => work.one(packet, key, *found),
                None => Verdict::drop(RewriterDrop::Failed),
            });
        }
        self.put(cx, store);
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.reap(cx);
    }
}

impl HotSwap for Rewriter {
    /// Not for shared mappings: the successor would not know their owners.
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let is_own = |store: &&Store| store.owners.len() == 1 && !store.is_shared();
        let capacity = self.store.as_deref().filter(is_own)?.capacity();
        // An empty one stays: the successor may fail, and give the mappings back.
        let seeds = [self.random.next_u64(), self.random.next_u64()];
        let empty = Store::new(capacity, self.limits.clone(), seeds);
        let store = self.store.replace(Box::new(empty))?;
        Some(Box::new(HandedOver { texts: self.texts.clone(), store }))
    }

    /// With other arguments the mappings begin anew: what made them is not there any more.
    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(handed) = state.downcast::<HandedOver>() else { return };
        if handed.texts == self.texts
            && let (Keeper::Own, Some(own)) = (&self.keeper, &self.store)
        {
            let capacity = own.capacity();
            let mut store = handed.store;
            store.owners[0].limits = self.limits.limits;
            store.adopt(capacity);
            self.store = Some(store);
        }
    }
}

impl CostModel for Rewriter {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        // The lender of a store reports its memory.
        let bytes = self.store.as_ref().map_or((0, 0.0), |store| store.mapping_bytes());
        let around = [Operation::HeaderRead.once(), Operation::RewriteIp.once()];
        Some(around.into_iter().chain(finding(bytes, load)).collect())
    }
}

/// What a successor takes over.
struct HandedOver {
    texts: Vec<String>,
    store: Box<Store>,
}
