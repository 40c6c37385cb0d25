//! GREEncap: a GRE header in front.

use thruway_element::{
    ArgErrors, Args, Arguments, Cx, Element, Entry, HandlerError, Handlers, Operation, Reason,
    Replicas, Spec, Topic, Verdict, handler_value,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::checksum;
use thruway_wire::gre::GreFields;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<GreEncap>(Spec {
    name: "GREEncap",
    topic: Topic::Ip,
    summary: "puts GRE headers in front of packets",
    docs: "Puts a GRE header (RFC 2784) in front of every packet: PROTOCOL is the EtherType of the \
           payload, 0x0800 for IP, 0x6558 for Ethernet frames. With KEY it has that key, with \
           SEQUENCE a number that counts from 0 (RFC 2890), with CHECKSUM the checksum over header \
           and packet. The IP header is for IPEncap(gre, ...).",
    example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
              -> GREEncap(KEY 5) -> IPEncap(gre, 1.1.1.1, 2.2.2.2) -> CheckIPHeader \
              -> StripIPHeader -> GREDecap -> CheckIPHeader -> Print(ok) -> Discard",
    straight: true,
    cost: &[Operation::HeaderWrite.once()],
    replicas: Replicas::Apart("they keep nothing; with SEQUENCE it is for one thread"),
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
#[handler(
    both, name = "key", "the key; empty where there is none",
    get = self.key.map_or(String::new(), |key| key.to_string()),
    write = self.write_key(name, value)
)]
#[handler(read, field = sequence, "number of the next packet")]
struct GreEncap {
    /// EtherType of what is inside
    #[arg(optional, or = "0x0800")]
    protocol: u16,
    /// the key; without, there is none
    #[arg(keyword)]
    key: Option<u32>,
    #[arg(
        keyword, name = "SEQUENCE", value = bool, or = "false", "whether packets are numbered"
    )]
    #[new(in_order(args, sequence)?)]
    numbered: bool,
    /// whether there is a checksum
    #[arg(keyword, or = "false")]
    checksum: bool,
    #[new(0)]
    sequence: u32,
}

/// Puts a header with these fields in front of the packet, the checksum computed where there is
/// one; false, and nothing changed, when packet memory is used up.
#[inline]
#[must_use]
pub(super) fn put_header(packet: &mut Packet, protocol: u16, fields: &GreFields) -> bool {
    let words = [fields.checksum.is_some(), fields.key.is_some(), fields.sequence.is_some()];
    if !packet.push(4 + 4 * words.into_iter().filter(|there| *there).count()) {
        return false;
    }
    let data = packet.data_mut();
    // There is room: it was just pushed.
    let _ = GreFields { checksum: fields.checksum.map(|_| 0), ..*fields }.emit(protocol, data);
    if fields.checksum.is_some() {
        let sum = checksum::checksum(data);
        data[4..6].copy_from_slice(&sum.to_be_bytes());
    }
    true
}

fn in_order(args: &Args<'_>, numbered: bool) -> Result<bool, ArgErrors> {
    if numbered {
        args.for_one_thread("SEQUENCE numbers all packets, in the order in which they leave")?;
    }
    Ok(numbered)
}

impl GreEncap {
    #[inline]
    fn encap(&mut self, packet: &mut Packet) -> Verdict {
        let fields = GreFields {
            checksum: self.checksum.then_some(0),
            key: self.key,
            sequence: self.numbered.then_some(self.sequence),
        };
        if !put_header(packet, self.protocol, &fields) {
            return Verdict::Drop(Reason::NO_MEMORY);
        }
        self.sequence = self.sequence.wrapping_add(u32::from(self.numbered));
        Verdict::Pass
    }
}

impl Element for GreEncap {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.encap(packet));
    }
}

impl GreEncap {
    fn write_key(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        let text = Some(value).filter(|text| !text.trim().is_empty());
        self.key = text.map(|text| handler_value(name, text)).transpose()?;
        Ok(())
    }
}
