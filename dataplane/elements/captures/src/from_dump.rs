//! FromDump: packets out of a capture file.

use thruway_element::{
    ArgError, ArgErrors, Args, Arguments, Cost, CostModel, Cx, Element, Entry, HandlerError,
    Handlers, Load, Made, Nanos, Operation, Replicas, Run, Spec, Threading, Topic, Ty,
    handler_value, reasons,
};
use thruway_packet::{Batch, MAX_BATCH, Packet};
use thruway_port::capture::LinkType;

use super::capture_in::{CaptureIn, Taken};
use super::encap;
use super::window::{Position, Sampler, Window};
use thruway_elements_support::traffic_profile::replaying;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<FromDump>(Spec {
    name: "FromDump",
    topic: Topic::Captures,
    summary: "reads packets from a capture file",
    docs: "Emits the packets of a pcap or pcapng file (`-`: standard input) with their \
           timestamps, as fast as it is scheduled or pulled; with TIMING, at the pace at which \
           they were captured. What the capture left out of a packet is noted in its \
           EXTRA_LENGTH annotation.\n\
           A file that is missing or no capture is refused before the start. One that is cut \
           off or damaged is read up to there; then a line names file, record and byte, and \
           the run fails at its end.\n\
           With FORCE_IP (always, where the file has bare IP packets) the IP header is marked, \
           and packets without a whole IPv4 header leave by output 1 or are dropped.\n\
           At the end, or when END is reached, END_CALL is called; by default `active` \
           becomes false. Compressed captures are not uncompressed; MMAP is accepted and \
           ignored.",
    example: "FromDump(in.pcap, STOP true) -> Counter -> Discard",
    ports: "0/1-2",
    processing: "/ah",
    drops: Lost::DROPS,
    threading: Threading::Task,
    cost: &[Operation::Make.once(), Operation::HeaderRead.once()],
    replicas: Replicas::Single,
    ..Spec::DEFAULT
})
.with_cost_model::<FromDump>();

reasons! {
    /// Why a packet of the capture is not emitted by output 0.
    enum Lost {
        NotIp = "not-ip": "FORCE_IP, and there is no whole IPv4 header",
        TooLong = "too-long": "longer than the largest frame",
        Damaged = "damaged": "the capture is cut off or damaged here",
    }
}

/// The action at the end.
enum AtEnd {
    /// `active` becomes false.
    Rest,
    /// The same, and the driver stops.
    Stop,
    /// A handler is called.
    Call(String),
}

#[derive(Arguments, Handlers)]
#[handler(sum, field = count, "packets emitted")]
#[handler(write, name = "reset_counts", "sets count to zero", run = self.count = 0)]
#[handler(
    read, name = "sampling_prob", "the sampling probability as it is", get = self.sampler.text()
)]
#[handler(
    both, field = active, "whether it emits packets",
    run = self.set_active(handler_value(name, value)?)
)]
#[handler(
    read, name = "encap", "the file's link type, as ENCAP takes it",
    read = self.capture.encap().map_err(HandlerError::refused)
)]
#[handler(read, name = "filename", "the file's name", get = self.capture.path().to_owned())]
#[handler(
    read, name = "filesize", "the file's length in bytes; - if unknown", get = self.capture.size()
)]
#[handler(
    both, name = "filepos", "byte of the file at which the next record starts",
    get = self.capture.position(), write = self.write_filepos(name, value)
)]
#[handler(
    read, name = "packet_filepos", "byte of the file at which the last packet's record started",
    get = self.capture.packet_position()
)]
#[handler(
    write, name = "extend_interval", "puts the end off by a time, and sets active",
    write = self.write_extend_interval(name, value)
)]
#[handler(
    write, name = "reset_timing", "the next packet starts the pace anew",
    run = self.time_offset = None
)]
#[handler(
    write, name = "stop", "sets active to false and stops the driver", write = self.write_stop(cx)
)]
struct FromDump {
    #[arg(
        required, name = "FILENAME", value = String, ty = Ty::File,
        "the capture; - for standard input"
    )]
    #[new(in_one_thread(args, filename)?)]
    capture: CaptureIn,
    /// whether to keep the captured pace
    #[arg(optional, or = "false")]
    timing: bool,
    #[arg(
        keyword, name = "STOP", value = bool, or = "false", "whether the driver stops at the end"
    )]
    #[arg(
        keyword, name = "SAMPLE", unread, ty = Ty::Float, or = "1",
        "share of the packets to emit, by chance"
    )]
    #[new(Sampler::of(args)?)]
    sampler: Sampler,
    /// whether to emit IPv4 packets only, marked
    #[arg(keyword, name = "FORCE_IP", or = "false")]
    force_ip: bool,
    #[arg(
        keyword, name = "START", unread, ty = Ty::Time,
        "skip packets before this time (seconds since 1970)"
    )]
    #[arg(
        keyword, name = "START_AFTER", unread, ty = Ty::Time,
        "skip so much time from the first packet on"
    )]
    #[arg(
        keyword, name = "END", unread, ty = Ty::Time, "end at packets of this time or later"
    )]
    #[arg(
        keyword, name = "END_AFTER", unread, ty = Ty::Time, "end so long after the first packet"
    )]
    #[arg(
        keyword, name = "INTERVAL", unread, ty = Ty::Time,
        "end so long after the first packet emitted"
    )]
    #[new(Window::of(args)?)]
    window: Window,
    #[arg(
        keyword, name = "END_CALL", value = Option<String>, ty = Ty::Handler,
        "HANDLER [VALUE]: called at the end, instead of STOP"
    )]
    #[new(at_end(args, stop, end_call)?)]
    at_end: AtEnd,
    /// whether it emits packets
    #[arg(keyword, or = "true")]
    active: bool,
    /// byte of the file at which to begin, a record's start
    #[arg(keyword)]
    filepos: Option<u64>,
    /// packets per scheduling; the engine's choice if not given
    #[arg(keyword, range = 1..)]
    burst: Option<usize>,
    #[arg(keyword, name = "MMAP", unread, ty = Ty::Bool, or = "false", "accepted and ignored")]
    /// Present time less the trace's time, from the first packet on.
    time_offset: Option<i64>,
    ended: bool,
    /// Read, and not to be emitted yet.
    held: Option<Packet>,
    count: u64,
    #[new(Batch::with_room())]
    batch: Batch,
}

fn in_one_thread(args: &Args<'_>, path: String) -> Result<CaptureIn, ArgErrors> {
    args.for_one_thread(super::text_dump::READ_ONCE)?;
    Ok(CaptureIn::new(path))
}

fn at_end(args: &Args<'_>, stop: bool, call: Option<String>) -> Result<AtEnd, ArgError> {
    match (stop, call) {
        (true, Some(_)) => Err(args.error("END_CALL", "give STOP or END_CALL, not both")),
        (true, None) => Ok(AtEnd::Stop),
        (false, Some(call)) => Ok(AtEnd::Call(call)),
        (false, None) => Ok(AtEnd::Rest),
    }
}

/// The result of the next step.
enum Next {
    Emit(Packet),
    /// Nothing before this time.
    Wait(i64),
    End,
}

impl FromDump {
    /// When a packet is due, where the captured pace is kept.
    fn due(&mut self, now: i64, packet: &Packet) -> i64 {
        let time = packet.timestamp();
        let offset = *self.time_offset.get_or_insert(now.saturating_sub(time));
        time.saturating_add(offset)
    }

    fn next(&mut self, cx: &mut Cx<'_>) -> Next {
        loop {
            let packet = match self.held.take() {
                Some(packet) => packet,
                None => match self.read_packet(cx) {
                    Some(packet) => packet,
                    None => return Next::End,
                },
            };
            match self.window.position(packet.timestamp()) {
                Position::Before => continue,
                Position::Past => {
                    // Kept: extend_interval may want it.
                    self.held = Some(packet);
                    return Next::End;
                }
                Position::Within => {}
            }
            if self.timing {
                let due = self.due(cx.now(), &packet);
                if due > cx.now() {
                    self.held = Some(packet);
                    return Next::Wait(due);
                }
            }
            return Next::Emit(packet);
        }
    }

    /// The next packet that is a sample and, if need be, IP.
    fn read_packet(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        loop {
            match self.capture.take() {
                Taken::Packet(mut packet, link) => {
                    if !self.sampler.draw() {
                        continue;
                    }
                    let wants_ip = self.force_ip || matches!(link, LinkType::Raw | LinkType::Ipv4);
                    if !wants_ip || encap::mark_ip(&mut packet, link) {
                        return Some(packet);
                    }
                    cx.reject(1, Lost::NotIp, packet);
                }
                Taken::TooLong => cx.count_drops(Lost::TooLong, 1),
                Taken::NoMemory => cx.count_drops(thruway_element::Reason::NO_MEMORY, 1),
                Taken::Damage(line) => {
                    cx.count_drops(Lost::Damaged, 1);
                    cx.log(&line);
                    return None;
                }
                Taken::End => return None,
            }
        }
    }

    /// Adds up to `max` packets to a batch; the time to come back if there are none yet.
    fn fill(&mut self, cx: &mut Cx<'_>, max: usize, batch: &mut Batch) -> Option<i64> {
        for _ in 0..max {
            match self.next(cx) {
                Next::Emit(packet) => batch.push(packet),
                Next::Wait(until) => return Some(until),
                Next::End => {
                    if batch.is_empty() {
                        self.end(cx);
                    }
                    break;
                }
            }
        }
        None
    }

    /// The end, once.
    fn end(&mut self, cx: &mut Cx<'_>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        match &self.at_end {
            AtEnd::Rest => self.active = false,
            AtEnd::Stop => {
                self.active = false;
                cx.stop();
            }
            AtEnd::Call(call) => {
                let (call, value) = call.split_once(' ').unwrap_or((call, ""));
                cx.write_later(call, value.trim());
            }
        }
    }

    fn set_active(&mut self, active: bool) {
        self.active = active;
        self.ended = false;
    }
}

impl Element for FromDump {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.capture.open()?;
        if let Some(at) = self.filepos {
            self.capture.seek(at)?;
        }
        if self.force_ip { self.capture.check_link(encap::WITH_IP) } else { Ok(()) }
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if !self.active || self.ended || self.capture.is_pressed(cx) {
            return Run::Idle;
        }
        let burst = self.burst.unwrap_or_else(|| cx.burst()).min(MAX_BATCH);
        let mut batch = std::mem::take(&mut self.batch);
        let wait = self.fill(cx, burst, &mut batch);
        let made = batch.len();
        self.count += made as u64;
        if made > 0 {
            cx.emit_all(0, &mut batch);
        }
        self.batch = batch;
        match wait {
            Some(until) => Run::At(until),
            None if made > 0 => Run::Again,
            None => Run::Idle,
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        if !self.active || self.ended {
            return;
        }
        if let Some(until) = self.fill(cx, max, batch) {
            // The puller sleeps; this wakes the thread.
            cx.set_timer(0, until);
        }
        self.count += batch.len() as u64;
    }

    fn finish(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.capture.finish()
    }
}

impl FromDump {
    fn write_filepos(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        self.held = None;
        self.ended = false;
        self.capture.seek(handler_value(name, value)?).map_err(HandlerError::refused)?;
        Ok(())
    }

    fn write_extend_interval(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        self.window.extend(handler_value::<Nanos>(name, value)?.0);
        self.set_active(true);
        Ok(())
    }

    fn write_stop(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        self.active = false;
        cx.stop();
        Ok(())
    }
}

impl CostModel for FromDump {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        // From the file to a buffer, and from there to the packet.
        let lines = Load::lines(load.packet_bytes);
        let mut cost = replaying(lines, self.capture.file_bytes().unwrap_or(0) as usize);
        cost.extend([Operation::CopyLine.times(lines), Operation::HeaderRead.once()]);
        Some(cost)
    }

    fn makes(&self) -> Option<Made> {
        self.capture.traffic_profile().made()
    }
}
