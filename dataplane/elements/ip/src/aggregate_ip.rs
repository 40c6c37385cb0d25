//! AggregateIP: a header field as aggregate annotation.

mod field;

use thruway_element::{
    ArgError, Args, Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec,
    Topic, Ty, Verdict, reasons,
};
use thruway_packet::{Anno, Batch, Packet};

use field::Field;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<AggregateIp>(Spec {
    name: "AggregateIP",
    topic: Topic::Ip,
    summary: "sets the aggregate annotation to a header field",
    docs: "Expects marked IP headers. Sets the AGGREGATE annotation to the value of FIELD. With \
           INCREMENTAL, to the old value shifted by the field's bits, plus the field's.\n\n\
           FIELD is a name, such as ip src, ip ttl, ip dscp, tcp flags, udp dport, icmp type, or \
           sport and dport for both TCP and UDP; or a place: ip, transp, data (or tcp, udp, icmp, \
           which then must be the protocol) and [OFFSET, LENGTH], [FIRST-LAST], [OFFSET+LENGTH], \
           [OFFSET] in bytes, or the same in braces in bits, counted from that header. It may \
           end in /N for its first N bits, or & MASK for the bits of a mask that are next to one \
           another; ip src and ip dst may end in /ADDRESS. It must lie within 32 aligned bits.\n\n\
           Packets that lack the field (too short, another protocol, a later fragment) leave by \
           output 1, or are dropped where there is none.",
    example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
              -> MarkIPHeader -> AggregateIP(ip dst/8) -> AggregateCounter -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    straight: true,
    drops: Lack::DROPS,
    cost: &[Operation::HeaderRead.once()],
    changes: Changes::Nothing,
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

reasons! {
    /// Why there is no value.
    enum Lack {
        NoField = "no-field": "the packet does not have the field",
    }
}

#[derive(Arguments, Handlers)]
struct AggregateIp {
    /// the field
    #[arg(required, as = String, via = field_of, ty = Ty::Rule("field"))]
    #[handler(read, "the field: header, offset and length in bits")]
    field: Field,
    #[arg(
        keyword, name = "INCREMENTAL", value = bool, or = "false",
        "whether the old value stays in front"
    )]
    #[new(with_room(args, &field, incremental)?)]
    incremental: bool,
}

impl AggregateIp {
    #[inline]
    fn set(&self, packet: &mut Packet) -> Verdict {
        let Some(value) = self.field.of(packet.network()) else {
            return Verdict::reject(1, Lack::NoField);
        };
        let old = match self.incremental {
            true => packet.anno_number(Anno::AGGREGATE) << self.field.length,
            false => 0,
        };
        packet.set_anno_number(Anno::AGGREGATE, old.wrapping_add(value));
        Verdict::Pass
    }
}

fn field_of(text: String) -> Result<Field, String> {
    Field::parse(&text).map_err(|why| why.to_string())
}

fn with_room(args: &Args<'_>, field: &Field, incremental: bool) -> Result<bool, ArgError> {
    if incremental && field.length == 32 {
        return Err(args.error("INCREMENTAL", "a field of 32 bits leaves no room"));
    }
    Ok(incremental)
}

impl Element for AggregateIp {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.set(packet));
    }
}
