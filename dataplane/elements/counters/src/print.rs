//! Print: shows packets' bytes.

use std::fmt::Write as _;

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Ty,
};
use thruway_packet::{Anno, Batch, Packet};

use thruway_elements_support::text::{Contents, timestamp};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Print>(Spec {
    name: "Print",
    topic: Topic::Counters,
    summary: "prints packet contents",
    docs: "Writes a line to standard error for each packet: LABEL, the length, and up to \
           MAXLENGTH of its bytes (-1 for all). CONTENTS is HEX, ASCII or NONE. It formats text \
           for every packet and is for looking, not for speed.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> Print(ok) -> Discard",
    straight: true,
    changes: Changes::Nothing,
    cost: &[Operation::Format.once()],
    replicas: Replicas::Alike,
    large_packets: true,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct Print {
    /// text before each line
    #[arg(optional)]
    label: String,
    #[arg(optional, name = "MAXLENGTH", value = i32, or = "24", "bytes to print; -1 for all")]
    #[arg(keyword, name = "LENGTH", value = Option<i32>, "old name of MAXLENGTH")]
    #[arg(keyword, name = "NBYTES", value = Option<i32>, "old name of MAXLENGTH")]
    #[new(usize::try_from(length.or(nbytes).unwrap_or(maxlength)).unwrap_or(usize::MAX))]
    max: usize,
    /// how bytes are shown
    #[arg(keyword, ty = Ty::Choice(&["HEX", "ASCII", "NONE"]), or = "HEX")]
    contents: Contents,
    /// whether the time is shown
    #[arg(keyword, or = "false")]
    timestamp: bool,
    /// whether annotations are shown
    #[arg(keyword, name = "PRINTANNO", or = "false")]
    annotations: bool,
    /// whether head and tail room are shown
    #[arg(keyword, or = "false")]
    headroom: bool,
    /// The thread to show.
    #[arg(keyword, name = "CPU", value = bool, or = "false", "whether the thread is shown")]
    #[new(cpu.then_some(args.env().thread))]
    thread: Option<usize>,
    /// whether anything is printed
    #[arg(keyword, or = "true")]
    #[handler(both)]
    active: bool,
}

impl Print {
    fn line(&self, packet: &Packet) -> String {
        let mut line = self.label.clone();
        // Writing to a String does not fail.
        if let Some(thread) = self.thread {
            let _ = write!(line, "({thread})");
        }
        let mut separator = if line.is_empty() { "" } else { ": " };
        if self.timestamp {
            let _ = write!(line, "{separator}{}", timestamp(packet.timestamp()));
            separator = ": ";
        }
        let _ = write!(line, "{separator}{:4}", packet.len());
        if self.headroom {
            let _ = write!(line, " (h{} t{})", packet.headroom(), packet.tailroom());
        }
        if self.annotations {
            line.push_str(" | ");
            for at in 0..Anno::SPACE {
                let anno = Anno { offset: at as u8, size: 1 };
                let _ = write!(line, "{:02x}", packet.anno(anno)[0]);
            }
        }
        let data = &packet.data()[..packet.len().min(self.max)];
        if self.contents != Contents::None && !data.is_empty() {
            line.push_str(" | ");
            let hex = self.contents == Contents::Hex;
            self.contents.write(&mut line, data, |at| if hex && at == 0 { "" } else { " " });
        }
        line
    }
}

impl Element for Print {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if self.active {
            for packet in batch.iter() {
                cx.log(&self.line(packet));
            }
        }
    }
}
