//! Tee: a copy for every output.

use thruway_element::{Arg, ArgErrors, Args, Cx, Element, Entry, Spec, Topic, Ty};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Tee",
        topic: Topic::Moving,
        summary: "copies packets to all outputs",
        docs: "Each packet leaves by every output: as a copy by all but the last. Tee has as many \
               outputs as are connected; N, if given, says how many that should be.",
        example: "InfiniteSource(LIMIT 1, STOP true) -> t :: Tee(2);\n\
                  t[0] -> Print(a) -> Discard; t[1] -> Print(b) -> Discard",
        ports: "1/1-",
        processing: "h/h",
        args: &[Arg::optional("N", Ty::UInt, "number of outputs there should be")],
        ..Spec::DEFAULT
    },
    build,
);

struct Tee;

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let outputs = args.env().outputs;
    match args.opt::<usize>("N")? {
        Some(n) if n != outputs => {
            let message = format!("{n}, but {outputs} outputs are connected; write {outputs}");
            Err(args.error("N", message).into())
        }
        _ => Ok(Box::new(Tee)),
    }
}

/// Sends copies of a packet out of outputs 0 to `n` - 1.
pub(super) fn copy_to_outputs(cx: &mut Cx<'_>, packet: &Packet, n: usize) {
    for port in 0..n {
        if let Some(copy) = cx.duplicate(packet) {
            cx.emit(port, copy);
        }
    }
}

impl Element for Tee {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let Some(last) = cx.outputs().checked_sub(1) else { return };
        for packet in batch.iter() {
            copy_to_outputs(cx, packet, last);
        }
        cx.emit_all(last, batch);
    }
}
