//! Capabilities: optional abilities of elements besides handling packets.
//!
//! [`Element`] holds what every packet passes. Every other capability is a trait that only the
//! elements that need it implement, and that their registry entry ([`Entry`](crate::Entry))
//! registers for their type. The engine asks the entry for it. A capability that an element
//! implements but its entry does not register is never used: `verify/structure` finds those.

use std::any::Any;

use thruway_flow::chain::Demand;
use thruway_flow::manager::Settings;
use thruway_flow::{Ended, Rule};
use thruway_packet::Batch;
use thruway_payload::{Layer, Needs};

use crate::Element;
use crate::cost::{Apart, Cost, Load, Made};
use crate::cx::Cx;
use crate::exception::Exception;
use crate::handoff::Handoff;
use crate::storage::Storage;
use crate::stream_plan::StreamPlan;

/// A function of sessions: its demand on the flow manager depends on its arguments, or it must be
/// notified when sessions end.
pub trait SessionFunction: Element {
    /// Its demand; `None`: the one in its spec's [`Wants`](crate::Wants).
    fn demand(&self) -> Option<Demand> {
        None
    }

    /// Traffic class of input `port`, as `FlowDispatcher` takes it; `None`: its spec's.
    fn class(&self, port: usize) -> Option<String> {
        let _ = port;
        None
    }

    /// A session that this element had opened has ended; `state` is a copy of its scratch. Called
    /// exactly once for each.
    fn closed(&mut self, cx: &mut Cx<'_>, state: &[u8], why: Ended) {
        let _ = (cx, state, why);
    }
}

/// An element where classification begins.
pub trait FlowEntry: Element {
    /// The user's settings for the flow manager.
    fn settings(&self) -> Settings;
}

/// An element that sorts packets by rules of the flow manager.
pub trait FlowDispatch: Element {
    /// Its rules; with none, they follow from the elements behind its outputs.
    fn rules(&self) -> Vec<Rule>;

    /// For a dispatcher without rules of its own: the rules that follow from the elements behind
    /// its outputs, and the class of each output as text. Called before [`Element::initialize`].
    ///
    /// # Errors
    /// Why it cannot go by them.
    fn take_rules(&mut self, rules: &[Rule], classes: &[String]) -> Result<(), String>;
}

/// An element that decides how its rings are filled and emptied. Of others, which hand packets over
/// all the same ([`crate::Threading::hands_off`]), rings are [`Handoff::default`] and emptied by
/// [`Element::process`].
pub trait HandoffQueue: Element {
    /// Its rings. Asked once, before [`Element::initialize`].
    fn rings(&self) -> Handoff;

    /// Packets of each other thread that it takes in this round, at most; the rest waits in the
    /// ring. With 0 it takes none, and a stop does not wait for them.
    fn room(&self) -> usize;

    /// Handles packets that its replica in another thread handed off; they were counted there.
    /// Packets left in the batch go on as after [`Element::process`].
    fn handed(&mut self, cx: &mut Cx<'_>, batch: &mut Batch);
}

/// An element that begins or ends a context of streams, or is a function of the payload in one.
pub trait StreamMember: Element {
    /// The element's requirements on its own context, in addition to those of the functions in a
    /// context that it opens. `None` for an element without a [`Purpose`](crate::Purpose) in
    /// streams: as configured, it does not process payload.
    fn needs(&self) -> Option<Needs> {
        None
    }

    /// For an element where a context begins or ends: the requirements on the context, and the
    /// elements in it. Called before [`Element::initialize`].
    fn take_stream(&mut self, plan: &StreamPlan) {
        let _ = plan;
    }

    /// For a function of streams: it is in a context of this layer; called before
    /// [`Element::initialize`] for each context that it is in.
    fn take_context(&mut self, layer: Layer) {
        let _ = layer;
    }

    /// Called once it knows its context: the cases in which its functions cannot inspect their
    /// payload, and its action in each. `thruway check` prints them.
    fn exceptions(&self) -> Vec<Exception> {
        Vec::new()
    }
}

/// An element that keeps packets for later.
pub trait Buffer: Element {
    /// Packets that it keeps: a stop that drains waits for them.
    fn holding(&self) -> usize;

    /// How full it is, where other elements (RED, Unqueue2) may go by that; `None` of an element
    /// that is no store of packets.
    fn storage(&self) -> Option<Storage> {
        None
    }

    /// Whether the element processes new packets: false while it is full, or while the function
    /// that it hands packets to does not run.
    fn accepts(&self) -> bool {
        self.storage().is_none_or(|storage| storage.len < storage.capacity)
    }
}

/// An element with a cost that depends on arguments, tables or traffic. For other elements,
/// [`Spec::cost`](crate::Spec::cost) holds.
pub trait CostModel: Element {
    /// The cost of a packet; `None`: the one in its spec. Called while nothing runs.
    fn cost(&self, load: &Load) -> Option<Vec<Cost>>;

    /// What a process of its own does of the work, which no thread does; called as `cost` is.
    fn apart(&self, _load: &Load) -> Option<Apart> {
        None
    }

    /// The packets that it makes, if it is a source; called after packets have flowed.
    fn makes(&self) -> Option<Made> {
        None
    }
}

/// An element with state for its successor: the element of the same name and class in a
/// configuration that replaces this one while packets flow.
pub trait HotSwap: Element {
    /// Gives up its state; `None` when there is nothing worth keeping.
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>>;

    /// Takes the state of the element's predecessor, before [`Element::initialize`]. A state of
    /// another type is ignored.
    fn take_over(&mut self, state: Box<dyn Any + Send>);
}

/// An element that can have more or fewer replicas than its predecessor.
///
/// Where several replicas of the predecessor go to one, the first state comes by
/// [`HotSwap::take_over`], the others by [`Resize::join`].
pub trait Resize: HotSwap {
    /// Takes the state of a further replica of the predecessor, after [`HotSwap::take_over`] and
    /// before [`Element::initialize`].
    fn join(&mut self, state: Box<dyn Any + Send>);

    /// This configuration did not begin: gives up, in their order, what joined, before
    /// [`HotSwap::hand_over`] gives up the first state.
    fn separate(&mut self) -> Vec<Box<dyn Any + Send>> {
        Vec::new()
    }

    /// Of one that has taken over: what a replica beside it begins with that has no predecessor.
    fn beside(&self) -> Option<Box<dyn Any + Send>> {
        None
    }
}
