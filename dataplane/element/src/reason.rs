//! Drop reasons on the packet path: small, `Copy`, never text.

use crate::spec::{Drop, Spec};

/// Index of a reason in the spec's `drops`, one of the two that every element has, or one of the
/// two of elements that hand packets to other threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason(pub u8);

impl Reason {
    /// The packet left by an output that is not connected.
    pub const UNCONNECTED: Reason = Reason(254);
    /// There was no frame for a packet that the element had to make.
    pub const NO_MEMORY: Reason = Reason(255);
    /// The ring to the thread that the packet was for was full ([`crate::Cx::handoff`]).
    pub const CONGESTION: Reason = Reason(253);
    /// The packet was in a ring to another thread when the run ended.
    pub const STOPPED: Reason = Reason(252);
    /// Names and docs of the reasons that every element has, in the order of their counters, which
    /// stand behind the element's own.
    pub const OF_ALL: [Drop; 2] = [
        Drop::new("unconnected", "the packet left by an output that is not connected"),
        Drop::new("no-memory", "packet memory was used up"),
    ];
    /// Further reasons of elements that hand packets off to other threads
    /// ([`crate::Threading::hands_off`]); their counters follow those of [`Reason::OF_ALL`].
    pub const OF_HANDOFF: [Drop; 2] = [
        Drop::new("congestion-drop", "the ring to the thread that it was for was full"),
        Drop::new("stopped", "it was in a ring to another thread when the run ended"),
    ];

    /// Index of the counter, where the element declares `own` reasons.
    #[inline]
    pub fn index(self, own: usize) -> usize {
        match self {
            Reason::UNCONNECTED => own,
            Reason::NO_MEMORY => own + 1,
            Reason::CONGESTION => own + 2,
            Reason::STOPPED => own + 3,
            Reason(n) => n as usize,
        }
    }
}

impl Spec {
    /// Reasons for which it may drop packets, in the order of its counters
    /// ([`crate::NodeStats::drops`]): its own, and those that the engine counts for it.
    pub fn reasons(&self) -> impl Iterator<Item = &'static Drop> + use<> {
        let handoff: &[Drop] = if self.threading.hands_off() { &Reason::OF_HANDOFF } else { &[] };
        self.drops.iter().chain(&Reason::OF_ALL).chain(handoff)
    }
}

/// Declares an element's drop reasons: an enum for the code and the table for its spec.
///
/// ```
/// thruway_element::reasons! {
///     /// Why CheckFoo drops.
///     enum CheckFooDrop {
///         Length = "bad-length": "shorter than its header says",
///         Checksum = "bad-checksum": "the checksum is wrong",
///         Done = consumed "done": "a command to the element, which was executed",
///     }
/// }
/// assert_eq!(CheckFooDrop::DROPS[1].name, "bad-checksum");
/// assert!(CheckFooDrop::DROPS[2].is_consumed && !CheckFooDrop::DROPS[1].is_consumed);
/// assert_eq!(thruway_element::Reason::from(CheckFooDrop::Checksum).0, 1);
/// ```
#[macro_export]
macro_rules! reasons {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($variant:ident = $($fate:ident)? $word:literal : $doc:literal),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name { $(#[doc = $doc] $variant),+ }
        impl $name {
            /// The table for the spec, in the order of the variants.
            pub const DROPS: &'static [$crate::Drop] = &[
                $($crate::Drop::new($word, $doc)$(.$fate())?),+
            ];
        }
        impl From<$name> for $crate::Reason {
            #[inline]
            fn from(reason: $name) -> $crate::Reason {
                $crate::Reason(reason as u8)
            }
        }
    };
}
