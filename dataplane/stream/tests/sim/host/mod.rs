//! A TCP end host (RFC 9293, 7323, 2018, 2883, 5681, 6298), which notes what no correct peer sends.

mod acknowledge;
mod fault;
mod handshake;
mod ranges;
mod receiver;
mod sender;

use std::fmt::Display;

use thruway_wire::tcp::flags;

use crate::frame::{Segment, Side, Wire};
use thruway_random::Random;

pub use fault::{Fault, Violation};
pub use handshake::{Agreed, Offer};
pub use receiver::{Receiver, ReceiverConfig};
pub use sender::{AckNews, Cut, MILLISECOND, Sender, SenderConfig, Span};

/// Time in which old segments of an ended connection are answered.
const TIME_WAIT: i64 = 60_000 * MILLISECOND;
/// Segments without data that do not fit are answered at most so often (as Linux does).
const CHALLENGE_GAP: i64 = 500 * MILLISECOND;

/// A smaller MSS is not believed (Linux's least).
const MSS_LEAST: usize = 48;

/// How a host behaves.
#[derive(Debug, Clone)]
pub struct HostConfig {
    pub offer: Offer,
    pub sender: SenderConfig,
    pub receiver: ReceiverConfig,
    /// First sequence number, and first value of the timestamps' clock.
    pub iss: u32,
    pub clock: u32,
    /// Most payload that its own link carries.
    pub link_mss: usize,
    /// Segments reach it in the order in which the middle sent them: what only reordering explains
    /// is a violation.
    pub is_strict: bool,
}

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Not begun.
    Idle,
    Listen,
    SynSent,
    SynReceived,
    /// Open in one direction at least, the ends included.
    Open,
    TimeWait,
    Closed,
}

/// See the module.
pub struct Host {
    config: HostConfig,
    wire: Wire,
    side: Side,
    pub stage: Stage,
    pub tx: Sender,
    pub rx: Receiver,
    irs: u32,
    /// The peer's SYN, as it came first.
    peer_syn: Option<Segment>,
    agreed: Agreed,
    recent_stamp: u32,
    last_ack_sent: i64,
    first_stamp: Option<u32>,
    challenged: i64,
    time_wait: Option<i64>,
    last_sent: i64,
    /// Behind what was sent at least once.
    sent_to: i64,
    /// The application gave up.
    pub aborted: bool,
    /// A reset ended the connection.
    pub got_reset: bool,
    /// The present time, during a call.
    now: i64,
    pub violations: Vec<Violation>,
    pub out: Vec<Segment>,
}

impl Host {
    pub fn new(config: HostConfig, wire: Wire, side: Side, random: Random) -> Host {
        let mss = usize::from(config.offer.mss.unwrap_or(536));
        Host {
            tx: Sender::new(config.sender.clone(), random),
            rx: Receiver::new(config.receiver.clone(), mss),
            config,
            wire,
            side,
            stage: Stage::Idle,
            irs: 0,
            peer_syn: None,
            agreed: Agreed::default(),
            recent_stamp: 0,
            last_ack_sent: 0,
            first_stamp: None,
            challenged: i64::MIN / 2,
            time_wait: None,
            last_sent: 0,
            sent_to: 0,
            aborted: false,
            got_reset: false,
            now: 0,
            violations: Vec::new(),
            out: Vec::new(),
        }
    }

    fn blame(&mut self, fault: Fault, detail: impl Display) {
        let detail = format!("at {:?}: {detail}", self.side);
        self.violations.push(Violation { fault, detail });
    }

    /// Nothing is left to be done or waited for, old segments apart.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Closed | Stage::TimeWait)
    }

    /// Takes a frame.
    pub fn frame(&mut self, now: i64, frame: &[u8]) {
        self.now = now;
        match Segment::parse(&self.wire, self.side, frame) {
            Ok(segment) => self.segment(&segment),
            Err(what) => self.blame(Fault::Frame, what),
        }
        self.push();
    }

    fn segment(&mut self, segment: &Segment) {
        let controls = segment.flags & (flags::SYN | flags::FIN | flags::RST);
        if controls.count_ones() > 1 || segment.has(flags::URG) {
            return self.blame(Fault::Flags, format_args!("{segment:?}"));
        }
        match self.stage {
            Stage::Idle | Stage::Closed => self.answer_unknown(segment),
            Stage::Listen | Stage::SynSent => self.greet(segment),
            Stage::SynReceived | Stage::Open | Stage::TimeWait => self.converse(segment),
        }
    }

    /// No connection here: the answer is a reset (RFC 9293 section 3.10.7.1).
    fn answer_unknown(&mut self, segment: &Segment) {
        if segment.has(flags::RST) || self.stage == Stage::Idle && !segment.has(flags::ACK) {
            return; // a SYN that comes before its time is lost
        }
        let mut reset = Segment { flags: flags::RST, ..Segment::default() };
        if segment.has(flags::ACK) {
            reset.seq = segment.ack;
        } else {
            reset.flags |= flags::ACK;
            reset.ack = segment.seq.wrapping_add(segment.span());
        }
        self.out.push(reset);
    }

    /// Of a connection that both sides know (RFC 9293 section 3.10.7.4).
    fn converse(&mut self, segment: &Segment) {
        let seq = self.offset_of_peer(segment.seq);
        self.check_options(segment);
        if segment.has(flags::RST) {
            return self.take_reset(seq);
        }
        if segment.has(flags::SYN) {
            return self.take_late_syn(segment);
        }
        if !segment.has(flags::ACK) {
            return self.blame(Fault::Flags, format_args!("no ACK: {segment:?}"));
        }
        if self.is_stale(segment, seq) {
            return;
        }
        let has_data = segment.span() > 0;
        if !has_data && self.is_misplaced(segment, seq) {
            return;
        }
        // Of what lies before the window not even the acknowledgement is taken.
        let is_old = seq + i64::from(segment.span()) < self.last_ack_sent;
        if !is_old {
            self.note_stamp(segment, seq);
            if !self.take_ack(segment, seq) {
                return;
            }
        }
        if has_data {
            self.take_data(segment, seq);
        }
        self.advance_stage();
    }

    /// A segment without data that stands where its sender cannot be. Late ones stand before the
    /// window; as in Linux, what was reported on it last counts.
    fn is_misplaced(&mut self, segment: &Segment, seq: i64) -> bool {
        if seq > self.rx.edge + 1 {
            let edge = self.rx.edge;
            self.blame(Fault::Overrun, format_args!("{seq}, admitted to {edge}: {segment:?}"));
        }
        let is_old = seq < self.last_ack_sent;
        if is_old {
            self.challenge();
        }
        is_old || seq > self.rx.edge + 1
    }

    fn take_data(&mut self, segment: &Segment, seq: i64) {
        self.check_length(segment);
        let fin = segment.has(flags::FIN);
        if let Err((fault, text)) = self.rx.receive(seq, &segment.payload, fin) {
            self.blame(fault, format_args!("{text}: {segment:?}"));
        }
        if self.stage == Stage::TimeWait {
            self.time_wait = Some(self.now + TIME_WAIT);
        }
    }

    /// RFC 5961 section 3.2: only the very next sequence number resets.
    fn take_reset(&mut self, seq: i64) {
        if self.stage != Stage::TimeWait && seq == self.rx.nxt {
            self.got_reset = true;
            self.close();
        } else if seq > self.rx.nxt && seq < self.rx.edge {
            self.challenge();
        }
    }

    /// RFC 7323 section 5: older than what was seen.
    fn is_stale(&mut self, segment: &Segment, seq: i64) -> bool {
        let Some((value, _)) = segment.stamps else { return false };
        let is_stale = (value.wrapping_sub(self.recent_stamp) as i32) < 0;
        if !self.agreed.stamps || !is_stale {
            return false;
        }
        if self.config.is_strict && seq == self.rx.nxt && segment.span() > 0 {
            let seen = self.recent_stamp;
            self.blame(Fault::Stale, format_args!("{segment:?}, seen {seen}"));
        }
        if segment.span() > 0 {
            self.rx.urge();
        }
        true
    }

    /// RFC 7323 section 4.3, (2).
    fn note_stamp(&mut self, segment: &Segment, seq: i64) {
        let Some((value, _)) = segment.stamps else { return };
        if value.wrapping_sub(self.recent_stamp) as i32 >= 0 && seq <= self.last_ack_sent {
            self.recent_stamp = value;
        }
    }

    /// Advances the state after a packet.
    fn advance_stage(&mut self) {
        if self.stage != Stage::Open || !self.tx.is_fin_acked() || !self.rx.is_complete() {
            return;
        }
        if self.agreed.closed_first {
            self.stage = Stage::TimeWait;
            self.time_wait = Some(self.now + TIME_WAIT);
            (self.tx.timer, self.tx.persist) = (None, None);
        } else {
            self.close();
        }
    }

    fn close(&mut self) {
        self.stage = Stage::Closed;
        (self.tx.timer, self.tx.persist, self.rx.delayed) = (None, None, None);
        self.time_wait = None;
    }

    /// Answers what does not fit with what would.
    fn challenge(&mut self) {
        if self.now - self.challenged >= CHALLENGE_GAP {
            self.challenged = self.now;
            self.rx.urge();
        }
    }

    /// Sends what can be sent.
    fn push(&mut self) {
        if self.stage == Stage::Open {
            let room = self.room();
            while let Some(span) = self.tx.next(self.now, room) {
                if self.tx.has_fin(span) && !self.rx.is_complete() {
                    self.agreed.closed_first = true;
                }
                self.send(span);
            }
        }
        if matches!(self.stage, Stage::Open | Stage::TimeWait | Stage::SynReceived)
            && self.rx.must_acknowledge(self.now)
        {
            let nxt = self.tx.max.max(1);
            self.send(Span { from: nxt, to: nxt });
        }
    }

    /// Most payload of a segment.
    fn room(&self) -> usize {
        let options = if self.agreed.stamps { 12 } else { 0 };
        self.tx.mss.max(MSS_LEAST) - options
    }

    fn send(&mut self, span: Span) {
        let window = self.rx.window(self.agreed.my_scale);
        let mut segment = self.header(span.from, window);
        segment.payload = self.tx.bytes(span).to_vec();
        if self.tx.config.lies && span.from < self.sent_to && self.tx.random.chance(500) {
            segment.payload.iter_mut().for_each(|byte| *byte ^= 0x20);
        }
        self.sent_to = self.sent_to.max(span.to);
        if self.tx.has_fin(span) && span.to > span.from {
            segment.flags |= flags::FIN;
        }
        if !segment.payload.is_empty() && self.tx.random.chance(300) {
            segment.flags |= flags::PSH;
        }
        self.put_blocks(&mut segment);
        self.rx.acknowledged();
        self.last_ack_sent = self.rx.nxt;
        self.last_sent = self.now;
        self.out.push(segment);
    }

    /// A segment with an acknowledgement and what goes with it.
    fn header(&self, from: i64, window: u16) -> Segment {
        let stamp = self.stamp();
        Segment {
            seq: self.config.iss.wrapping_add(from as u32),
            ack: self.irs.wrapping_add(self.rx.nxt as u32),
            flags: flags::ACK,
            window,
            stamps: self.agreed.stamps.then_some((stamp, self.recent_stamp)),
            ..Segment::default()
        }
    }

    /// The timestamps' clock: milliseconds.
    fn stamp(&self) -> u32 {
        self.config.clock.wrapping_add((self.now / MILLISECOND) as u32)
    }

    fn offset_of_peer(&self, seq: u32) -> i64 {
        let base = self.irs.wrapping_add(self.rx.nxt as u32);
        self.rx.nxt + i64::from(seq.wrapping_sub(base) as i32)
    }

    fn offset_of_mine(&self, seq: u32) -> i64 {
        let base = self.config.iss.wrapping_add(self.tx.una as u32);
        self.tx.una + i64::from(seq.wrapping_sub(base) as i32)
    }

    /// When it wants to be called by [`Host::tick`].
    pub fn next_tick(&self) -> Option<i64> {
        let keepalive = self.keepalive_at();
        let all = [self.tx.timer, self.tx.persist, self.rx.delayed, self.time_wait, keepalive];
        all.into_iter().flatten().min()
    }

    fn keepalive_at(&self) -> Option<i64> {
        let is_idle = self.stage == Stage::Open && self.tx.una == self.tx.max;
        self.tx.config.keepalive.filter(|_| is_idle).map(|every| self.last_sent + every)
    }

    /// Time has passed.
    pub fn tick(&mut self, now: i64) {
        self.now = now;
        let is_due = |at: Option<i64>| at.is_some_and(|at| at <= now);
        if is_due(self.time_wait) {
            self.close();
        }
        if is_due(self.keepalive_at()) {
            let old = self.tx.una - 1;
            self.send(Span { from: old, to: old });
        }
        if is_due(self.tx.timer) {
            self.tx.timeout(now);
            self.repeat_handshake();
        }
        if is_due(self.tx.persist) {
            let span = self.tx.probe(now);
            self.send(span);
        }
        self.push();
    }

    /// The application writes; how many bytes were taken.
    pub fn write(&mut self, now: i64, bytes: &[u8]) -> usize {
        self.now = now;
        let n = bytes.len().min(self.tx.room_to_write());
        self.tx.written.extend_from_slice(&bytes[..n]);
        self.push();
        n
    }

    /// The application reads; how many bytes it got.
    pub fn read(&mut self, now: i64, most: usize) -> usize {
        self.now = now;
        let n = self.rx.take(most);
        self.push();
        n
    }

    /// The application writes no more.
    pub fn shutdown(&mut self, now: i64) {
        self.now = now;
        self.tx.is_closed = true;
        self.push();
    }

    /// The application gives up.
    pub fn abort(&mut self, now: i64) {
        self.now = now;
        if matches!(self.stage, Stage::Open | Stage::SynReceived) {
            let mut segment = self.header(self.tx.max, 0);
            segment.flags |= flags::RST;
            self.out.push(segment);
        }
        self.aborted = true;
        self.close();
    }
}
