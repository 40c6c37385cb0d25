//! StoreData: fixed bytes into packets.

use thruway_element::{
    ArgError, Args, Arguments, Cost, CostModel, Cx, Element, Entry, Handlers, Load, Operation,
    Reason, Replicas, Spec, Topic, Verdict,
};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<StoreData>(Spec {
    name: "StoreData",
    topic: Topic::Ethernet,
    summary: "overwrites bytes of packets",
    docs: "Writes DATA over the bytes from OFFSET on, as far as the packet goes: its length does \
           not change, unless GROW: then it becomes long enough for DATA, if it has OFFSET bytes. \
           MASK selects the bits to write; DATA behind its end is written whole. No checksum is \
           updated.",
    example: "InfiniteSource(LIMIT 1, STOP true) -> StoreData(0, \\<0102>) -> Print -> Discard",
    straight: true,
    cost: &[Operation::HeaderWrite.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
})
.with_cost_model::<StoreData>();

#[derive(Arguments, Handlers)]
struct StoreData {
    /// where the bytes go
    #[arg(required)]
    #[handler(both)]
    offset: u32,
    /// the bytes
    #[arg(required)]
    #[handler(write, "sets the bytes", then = self.mask.truncate(self.data.len()))]
    data: Vec<u8>,
    /// whether packets become long enough
    #[arg(keyword, or = "false")]
    grow: bool,
    /// At most as long as the data.
    #[arg(
        keyword, name = "MASK", value = Option<Vec<u8>>, "the bits to write, all if not given"
    )]
    #[new(no_longer(args, mask.unwrap_or_default(), data.len())?)]
    mask: Vec<u8>,
}

fn no_longer(args: &Args<'_>, mask: Vec<u8>, len: usize) -> Result<Vec<u8>, ArgError> {
    if mask.len() > len {
        return Err(args.error("MASK", format!("has {} bytes, DATA only {len}", mask.len())));
    }
    Ok(mask)
}

impl StoreData {
    #[inline]
    fn store(&self, packet: &mut Packet) -> Verdict {
        let offset = self.offset as usize;
        let lacking = (offset + self.data.len()).saturating_sub(packet.len());
        if self.grow && lacking > 0 && offset <= packet.len() && !packet.put(lacking) {
            return Verdict::Drop(Reason::NO_MEMORY);
        }
        let Some(place) = packet.data_mut().get_mut(offset..) else { return Verdict::Pass };
        let masked = self.mask.len().min(place.len());
        for ((byte, mask), data) in place.iter_mut().zip(&self.mask).zip(&self.data) {
            *byte = *byte & !mask | data & mask;
        }
        let len = self.data.len().min(place.len());
        place[masked..len].copy_from_slice(&self.data[masked..len]);
        Verdict::Pass
    }
}

impl Element for StoreData {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.store(packet));
    }
}

impl CostModel for StoreData {
    fn cost(&self, _load: &Load) -> Option<Vec<Cost>> {
        // A line is what writing a header is about.
        let more = (Load::lines(self.data.len() as f64) - 1.0).max(0.0);
        Some(vec![Operation::HeaderWrite.once(), Operation::CopyLine.times(more)])
    }
}
