//! Which capabilities an entry registers.

use std::any::Any;

use crate::Element;
use crate::capability::{
    Buffer, CostModel, FlowDispatch, FlowEntry, HandoffQueue, HotSwap, Resize, SessionFunction,
    StreamMember,
};
use crate::connection_transfer::{ConnectionTransfer, StreamTransfer};
use crate::publisher::Publisher;
use crate::session_mover::SessionMover;
use crate::session_transfer::SessionTransfer;

/// From an element of a known type to its capability `C`.
pub struct Cast<C: ?Sized + 'static> {
    pub(crate) shared: fn(&dyn Element) -> Option<&C>,
    pub(crate) exclusive: fn(&mut dyn Element) -> Option<&mut C>,
}

impl<C: ?Sized> Clone for Cast<C> {
    fn clone(&self) -> Cast<C> {
        *self
    }
}

impl<C: ?Sized> Copy for Cast<C> {}

/// Downcasts an element to its type.
pub(crate) fn of_type<T: Any>(element: &dyn Element) -> Option<&T> {
    (element as &dyn Any).downcast_ref()
}

/// The same, to be changed.
pub(crate) fn of_type_mut<T: Any>(element: &mut dyn Element) -> Option<&mut T> {
    (element as &mut dyn Any).downcast_mut()
}

macro_rules! capabilities {
    ($($Trait:ident $name:ident $name_mut:ident $with:ident: $about:literal;)+) => {
        /// The capabilities that an entry registers.
        #[derive(Clone, Copy)]
        pub struct Capabilities {
            $(pub(crate) $name: Option<Cast<dyn $Trait>>,)+
        }

        impl Capabilities {
            /// All there are: the trait, and how an entry registers it.
            pub const ALL: &'static [(&'static str, &'static str)] =
                &[$((stringify!($Trait), stringify!($with)),)+];

            /// None.
            pub const NONE: Capabilities = Capabilities { $($name: None,)+ };

            /// The names of the traits that are registered.
            pub fn names(&self) -> Vec<&'static str> {
                let mut names = Vec::new();
                $(names.extend(self.$name.map(|_| stringify!($Trait)));)+
                names
            }

            /// Of those, the ones that the type of an element has.
            pub fn names_of(&self, element: &dyn Element) -> Vec<&'static str> {
                let mut names = Vec::new();
                $(if self.$name.is_some_and(|cast| (cast.shared)(element).is_some()) {
                    names.push(stringify!($Trait));
                })+
                names
            }
        }
    };
}

/// Calls a macro with the list of capabilities: the trait, the accessors of an entry (shared and
/// mutable), its registration, and its purpose.
macro_rules! with_capabilities {
    ($called:ident) => {
        $called! {
            FlowEntry flow_entry flow_entry_mut with_flow_entry: "classification begins here";
            FlowDispatch flow_dispatch flow_dispatch_mut with_flow_dispatch:
                "it sorts packets by rules of the flow manager";
            HandoffQueue handoff_queue handoff_queue_mut with_handoff_queue:
                "how its rings to other threads are filled and emptied";
            StreamMember stream_member stream_member_mut with_stream_member:
                "it begins, ends or stands in a context of streams";
            SessionFunction session_function session_function_mut with_session_function:
                "its demand on sessions depends on its arguments, or it must hear of their end";
            SessionMover session_mover session_mover_mut with_session_mover:
                "its sessions can go to another instance of it";
            SessionTransfer session_transfer session_transfer_mut with_session_transfer:
                "another host can go on with its sessions";
            ConnectionTransfer connection_transfer connection_transfer_mut
                with_connection_transfer: "another host has copies of its connections";
            StreamTransfer stream_transfer stream_transfer_mut with_stream_transfer:
                "another host can go on with its streams";
            Buffer buffer buffer_mut with_buffer: "it keeps packets for later";
            CostModel cost_model cost_model_mut with_cost_model:
                "its cost depends on arguments, tables or traffic";
            Publisher publisher publisher_mut with_publisher:
                "it publishes figures for monitoring";
            HotSwap hot_swap hot_swap_mut with_hot_swap:
                "it hands its state to its successor in a hot swap";
            Resize resize resize_mut with_resize:
                "its successor may have more or fewer replicas";
        }
    };
}
pub(crate) use with_capabilities;

with_capabilities!(capabilities);
