//! An element's declarations, from which everything else is derived: checks of configurations,
//! manuals, counters, the flow manager, the performance model.

use std::fmt;

pub use thruway_flow::chain::{Changes, Demand};

pub use crate::probe::ShortCut;
pub use crate::purpose::Purpose;
pub use crate::replicas::Replicas;
pub use crate::wants::{Scratch, Wants};

use crate::cost::Cost;
use crate::threading::Threading;
use crate::topic::Topic;

/// The declaration of one element class.
///
/// Written as a `const`/`static` with `..Spec::DEFAULT` for the fields that do not apply.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// Class name as written in a configuration.
    pub name: &'static str,
    /// Other names of the same implementation ("thin aliases"), each with its differences.
    pub aliases: &'static [Alias],
    /// Folder and heading under which the manual lists it.
    pub topic: Topic,
    /// One line, no full stop: "decrements IP time-to-live, drops expired packets".
    pub summary: &'static str,
    /// The manual in plain paragraphs: what the element does, how it treats bad input, and its
    /// deliberate differences from Click.
    pub docs: &'static str,
    /// A small configuration that runs, for the manual.
    pub example: &'static str,
    /// Port counts in Click's notation: `"1/1"`, `"1/1-2"`, `"-/-"`, `"0/1"`, `"1-/="`.
    pub ports: &'static str,
    /// Click's processing code: `h` push, `l` pull, `a` agnostic, per port with `/` between inputs
    /// and outputs; the last letter repeats: `"a/ah"`, `"h/l"`.
    pub processing: &'static str,
    /// Click's flow code: which outputs a packet of an input can leave by (`"x/x"` all to all,
    /// `"x/y"` none, `"#/#"` same index). Used to find the threads that reach an element.
    pub flow: &'static str,
    /// Arguments in positional order, then keywords.
    pub args: &'static [Arg],
    /// Why this element may drop (or divert to an error output) a packet: its counters.
    pub drops: &'static [Drop],
    /// Handlers in addition to those that every element has.
    pub handlers: &'static [Handler],
    /// Its use by the language or the engine.
    pub purpose: Purpose,
    /// Its requirements on the threads of a run.
    pub threading: Threading,
    /// The relation between its replicas, if several threads reach it.
    pub replicas: Replicas,
    /// Whether each packet that comes leaves at most once, as that packet and before the call
    /// returns: it makes, copies and keeps none. Isolated parts of such elements get whole batches.
    pub straight: bool,
    /// Its treatment of packets that take a short cut in the kernel.
    pub short_cut: ShortCut,
    /// Whether TCP packets of up to 64 kB may come, which the sending device segments at last: the
    /// element looks at headers alone, takes any length, or is for other packets than TCP's.
    pub large_packets: bool,
    /// Its demand on the flow manager.
    pub wants: Wants,
    /// Its changes to the bytes that classification reads: facts about a packet in front of the
    /// element may not hold behind it.
    pub changes: Changes,
    /// Cost per packet in elementary operations, for the performance model.
    pub cost: &'static [Cost],
}

impl Spec {
    /// The values of an element that declares nothing: one agnostic input, one output.
    pub const DEFAULT: Spec = Spec {
        name: "",
        aliases: &[],
        topic: Topic::Queueing,
        summary: "",
        docs: "",
        example: "",
        ports: "1/1",
        processing: "a/a",
        flow: "x/x",
        args: &[],
        drops: &[],
        handlers: &[],
        purpose: Purpose::Ordinary,
        threading: Threading::RunToCompletion,
        replicas: Replicas::Undeclared,
        straight: false,
        short_cut: ShortCut::Never,
        large_packets: false,
        wants: Wants::NOTHING,
        changes: Changes::Everything,
        cost: &[],
    };

    /// The argument declared under `name`.
    pub fn arg(&self, name: &str) -> Option<&'static Arg> {
        self.args.iter().find(|arg| arg.name == name)
    }

    /// The handler declared under `name`, of this element or of every element.
    pub fn handler(&self, name: &str) -> Option<&'static Handler> {
        self.handlers.iter().chain(Handler::OF_ALL).find(|handler| handler.name == name)
    }
}

/// Another name of the same implementation.
#[derive(Debug, Clone, Copy)]
pub struct Alias {
    /// Class name.
    pub name: &'static str,
    /// The difference, in one line.
    pub summary: &'static str,
}

/// One declared argument.
#[derive(Debug, Clone, Copy)]
pub struct Arg {
    /// Name: the keyword, or the placeholder of a positional argument (which may also be given by
    /// this keyword, as in Click).
    pub name: &'static str,
    /// Type, for the manual and the error messages.
    pub ty: Ty,
    /// How it may be given.
    pub rule: ArgRule,
    /// The default value, as a user would write it; empty if there is none.
    pub default: &'static str,
    /// One line.
    pub doc: &'static str,
}

impl Arg {
    /// A positional argument that must be given.
    pub const fn required(name: &'static str, ty: Ty, doc: &'static str) -> Arg {
        Arg { name, ty, rule: ArgRule::Required, default: "", doc }
    }

    /// A positional argument that may be left out.
    pub const fn optional(name: &'static str, ty: Ty, doc: &'static str) -> Arg {
        Arg { name, ty, rule: ArgRule::Optional, default: "", doc }
    }

    /// An argument given only as `NAME value`.
    pub const fn keyword(name: &'static str, ty: Ty, doc: &'static str) -> Arg {
        Arg { name, ty, rule: ArgRule::Keyword, default: "", doc }
    }

    /// A keyword that must be given.
    pub const fn required_keyword(name: &'static str, ty: Ty, doc: &'static str) -> Arg {
        Arg { name, ty, rule: ArgRule::RequiredKeyword, default: "", doc }
    }

    /// All remaining positional arguments (rules, patterns, routes).
    pub const fn rest(name: &'static str, ty: Ty, doc: &'static str) -> Arg {
        Arg { name, ty, rule: ArgRule::Rest, default: "", doc }
    }

    /// The same with a default value.
    pub const fn or(self, default: &'static str) -> Arg {
        Arg { default, ..self }
    }
}

/// How an argument may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgRule {
    /// Positional, must be there.
    Required,
    /// Positional, may be left out.
    Optional,
    /// `NAME value` only.
    Keyword,
    /// `NAME value` only, must be there.
    RequiredKeyword,
    /// Every further positional argument.
    Rest,
}

/// Argument types, named as users say them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ty {
    /// Signed integer; decimal, `0x` or octal.
    Int,
    /// Unsigned integer.
    UInt,
    /// `true`/`false`/`1`/`0`/`yes`/`no`.
    Bool,
    /// Real number.
    Float,
    /// Text, quoted or not.
    Str,
    /// Bytes: `\<00 11>` literals or a quoted string.
    Data,
    /// IPv4 address or a name from AddressInfo.
    Ip,
    /// IPv4 prefix `ADDR/LEN` or `ADDR/MASK`.
    IpPrefix,
    /// IPv6 address.
    Ip6,
    /// IPv6 prefix.
    Ip6Prefix,
    /// Ethernet address.
    Ether,
    /// Time with unit: `10ms`, `1.5s`, `2min`; seconds without.
    Time,
    /// Rate with unit: `10Mbps`, `100kB/s`; bytes per second without.
    Bandwidth,
    /// Byte count with `k`, `M`, `G`.
    Size,
    /// Name of a file to be read, `-` for standard input.
    File,
    /// Name of a file to be written, `-` for standard output.
    OutFile,
    /// Name of an element of the configuration.
    Element,
    /// `element.handler`.
    Handler,
    /// Packet annotation by name or offset.
    Anno,
    /// UDP or TCP port.
    Port,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// A rule with a grammar of its own (the element's docs say which).
    Rule(&'static str),
    /// Anything: passed on as written.
    Any,
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ty::Int => f.write_str("integer"),
            Ty::UInt => f.write_str("unsigned integer"),
            Ty::Bool => f.write_str("bool"),
            Ty::Float => f.write_str("real number"),
            Ty::Str => f.write_str("string"),
            Ty::Data => f.write_str("bytes"),
            Ty::Ip => f.write_str("IP address"),
            Ty::IpPrefix => f.write_str("IP prefix"),
            Ty::Ip6 => f.write_str("IPv6 address"),
            Ty::Ip6Prefix => f.write_str("IPv6 prefix"),
            Ty::Ether => f.write_str("Ethernet address"),
            Ty::Time => f.write_str("time"),
            Ty::Bandwidth => f.write_str("bandwidth"),
            Ty::Size => f.write_str("byte count"),
            Ty::File | Ty::OutFile => f.write_str("file name"),
            Ty::Element => f.write_str("element name"),
            Ty::Handler => f.write_str("handler name"),
            Ty::Anno => f.write_str("packet annotation"),
            Ty::Port => f.write_str("port number"),
            Ty::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Ty::Rule(what) => f.write_str(what),
            Ty::Any => f.write_str("any"),
        }
    }
}

/// One reason for which an element drops or diverts packets; the reasons *are* its drop counters.
#[derive(Debug, Clone, Copy)]
pub struct Drop {
    /// Short name in kebab case: `bad-checksum`.
    pub name: &'static str,
    /// One line for the manual.
    pub doc: &'static str,
    /// The packet served its purpose, so that nothing was lost.
    pub is_consumed: bool,
}

impl Drop {
    /// A reason for which packets are lost, or leave by another output.
    pub const fn new(name: &'static str, doc: &'static str) -> Drop {
        Drop { name, doc, is_consumed: false }
    }

    /// The same for a packet that served its purpose.
    #[must_use]
    pub const fn consumed(self) -> Drop {
        Drop { is_consumed: true, ..self }
    }
}

/// One declared handler.
#[derive(Debug, Clone, Copy)]
pub struct Handler {
    /// Name after the dot.
    pub name: &'static str,
    /// Read, write or both.
    pub access: Access,
    /// How the answers of several threads' replicas become one.
    pub merge: Merge,
    /// Whether only the configuration itself may use the handler, and no outside caller.
    pub private: bool,
    /// Whether reading it changes something: sockets that are for reading only refuse it.
    pub effect: bool,
    /// One line.
    pub doc: &'static str,
}

impl Handler {
    const fn new(name: &'static str, access: Access, merge: Merge, doc: &'static str) -> Handler {
        Handler { name, access, merge, private: false, effect: false, doc }
    }

    /// A read handler with numbers that add up over threads.
    pub const fn sum(name: &'static str, doc: &'static str) -> Handler {
        Handler::new(name, Access::Read, Merge::Sum, doc)
    }

    /// A read handler for which any replica can speak.
    pub const fn read(name: &'static str, doc: &'static str) -> Handler {
        Handler::new(name, Access::Read, Merge::First, doc)
    }

    /// A write handler, done on every replica.
    pub const fn write(name: &'static str, doc: &'static str) -> Handler {
        Handler::new(name, Access::Write, Merge::First, doc)
    }

    /// A handler that is both; writes go to every replica.
    pub const fn both(name: &'static str, doc: &'static str) -> Handler {
        Handler::new(name, Access::ReadWrite, Merge::First, doc)
    }

    /// The same, with state that all replicas share: one replica answers, one is written.
    pub const fn shared(self) -> Handler {
        Handler { merge: Merge::Shared, ..self }
    }

    /// The same, of numbers that do not add up: each replica's answer in a line of its own.
    pub const fn lines(self) -> Handler {
        Handler { merge: Merge::Lines, ..self }
    }

    /// The same, each replica's answer behind the others'.
    pub const fn concat(self) -> Handler {
        Handler { merge: Merge::Concat, ..self }
    }

    /// The same, for the configuration itself only: control sockets do not show it.
    pub const fn private(self) -> Handler {
        Handler { private: true, ..self }
    }

    /// The same, of which a read changes something.
    pub const fn with_effect(self) -> Handler {
        Handler { effect: true, ..self }
    }

    /// Handlers that the engine gives every element.
    pub const OF_ALL: &'static [Handler] = &[
        Handler::read("name", "the element's name"),
        Handler::read("class", "the element's class"),
        Handler::both("config", "the configuration string; writable where the element allows it"),
        Handler::read("ports", "the ports and their connections"),
        Handler::read("handlers", "the handlers and how they may be used"),
        Handler::read("home_thread", "number of the thread that runs its task and timers"),
        Handler::read("passing_threads", "the threads that may bring it packets: 0,2-3"),
        Handler::read("scheduled", "whether its task has something to do").shared(),
        Handler::sum("packets", "packets that entered (or, of a source, were made)"),
        Handler::sum("batches", "batches dispatched"),
        Handler::sum("made", "packets that it created itself"),
        Handler::sum(
            "cycles",
            "clock cycles spent in this element; of long runs a sample, scaled up",
        ),
        Handler::sum("drops", "dropped packets, a line per reason"),
        Handler::sum("drop_reasons", "the same, also where the element's own drops is one number"),
    ];
}

/// Permitted uses of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    Read,
    /// Write only.
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    /// Whether it can be read.
    pub fn readable(self) -> bool {
        self != Access::Write
    }

    /// Whether it can be written.
    pub fn writable(self) -> bool {
        self != Access::Read
    }
}

/// How the answers of several threads' replicas become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// Numbers are added, line by line and column by column; other text is taken once.
    Sum,
    /// The first replica answers; a write goes to each.
    First,
    /// Answers are put one after the other.
    Concat,
    /// The same, each in a line of its own: numbers that do not add up.
    Lines,
    /// The state is shared: any replica answers, a write goes to one.
    Shared,
}

impl Merge {
    /// Whether one replica's answer to a read is enough.
    pub fn one_speaks(self) -> bool {
        matches!(self, Merge::First | Merge::Shared)
    }

    /// Whether a write to one replica serves all.
    pub fn one_is_written(self) -> bool {
        self == Merge::Shared
    }
}
