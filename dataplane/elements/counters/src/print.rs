//! Print: shows packets' bytes.

use std::fmt::Write as _;

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
    Ty,
};
use thruway_packet::{Anno, Batch, Packet};

use thruway_elements_support::text::{Contents, timestamp};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<Print>(
    Spec {
        name: "Print",
        topic: Topic::Counters,
        summary: "prints packet contents",
        docs: "Writes a line to standard error for each packet: LABEL, the length, and up to \
               MAXLENGTH of its bytes (-1 for all). CONTENTS is HEX, ASCII or NONE. It formats text \
               for every packet and is for looking, not for speed.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> Print(ok) -> Discard",
        straight: true,
        args: &[
            Arg::optional("LABEL", Ty::Str, "text before each line"),
            Arg::optional("MAXLENGTH", Ty::Int, "bytes to print; -1 for all").or("24"),
            Arg::keyword("LENGTH", Ty::Int, "old name of MAXLENGTH"),
            Arg::keyword("NBYTES", Ty::Int, "old name of MAXLENGTH"),
            Arg::keyword("CONTENTS", Ty::Choice(&["HEX", "ASCII", "NONE"]), "how bytes are shown")
                .or("HEX"),
            Arg::keyword("TIMESTAMP", Ty::Bool, "whether the time is shown").or("false"),
            Arg::keyword("PRINTANNO", Ty::Bool, "whether annotations are shown").or("false"),
            Arg::keyword("HEADROOM", Ty::Bool, "whether head and tail room are shown").or("false"),
            Arg::keyword("CPU", Ty::Bool, "whether the thread is shown").or("false"),
            Arg::keyword("ACTIVE", Ty::Bool, "whether anything is printed").or("true"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Format.once()],
        replicas: Replicas::Alike,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

#[derive(Handlers)]
struct Print {
    label: String,
    max: usize,
    contents: Contents,
    timestamp: bool,
    annotations: bool,
    headroom: bool,
    /// The thread to show.
    thread: Option<usize>,
    /// whether anything is printed
    #[handler(both)]
    active: bool,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let older = args.opt::<i32>("LENGTH")?.or(args.opt("NBYTES")?);
    let max = older.map_or_else(|| args.get::<i32>("MAXLENGTH"), Ok)?;
    let contents: String = args.get("CONTENTS")?;
    Ok(Box::new(Print {
        label: args.get("LABEL")?,
        max: usize::try_from(max).unwrap_or(usize::MAX),
        contents: Contents::parse(&contents).map_err(|error| args.error("CONTENTS", error))?,
        timestamp: args.get("TIMESTAMP")?,
        annotations: args.get("PRINTANNO")?,
        headroom: args.get("HEADROOM")?,
        thread: args.get::<bool>("CPU")?.then_some(args.env().thread),
        active: args.get("ACTIVE")?,
    }))
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
