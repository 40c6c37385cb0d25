//! Drop reasons on the packet path: small, `Copy`, never text.

/// Index of a reason in the spec's `drops`, or one of the two that every element has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason(pub u8);

impl Reason {
    /// The packet left by an output that is not connected.
    pub const UNCONNECTED: Reason = Reason(254);
    /// There was no frame for a packet that the element had to make.
    pub const NO_MEMORY: Reason = Reason(255);
    /// Names and docs of the reasons that every element has, in the order of their counters, which
    /// stand behind the element's own.
    pub const OF_ALL: [crate::Drop; 2] = [
        crate::Drop::new("unconnected", "the packet left by an output that is not connected"),
        crate::Drop::new("no-memory", "packet memory was used up"),
    ];

    /// Index of the counter, where the element declares `own` reasons.
    #[inline]
    pub fn index(self, own: usize) -> usize {
        match self {
            Reason::UNCONNECTED => own,
            Reason::NO_MEMORY => own + 1,
            Reason(n) => n as usize,
        }
    }
}

/// Declares an element's drop reasons: an enum for the code and the table for its spec.
///
/// ```
/// thruway_element::reasons! {
///     /// Why CheckFoo drops.
///     enum Bad {
///         Length = "bad-length": "shorter than its header says",
///         Checksum = "bad-checksum": "the checksum is wrong",
///         Done = consumed "done": "an order to the element, which was carried out",
///     }
/// }
/// assert_eq!(Bad::DROPS[1].name, "bad-checksum");
/// assert!(Bad::DROPS[2].is_consumed && !Bad::DROPS[1].is_consumed);
/// assert_eq!(thruway_element::Reason::from(Bad::Checksum).0, 1);
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
