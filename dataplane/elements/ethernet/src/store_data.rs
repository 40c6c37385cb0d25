//! StoreData: fixed bytes into packets.

use thruway_element::{
    Arg, ArgErrors, Args, Cost, CostModel, Cx, Element, Entry, HandlerError, Handlers, Load,
    Operation, Reason, Replicas, Spec, Topic, Ty, Verdict, handler_value,
};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<StoreData>(
    Spec {
        name: "StoreData",
        topic: Topic::Ethernet,
        summary: "overwrites bytes of packets",
        docs: "Writes DATA over the bytes from OFFSET on, as far as the packet goes: its length does \
               not change, unless GROW: then it becomes long enough for DATA, if it has OFFSET \
               bytes. MASK says which bits are written; DATA behind its end is written whole. No \
               checksum is updated.",
        example: "InfiniteSource(LIMIT 1, STOP true) -> StoreData(0, \\<0102>) -> Print -> Discard",
        straight: true,
        args: &[
            Arg::required("OFFSET", Ty::UInt, "where the bytes go"),
            Arg::required("DATA", Ty::Data, "the bytes"),
            Arg::keyword("GROW", Ty::Bool, "whether packets become long enough").or("false"),
            Arg::keyword("MASK", Ty::Data, "the bits to write, all if not given"),
        ],
        cost: &[Operation::HeaderWrite.once()],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
)
.with_cost_model::<StoreData>();

#[derive(Handlers)]
#[handler(both, field = offset, "where the bytes go")]
#[handler(write, name = "data", "sets the bytes", write = self.write_data(value))]
struct StoreData {
    offset: u32,
    data: Vec<u8>,
    grow: bool,
    /// At most as long as the data.
    mask: Vec<u8>,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let data: Vec<u8> = args.get("DATA")?;
    let mask: Vec<u8> = args.opt("MASK")?.unwrap_or_default();
    if mask.len() > data.len() {
        let message = format!("has {} bytes, DATA only {}", mask.len(), data.len());
        return Err(args.error("MASK", message).into());
    }
    Ok(Box::new(StoreData { offset: args.get("OFFSET")?, data, grow: args.get("GROW")?, mask }))
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

impl StoreData {
    fn write_data(&mut self, value: &str) -> Result<(), HandlerError> {
        self.data = handler_value("data", value)?;
        self.mask.truncate(self.data.len());
        Ok(())
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
