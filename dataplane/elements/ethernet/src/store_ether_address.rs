//! StoreEtherAddress: an Ethernet address into the packet.

use thruway_element::{
    ArgError, Args, Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec,
    Topic, Verdict, reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::MacAddr;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<StoreEtherAddress>(Spec {
    name: "StoreEtherAddress",
    topic: Topic::Ethernet,
    summary: "writes an Ethernet address into packets",
    docs: "Writes ADDR at OFFSET, a number of bytes, or src (6) or dst (0) of a packet that \
           begins with its Ethernet header. Packets that end before that leave by output 1, or \
           are dropped where there is none.",
    example: "InfiniteSource(LIMIT 1, STOP true) -> StoreEtherAddress(2:0:0:0:0:1, dst) \
              -> Print -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    straight: true,
    drops: Short::DROPS,
    changes: Changes::Headers,
    cost: &[Operation::HeaderWrite.once()],
    replicas: Replicas::Alike,
    large_packets: true,
    ..Spec::DEFAULT
});

reasons! {
    /// Why the address has no place.
    enum Short {
        Short = "too-short": "the packet ends before the address would",
    }
}

#[derive(Arguments, Handlers)]
struct StoreEtherAddress {
    /// the address
    #[arg(required)]
    #[handler(both, get = self.addr.dashed())]
    addr: MacAddr,
    #[arg(required, name = "OFFSET", value = String, "where: a number, src or dst")]
    #[new(offset_of(args, &offset)?)]
    offset: usize,
}

fn offset_of(args: &Args<'_>, offset: &str) -> Result<usize, ArgError> {
    match offset.to_ascii_lowercase().as_str() {
        "src" => Ok(6),
        "dst" => Ok(0),
        number => {
            let message = |why| format!("{why}; write a number of bytes, src or dst");
            let number = args.parse::<u32>(number);
            Ok(number.map_err(|why| args.error("OFFSET", message(why)))? as usize)
        }
    }
}

impl StoreEtherAddress {
    #[inline]
    fn store(&self, packet: &mut Packet) -> Verdict {
        // A 32-bit number: no overflow.
        match packet.data_mut().get_mut(self.offset..self.offset + 6) {
            Some(place) => {
                place.copy_from_slice(&self.addr.0);
                Verdict::Pass
            }
            None => Verdict::reject(1, Short::Short),
        }
    }
}

impl Element for StoreEtherAddress {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.store(packet));
    }
}
