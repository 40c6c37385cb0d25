//! HashSwitch: sorts packets by a hash of some of their bytes.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Verdict,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<HashSwitch>(Spec {
    name: "HashSwitch",
    topic: Topic::Queueing,
    summary: "sends packets to outputs by a hash of some of their bytes",
    docs: "The output is chosen by the sum of the LENGTH bytes at OFFSET, so that packets which \
           have these bytes in common stay together. Packets that end before leave by output \
           0.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> s :: HashSwitch(16, 4);\n\
              s[0] -> Discard; s[1] -> Discard",
    ports: "1/1-",
    processing: "h/h",
    straight: true,
    changes: Changes::Nothing,
    cost: &[Operation::HeaderRead.once(), Operation::Sort.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct HashSwitch {
    /// first byte to look at
    #[arg(required, as = u32)]
    offset: usize,
    /// bytes to look at
    #[arg(required, as = u32, range = 1..)]
    length: usize,
}

/// The output for a packet, of `outputs`: Click's function, so that configurations keep their
/// distribution.
fn choose(data: &[u8], (offset, length): (usize, usize), outputs: usize) -> usize {
    let Some(bytes) = data.get(offset..).and_then(|rest| rest.get(..length)) else { return 0 };
    let sum: usize = bytes.iter().map(|byte| usize::from(*byte)).sum();
    match outputs {
        0 => 0,
        2 | 4 | 8 => (sum ^ (sum >> 4)) & (outputs - 1),
        _ => sum % outputs,
    }
}

impl Element for HashSwitch {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let (outputs, bytes) = (cx.outputs(), (self.offset, self.length));
        cx.filter(batch, |packet| match choose(packet.data(), bytes, outputs) {
            0 => Verdict::Pass,
            output => Verdict::To(output),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::choose;

    #[test]
    fn sums_choose() {
        assert_eq!(choose(&[9, 1, 2], (1, 2), 3), 0);
        assert_eq!(choose(&[9, 1, 3], (1, 2), 3), 1);
        assert_eq!(choose(&[0x13], (0, 1), 2), (0x13 ^ 1) & 1);
        assert_eq!(choose(&[0x35], (0, 1), 8), (0x35 ^ 3) & 7);
        for short in [(3, 1), (0, 4), (usize::MAX, 1), (1, usize::MAX)] {
            assert_eq!(choose(&[1, 1, 1], short, 5), 0);
        }
    }
}
