//! AggregateIPFlows: numbers flows.

mod flows;

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Nanos, Operation,
    Replicas, Spec, Topic, Ty, Verdict, reasons,
};
use thruway_packet::{Anno, Batch, Packet};

use flows::{Flows, Marks, Timeouts};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "AggregateIPFlows",
        topic: Topic::Ip,
        summary: "sets the aggregate annotation to the number of the flow",
        docs: "Expects marked IP headers. TCP and UDP packets get the number of their flow as \
               AGGREGATE annotation, and their direction as paint: 0 for that of the flow's first \
               packet, 1 for replies. Numbers count from 1. A flow that was silent for longer than \
               its timeout, and a completed TCP flow to which a SYN comes, begins anew with a new \
               number; unlike in Click, FIN and RST count only where their receiver would take them \
               (RFC 5961), unless the packets have no sequence numbers. With ICMP, errors about a packet of a known flow get its number, and paint 2 \
               or 3. All other packets leave by output 1, or are dropped where there is none.\n\n\
               Time is packet time where packets have it. With FRAGMENTS, later fragments are known \
               by the first one, for FRAGMENT_TIMEOUT; unlike in Click none is held, so that those \
               which come before it leave by output 1. At most a million flows are kept; packets of \
               new ones then leave by output 1 until old ones end, which is looked for every REAP.",
        example: "InfiniteSource(LIMIT 1, STOP true) -> UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2) \
                  -> AggregateIPFlows -> AggregateCounter -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        args: &[
            Arg::keyword("TCP_TIMEOUT", Ty::Time, "silence that ends a TCP flow").or("86400"),
            Arg::keyword("TCP_DONE_TIMEOUT", Ty::Time, "the same after FINs both ways, or a RST")
                .or("30"),
            Arg::keyword("UDP_TIMEOUT", Ty::Time, "silence that ends a UDP flow").or("60"),
            Arg::keyword("FRAGMENT_TIMEOUT", Ty::Time, "how long a first fragment is remembered")
                .or("30"),
            Arg::keyword("REAP", Ty::Time, "time between two looks for flows that ended")
                .or("1200"),
            Arg::keyword("ICMP", Ty::Bool, "whether ICMP errors are of the flow they are about")
                .or("false"),
            Arg::keyword("FRAGMENTS", Ty::Bool, "whether later fragments are of their flow")
                .or("true"),
        ],
        drops: Other::DROPS,
        handlers: &[
            Handler::sum("count", "flows known"),
            Handler::write("clear", "forgets all flows"),
        ],
        cost: &[Operation::HashLookup.once()],
        changes: Changes::Nothing,
        replicas: Replicas::Apart(
            "each numbers the flows of its thread, and no two give the same number; a flow whose \
             directions come in by two threads has two, and a later fragment is known in the thread \
             of the first one",
        ),
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet has no flow.
    enum Other {
        NotFlow = "no-flow": "it is no TCP or UDP packet, is too short, or a fragment without ports",
        Full = "table-full": "it would begin a flow, and there are too many",
    }
}

struct AggregateIpFlows {
    flows: Flows,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let time = |name| match args.get::<Nanos>(name)? {
        Nanos(time @ 0..) => Ok(time),
        _ => Err(args.error(name, "must not be negative")),
    };
    let timeouts = Timeouts {
        tcp: time("TCP_TIMEOUT")?,
        tcp_done: time("TCP_DONE_TIMEOUT")?,
        udp: time("UDP_TIMEOUT")?,
        fragment: time("FRAGMENT_TIMEOUT")?,
        reap: time("REAP")?,
    };
    let place = (args.env().rank, args.env().threads);
    let flows = Flows::new(timeouts, args.get("ICMP")?, args.get("FRAGMENTS")?, place);
    Ok(Box::new(AggregateIpFlows { flows }))
}

impl AggregateIpFlows {
    #[inline]
    fn mark(&mut self, packet: &mut Packet, now: i64) -> Verdict {
        let time = match packet.timestamp() {
            0 => now,
            time => time,
        };
        match self.flows.find(packet.network(), time) {
            Marks::Of { aggregate, paint } => {
                packet.set_anno_number(Anno::AGGREGATE, aggregate);
                packet.set_anno_number(Anno::PAINT, paint.into());
                Verdict::Pass
            }
            Marks::NoFlow => Verdict::reject(1, Other::NotFlow),
            Marks::Full => Verdict::reject(1, Other::Full),
        }
    }
}

impl Element for AggregateIpFlows {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let now = cx.now();
        cx.sift(batch, |packet| self.mark(packet, now));
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.flows.len().to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, _value: &str) -> Result<(), HandlerError> {
        match name {
            "clear" => self.flows.clear(),
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}
