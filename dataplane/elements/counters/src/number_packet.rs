//! NumberPacket: writes a number into each packet.

use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Reason,
    Replicas, Spec, Topic, Ty, Verdict,
};
use thruway_packet::{Batch, Packet};
use thruway_sync::atomic::{AtomicU64, Ordering};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<NumberPacket>(Spec {
    name: "NumberPacket",
    topic: Topic::Counters,
    summary: "writes a growing number into packets",
    docs: "Writes 0 into the first packet, 1 into the next, and so on: eight bytes at OFFSET, in \
           the order of this host's bytes or, with NET_ORDER, of the network's. A packet that \
           ends before is made longer, and where its IP header is marked, the length there is \
           set to the bytes it then has; checksums are left as they are. Threads share one \
           sequence.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> NumberPacket(20) -> Print -> Discard",
    straight: true,
    changes: Changes::Headers,
    cost: &[Operation::HeaderWrite.once()],
    replicas: Replicas::Sharing("the next number"),
    ..Spec::DEFAULT
});

/// Argument OFFSET of all elements that number.
pub(super) const OFFSET: Arg =
    Arg::optional("OFFSET", Ty::UInt, "where the number is, 0 to 65000").or("40");
/// Argument NET_ORDER of the same.
pub(super) const NET_ORDER: Arg =
    Arg::keyword("NET_ORDER", Ty::Bool, "whether it is in network byte order").or("false");

/// Bytes of a number.
const SIZE: usize = 8;
/// Largest OFFSET: packets are not made longer than an IP packet may be.
const OFFSET_MAX: usize = 65_000;

/// Where a packet's number is and how it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumberField {
    offset: usize,
    net_order: bool,
}

impl NumberField {
    pub(super) fn new(args: &Args<'_>, net_order: bool) -> Result<NumberField, ArgErrors> {
        let offset: usize = args.get("OFFSET")?;
        if offset > OFFSET_MAX {
            return Err(args.error("OFFSET", format!("at most {OFFSET_MAX}")).into());
        }
        Ok(NumberField { offset, net_order })
    }

    /// The same place, with the number in this order.
    pub(super) fn in_order(self, net_order: bool) -> NumberField {
        NumberField { net_order, ..self }
    }

    /// The number in a packet, if it is long enough.
    pub(super) fn read(self, data: &[u8]) -> Option<u64> {
        let bytes = data.get(self.offset..)?.first_chunk::<SIZE>()?;
        Some(if self.net_order { u64::from_be_bytes(*bytes) } else { u64::from_ne_bytes(*bytes) })
    }

    fn write(self, data: &mut [u8], number: u64) {
        let bytes = if self.net_order { number.to_be_bytes() } else { number.to_ne_bytes() };
        if let Some(field) = data.get_mut(self.offset..).and_then(|rest| rest.get_mut(..SIZE)) {
            field.copy_from_slice(&bytes);
        }
    }
}

#[derive(Arguments, Handlers)]
struct NumberPacket {
    #[arg(like = OFFSET, unread)]
    #[arg(like = NET_ORDER, name = "NET_ORDER", value = bool)]
    #[new(NumberField::new(args, net_order)?)]
    field: NumberField,
    // Relaxed: a count for people.
    #[new(args.shared("next", || AtomicU64::new(0)))]
    #[handler(
        read, shared, name = "count", "packets numbered", get = self.next.load(Ordering::Relaxed)
    )]
    next: Arc<AtomicU64>,
}

/// Makes a packet at least `len` bytes long. False when there is no memory.
#[cold]
fn lengthen(packet: &mut Packet, len: usize) -> bool {
    let before = packet.len();
    if !packet.put(len - before) {
        return false;
    }
    packet.data_mut()[before..].fill(0);
    let ip_len = packet.network().len();
    if let (Some(header), Ok(ip_len)) = (packet.network_head_mut::<20>(), u16::try_from(ip_len))
        && header[0] >> 4 == 4
    {
        header[2..4].copy_from_slice(&ip_len.to_be_bytes());
    }
    true
}

impl Element for NumberPacket {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        // Relaxed: numbers must differ, but they order no other memory.
        let mut number = self.next.fetch_add(batch.len() as u64, Ordering::Relaxed);
        let (field, end) = (self.field, self.field.offset + SIZE);
        cx.filter(batch, |packet| {
            if packet.len() < end && !lengthen(packet, end) {
                return Verdict::drop(Reason::NO_MEMORY);
            }
            field.write(packet.data_mut(), number);
            number += 1;
            Verdict::Pass
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            (offset, len) in (0usize..40, 0usize..60),
            net_order: bool,
            number: u64,
        ) {
            let field = NumberField { offset, net_order };
            let mut data = vec![7; len];
            field.write(&mut data, number);
            let fits = offset + SIZE <= len;
            prop_assert_eq!(field.read(&data), fits.then_some(number));
            let apart = |at: usize| !(offset..offset + SIZE).contains(&at);
            let kept = (0..len).all(|at| data[at] == 7 || !apart(at));
            prop_assert!(kept && (fits || data.iter().all(|byte| *byte == 7)));
        }
    }
}
