//! StoreData: fixed bytes into packets.

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handler, HandlerError, Operation, Spec, Topic, Ty,
    handler_value,
};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "StoreData",
        topic: Topic::Bytes,
        summary: "overwrites bytes of packets",
        docs: "Writes DATA over the bytes from OFFSET on, as far as the packet goes: its length does \
               not change. No checksum is updated.",
        example: "InfiniteSource(LIMIT 1, STOP true) -> StoreData(0, \\<0102>) -> Print -> Discard",
        args: &[
            Arg::required("OFFSET", Ty::UInt, "where the bytes go"),
            Arg::required("DATA", Ty::Data, "the bytes"),
        ],
        handlers: &[
            Handler::both("offset", "where the bytes go"),
            Handler::write("data", "sets the bytes"),
        ],
        cost: &[Operation::HeaderWrite.once()],
        ..Spec::DEFAULT
    },
    build,
);

struct StoreData {
    offset: u32,
    data: Vec<u8>,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(StoreData { offset: args.get("OFFSET")?, data: args.get("DATA")? }))
}

impl StoreData {
    #[inline]
    fn store(&self, packet: &mut Packet) {
        let Some(place) = packet.data_mut().get_mut(self.offset as usize..) else { return };
        let len = self.data.len().min(place.len());
        place[..len].copy_from_slice(&self.data[..len]);
    }
}

impl Element for StoreData {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            self.store(packet);
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "offset" => Ok(self.offset.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "offset" => self.offset = handler_value(name, value)?,
            "data" => self.data = handler_value(name, value)?,
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}
