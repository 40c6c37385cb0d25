//! Capabilities: what some elements can do besides handling packets.
//!
//! [`Element`] has what every packet passes. Everything else is a trait that the few elements
//! implement that need it, and that their entry registers for their type
//! ([`Entry`](crate::Entry)). Who runs elements asks the entry for it. A capability that an element
//! implements and its entry does not register is never used: `verify/structure` finds those.

use std::any::Any;

use thruway_flow::chain::Demand;
use thruway_flow::manager::Settings;
use thruway_flow::{Ended, Rule};
use thruway_packet::Batch;
use thruway_payload::{Layer, Needs};

use crate::Element;
use crate::cost::{Cost, Load, Made};
use crate::cx::Cx;
use crate::exception::Exception;
use crate::handoff::Handoff;
use crate::per_stream::StreamPlan;
use crate::storage::Storage;

/// A function of sessions: what it wants of the flow manager depends on its arguments, or it is to
/// know when sessions end.
pub trait SessionFunction: Element {
    /// What it wants; `None`: what its spec's [`Wants`](crate::Wants) say.
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
    /// What the user set of the flow manager.
    fn settings(&self) -> Settings;
}

/// An element that sorts packets by rules of the flow manager.
pub trait FlowDispatch: Element {
    /// Its rules; with none, they follow from the elements behind its outputs.
    fn rules(&self) -> Vec<Rule>;

    /// Of one without rules of its own: those that follow from the elements behind its outputs, and
    /// the class of each output as text. Called before [`Element::initialize`].
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

    /// Handles packets that its replica in another thread handed over; they were counted there.
    /// What is left in the batch goes on as behind [`Element::process`].
    fn handed(&mut self, cx: &mut Cx<'_>, batch: &mut Batch);
}

/// An element that begins or ends a context of streams, or is a function of the payload in one.
pub trait StreamMember: Element {
    /// What it needs of the context that it stands in, besides what the functions need that stand
    /// in a context which it begins. `None`, of an element whose spec has no
    /// [`Purpose`](crate::Purpose) in streams: it is no function of payload, as it is configured.
    fn needs(&self) -> Option<Needs> {
        None
    }

    /// Of an element where a context begins or ends: what is wanted of the context, and which
    /// elements belong to it. Called before [`Element::initialize`].
    fn take_stream(&mut self, plan: &StreamPlan) {
        let _ = plan;
    }

    /// Of a function of streams: it stands in a context of this layer; called before
    /// [`Element::initialize`] for each of those that it stands in.
    fn take_context(&mut self, layer: Layer) {
        let _ = layer;
    }

    /// Once it knows its context: the cases in which functions cannot inspect what they are there
    /// for, with what it does then. `thruway check` prints them.
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

    /// Whether what comes now is worked on: false while it is full, or while the function that it
    /// hands packets to does not run.
    fn accepts(&self) -> bool {
        self.storage().is_none_or(|storage| storage.len < storage.capacity)
    }
}

/// An element whose cost depends on arguments, tables or traffic: of others their spec's
/// [`Spec::cost`](crate::Spec::cost) counts.
pub trait CostModel: Element {
    /// What a packet costs; `None`: what its spec says. Asked when nothing runs.
    fn cost(&self, load: &Load) -> Option<Vec<Cost>>;

    /// What it makes, if it is a source; asked after packets have flowed.
    fn makes(&self) -> Option<Made> {
        None
    }
}

/// An element with state that its successor goes on with: the element of the same name and class in
/// a configuration that replaces this one while packets flow.
pub trait HotSwap: Element {
    /// Gives up its state; `None` when there is nothing worth keeping.
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>>;

    /// Takes what the element's predecessor handed over, before [`Element::initialize`]. A state of
    /// another type is ignored.
    fn take_over(&mut self, state: Box<dyn Any + Send>);
}
