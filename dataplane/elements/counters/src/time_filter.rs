//! TimeFilter: packets of a span of time.

use thruway_element::{
    Arg, ArgErrors, Args, Buffer, Changes, Cx, Element, Entry, HandlerError, Handlers, Nanos,
    Operation, Replicas, Spec, Topic, Ty, Verdict, handler_value, reasons,
};
use thruway_packet::{Batch, Packet};

use thruway_elements_support::call::{Call, end_call};
use thruway_elements_support::text::{interval, timestamp};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<TimeFilter>(
    Spec {
        name: "TimeFilter",
        topic: Topic::Counters,
        summary: "lets packets of a span of time pass",
        docs: "Packets with timestamps from the start (inclusive) to the end (exclusive) pass; \
               others leave by output 1, or are dropped where there is none. The start is START, \
               or START_AFTER behind the first packet's timestamp, or START_DELAY behind the time \
               at which the configuration began; the end likewise, or INTERVAL behind the start. \
               Without any of them there is no bound.\n\
               At the first packet that is late, the handler END_CALL is written ($t in its value \
               is the packet's timestamp), or with STOP the driver asked to stop. Where that call \
               put the end off, the packet may pass after all; it can do so only where packets are \
               pushed. START_AFTER, END_AFTER, END_CALL and STOP are for one thread.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> SetTimestamp -> TimeFilter(START_AFTER 1) \
                  -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        args: &[
            Arg::optional("START", Ty::Time, "since 1970"),
            Arg::optional("END", Ty::Time, "since 1970"),
            Arg::keyword("START_AFTER", Ty::Time, "behind the first packet"),
            Arg::keyword("START_DELAY", Ty::Time, "behind the beginning of the run"),
            Arg::keyword("END_AFTER", Ty::Time, "behind the first packet"),
            Arg::keyword("END_DELAY", Ty::Time, "behind the beginning of the run"),
            Arg::keyword("INTERVAL", Ty::Time, "behind the start"),
            Arg::keyword("STOP", Ty::Bool, "whether the driver stops at the end").or("false"),
            Arg::keyword("END_CALL", Ty::Handler, "HANDLER [VALUE]: written at the end"),
        ],
        drops: Outside::DROPS,
        changes: Changes::Nothing,
        cost: &[Operation::Visit.once()],
        replicas: Replicas::Apart(
            "each judges by the same bounds; bounds behind the first packet, END_CALL and STOP \
             are for one thread",
        ),
        ..Spec::DEFAULT
    },
    build,
)
.with_buffer::<TimeFilter>();

reasons! {
    /// Why a packet does not pass.
    enum Outside {
        Early = "early": "its timestamp is before the start",
        Late = "late": "its timestamp is not before the end",
    }
}

/// One end of the span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    At(i64),
    /// Behind the first packet.
    After(i64),
    /// Behind the beginning of the run.
    Delay(i64),
    /// The end, behind the start.
    Interval(i64),
}

impl Bound {
    /// The time that it means, when the run began at `begin`, the first packet is of `first` and
    /// the span begins at `start`.
    fn time(self, begin: i64, first: i64, start: i64) -> i64 {
        match self {
            Bound::At(time) => time,
            Bound::After(ns) => first.saturating_add(ns),
            Bound::Delay(ns) => begin.saturating_add(ns),
            Bound::Interval(ns) => start.saturating_add(ns),
        }
    }
}

/// The span once it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: i64,
    end: i64,
}

impl Span {
    fn interval(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }

    fn judge(&self, time: i64) -> Verdict {
        match time {
            _ if time < self.start => Verdict::reject(1, Outside::Early),
            _ if time >= self.end => Verdict::reject(1, Outside::Late),
            _ => Verdict::Pass,
        }
    }
}

#[derive(Handlers)]
#[handler(
    both, name = "start", "the start, in seconds", get = timestamp(self.span(0).start),
    write = self.change(name, value, |span, ns| span.start = ns)
)]
#[handler(
    both, name = "end", "the end, in seconds", get = timestamp(self.span(0).end),
    write = self.change(name, value, |span, ns| span.end = ns)
)]
#[handler(
    both, name = "interval", "how far the end is behind the start",
    get = interval(self.span(0).interval()),
    write = self.change(name, value, |span, ns| span.end = span.start.saturating_add(ns))
)]
#[handler(
    write, name = "extend_interval", "puts the end off by so much",
    write = self.change(name, value, |span, ns| span.end = span.end.saturating_add(ns))
)]
struct TimeFilter {
    bounds: (Bound, Bound),
    begin: i64,
    /// `None` before the first packet.
    span: Option<Span>,
    call: Option<Call>,
    /// The end was reported.
    announced: bool,
    /// Packets that came while the end was reported, in order; the first is the one that was late.
    held: Batch,
}

/// An argument and the bound that it gives.
type BoundKind<'a> = (&'a str, fn(i64) -> Bound);

/// The one of these arguments that is given.
fn bound(args: &Args<'_>, paths: &[BoundKind<'_>]) -> Result<Option<Bound>, ArgErrors> {
    let mut found = None;
    for (name, make) in paths {
        let Some(Nanos(ns)) = args.opt(name)? else { continue };
        if let Some((other, _)) = found.replace((name, make(ns))) {
            return Err(args.error(name, format!("cannot be given with {other}")).into());
        }
    }
    Ok(found.map(|(_, bound)| bound))
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let start = bound(
        args,
        &[("START", Bound::At), ("START_AFTER", Bound::After), ("START_DELAY", Bound::Delay)],
    )?;
    let end = bound(
        args,
        &[
            ("END", Bound::At),
            ("END_AFTER", Bound::After),
            ("END_DELAY", Bound::Delay),
            ("INTERVAL", Bound::Interval),
        ],
    )?;
    let is_after = |bound: Option<Bound>| matches!(bound, Some(Bound::After(_)));
    if is_after(start) || is_after(end) {
        args.for_one_thread(
            "there is one first packet, from which START_AFTER and END_AFTER count",
        )?;
    }
    let call = end_call(args)?;
    if call.is_some() {
        args.for_one_thread("the end is reported once, at the first packet that is late")?;
    }
    Ok(Box::new(TimeFilter {
        bounds: (start.unwrap_or(Bound::At(i64::MIN)), end.unwrap_or(Bound::At(i64::MAX))),
        begin: 0,
        span: None,
        call,
        announced: false,
        held: Batch::with_room(),
    }))
}

impl TimeFilter {
    /// The span, as the first packet's time makes it.
    fn span(&mut self, first: i64) -> &mut Span {
        let ((start, end), begin) = (self.bounds, self.begin);
        self.span.get_or_insert_with(|| {
            let start = start.time(begin, first, i64::MIN);
            Span { start, end: end.time(begin, first, start) }
        })
    }

    fn change(
        &mut self,
        name: &str,
        value: &str,
        set: impl FnOnce(&mut Span, i64),
    ) -> Result<(), HandlerError> {
        let Nanos(ns) = handler_value(name, value)?;
        set(self.span(0), ns);
        self.announced &= name == "start";
        Ok(())
    }

    /// Announces that the packet of `time` is past the end. True if an answer must be awaited.
    fn announce(&mut self, cx: &mut Cx<'_>, time: i64) -> bool {
        self.announced = true;
        let Some(call) = &self.call else { return false };
        let call = call.with("$t", &timestamp(time));
        if cx.is_pull_output(0) {
            call.write(cx);
            return false;
        }
        call.write_later(cx);
        cx.set_timer(0, cx.now());
        true
    }

    fn apply(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        if !self.held.is_empty() {
            self.held.push(packet);
            return;
        }
        let time = packet.timestamp();
        let late = time >= self.span(time).end;
        if late && !self.announced && self.announce(cx, time) {
            self.held.push(packet);
            return;
        }
        let verdict = self.span(time).judge(time);
        cx.apply(packet, verdict);
    }
}

impl Element for TimeFilter {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.begin = cx.now();
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let quiet = self.announced || self.call.is_none();
        if self.held.is_empty() && (quiet || cx.is_pull_output(0)) {
            for packet in batch.iter() {
                let time = packet.timestamp();
                if time >= self.span(time).end && !self.announced {
                    self.announce(cx, time);
                }
            }
            let Some(span) = self.span else { return };
            cx.filter(batch, |packet| span.judge(packet.timestamp()));
            return;
        }
        for packet in batch.drain() {
            self.apply(cx, packet);
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        let mut held = std::mem::replace(&mut self.held, Batch::new());
        for packet in held.drain() {
            self.apply(cx, packet);
        }
    }
}

impl Buffer for TimeFilter {
    fn holding(&self) -> usize {
        self.held.len()
    }
}
