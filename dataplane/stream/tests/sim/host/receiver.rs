//! The receiving half: order, windows, what is acknowledged how. Offsets are as in the sender's.

use super::fault::Fault;
use super::ranges::Ranges;
use super::sender::MILLISECOND;

/// Time that an acknowledgement waits for company (Linux's least; RFC 9293 section 3.8.6.3 admits
/// 500 ms).
const DELAY: i64 = 40 * MILLISECOND;

/// How a receiver behaves.
#[derive(Debug, Clone)]
pub struct ReceiverConfig {
    /// Bytes for what the application did not read yet.
    pub buffer: usize,
    pub delays_acks: bool,
    /// Reports duplicates (RFC 2883).
    pub reports_duplicates: bool,
}

/// Why and when to acknowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    None,
    Soon,
    Now,
}

/// See the module.
pub struct Receiver {
    pub config: ReceiverConfig,
    /// All that came, in its places; in order below `nxt`, in pieces (`pieces`) above.
    stream: Vec<u8>,
    pieces: Ranges,
    pub nxt: i64,
    /// Bytes that the application read.
    pub read: usize,
    /// Offset of the FIN.
    pub fin: Option<i64>,
    /// Behind the most that was ever advertised.
    pub edge: i64,
    /// Where pieces grew, the latest last.
    recent: Vec<i64>,
    duplicate: Option<(i64, i64)>,
    urgency: Urgency,
    unacknowledged: u32,
    pub delayed: Option<i64>,
    pub mss: usize,
}

impl Receiver {
    pub fn new(config: ReceiverConfig, mss: usize) -> Receiver {
        Receiver {
            config,
            stream: Vec::new(),
            pieces: Ranges::default(),
            nxt: 0,
            read: 0,
            fin: None,
            edge: 0,
            recent: Vec::new(),
            duplicate: None,
            urgency: Urgency::None,
            unacknowledged: 0,
            delayed: None,
            mss,
        }
    }

    /// The bytes received in order.
    pub fn in_order(&self) -> &[u8] {
        let len = self.in_order_len();
        &self.stream[..len]
    }

    fn in_order_len(&self) -> usize {
        let has_fin = self.fin.is_some_and(|fin| self.nxt > fin);
        (self.nxt - 1 - i64::from(has_fin)).max(0) as usize
    }

    /// All came, the FIN too.
    pub fn is_complete(&self) -> bool {
        self.fin.is_some_and(|fin| self.nxt > fin)
    }

    pub fn unread(&self) -> usize {
        self.in_order_len() - self.read
    }

    /// The application reads; returns whether the peer should get a window update.
    pub fn take(&mut self, most: usize) -> usize {
        let n = self.unread().min(most);
        self.read += n;
        if n > 0 && self.opens_by() > 0 && !self.is_complete() {
            self.urgency = Urgency::Now;
        }
        n
    }

    /// By how much the window would open: silly amounts are none (RFC 9293 section 3.8.6.2.2).
    fn opens_by(&self) -> i64 {
        let free = self.config.buffer.saturating_sub(self.unread()) as i64;
        let by = self.nxt + free - self.edge;
        let least = (self.config.buffer / 2).min(self.mss).max(1) as i64;
        if by >= least { by } else { 0 }
    }

    /// The window field of a segment that leaves now.
    pub fn window(&mut self, scale: u8) -> u16 {
        let edge = self.edge + self.opens_by();
        // Rounded up, as Linux does: the right edge never goes to the left.
        let unit = 1i64 << scale;
        let field = ((edge - self.nxt + unit - 1) / unit).clamp(0, 0xffff);
        self.edge = self.edge.max(self.nxt + field * unit);
        field as u16
    }

    /// Data or FIN; what is wrong with it.
    pub fn receive(&mut self, from: i64, payload: &[u8], fin: bool) -> Result<(), (Fault, String)> {
        let to = from + payload.len() as i64;
        if from < 1 && (to > 1 || fin) {
            return Err((Fault::BeforeStart, format!("{from}..{to}")));
        }
        self.check_end(from, to, fin)?;
        let is_probe = from == self.edge && payload.len() + usize::from(fin) == 1;
        if to > self.edge && !is_probe {
            return Err((Fault::Overrun, format!("{from}..{to}, admitted to {}", self.edge)));
        }
        self.check_content(from, payload)?;
        if fin {
            self.fin = Some(to);
        }
        if is_probe && from > self.nxt || to > self.edge {
            self.urgency = Urgency::Now;
            return Ok(());
        }
        self.store(from, to, payload, fin);
        Ok(())
    }

    fn check_end(&self, from: i64, to: i64, fin: bool) -> Result<(), (Fault, String)> {
        let Some(end) = self.fin else {
            let beyond = fin && (to < self.nxt || self.pieces.end().is_some_and(|most| most > to));
            let text = || (Fault::AfterFin, format!("FIN at {to}, seen to {}", self.nxt));
            return if beyond { Err(text()) } else { Ok(()) };
        };
        // An acknowledged FIN is behind: probes may stand there.
        if to > end && to > from || fin && to != end {
            return Err((Fault::AfterFin, format!("{from}..{to} fin {fin}, FIN was at {end}")));
        }
        Ok(())
    }

    /// The same offsets have the same bytes, always.
    fn check_content(&self, from: i64, payload: &[u8]) -> Result<(), (Fault, String)> {
        let known = std::iter::once((1, self.in_order_len() as i64 + 1)).chain(self.pieces.iter());
        for (left, right) in known {
            let (left, right) = (left.max(from), right.min(from + payload.len() as i64));
            if left >= right {
                continue;
            }
            let new = &payload[(left - from) as usize..(right - from) as usize];
            let end = (right as usize - 1).min(self.stream.len());
            let old = &self.stream[left as usize - 1..end];
            if let Some(at) = old.iter().zip(new).position(|(old, new)| old != new) {
                let text = format!("byte {}: {} then {}", left as usize - 1 + at, old[at], new[at]);
                return Err((Fault::Content, text));
            }
        }
        Ok(())
    }

    fn store(&mut self, from: i64, to: i64, payload: &[u8], fin: bool) {
        let end = to + i64::from(fin);
        if end <= from {
            return;
        }
        self.note_duplicate(from, end);
        if to as usize > self.stream.len() + 1 {
            self.stream.resize(to as usize - 1, 0);
        }
        self.stream[from as usize - 1..to as usize - 1].copy_from_slice(payload);
        if from > self.nxt {
            self.pieces.insert(from, end);
            self.recent.retain(|at| *at != from);
            self.recent.push(from);
            self.urgency = Urgency::Now;
            return;
        }
        if end > self.nxt {
            let filled = !self.pieces.is_empty();
            self.nxt = self.pieces.next_absent(end);
            self.pieces.cut_below(self.nxt);
            self.unacknowledged += 1;
            let now = filled || !self.config.delays_acks || self.unacknowledged >= 2;
            let urgency = if now || fin { Urgency::Now } else { Urgency::Soon };
            self.urgency = self.urgency.max(urgency);
        }
    }

    /// What of a segment came before.
    fn note_duplicate(&mut self, from: i64, end: i64) {
        let repeated = if from < self.nxt {
            Some((from, end.min(self.nxt)))
        } else {
            self.pieces.around(from).map(|piece| (from, end.min(piece.1)))
        };
        if repeated.is_some() {
            self.duplicate = repeated.filter(|_| self.config.reports_duplicates);
            self.urgency = Urgency::Now;
        }
    }

    /// Asks for an acknowledgement.
    pub fn urge(&mut self) {
        self.urgency = Urgency::Now;
    }

    /// Whether an acknowledgement is to be sent now.
    pub fn must_acknowledge(&mut self, now: i64) -> bool {
        if self.urgency == Urgency::Soon && self.delayed.is_none() {
            self.delayed = Some(now + DELAY);
        }
        self.urgency == Urgency::Now || self.delayed.is_some_and(|at| at <= now)
    }

    /// An acknowledgement left.
    pub fn acknowledged(&mut self) {
        self.urgency = Urgency::None;
        self.unacknowledged = 0;
        self.delayed = None;
        self.duplicate = None;
    }

    /// Blocks to report: a duplicate first (RFC 2883 section 4), then the latest first.
    pub fn blocks(&mut self, most: usize) -> Vec<(i64, i64)> {
        let mut blocks: Vec<(i64, i64)> = self.duplicate.take().into_iter().collect();
        self.recent.retain(|at| self.pieces.around(*at).is_some());
        let first = blocks.len();
        for at in self.recent.iter().rev() {
            let Some(piece) = self.pieces.around(*at) else { continue };
            if blocks.len() < most && !blocks[first..].contains(&piece) {
                blocks.push(piece);
            }
        }
        blocks
    }
}
