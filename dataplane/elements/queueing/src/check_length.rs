//! CheckLength: lets short packets pass.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, ShortCut, Spec, Topic,
    Ty, Verdict, reasons,
};
use thruway_elements_support::links::{PortMtu, sent_len};
use thruway_packet::{Anno, Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<CheckLength>(Spec {
    name: "CheckLength",
    topic: Topic::Queueing,
    summary: "checks the length of packets",
    docs: "Packets of at most LENGTH bytes go on; longer ones leave by output 1, or are dropped \
           where there is none. With EXTRA_LENGTH, bytes that a packet had on the wire and the \
           capture left out count too. With PORT, a packet longer than that interface's MTU now is \
           too long, too (for packets without a link-layer header). Of a packet that stands for \
           several (FromDevice, LARGE) the longest of those counts.",
    example: "InfiniteSource(LENGTH 100, LIMIT 3, STOP true) -> c :: CheckLength(64) -> Discard;\n\
              c[1] -> Print(long) -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    straight: true,
    drops: Long::DROPS,
    changes: Changes::Nothing,
    cost: &[Operation::Annotate.once()],
    replicas: Replicas::Alike,
    short_cut: ShortCut::Passes,
    large_packets: true,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet does not pass.
    enum Long {
        Long = "too-long": "it has more than LENGTH bytes",
    }
}

#[derive(Arguments, Handlers)]
struct CheckLength {
    /// most bytes
    #[arg(required)]
    #[handler(both)]
    length: u32,
    /// whether bytes left out count
    #[arg(keyword, name = "EXTRA_LENGTH", or = "false")]
    extra: bool,
    /// an interface; its MTU holds if it is less
    #[arg(keyword, ty = Ty::Str)]
    #[new(PortMtu::of(args)?)]
    port: PortMtu,
}

impl CheckLength {
    #[inline]
    fn passes(&self, packet: &Packet, limit: usize) -> bool {
        let extra = if self.extra { packet.anno_number(Anno::EXTRA_LENGTH) as usize } else { 0 };
        sent_len(packet, packet.len()) + extra <= limit
    }
}

impl Element for CheckLength {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.port.open();
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let limit = (self.length as usize).min(self.port.get());
        if cx.is_probe() {
            // Where the Ethernet header counts, it is less.
            cx.bound_probe(limit.saturating_sub(14));
        }
        cx.filter(batch, |packet| match self.passes(packet, limit) {
            true => Verdict::Pass,
            false => Verdict::reject(1, Long::Long),
        });
    }
}
