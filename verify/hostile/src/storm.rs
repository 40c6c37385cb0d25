//! The Master that runs traffic through a hostile process and its neighbour, and what it found.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec};
use thruway_exchange::{Mapped, Master, Origin, PeerFault, SlotTag, Token, Tuning, WakeLine};
use thruway_nf_abi::LinkShape;
use thruway_nf_host::{Function, FunctionSpec, HostError, HostLink, Program};

use crate::beat::Beat;

/// Outputs of both functions.
pub const OUTPUTS: u32 = 3;

/// Stands in every packet of the neighbour's, and in none of the hostile process's.
const SECRET: u64 = 0x6e65_6967_6862_6f75;

/// How long the hostile process may have a packet.
const HANG: Duration = Duration::from_millis(300);

/// Packets put into a link at once.
const BURST: u64 = 32;

/// Longest sleep of the Master for want of packets.
pub(crate) const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000 };

/// What the neighbour does to a packet.
pub fn mark(packet: &mut [u8]) {
    packet[8] ^= 0xff;
}

/// The neighbour's packet of this number, as it is sent.
fn packet(number: u64, bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.extend(number.to_le_bytes());
    bytes.extend((0..16).map(|i| (number as u8).wrapping_mul(31).wrapping_add(i)));
    let words = 5 + number % 150;
    (0..words).for_each(|_| bytes.extend(SECRET.to_le_bytes()));
}

/// What happened.
#[derive(Debug, Default)]
pub struct Report {
    /// Packets put and taken, both links.
    pub steps: u64,
    /// The neighbour's packets that came back right.
    pub neighbour: u64,
    /// The hostile link's packets: put, and how each was accounted for.
    pub put: u64,
    /// Came back, with what was changed.
    pub returned: u64,
    /// Were dropped by it.
    pub dropped: u64,
    /// Were reclaimed when it was killed.
    pub reclaimed: u64,
    /// Packets that it made.
    pub made: u64,
    /// Faults by name.
    pub faults: BTreeMap<&'static str, u64>,
    /// Times that it was started again.
    pub restarts: u64,
    /// Faults as the supervisor counts them, of rings and control socket.
    pub faults_reported: u64,
    /// Times that it hung.
    pub hangs: u64,
    /// Times that its link had fewer pages than before.
    pub pages_taken: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} Master steps", self.steps)?;
        writeln!(f, "neighbour: {} packets, all right and in order", self.neighbour)?;
        writeln!(
            f,
            "hostile: {} packets put = {} returned + {} dropped + {} reclaimed; {} made by it",
            self.put, self.returned, self.dropped, self.reclaimed, self.made
        )?;
        writeln!(
            f,
            "{} restarts; supervisor: {} faults, {} hangs; faults seen in the rings: {:?}",
            self.restarts, self.faults_reported, self.hangs, self.faults
        )?;
        writeln!(f, "pages of its link taken away: {} times", self.pages_taken)
    }
}

/// One function's link, while there is one.
struct Lane {
    master: Master<Mapped>,
    host: HostLink,
    /// What its region took of memory, in blocks.
    blocks: i64,
}

impl Lane {
    fn take(function: &Function) -> Option<Lane> {
        let host = function.take_link(0)?;
        let master = Master::new(host.link.clone(), OUTPUTS, Tuning::DEFAULT);
        Some(Lane { master, host, blocks: 0 })
    }

    /// Whether its region has fewer pages than before: nobody but the function takes any away.
    fn lost_pages(&mut self) -> bool {
        let now = rustix::fs::fstat(self.host.link.fd()).map_or(0, |stat| stat.st_blocks);
        std::mem::replace(&mut self.blocks, now) > now
    }

    /// Sleeps as a thread of the engine does that has nothing else to do, though not for long.
    fn sleep_briefly(&mut self, beat: &mut Beat) {
        self.host.wakened.clear();
        if self.master.rest() {
            let end = self.host.wakened.host_end();
            let mut ready = [PollFd::from_borrowed_fd(end, PollFlags::IN)];
            beat.pause();
            let _ = rustix::event::poll(&mut ready, Some(&NAP));
            beat.resume();
            self.master.wakened();
        }
    }
}

/// Runs until so many Master steps are done.
///
/// # Errors
/// When the processes cannot be started.
///
/// # Panics
/// When something does not hold that must hold.
pub fn storm(program: &Path, steps: u64) -> Result<Report, HostError> {
    let mut storm = Storm::new(spec(program, &["hostile"]), spec(program, &["neighbour"]))?;
    while storm.report.steps < steps {
        storm.round();
    }
    Ok(storm.end())
}

/// A function of this program in this role, with small rings and an impatient host.
pub fn spec(program: &Path, role: &[&str]) -> FunctionSpec {
    let mut program = Program::new(program);
    program.args = role.iter().map(|word| (*word).to_owned()).collect();
    let mut spec = FunctionSpec::new(program);
    spec.outputs = OUTPUTS;
    spec.shape = LinkShape { slots: 128, aux_slots: 32, injection_slots: 32, ..LinkShape::DEFAULT };
    spec.backoff.first = Duration::from_millis(1);
    spec.backoff.max = Duration::from_millis(1);
    spec.backoff.burst = u32::MAX;
    spec.patience.hang = Some(HANG);
    spec
}

/// What a host that trusts its functions calls on: open files that they have, too.
#[derive(Debug, Clone, Default)]
pub struct Shared(Arc<Mutex<Option<Arc<WakeLine>>>>);

impl Shared {
    fn line(&self) -> Option<Arc<WakeLine>> {
        self.0.lock().clone()
    }

    fn set(&self, line: &Arc<WakeLine>) {
        *self.0.lock() = Some(Arc::clone(line));
    }

    /// Empties the function's end of the line, as a host did that shared an eventfd with it: this
    /// waits if the function has cleared its O_NONBLOCK.
    fn call(&self) {
        if let Some(line) = self.line() {
            let _ = rustix::io::read(line.worker_end(), &mut [0; 8]);
        }
    }

    /// Ends such a wait.
    pub fn help(&self) {
        if let Some(line) = self.line() {
            line.wake_worker();
        }
    }
}

/// The Master of both functions: one thread, as one of the engine's is.
pub struct Storm {
    hostile: Arc<Function>,
    honest: Arc<Function>,
    lane: Option<Lane>,
    neighbour: Lane,
    /// Neighbour's packets put.
    sent: u64,
    bytes: Vec<u8>,
    begin: Instant,
    report: Report,
    beat: Beat,
    trusts: Option<Shared>,
}

impl Storm {
    /// Starts both functions.
    ///
    /// # Errors
    /// When they cannot be started.
    pub fn new(hostile: FunctionSpec, honest: FunctionSpec) -> Result<Storm, HostError> {
        let hostile = Function::start(hostile)?;
        let honest = Function::start(honest)?;
        Ok(Storm {
            lane: None,
            neighbour: Lane::take(&honest).expect("its link"),
            honest,
            hostile,
            sent: 0,
            bytes: Vec::new(),
            begin: Instant::now(),
            report: Report::default(),
            beat: Beat::default(),
            trusts: None,
        })
    }

    /// Notes from now on when this thread serves the neighbour.
    pub fn beat(self, beat: Beat) -> Storm {
        Storm { beat, ..self }
    }

    /// From now on it calls on what it shares with the hostile function, if it does.
    pub fn trusting(self, trusts: Option<Shared>) -> Storm {
        Storm { trusts, ..self }
    }

    /// Serves both once.
    pub fn round(&mut self) {
        self.attend();
        if let Some(trusts) = &self.trusts {
            trusts.call();
        }
        self.hostile_round();
        self.neighbour_round(BURST);
        self.neighbour.sleep_briefly(&mut self.beat);
        if let Some(lane) = &mut self.lane {
            lane.sleep_briefly(&mut self.beat);
        }
    }

    /// Follows the hostile function's generations.
    fn attend(&mut self) {
        let generation = self.hostile.generation();
        if self.lane.as_ref().is_some_and(|lane| lane.host.generation != generation) {
            self.reclaim();
        }
        if self.lane.is_none() && generation != 0 {
            self.lane = Lane::take(&self.hostile);
            if let (Some(trusts), Some(lane)) = (&self.trusts, &self.lane) {
                trusts.set(&lane.host.wakened);
            }
        }
    }

    fn reclaim(&mut self) {
        if let Some(mut lane) = self.lane.take() {
            let reclaimed = u64::from(lane.master.reclaim(|_| ()));
            self.report.reclaimed += reclaimed;
            self.report.steps += reclaimed;
        }
    }

    fn hostile_round(&mut self) {
        let Some(lane) = &mut self.lane else { return };
        let now = self.begin.elapsed().as_nanos() as u64;
        let report = &mut self.report;
        report.pages_taken += u64::from(lane.lost_pages());
        for nth in 0..BURST {
            if lane.master.put(SlotTag::NONE, &[nth as u8; 100]).is_ok() {
                report.put += 1;
                report.steps += 1;
            }
        }
        lane.master.publish(&lane.host.doorbell, now);
        let frame_len = lane.host.link.region().len() as u32;
        let mut take = |token: Token<'_, Mapped>| {
            report.steps += 1;
            match token.origin {
                Origin::Slot(_) => report.returned += 1,
                Origin::Dropped(_) => report.dropped += 1,
                Origin::Aux(_) | Origin::Injected => report.made += 1,
            }
            inspect(&token, frame_len);
        };
        let polled = lane.master.poll(now, u32::MAX, &mut take);
        let injected = lane.master.poll_injected(u32::MAX, &mut take);
        let hang = HANG.as_nanos() as u64;
        if lane.master.held_since().is_some_and(|since| now.saturating_sub(since) >= hang) {
            self.hostile.report_hang(lane.host.generation);
        }
        if let Err(fault) = polled.and(injected) {
            self.fault(fault);
        }
    }

    fn fault(&mut self, fault: PeerFault) {
        *self.report.faults.entry(fault.name()).or_default() += 1;
        if let Some(lane) = &self.lane {
            self.hostile.report_fault(lane.host.generation, fault);
        }
        self.reclaim_when_gone();
    }

    /// Waits until the faulty process is gone; the neighbour's traffic goes on meanwhile.
    fn reclaim_when_gone(&mut self) {
        let generation = self.lane.as_ref().map(|lane| lane.host.generation);
        let end = Instant::now() + Duration::from_secs(20);
        while generation == Some(self.hostile.generation()) {
            assert!(Instant::now() < end, "a faulty function was not killed");
            self.neighbour_round(BURST);
        }
        self.reclaim();
    }

    fn neighbour_round(&mut self, burst: u64) {
        self.beat.mark();
        let lane = &mut self.neighbour;
        for _ in 0..burst {
            packet(self.sent, &mut self.bytes);
            if lane.master.put(SlotTag::NONE, &self.bytes).is_err() {
                break;
            }
            self.sent += 1;
            self.report.steps += 1;
        }
        lane.master.publish(&lane.host.doorbell, 0);
        let mut got = Vec::new();
        let (expected, report) = (&mut self.bytes, &mut self.report);
        let taken = lane.master.poll(0, u32::MAX, |token| {
            got.resize(token.len() as usize, 0);
            token.copy_to(&mut got);
            packet(report.neighbour, expected);
            mark(expected);
            assert_eq!(got, *expected, "the neighbour's packet {}", report.neighbour);
            report.neighbour += 1;
            report.steps += 1;
        });
        taken.expect("the neighbour is honest");
    }

    /// Lets the neighbour finish; sums up.
    pub fn end(mut self) -> Report {
        self.reclaim();
        let end = Instant::now() + Duration::from_secs(20);
        while self.report.neighbour < self.sent {
            assert!(Instant::now() < end, "packets of the neighbour's are lost");
            self.neighbour_round(0);
        }
        let status = self.honest.status();
        assert_eq!((status.restarts, status.faults, status.hangs), (0, 0, 0), "the neighbour");
        let status = self.hostile.status();
        let report = &mut self.report;
        (report.restarts, report.hangs) = (status.restarts, status.hangs);
        report.faults_reported = status.faults;
        assert_eq!(report.put, report.returned + report.dropped + report.reclaimed);
        std::mem::take(report)
    }
}

/// Looks at all that a token of the hostile process's has.
fn inspect(token: &Token<'_, Mapped>, region_len: u32) {
    assert!(token.output < OUTPUTS && token.len() <= region_len);
    let mut bytes = [0; 4096];
    let len = token.len() as usize;
    token.copy_to(&mut bytes);
    let words = bytes[..len.min(4096)].chunks_exact(8);
    let secret = SECRET.to_le_bytes();
    assert!(words.clone().all(|word| word != secret), "the neighbour's bytes");
}
