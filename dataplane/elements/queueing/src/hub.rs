//! Hub: what enters one port leaves by all others.

use super::tee::copying;
use thruway_element::{
    Arguments, Changes, Cost, CostModel, Cx, Element, Entry, Handlers, Load, Operation, Replicas,
    Spec, Topic,
};
use thruway_packet::Batch;

use super::tee::copy_to_outputs;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Hub>(Spec {
    name: "Hub",
    topic: Topic::Queueing,
    summary: "copies packets to all outputs but that of the port they came by",
    docs: "Input and output of one number are a port, as on an Ethernet hub: a packet that \
           enters by one leaves by all others. It has as many outputs as inputs.",
    example: "InfiniteSource(LIMIT 1, STOP true) -> h :: Hub -> Print(a) -> Discard;\n\
              Idle -> [1] h [1] -> Print(b) -> Discard",
    ports: "1-/=",
    processing: "h/h",
    flow: "#/[^#]",
    changes: Changes::Nothing,
    cost: &[Operation::Clone.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
})
.with_cost_model::<Hub>();

#[derive(Arguments, Handlers)]
struct Hub {
    #[new(args.env().outputs)]
    outputs: usize,
}

impl Element for Hub {
    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        // The last of the others takes the packets themselves.
        let last = (0..cx.outputs()).rev().find(|output| *output != port);
        let Some(last) = last else { return batch.clear() };
        for packet in batch.iter() {
            copy_to_outputs(cx, packet, 0..port.min(last));
            copy_to_outputs(cx, packet, port + 1..last);
        }
        cx.emit_all(last, batch);
    }
}

impl CostModel for Hub {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        // One output has no copy, and one the packet itself.
        Some(copying(self.outputs.saturating_sub(2), load))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thruway_elements_rig::Rig;
    use thruway_packet::Packet;

    #[test]
    fn every_other_output_gets_one() {
        for ports in 1..5 {
            for from in 0..ports {
                let mut rig = Rig::with_inputs::<&str>(&ENTRY, &[], ports, ports).unwrap();
                let out =
                    rig.push_at(from, [Packet::new(&[1]).unwrap(), Packet::new(&[2]).unwrap()]);
                for (port, packets) in out.iter().enumerate() {
                    let bytes: Vec<u8> = packets.iter().map(|packet| packet.data()[0]).collect();
                    let wanted: &[u8] = if port == from { &[] } else { &[1, 2] };
                    assert_eq!(bytes, wanted, "{from} to {port} of {ports}");
                }
            }
        }
    }
}
