//! The sending half: windows, retransmission, when to send what.
//!
//! Sequence numbers are offsets here: 0 is the SYN, the application's byte `i` is `1 + i`, the FIN
//! comes behind the last byte.

use super::ranges::Ranges;
use thruway_random::Random;

pub const MILLISECOND: i64 = 1_000_000;
/// First, least and most retransmission timeout. RFC 6298 asks for a least of one second; stacks
/// use 200 ms. The most is short, so that a connection over bad links ends in bounded time.
const RTO_FIRST: i64 = 1000 * MILLISECOND;
const RTO_LEAST: i64 = 200 * MILLISECOND;
const RTO_MOST: i64 = 4000 * MILLISECOND;
/// Duplicates that stand for a loss (RFC 5681 section 3.2).
const DUPLICATES: u32 = 3;

/// Into what lengths data is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// As long as may be.
    Full,
    /// Any length.
    Random,
    /// A few bytes.
    Tiny,
}

/// How a sender behaves.
#[derive(Debug, Clone)]
pub struct SenderConfig {
    pub cut: Cut,
    pub nagle: bool,
    /// Segments of the first congestion window.
    pub first_window: i64,
    /// Bytes that the application may write ahead.
    pub buffer: usize,
    /// A timeout makes it forget what was acknowledged selectively (RFC 2018 section 8).
    pub forgets: bool,
    /// Closed windows are probed with a byte of data, not with an old sequence number.
    pub probes_with_data: bool,
    /// What it sends again is not what it sent first.
    pub lies: bool,
    /// Idle connections are probed so often.
    pub keepalive: Option<i64>,
}

/// Offsets of a segment to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub from: i64,
    pub to: i64,
}

/// What an acknowledgement says to the sender.
#[derive(Debug, Clone, Copy)]
pub struct AckNews {
    pub ack: i64,
    /// Offset behind the window.
    pub edge: i64,
    /// The peer's sequence number with which it came: older ones do not change the window.
    pub seq: i64,
    /// It acknowledges something new selectively.
    pub news: bool,
    /// It has payload, SYN or FIN.
    pub has_data: bool,
    /// Round-trip time by the timestamp.
    pub rtt: Option<i64>,
}

/// See the module.
pub struct Sender {
    pub config: SenderConfig,
    /// All that the application wrote.
    pub written: Vec<u8>,
    pub is_closed: bool,
    pub una: i64,
    pub nxt: i64,
    /// Behind the highest offset that was ever sent.
    pub max: i64,
    /// Behind what the peer admits, and behind the most it ever admitted.
    pub edge: i64,
    edge_most: i64,
    window_from: (i64, i64),
    pub sacked: Ranges,
    /// Most payload of a segment, options not counted off.
    pub mss: usize,
    cwnd: i64,
    ssthresh: i64,
    duplicates: u32,
    /// Losses below are being repaired.
    recover: Option<i64>,
    /// No losses are looked for before this is acknowledged.
    quiet_until: i64,
    /// Repairs look from here on.
    hole: i64,
    credits: u32,
    srtt: Option<i64>,
    rttvar: i64,
    backoff: u32,
    timing: Option<(i64, i64)>,
    pub timer: Option<i64>,
    pub persist: Option<i64>,
    pub random: Random,
}

impl Sender {
    pub fn new(config: SenderConfig, random: Random) -> Sender {
        Sender {
            config,
            written: Vec::new(),
            is_closed: false,
            una: 0,
            nxt: 0,
            max: 0,
            edge: 1,
            edge_most: 1,
            window_from: (-1, -1),
            sacked: Ranges::default(),
            mss: 536,
            cwnd: 0,
            ssthresh: i64::MAX,
            duplicates: 0,
            recover: None,
            quiet_until: 0,
            hole: 0,
            credits: 0,
            srtt: None,
            rttvar: 0,
            backoff: 0,
            timing: None,
            timer: None,
            persist: None,
            random,
        }
    }

    /// Behind all that there is to send.
    pub fn end(&self) -> i64 {
        1 + self.written.len() as i64 + i64::from(self.is_closed)
    }

    pub fn room_to_write(&self) -> usize {
        let held = self.end() - self.una.max(1);
        self.config.buffer.saturating_sub(held as usize)
    }

    pub fn is_fin_acked(&self) -> bool {
        self.is_closed && self.una == self.end()
    }

    /// The application's bytes of a span.
    pub fn bytes(&self, span: Span) -> &[u8] {
        let len = self.written.len();
        let at = |offset: i64| (offset.max(1) as usize - 1).min(len);
        &self.written[at(span.from)..at(span.to)]
    }

    /// Whether a span has the FIN.
    pub fn has_fin(&self, span: Span) -> bool {
        self.is_closed && span.to == self.end()
    }

    /// The handshake is done, so that data may go.
    pub fn start(&mut self, mss: usize) {
        self.mss = mss;
        self.cwnd = self.config.first_window * mss as i64;
    }

    fn pipe(&self) -> i64 {
        self.nxt - self.una - self.sacked.count_below(self.nxt)
    }

    /// Time until a retransmission.
    pub fn rto(&self) -> i64 {
        let base = match self.srtt {
            Some(srtt) => (srtt + (4 * self.rttvar).max(10 * MILLISECOND)).max(RTO_LEAST),
            None => RTO_FIRST,
        };
        (base << self.backoff.min(8)).min(RTO_MOST)
    }

    /// What is to be sent now, if anything; `room` is the most payload of a segment.
    pub fn next(&mut self, now: i64, room: usize) -> Option<Span> {
        let span = self.repair(room).or_else(|| self.advance(room));
        match span {
            Some(span) => self.note_sent(span, now),
            None => self.keep_alive_timers(now),
        }
        span
    }

    /// A hole below what was acknowledged selectively, during recovery.
    fn repair(&mut self, room: usize) -> Option<Span> {
        self.recover?;
        if self.credits == 0 {
            return None;
        }
        self.credits -= 1;
        let from = self.sacked.next_absent(self.hole.max(self.una));
        let is_hole = from == self.una || self.sacked.end().is_some_and(|end| from < end);
        if !is_hole || from < self.hole || from >= self.max {
            return None;
        }
        let bound = self.sacked.next_present(from).unwrap_or(self.max).min(self.max);
        let to = bound.min(from + self.cut(room));
        self.hole = to;
        Some(Span { from, to })
    }

    /// The next of what was not sent, or what is sent again since a timeout.
    fn advance(&mut self, room: usize) -> Option<Span> {
        self.nxt = self.sacked.next_absent(self.nxt);
        let from = self.nxt;
        let is_again = from < self.max;
        let bound = if is_again { self.edge_most.max(self.una + 1) } else { self.edge };
        let mut to = self.end().min(bound).min(from + self.cut(room));
        if is_again {
            to = to.min(self.sacked.next_present(from).unwrap_or(to)).min(self.max);
        }
        if to <= from {
            return None;
        }
        let pipe = self.pipe();
        let is_idle = self.una == self.max || from == self.una;
        if !is_idle && pipe + (to - from) > self.cwnd {
            return None;
        }
        if !is_again && !is_idle && self.config.cut == Cut::Full && to - from < room as i64 {
            let is_all = to == self.end();
            // Silly windows are waited for (RFC 9293 section 3.8.6.2.1), and Nagle's rule.
            if !is_all || (self.config.nagle && !self.is_closed) {
                return None;
            }
        }
        Some(Span { from, to })
    }

    fn cut(&mut self, room: usize) -> i64 {
        let len = match self.config.cut {
            Cut::Full => room,
            Cut::Random => self.random.size(1..=room),
            Cut::Tiny => self.random.size(1..=room.min(9)),
        };
        len as i64
    }

    fn note_sent(&mut self, span: Span, now: i64) {
        if span.from == self.nxt {
            self.nxt = span.to;
        }
        if span.to > self.max {
            if self.timing.is_none() && span.from >= self.max {
                self.timing = Some((span.to, now));
            }
            self.max = span.to;
        } else {
            self.timing = None; // Karn's rule
        }
        self.persist = None;
        if self.timer.is_none() {
            self.timer = Some(now + self.rto());
        }
    }

    /// Nothing can be sent: what wakes us?
    fn keep_alive_timers(&mut self, now: i64) {
        let is_waiting = self.una == self.max && self.nxt < self.end() && self.nxt > 0;
        if !is_waiting {
            self.persist = None;
        } else if self.persist.is_none() {
            self.persist = Some(now + self.rto());
        }
    }

    /// The persist timer ended: the offsets of a probe, which may be empty.
    pub fn probe(&mut self, now: i64) -> Span {
        self.backoff += 1;
        self.persist = Some(now + self.rto());
        let is_data = self.config.probes_with_data && self.nxt <= self.written.len() as i64;
        if is_data {
            self.max = self.max.max(self.nxt + 1);
            self.persist = None;
            self.timer = Some(now + self.rto());
            return Span { from: self.nxt, to: self.nxt + 1 };
        }
        Span { from: self.una - 1, to: self.una - 1 }
    }

    /// The retransmission timer ended.
    pub fn timeout(&mut self, now: i64) {
        let mss = self.mss as i64;
        self.ssthresh = (self.pipe() / 2).max(2 * mss);
        self.cwnd = mss;
        self.backoff += 1;
        self.duplicates = 0;
        self.recover = None;
        self.quiet_until = self.max;
        self.timing = None;
        // What was acknowledged selectively and is the very first byte was forgotten by the peer.
        if self.config.forgets || self.sacked.around(self.una).is_some() {
            self.sacked.clear();
        }
        self.nxt = self.una;
        self.timer = Some(now + self.rto());
    }

    /// What an acknowledgement says, of what was sent only. By how much the right edge of
    /// the window moved.
    pub fn acked(&mut self, news: AckNews, now: i64) -> i64 {
        let moved = self.take_window(&news);
        if news.ack > self.una {
            self.take_progress(&news, now);
        } else if news.ack == self.una && self.una < self.max && !news.has_data {
            self.take_duplicate(&news, moved != 0);
        }
        moved
    }

    /// The window of a segment that is not older than the last that was taken (RFC 9293 section
    /// 3.10.7.4); by how much the edge moved.
    fn take_window(&mut self, news: &AckNews) -> i64 {
        if news.ack < self.una || (news.seq, news.ack) < self.window_from {
            return 0;
        }
        let moved = news.edge - self.edge;
        if moved < 0 && (news.seq, news.ack) == self.window_from {
            return moved; // perhaps only late: as Linux, it is not taken
        }
        self.window_from = (news.seq, news.ack);
        self.edge = news.edge;
        self.edge_most = self.edge_most.max(news.edge);
        if moved > 0 {
            self.persist = None;
            self.backoff = if self.una == self.max { 0 } else { self.backoff };
        }
        moved
    }

    fn take_progress(&mut self, news: &AckNews, now: i64) {
        let acked = news.ack - self.una;
        let timed = self.timing.filter(|(offset, _)| *offset <= news.ack);
        if let Some(rtt) = news.rtt.or(timed.map(|(_, since)| now - since)) {
            self.take_rtt(rtt);
        }
        if timed.is_some() {
            self.timing = None;
        }
        self.una = news.ack;
        self.nxt = self.nxt.max(self.una);
        self.sacked.cut_below(self.una);
        self.duplicates = 0;
        self.backoff = 0;
        match self.recover {
            Some(point) if self.una < point => {
                self.credits += 1;
                self.hole = if self.sacked.is_empty() { self.una } else { self.hole };
            }
            Some(_) => {
                self.recover = None;
                self.cwnd = self.ssthresh;
            }
            None if self.cwnd < self.ssthresh => self.cwnd += acked.min(self.mss as i64),
            None => self.cwnd += (self.mss * self.mss) as i64 / self.cwnd.max(1) + 1,
        }
        self.timer = (self.una < self.max).then(|| now + self.rto());
    }

    fn take_duplicate(&mut self, news: &AckNews, window_moved: bool) {
        if window_moved && !news.news {
            return;
        }
        self.duplicates += 1;
        if self.recover.is_some() {
            self.credits += 1;
            if self.sacked.is_empty() {
                self.cwnd += self.mss as i64;
                self.credits = 0;
            }
        } else if self.duplicates == DUPLICATES && self.una >= self.quiet_until {
            self.ssthresh = (self.pipe() / 2).max(2 * self.mss as i64);
            self.cwnd = self.ssthresh;
            self.recover = Some(self.max);
            self.hole = self.una;
            self.credits = 1;
        }
    }

    /// RFC 6298 section 2.
    fn take_rtt(&mut self, rtt: i64) {
        match self.srtt {
            None => (self.srtt, self.rttvar) = (Some(rtt), rtt / 2),
            Some(srtt) => {
                self.rttvar += ((srtt - rtt).abs() - self.rttvar) / 4;
                self.srtt = Some(srtt + (rtt - srtt) / 8);
            }
        }
    }
}
