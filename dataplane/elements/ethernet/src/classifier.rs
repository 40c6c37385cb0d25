//! Classifier: sorts packets by the bytes at given offsets.

use thruway_element::{
    ArgErrors, Args, Arguments, Changes, Cost, CostModel, Cx, Element, Entry, Handlers, Load,
    Operation, Replicas, ShortCut, Spec, Topic, Ty, Verdict, reasons,
};
use thruway_elements_support::marked::Marked;
use thruway_flow::{Common, PacketView, Path, PatternProgram};
use thruway_packet::lanes::LANES;
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Classifier>(Spec {
    name: "Classifier",
    topic: Topic::Ethernet,
    summary: "sorts packets by their bytes",
    docs: "There is one output for each PATTERN, and a packet leaves by that of the first \
           pattern that it matches; packets that match none are dropped.\n\n\
           A pattern is a list of clauses, separated by blanks, which must all hold. A clause \
           OFFSET/VALUE holds when the bytes from OFFSET (decimal, from the packet's first \
           byte) are VALUE (hexadecimal digits, two a byte; '?' stands for any digit). \
           OFFSET/VALUE%MASK looks only at the bits that are set in MASK. '!' before a clause \
           turns it round. Of a packet that is too short for a clause, the clause does not \
           hold. The pattern '-' matches every packet.\n\n\
           The patterns are compiled together, so that no packet is asked twice for the same \
           bytes; the program handler shows the result. For tests of IP headers, see \
           IPClassifier and IPFilter.",
    example: "InfiniteSource(LIMIT 1, STOP true)\n\
              -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);\n\
              c[0] -> Discard; c[1] -> Discard; c[2] -> Discard; c[3] -> Print -> Discard",
    ports: "1/-",
    processing: "h/h",
    straight: true,
    drops: Unmatched::DROPS,
    cost: &[Operation::ClassifyPattern.once()],
    changes: Changes::Nothing,
    replicas: Replicas::Alike,
    short_cut: ShortCut::Passes,
    large_packets: true,
    ..Spec::DEFAULT
})
.with_cost_model::<Classifier>();

reasons! {
    /// Why a packet goes no further.
    enum Unmatched {
        NoMatch = "no-match": "it matched no pattern",
    }
}

#[derive(Arguments, Handlers)]
struct Classifier {
    #[arg(
        rest, name = "PATTERN", ty = Ty::Rule("Classifier pattern"),
        "clauses OFFSET/VALUE[%MASK], or -"
    )]
    #[new(compiled(args)?)]
    #[handler(read, "the compiled patterns")]
    program: PatternProgram,
    /// The output that most packets are likely to take: that of the last packet.
    usual: u32,
    /// The path that many packets took lately.
    path: Option<Path>,
    /// Batches in which no path is looked for.
    pause: u8,
}

/// Batches that are classified packet by packet after one in which few packets took the path.
const PAUSE: u8 = 15;

fn compiled(args: &Args<'_>) -> Result<PatternProgram, ArgErrors> {
    let texts: Vec<&str> = args.rest().map(|(_, text)| text).collect();
    let rules = PatternProgram::parse(&texts).map_err(|errors| {
        let places: Vec<usize> = args.rest().map(|(index, _)| index).collect();
        let located = errors.into_iter().map(|error| {
            let at = places.get(error.rule).copied().unwrap_or_default();
            args.rest_error(at, error.message)
        });
        ArgErrors(located.collect())
    })?;
    let outputs = args.env().outputs;
    if rules.len() != outputs {
        return Err(ArgErrors::whole(format!(
            "{} patterns, but {outputs} outputs are connected; there must be one output for each",
            rules.len()
        )));
    }
    PatternProgram::compile(&rules).map_err(|error| ArgErrors::whole(error.to_string()))
}

/// The fewest steps that lead to a verdict.
fn steps(of_verdicts: &[(u32, u32)], verdict: u32) -> f64 {
    let found = of_verdicts.iter().find(|it| it.0 == verdict);
    found.map_or(0.0, |(_, steps)| f64::from(*steps))
}

impl Classifier {
    /// Marks the packets that take the usual path, and says where that leads.
    #[inline]
    fn mark(&mut self, batch: &mut Batch) -> (Marked, u32) {
        if self.pause > 0 || batch.len() < LANES {
            self.pause = self.pause.saturating_sub(1);
            return (Marked::default(), self.usual);
        }
        let (mut marked, mut verdict) = (Marked::default(), self.usual);
        if let Some(path) = &self.path {
            verdict = path.verdict();
            marked = Marked::by_groups(batch.iter_mut().into_slice(), |group| {
                let mut frames: [&[u8]; LANES] = [&[]; LANES];
                for (at, packet) in group.iter().enumerate() {
                    frames[at] = packet.data();
                }
                path.takers(&frames)
            });
        }
        if 2 * marked.count() < batch.len() {
            self.find_path(batch);
        }
        (marked, verdict)
    }

    /// Takes the last packet's path for the usual one.
    #[cold]
    fn find_path(&mut self, batch: &Batch) {
        let was_wrong = self.path.is_some();
        let last = batch.iter().next_back().map_or(&[][..], Packet::data);
        self.path = Path::of(&self.program, last);
        self.pause = if was_wrong || self.path.is_none() { PAUSE } else { 0 };
    }

    #[cold]
    fn look_at_probe(&self, cx: &mut Cx<'_>, batch: &Batch) {
        let is_common = |packet: &Packet| {
            let frame_at = packet.mac_offset().map_or(0, |at| usize::try_from(-at).unwrap_or(0));
            let network = packet.mac_bytes(24).unwrap_or(&[]);
            let is_tcp = network.get(23) == Some(&6);
            let view = PacketView::from_frame(packet.data());
            self.program.is_common(&view, Common { frame_at, is_tcp })
        };
        if !batch.iter().all(is_common) {
            cx.spoil_probe();
        }
    }
}

impl Element for Classifier {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if cx.is_probe() {
            self.look_at_probe(cx, batch);
        }
        let (marked, of_path) = self.mark(batch);
        let (program, usual, outputs) = (&self.program, self.usual, cx.outputs());
        if marked.count() == batch.len() && of_path == usual {
            if usual != 0 {
                cx.emit_all(usual as usize, batch);
            }
            return;
        }
        let (mut last, mut at) = (usual, 0);
        // PERF: packets of the usual output stay where they are and go on as a batch: no packet is
        // moved when all are alike.
        cx.filter(batch, |packet| {
            let output = match marked.holds(at) {
                true => of_path,
                false => program.classify(packet.data()),
            };
            at += 1;
            if output == usual {
                return Verdict::Pass;
            }
            match output as usize {
                port if port < outputs => {
                    last = output;
                    Verdict::To(port)
                }
                _ => Verdict::drop(Unmatched::NoMatch),
            }
        });
        if batch.is_empty() {
            self.usual = last;
        } else if usual != 0 {
            cx.emit_all(usual as usize, batch);
        }
    }
}

impl CostModel for Classifier {
    fn cost(&self, _load: &Load) -> Option<Vec<Cost>> {
        // Most packets go as the last ones did.
        let steps = steps(&self.program.steps(), self.usual);
        let steps = Operation::ClassifyPattern.times(steps);
        Some(vec![Operation::HeaderRead.once(), steps, Operation::Sort.once()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_elements_rig::Rig;

    const PATTERNS: [&str; 3] = ["12/0806 20/0001", "12/0806 20/0002", "12/0800"];

    /// One of four kinds of frames, the last of which matches nothing.
    fn frame(kind: u8) -> Vec<u8> {
        let mut frame = vec![0; 60];
        let (ethertype, operation) =
            [([8, 6], [0, 1]), ([8, 6], [0, 2]), ([8, 0], [0, 0]), ([9, 9], [0, 0])]
                [usize::from(kind)];
        frame[12..14].copy_from_slice(&ethertype);
        frame[20..22].copy_from_slice(&operation);
        frame
    }

    /// Batches of mostly one kind, as traffic is: the kind, and which packets are of another one.
    fn batches() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let batch = (0..4_u8, prop::collection::vec((0..4_u8, 0..3_u8), 0..40));
        let batch = batch.prop_map(|(usual, packets)| {
            packets.into_iter().map(|(kind, other)| if other == 0 { kind } else { usual }).collect()
        });
        prop::collection::vec(batch, 1..30)
    }

    proptest! {
        /// Whatever came before, each packet leaves by the output of its first pattern, in order.
        #[test]
        fn packets_leave_by_the_output_of_their_pattern(batches in batches()) {
            let mut rig = Rig::new(&ENTRY, &PATTERNS, 3).unwrap();
            for (nth, kinds) in batches.iter().enumerate() {
                let number = |(at, kind): (usize, &u8)| {
                    let mut frame = frame(*kind);
                    frame[40] = at as u8;
                    frame
                };
                let frames: Vec<_> = kinds.iter().enumerate().map(number).collect();
                let left = rig.push(frames.iter().map(|frame| Packet::new(frame).unwrap()));
                for output in 0..3 {
                    let of_output = frames.iter().zip(kinds).filter(|(_, kind)| **kind == output);
                    let wanted: Vec<_> = of_output.map(|(frame, _)| frame.as_slice()).collect();
                    let came: Vec<_> = left[usize::from(output)].iter().map(Packet::data).collect();
                    prop_assert_eq!(came, wanted, "batch {} output {}", nth, output);
                }
            }
        }
    }

    #[test]
    fn steps_follow_the_path_of_packets() {
        let rules = PatternProgram::parse(&["12/0806 20/0001", "12/0806", "12/0800", "-"]);
        let program = PatternProgram::compile(&rules.expect("patterns")).expect("few rules");
        // ARP or not, then which; or not, then IP or not.
        let found = program.steps();
        assert_eq!([0, 1, 2, 3].map(|output| steps(&found, output)), [2.0; 4]);
        let rules = PatternProgram::parse(&["0/01 1/01 2/01", "0/01"]).expect("patterns");
        let found = PatternProgram::compile(&rules).expect("few rules").steps();
        assert_eq!([0, 1].map(|output| steps(&found, output)), [3.0, 2.0]);
        let nothing = PatternProgram::parse(&["-"]).expect("patterns");
        let found = PatternProgram::compile(&nothing).expect("few rules").steps();
        assert_eq!(steps(&found, 0), 0.0);
    }
}
