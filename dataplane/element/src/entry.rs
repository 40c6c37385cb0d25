//! The registry: one explicit sorted list of element classes.

use thruway_packet::{Batch, MAX_BATCH};

use crate::Element;
use crate::addresses::Addresses;
use crate::arg_error::ArgErrors;
use crate::args::Args;
use crate::capability::{
    Buffer, CostModel, FlowDispatch, FlowEntry, HandoffQueue, HotSwap, Resize, SessionFunction,
    StreamMember,
};
use crate::connection_transfer::{ConnectionTransfer, StreamTransfer};
use crate::cx::Cx;
use crate::declared::{Arguments, Handlers};
use crate::handoff::Handoff;
use crate::later::HandlerError;
use crate::publisher::Publisher;
use crate::purpose::Purpose;
use crate::registered::{Capabilities, Cast, of_type, of_type_mut, with_capabilities};
use crate::session_mover::SessionMover;
use crate::session_transfer::SessionTransfer;
use crate::spec::Spec;

/// Enters the names that an information element called `name` declares by its arguments.
pub type Declare = fn(name: &str, args: &[String], &mut Addresses) -> Result<(), ArgErrors>;

/// Reports the threads in which an element's task may run, before threads are assigned and elements
/// built. May inspect the machine (how many queues a device has), and must change nothing.
pub type Shares = fn(&Args<'_>) -> Result<Share, ArgErrors>;

/// The part that an input may have in the threads of a run (see [`Entry::shares`]).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Share {
    /// The threads that the user named; empty: any.
    pub threads: Vec<usize>,
    /// Threads at most that can have a part of its packets: the queues of its device. `None`: as
    /// many as there are.
    pub most: Option<usize>,
    /// The first of the threads that it may use; those before are for others.
    pub first: usize,
    /// The NUMA node that its device is at.
    pub node: Option<usize>,
}

impl Share {
    /// For an element with a task in one thread.
    pub fn one() -> Share {
        Share { most: Some(1), ..Share::default() }
    }
}

/// Makes an element from checked arguments.
pub type Build = fn(&Args<'_>) -> Result<Box<dyn Element>, ArgErrors>;

/// One element class: its declaration and how to make one.
pub struct Entry {
    /// The declaration.
    pub spec: Spec,
    /// Makes an element from checked arguments; does no I/O.
    pub build: Build,
    /// For information elements (AddressInfo): enters names for the others' arguments. Called for
    /// all elements of the class before any element is built.
    pub declare: Option<Declare>,
    /// Of an input that several threads can serve, each with a replica: which threads.
    pub shares: Option<Shares>,
    handler_calls: Option<HandlerCalls>,
    /// Optional abilities of its elements besides handling packets.
    pub capabilities: Capabilities,
}

/// Calls the handlers of an element of a known type.
#[derive(Clone, Copy)]
struct HandlerCalls {
    is_of: fn(&dyn Element) -> bool,
    read: fn(&mut dyn Element, &mut Cx<'_>, &str, &str) -> Result<String, HandlerError>,
    write: fn(&mut dyn Element, &mut Cx<'_>, &str, &str) -> Result<(), HandlerError>,
}

impl HandlerCalls {
    const fn of<T: Element + Handlers>() -> HandlerCalls {
        HandlerCalls {
            is_of: |element| of_type::<T>(element).is_some(),
            read: |element, cx, name, param| match of_type_mut::<T>(element) {
                Some(element) => element.read_handler(cx, name, param),
                None => Err(HandlerError::no_read(name)),
            },
            write: |element, cx, name, value| match of_type_mut::<T>(element) {
                Some(element) => element.write_handler(cx, name, value),
                None => Err(HandlerError::no_write(name)),
            },
        }
    }
}

impl Entry {
    /// An element with arguments and handlers declared by its struct: the engine ignores those of
    /// `spec`.
    pub const fn of<T: Element + Arguments + Handlers>(spec: Spec) -> Entry {
        let spec = Spec { args: T::ARGS, ..spec };
        Entry::built::<T>(spec, |args| Ok(Box::new(T::from_args(args)?)))
    }

    /// An element with handlers declared by its struct, built by a function of its own.
    pub const fn built<T: Element + Handlers>(spec: Spec, build: Build) -> Entry {
        Entry::new(Spec { handlers: T::HANDLERS, ..spec }, build).with_handlers::<T>()
    }

    /// An element that does all by itself.
    pub const fn new(spec: Spec, build: Build) -> Entry {
        let capabilities = Capabilities::NONE;
        Entry { spec, build, declare: None, shares: None, handler_calls: None, capabilities }
    }

    /// Registers [`Handlers`] of an element that answers them by hand; its spec declares them.
    pub const fn with_handlers<T: Element + Handlers>(self) -> Entry {
        Entry { handler_calls: Some(HandlerCalls::of::<T>()), ..self }
    }

    /// Whether an element that this entry built answers handlers.
    pub fn has_handlers(&self, element: &dyn Element) -> bool {
        self.handler_calls.is_some_and(|calls| (calls.is_of)(element))
    }

    /// Reads a handler of an element that this entry built.
    ///
    /// # Errors
    /// When there is no such read handler or the parameter is wrong.
    pub fn read(
        &self,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        match self.handler_calls {
            Some(handler_calls) => (handler_calls.read)(element, cx, name, param),
            None => Err(HandlerError::no_read(name)),
        }
    }

    /// Writes a handler of an element that this entry built.
    ///
    /// # Errors
    /// When there is no such write handler or the value is wrong.
    pub fn write(
        &self,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        match self.handler_calls {
            Some(handler_calls) => (handler_calls.write)(element, cx, name, value),
            None => Err(HandlerError::no_write(name)),
        }
    }

    /// Whether classification begins at its elements.
    pub const fn begins_classification(&self) -> bool {
        self.capabilities.flow_entry.is_some()
    }

    /// Whether its elements keep state in a hot swap that cannot go to another number of replicas.
    pub const fn keeps_replicas(&self) -> bool {
        self.capabilities.hot_swap.is_some() && self.capabilities.resize.is_none()
    }

    /// Whether its elements keep packets that they hand to their successors.
    pub const fn hands_packets_on(&self) -> bool {
        self.capabilities.hot_swap.is_some() && self.capabilities.buffer.is_some()
    }

    /// The same for an information element: `declare` enters names for the others' arguments.
    pub const fn declaring(self, declare: Declare) -> Entry {
        Entry { declare: Some(declare), ..self }
    }

    /// The same for an input that several threads can serve.
    pub const fn shared_by(self, shares: Shares) -> Entry {
        Entry { shares: Some(shares), ..self }
    }
}

macro_rules! entry_functions {
    ($($Trait:ident $name:ident $name_mut:ident $with:ident: $about:literal;)+) => {
        /// Registering capabilities and asking for them.
        impl Entry {$(
            #[doc = concat!("Registers [`", stringify!($Trait), "`]: ", $about, ".")]
            pub const fn $with<T: Element + $Trait>(self) -> Entry {
                let cast: Cast<dyn $Trait> = Cast {
                    shared: |element| of_type::<T>(element).map(|own| own as _),
                    exclusive: |element| of_type_mut::<T>(element).map(|own| own as _),
                };
                let $name = Some(cast);
                Entry { capabilities: Capabilities { $name, ..self.capabilities }, ..self }
            }

            #[doc = concat!("[`", stringify!($Trait), "`] of an element that this entry built.")]
            pub fn $name<'a>(&self, element: &'a dyn Element) -> Option<&'a dyn $Trait> {
                (self.capabilities.$name?.shared)(element)
            }

            #[doc = concat!("[`", stringify!($Trait), "`] of an element, to be changed.")]
            pub fn $name_mut<'a>(
                &self,
                element: &'a mut dyn Element,
            ) -> Option<&'a mut dyn $Trait> {
                (self.capabilities.$name?.exclusive)(element)
            }
        )+}
    };
}

with_capabilities!(entry_functions);

impl Entry {
    /// The rings of an element that hands packets to its replicas.
    pub fn rings(&self, element: &dyn Element) -> Handoff {
        self.handoff_queue(element).map_or_else(Handoff::default, HandoffQueue::rings)
    }

    /// Packets of a ring that an element takes in this round, at most.
    #[inline]
    pub fn handoff_room(&self, element: &dyn Element) -> usize {
        self.handoff_queue(element).map_or(MAX_BATCH, HandoffQueue::room)
    }

    /// Has an element handle packets that its replica in another thread handed over.
    #[inline]
    pub fn handed(&self, element: &mut dyn Element, cx: &mut Cx<'_>, batch: &mut Batch) {
        match self.handoff_queue_mut(element) {
            Some(queue) => queue.handed(cx, batch),
            None => element.process(cx, 0, batch),
        }
    }
}

/// The element classes that a configuration may name.
pub trait Catalog {
    /// The spec of the class written `name`, which may be an alias.
    fn spec(&self, name: &str) -> Option<&'static Spec>;
    /// Every class name, aliases included, sorted.
    fn names(&self) -> Vec<&'static str>;

    /// The first class of this purpose, in the order of the names.
    fn of_purpose(&self, purpose: Purpose) -> Option<&'static Spec> {
        let specs = self.names().into_iter().filter_map(|name| self.spec(name));
        specs.into_iter().find(|spec| spec.purpose == purpose)
    }
}

/// A catalog over lists of entries, one list per topic.
#[derive(Clone, Copy)]
pub struct Registry(pub &'static [&'static [&'static Entry]]);

impl Registry {
    /// All entries.
    pub fn entries(&self) -> impl Iterator<Item = &'static Entry> {
        self.0.iter().flat_map(|topic| topic.iter().copied())
    }

    /// The entry of the class written `name`, which may be an alias.
    pub fn entry(&self, name: &str) -> Option<&'static Entry> {
        self.entries().find(|entry| {
            entry.spec.name == name || entry.spec.aliases.iter().any(|alias| alias.name == name)
        })
    }
}

impl Catalog for Registry {
    fn spec(&self, name: &str) -> Option<&'static Spec> {
        self.entry(name).map(|entry| &entry.spec)
    }

    fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = self
            .entries()
            .flat_map(|e| e.spec.aliases.iter().map(|a| a.name).chain([e.spec.name]))
            .collect();
        names.sort_unstable();
        names
    }
}
