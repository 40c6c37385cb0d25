//! Why a packet goes no further.

macro_rules! reasons {
    ($($name:ident, $text:literal, $doc:literal;)*) => {
        /// Why the engine does not pass a packet on.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum DropReason { $(#[doc = $doc] $name,)* }

        impl DropReason {
            /// All of them, in order: counter name and meaning.
            pub const ALL: &'static [(DropReason, &'static str, &'static str)] =
                &[$((DropReason::$name, $text, $doc),)*];
        }
    };
}

reasons! {
    BadSegment, "bad-segment", "its header is cut short, or lengths contradict each other";
    BadChecksum, "bad-checksum", "its checksum is wrong";
    BadOptions, "bad-options", "its options cannot be read";
    BadFlags, "bad-flags", "no receiver takes this combination of flags";
    NotOpened, "not-opened", "the connection was not seen to open, and is not picked up";
    Unready, "unready", "data before the handshake is complete";
    OutOfWindow, "out-of-window", "bytes that the receiver has no room for, or behind the FIN";
    BadAck, "bad-ack", "acknowledges data that was never sent";
    BadReset, "bad-reset", "RST with another sequence number than the expected one";
    SynInside, "syn-inside", "SYN within a connection that is open";
    Repeated, "repeated", "sent again: answered from the kept copy";
    Urgent, "urgent", "has urgent data, which is refused";
    Full, "full", "as much is kept as may be, or a function has no room for more";
    NoMemory, "no-memory-kept", "no packet memory for the required copy";
    Closed, "closed", "the connection was closed by a function or by a buffer limit";
    Lost, "lost-inside", "bytes got lost between the entry and the exit of the context";
    Hole, "hole", "waited for missing data until its connection ended, or for too long";
    Unsent, "unsent", "waited for room at its receiver until its connection ended";
    Absorbed, "absorbed", "all of its bytes were removed, or held back for a later packet";
    Foreign, "foreign", "is of no connection of this context";
}
