//! What is known of a connection.

use super::copies::List;
use super::edits::Edits;
use super::reorder::Waiting;
use super::{Mode, Seq};

/// One direction: data from one side to the other. Numbers of its sender are called "in", those
/// that its receiver sees "out".
#[derive(Debug, Clone, Copy)]
pub(crate) struct Half {
    /// Its numbers are known: a packet of its sender was seen.
    pub is_known: bool,
    /// Its SYN was seen: so its options are known.
    pub has_syn: bool,
    /// The number of its SYN, or of the first byte that was seen.
    pub isn: Seq,
    /// The receiver may lack bytes before the first one that was seen: these pass, and so does what
    /// it says of them.
    pub is_behind: bool,
    /// In: the next byte to be shown to functions; everything before was shown.
    pub next: Seq,
    /// In and out: what has left, what was acknowledged.
    pub edits: Edits,
    /// Out: everything before was sent at least once; what lies behind waits for room.
    pub sent: Seq,
    /// Out: what the receiver has room for ends here, where it is known.
    pub right: Option<Seq>,
    /// In: the highest acknowledgement number that its sender was told.
    pub told: Seq,
    /// In: the right edge of the window that its sender was told.
    pub told_right: Seq,
    /// In: the number of its FIN, once that was shown.
    pub fin: Option<Seq>,
    /// What came too early.
    pub waiting: Waiting,
    /// Since when, without any of it having been shown, nanoseconds.
    pub waits_since: i64,
    /// What was sent, or is to be, and is not acknowledged.
    pub copies: List,
    /// Its sender's latest clock, and what it echoed.
    pub timestamps: Option<(u32, u32)>,
    /// Its sender scales the windows that it tells by this, if both have said so.
    pub scale: Option<u8>,
    /// The window that its sender told last, not scaled.
    pub window: u16,
    /// Longest payload that its sender takes.
    pub mss: u16,
    /// Longest payload that was seen in it.
    pub longest: u16,
    /// Its sender understands selective acknowledgements.
    pub sack: bool,
    /// The ports that its packets enter and leave by.
    pub in_port: u16,
    pub out_port: u16,
    /// The flow manager's word in its packets.
    pub fcb: u32,
    /// Acknowledgements in a row that told nothing new while we owe bytes.
    pub repeats: u8,
    /// Times that we sent again in vain.
    pub tries: u8,
    /// A place in the queue of timers is taken.
    pub is_armed: bool,
    /// It is among those that are looked at to find who gives way.
    pub is_listed: bool,
}

impl Half {
    pub(crate) const UNKNOWN: Half = Half {
        is_known: false,
        has_syn: false,
        isn: Seq::new(0),
        is_behind: false,
        next: Seq::new(0),
        edits: Edits::new(Seq::new(0), Seq::new(0)),
        sent: Seq::new(0),
        right: None,
        told: Seq::new(0),
        told_right: Seq::new(0),
        fin: None,
        waiting: Waiting::NONE,
        waits_since: 0,
        copies: List::EMPTY,
        timestamps: None,
        scale: None,
        window: 0,
        mss: 0,
        longest: 0,
        sack: false,
        in_port: 0,
        out_port: 0,
        fcb: 0,
        repeats: 0,
        tries: 0,
        is_armed: false,
        is_listed: false,
    };

    /// Its first number is known.
    pub(crate) fn begin(&mut self, at: Seq) {
        self.is_known = true;
        self.is_behind = true;
        self.isn = at;
        self.next = at;
        self.edits = Edits::new(at, at);
        self.sent = at;
        self.told = at;
        self.told_right = at;
    }

    /// Out: what has left, whether it was sent or waits for room.
    #[inline]
    pub(crate) fn end_out(&self) -> Seq {
        self.edits.end_out()
    }

    /// Whether bytes have left that only we can send again: their sender knows all of its own to
    /// be acknowledged.
    #[inline]
    pub(crate) fn owes(&self) -> bool {
        let unacked = self.edits.acked_out() != self.end_out();
        unacked && (self.told == self.edits.end_in() || self.sent == self.edits.acked_out())
    }
}

/// Where a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Going on.
    Alive,
    /// Reset by one of its ends.
    Reset,
    /// Ended by us: both ends are told, as often as they ask.
    Dead,
    /// Its packets go on unseen, as too much would have to be kept.
    Passed,
}

/// A connection. Half 0 is the data of the side that opened it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conn {
    pub halves: [Half; 2],
    pub phase: Phase,
    /// How much is done to it.
    pub mode: Mode,
    /// In use, and for the how manyth time: timers of former uses mean nothing.
    pub is_used: bool,
    pub serial: u32,
}

impl Conn {
    pub(crate) const FREE: Conn = Conn {
        halves: [Half::UNKNOWN; 2],
        phase: Phase::Alive,
        mode: Mode::Follow,
        is_used: false,
        serial: 0,
    };

    /// Whether both SYNs were seen: where one was not, the other may have been a late one.
    pub(crate) fn is_whole(&self) -> bool {
        self.halves.iter().all(|half| half.has_syn)
    }

    /// Whether both sides have finished and know it.
    pub(crate) fn is_over(&self) -> bool {
        let finished = |half: &Half| {
            half.fin.is_some() && half.edits.acked_out() == half.end_out() && half.is_known
        };
        self.halves.iter().all(finished)
    }
}
