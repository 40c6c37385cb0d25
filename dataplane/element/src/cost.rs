//! The cost of an element in elementary operations, for the performance model.
//!
//! An elementary operation (M. Baldi and A. Sapio, "Network Function Modeling and Performance
//! Estimation", 2018, section 2) is the longest piece of work that several elements have in common.
//! Its duration is a property of a host, not of an element; `thruway calibrate` measures it. An
//! element declares how often a packet causes each operation, and the memory that it reaches.

/// Defines the operations: variant, name, description.
macro_rules! operations {
    ($($variant:ident $name:literal $about:literal;)*) => {
        /// An elementary operation. All count per packet; lines are of 64 bytes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Operation { $(#[doc = $about] $variant,)* }

        impl Operation {
            /// Every operation.
            pub const ALL: &[Operation] = &[$(Operation::$variant),*];

            /// Its name in descriptions of hardware.
            pub const fn name(self) -> &'static str {
                match self { $(Operation::$variant => $name),* }
            }

            /// A description of one line.
            pub const fn about(self) -> &'static str {
                match self { $(Operation::$variant => $about),* }
            }
        }
    };
}

operations! {
    Dispatch "dispatch" "a packet's part in handing a batch to an element; the engine does it";
    Visit "visit" "a packet's metadata looked at, in a loop over the batch";
    Make "packet-make" "a frame taken from the pool, filled with a short packet, and given back";
    CopyLine "copy-line" "a line of a packet's bytes copied";
    Clone "packet-clone" "a packet made like another one, but for its bytes";
    Sort "sort" "a packet sent to one of several outputs";
    Surprise "surprise" "a packet that leaves by an output which the processor did not foresee";
    Store "store" "a packet put into a queue and taken out of it";
    Annotate "annotate" "an annotation read or written";
    Count "count" "packets and bytes counted";
    Clock "clock" "the time read and written down";
    Random "random" "a random number drawn and compared";
    Format "format" "a packet shown as text";
    HeaderMove "header-move" "bytes added or taken in front of the packet, their values aside";
    HeaderRead "header-read" "a few fields of a header read";
    HeaderWrite "header-write" "a few fields of a header, or all of it, written";
    HeaderParse "header-parse" "headers from Ethernet to transport found and bounds checked";
    HeaderCheck "header-check" "an IP header's lengths and addresses checked, its sum aside";
    ChecksumIp "checksum-ip" "the checksum of an IP header computed whole";
    ChecksumLine "checksum-line" "a line of a payload summed for a checksum";
    TtlDecrement "ttl-decrement" "hop limit looked at and decremented, checksum brought up to date";
    RewriteIp "rewrite-ip" "addresses and ports replaced, checksums brought up to date";
    ClassifyPattern "classify-pattern" "a step of a decision over bytes at an offset";
    ClassifyIp "classify-ip" "a step of a decision over fields of IP and transport headers";
    Classify "classify" "classes and sessions' key of a packet found, in front of a chain";
    ArrayLookup "array-lookup" "an entry of an array read";
    HashLookup "hash-lookup" "a key looked up in a hash table, and found";
    HashLearn "hash-learn" "a key looked up in a hash table, and its entry written";
    RouteLookup "route-lookup" "the longest prefix of an IPv4 address found";
    RouteLookup6 "route-lookup6" "the longest prefix of an IPv6 address found";
    SessionLookup "session-lookup" "a session found by its key, and its clock set";
    SessionOpen "session-open" "a session made that was not there, and ended in its time";
    SessionState "session-state" "a function's state of a session read and written";
    StreamFollow "stream-follow" "a segment's place in its connection followed";
    StreamOrder "stream-order" "a segment put in order";
    StreamMap "stream-map" "sequence numbers of a segment mapped through a list of edits";
    HttpHead "http-head" "the head of a message read";
    MatchLine "match-line" "a line of payload looked through for many patterns at once";
    RingHop "ring-hop" "a packet handed to an isolated function and taken back, by the thread";
    RingCopy "ring-copy" "a line of a packet copied into a function's slot, or out of it";
    RingReturn "ring-return" "a packet that a function changed taken into its own frame again";
    RingServe "ring-serve" "a packet served by a function's process, its own work aside";
    PartHop "part-hop" "the same as ring-hop, for elements in a process of their own";
    PartCopy "part-copy" "a line of a packet copied by the process of isolated elements";
    PartServe "part-serve" "a packet served by the process of isolated elements, their work aside";
    GroupHop "group-hop" "a packet handed to the first function of a trust group and taken back";
    GroupPass "group-pass" "a packet handed on to a further function of a trust group";
    GroupServe "group-serve" "the same as ring-serve, for a function of a trust group";
    WorkerWake "worker-wake" "a function that sleeps woken, by the thread";
    WorkerSleep "worker-sleep" "a function's process that goes to sleep and is woken, its own part";
    ProcessTurn "process-turn" "a packet's part in processes that take turns on one core";
    PortReceive "port-receive" "a packet received by a port of the kernel";
    PortSend "port-send" "a packet sent by a port of the kernel";
}

/// How an operation comes to the memory that it reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// One line after the other, which processors fetch by themselves.
    Stream,
    /// Lines anywhere, asked for before they are used, a batch of packets at a time.
    Prefetched,
    /// Lines anywhere, when they are used.
    Dependent,
}

/// Memory that an operation reaches beside the packet: a table, records, a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reach {
    /// Bytes of all that packets reach in it: for a table, the filled part, not the reserved one.
    pub bytes: f64,
    /// Lines that one operation touches.
    pub lines: f64,
    /// How.
    pub access: Access,
}

/// One term of the cost: an elementary operation and how often a packet has it done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// The operation.
    pub operation: Operation,
    /// Times per packet that enters (of a source: that it makes), on average.
    pub count: f64,
    /// Memory that it reaches, if that grows beyond a first-level cache.
    pub reach: Option<Reach>,
}

/// The cost of an element that does nothing with single packets: the engine's dispatch, no more.
pub const NOTHING_MORE: &[Cost] = &[Operation::Dispatch.times(0.0)];

impl Operation {
    /// Once per packet.
    pub const fn once(self) -> Cost {
        self.times(1.0)
    }

    /// So many times per packet.
    pub const fn times(self, count: f64) -> Cost {
        Cost { operation: self, count, reach: None }
    }

    /// The operation of a name.
    pub fn find(name: &str) -> Option<Operation> {
        Operation::ALL.iter().copied().find(|operation| operation.name() == name)
    }

    /// Whether it belongs to the path to an isolated function and back: what it costs depends on
    /// where the function's process runs.
    pub const fn is_of_isolation(self) -> bool {
        use Operation as Op;
        matches!(
            self,
            Op::RingHop
                | Op::RingCopy
                | Op::RingReturn
                | Op::RingServe
                | Op::PartHop
                | Op::PartCopy
                | Op::PartServe
                | Op::GroupHop
                | Op::GroupPass
                | Op::GroupServe
                | Op::WorkerWake
                | Op::WorkerSleep
                | Op::ProcessTurn
        )
    }
}

impl Cost {
    /// The same, reaching memory.
    pub const fn reaching(self, bytes: f64, lines: f64, access: Access) -> Cost {
        Cost { reach: Some(Reach { bytes, lines, access }), ..self }
    }
}

/// What a process beside the threads does of an element's work.
#[derive(Debug, Clone, PartialEq)]
pub struct Apart {
    /// CPUs that it may run on; empty: all.
    pub cpus: Vec<usize>,
    /// What it does per packet that enters the element, as far as the element knows.
    pub costs: Vec<Cost>,
}

/// The traffic, as an element sees it when asked for its cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Bytes of a packet where it enters, on average.
    pub packet_bytes: f64,
    /// Of these, payload behind the transport header.
    pub payload_bytes: f64,
    /// Sessions that packets belong to in turn.
    pub sessions: f64,
    /// Share of packets that open a session, 0 to 1.
    pub opening: f64,
}

/// The output of a source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Made {
    /// Bytes of a packet, on average.
    pub packet_bytes: f64,
    /// Sessions (ordered five-tuples, both directions one) that its packets belong to.
    pub sessions: f64,
    /// Packets after which they come again; infinite where they are drawn at random.
    pub period: f64,
}

impl Load {
    /// Lines that so many bytes of a packet take.
    pub fn lines(bytes: f64) -> f64 {
        (bytes / 64.0).ceil().max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_its_name_alone() {
        for operation in Operation::ALL {
            assert_eq!(Operation::find(operation.name()), Some(*operation));
        }
        assert_eq!(Operation::find("no-such"), None);
    }

    #[test]
    fn bytes_take_whole_lines() {
        assert_eq!([0.0, 1.0, 64.0, 65.0].map(Load::lines), [0.0, 1.0, 1.0, 2.0]);
    }
}
