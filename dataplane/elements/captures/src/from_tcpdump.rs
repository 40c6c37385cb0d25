//! FromTcpdump: packets made of what tcpdump printed.

use thruway_element::{
    Arg, ArgErrors, Args, Element, Entry, Operation, Replicas, Spec, Threading, Topic, Ty,
};

use super::tcpdump::Tcpdump;
use super::text_dump::{Lost, Source, TextDump};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<TextDump>(
    Spec {
        name: "FromTcpdump",
        topic: Topic::Captures,
        summary: "makes packets from the output of tcpdump",
        docs: "Reads lines that tcpdump printed (`-`: standard input) and makes an IPv4 packet \
               that looks so of every one: TCP, UDP and echo ICMP, in tcpdump's form of today and \
               in that before version 4, with -v on one line or two. What a line does not say is \
               zero, the time to live 100. Bytes that a line only counts are noted in the \
               EXTRA_LENGTH annotation; with CHECKSUM they are there, zero, and checksums are \
               right.\n\
               Relative sequence numbers become those of the wire; 65,536 connections are kept in \
               mind. Names of ports are those of PortInfo and the host's /etc/services; names of \
               hosts are not read (tcpdump -n). Times without a date are of the first day of 1970. \
               Lines of other protocols are counted, and the first is reported. A capture (tcpdump \
               -w) says all this better: FromDump. Compressed files are not read; ZERO false is \
               accepted and ignored.",
        example: "FromTcpdump(dump.txt, STOP true) -> IPPrint -> Discard",
        ports: "0/1",
        processing: "/a",
        args: &[
            Arg::required("FILENAME", Ty::File, "output of tcpdump; - for standard input"),
            Arg::keyword("STOP", Ty::Bool, "whether the driver stops at the end").or("false"),
            Arg::keyword("ACTIVE", Ty::Bool, "whether it makes packets").or("true"),
            Arg::keyword("ZERO", Ty::Bool, "accepted: omitted fields are zero").or("true"),
            Arg::keyword("CHECKSUM", Ty::Bool, "whether packets are whole, with checksums")
                .or("false"),
            Arg::keyword("SAMPLE", Ty::Float, "share of the packets to make, by chance").or("1"),
            Arg::keyword("BURST", Ty::UInt, "packets per run; the engine's choice if not given"),
        ],
        drops: Lost::DROPS,
        threading: Threading::Task,
        cost: &[Operation::Make.once(), Operation::Format.once()],
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
);

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let source = Source { path: args.get("FILENAME")?, data: None, may_miss: false };
    let dialect = Tcpdump::new(args.names(), args.get("CHECKSUM")?);
    Ok(Box::new(TextDump::of(args, source, Box::new(dialect))?))
}
