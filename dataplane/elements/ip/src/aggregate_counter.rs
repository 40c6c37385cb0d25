//! AggregateCounter: packets or bytes by aggregate annotation.

mod file;

use std::collections::HashMap;

use thruway_element::text::{split_words, unquote_text};
use thruway_element::{
    ArgError, Args, Arguments, Changes, Cost, CostModel, Cx, Element, Entry, HandlerError,
    Handlers, Load, Operation, Replicas, Spec, Topic, Ty,
};
use thruway_elements_support::named_file;
use thruway_elements_support::reaching::looking_up;
use thruway_packet::{Anno, Batch, Packet};

use file::Format;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<AggregateCounter>(Spec {
    name: "AggregateCounter",
    topic: Topic::Ip,
    summary: "counts packets or bytes by aggregate annotation",
    docs: "Counts the packets (with BYTES, the bytes) of every value of the AGGREGATE \
           annotation. Handlers write the counts to files. While frozen, values not seen before \
           get no count; packets at input 1 are always counted so. Packets that were counted \
           leave by output 0, others by output 1 if that is connected.\n\n\
           An action can be taken once there would be more than N values (*_AFTER_AGG), or once \
           the count of all is N (*_AFTER_COUNT): FREEZE, STOP the driver, or CALL a write \
           handler, after the packet. At most a million values are kept: then it is frozen. \
           Counts stop at 4,294,967,295.\n\n\
           Files have the line !IPAggregate 1.0, the banner, a line !num_nonzero with the \
           number of values, and a line for each value in ascending order: the value and its \
           count in decimal (write_text_file), the value as IP address (write_ip_file), or, \
           behind a line !packed_le, both as 32-bit little-endian numbers (write_file). - is \
           standard output.",
    example: "InfiniteSource(LIMIT 1, STOP true) -> a :: AggregateCounter -> Discard; \
              Script(TYPE DRIVER, wait_stop, write a.write_text_file -)",
    ports: "1-2/1-2",
    processing: "a/ah",
    straight: true,
    cost: &[Operation::HashLookup.once()],
    changes: Changes::Nothing,
    replicas: Replicas::Apart(
        "each counts its aggregates; counts that freeze, stop or call something are for one \
         thread",
    ),
    ..Spec::DEFAULT
})
.with_cost_model::<AggregateCounter>();

/// Most values that are kept.
const MAX_VALUES: usize = 1 << 20;

/// The action at a threshold.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    Freeze,
    Stop,
    Call { handler: String, value: String },
}

/// The unit of counting.
#[derive(Arguments, Handlers)]
struct Measure {
    /// whether bytes are counted
    #[arg(keyword, or = "false")]
    bytes: bool,
    /// whether bytes count from the network header on
    #[arg(keyword, name = "IP_BYTES", or = "false")]
    ip_bytes: bool,
    /// whether the EXTRA_PACKETS annotation counts
    #[arg(keyword, or = "true")]
    multipacket: bool,
    /// whether the EXTRA_LENGTH annotation counts
    #[arg(keyword, name = "EXTRA_LENGTH", or = "true")]
    extra_length: bool,
}

#[derive(Arguments, Handlers)]
#[handler(
    write, name = "write_text_file", "writes values and counts in decimal to a file",
    run = self.write(cx, (name, value), Format::Text)?
)]
#[handler(
    write, name = "write_ascii_file", "the same",
    run = self.write(cx, (name, value), Format::Text)?
)]
#[handler(
    write, name = "write_ip_file", "writes values as IP addresses, and counts",
    run = self.write(cx, (name, value), Format::Ip)?
)]
#[handler(
    write, name = "write_file", "writes values and counts as binary numbers",
    run = self.write(cx, (name, value), Format::Binary)?
)]
#[handler(both, field = frozen, name = "freeze", "whether new values get no count")]
#[handler(both, field = active, "whether anything is counted")]
#[handler(
    both, name = "banner", "text at the head of files", get = self.banner.clone(),
    run = self.banner = value.to_owned()
)]
#[handler(sum, field = total, name = "count", "sum of all counts")]
#[handler(sum, name = "nagg", "number of values", get = self.counts.len())]
#[handler(write, name = "clear", "forgets all counts", write = self.write_clear())]
#[handler(write, name = "stop", "counts no more and stops the driver", write = self.write_stop(cx))]
#[handler(
    write, name = "reaggregate_counts", "makes the counts values, and counts those",
    run = self.reaggregate()
)]
struct AggregateCounter {
    #[part]
    measure: Measure,
    #[arg(
        keyword, name = "FREEZE_AFTER_AGG", unread, ty = Ty::UInt, "freeze after so many values"
    )]
    #[arg(
        keyword, name = "STOP_AFTER_AGG", unread, ty = Ty::UInt,
        "stop the driver after so many values"
    )]
    #[arg(
        keyword, name = "CALL_AFTER_AGG", unread, ty = Ty::Rule("N HANDLER [VALUE]"),
        "call after N values"
    )]
    #[new(action(args, ["FREEZE_AFTER_AGG", "STOP_AFTER_AGG", "CALL_AFTER_AGG"])?)]
    after_agg: Option<(u64, Action)>,
    #[arg(keyword, name = "FREEZE_AFTER_COUNT", unread, ty = Ty::UInt, "freeze at this count")]
    #[arg(
        keyword, name = "STOP_AFTER_COUNT", unread, ty = Ty::UInt,
        "stop the driver at this count"
    )]
    #[arg(
        keyword, name = "CALL_AFTER_COUNT", unread, ty = Ty::Rule("N HANDLER [VALUE]"),
        "call at count N"
    )]
    #[new(action(args, ["FREEZE_AFTER_COUNT", "STOP_AFTER_COUNT", "CALL_AFTER_COUNT"])?)]
    after_count: Option<(u64, Action)>,
    /// text at the head of files
    #[arg(keyword, else = String::new())]
    banner: String,
    counts: HashMap<u32, u32>,
    total: u64,
    frozen: bool,
    #[new(true)]
    active: bool,
    /// Of a batch: whether each packet was counted.
    counted: Vec<bool>,
}

/// The action for a threshold, of `AGG` or of `COUNT`.
fn action(args: &Args<'_>, names: [&str; 3]) -> Result<Option<(u64, Action)>, ArgError> {
    let given: Vec<&str> = names.into_iter().filter(|name| args.given(name)).collect();
    let name = match given[..] {
        [] => return Ok(None),
        [name] => name,
        [_, second, ..] => {
            let message = format!("give only one of {}", names.join(", "));
            return Err(args.error(second, message));
        }
    };
    if name == names[0] {
        return Ok(Some((args.get(name)?, Action::Freeze)));
    }
    if name == names[1] {
        return Ok(Some((args.get(name)?, Action::Stop)));
    }
    let text = args.text(name).unwrap_or_default();
    let words = split_words(text);
    let [n, handler, value @ ..] = &words[..] else {
        return Err(args.error(name, "expected N HANDLER [VALUE]"));
    };
    let n = args.parse(n).map_err(|why| args.error(name, why))?;
    let value = unquote_text(&value.join(" "));
    Ok(Some((n, Action::Call { handler: (*handler).to_owned(), value })))
}

impl Measure {
    #[inline]
    fn of(&self, packet: &Packet) -> u32 {
        if !self.bytes {
            let more = if self.multipacket { packet.anno_number(Anno::EXTRA_PACKETS) } else { 0 };
            return 1 + more;
        }
        let link = if self.ip_bytes { packet.network_offset().unwrap_or(0) } else { 0 };
        let extra = if self.extra_length { packet.anno_number(Anno::EXTRA_LENGTH) } else { 0 };
        // At most 2^16 and the length of a frame.
        (packet.len() - link) as u32 + extra
    }
}

impl AggregateCounter {
    /// Counts a packet if its value has a count or may get one.
    fn update(&mut self, cx: &mut Cx<'_>, packet: &Packet, frozen: bool) -> bool {
        if !self.active {
            return false;
        }
        let (value, amount) = (packet.anno_number(Anno::AGGREGATE), self.measure.of(packet));
        let known = self.counts.contains_key(&value);
        if !known && amount > 0 {
            let values = self.counts.len() as u64;
            if let Some((_, action)) = self.after_agg.take_if(|(n, _)| values >= *n) {
                self.act(cx, action);
            }
            let full = self.counts.len() >= MAX_VALUES;
            if frozen || self.frozen || !self.active || full {
                return false;
            }
        }
        if amount > 0 {
            let count = self.counts.entry(value).or_insert(0);
            *count = count.saturating_add(amount);
        }
        self.total += u64::from(amount);
        let total = self.total;
        if let Some((_, action)) = self.after_count.take_if(|(n, _)| total >= *n) {
            self.act(cx, action);
        }
        known || amount > 0
    }

    #[cold]
    fn act(&mut self, cx: &mut Cx<'_>, action: Action) {
        match action {
            Action::Freeze => self.frozen = true,
            Action::Stop => {
                self.active = false;
                cx.stop();
            }
            Action::Call { handler, value } => cx.write_later(handler, value),
        }
    }

    /// Values and counts in order.
    fn rows(&self) -> Vec<(u32, u32)> {
        let mut rows: Vec<(u32, u32)> = self.counts.iter().map(|(v, c)| (*v, *c)).collect();
        rows.sort_unstable();
        rows
    }

    fn reaggregate(&mut self) {
        let old = std::mem::take(&mut self.counts);
        self.total = old.len() as u64;
        for count in old.into_values() {
            *self.counts.entry(count).or_insert(0) += 1;
        }
    }
}

impl Element for AggregateCounter {
    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        let mut counted = std::mem::take(&mut self.counted);
        counted.clear();
        counted.extend(batch.iter().map(|packet| self.update(cx, packet, port == 1)));
        if cx.outputs() > 1 && counted.contains(&false) {
            let mut at = 0;
            batch.extract(
                |_| {
                    at += 1;
                    (!counted[at - 1]).then_some(())
                },
                |packet, ()| cx.emit(1, packet),
            );
        }
        self.counted = counted;
    }
}

impl AggregateCounter {
    /// Writes the counts into the file that handler `name` was given.
    fn write(
        &self,
        cx: &mut Cx<'_>,
        (name, path): (&str, &str),
        format: Format,
    ) -> Result<(), HandlerError> {
        let path = path.trim();
        let refused = |error| HandlerError::refused(format!("{name}: {path}: {error}"));
        if path == "-" {
            named_file::standard_output(cx).map_err(refused)?;
        }
        let open = |path: &str| named_file::create(cx, path);
        file::write(path, &self.banner, &self.rows(), format, open).map_err(refused)
    }

    fn write_clear(&mut self) -> Result<(), HandlerError> {
        self.counts.clear();
        self.total = 0;
        Ok(())
    }

    fn write_stop(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        self.active = false;
        cx.stop();
        Ok(())
    }
}

impl CostModel for AggregateCounter {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        // A slot of the map is a value, its count and a byte of its hash.
        let bytes = size_of::<(u32, u32)>() + 1;
        let known = (self.counts.len(), bytes);
        Some(vec![looking_up(Operation::HashLearn.once(), known, 2.0, load)])
    }
}
