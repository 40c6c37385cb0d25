//! State of a connection.

use super::reorder::Waiting;
use super::retransmit::List;
use super::seq_map::SeqMap;
use super::{Mode, Seq};

/// Longest payload of a segment if the receiver did not announce its MSS, and the direction has
/// carried nothing longer.
const MSS_UNKNOWN: u16 = 536;
/// A lower announced MSS is raised to this: segments would be headers and little else (Linux's
/// minimum, `tcp_min_snd_mss`).
const MSS_LEAST: u16 = 48;
/// With 40 bytes of options, that many bytes of payload are left.
const PAYLOAD_LEAST: usize = 8;

/// One direction: data from one side to the other. Numbers of its sender are called "in", those
/// that its receiver sees "out".
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoint {
    /// Its numbers are known: a packet of its sender was seen.
    pub is_known: bool,
    /// Its SYN was seen: so its options are known.
    pub has_syn: bool,
    /// The number of its SYN, or of the first byte that was seen.
    pub isn: Seq,
    /// The receiver may lack bytes before the first one seen: these pass, and so do its
    /// acknowledgements of them.
    pub is_behind: bool,
    /// In: the next byte to be shown to functions; everything before was shown.
    pub next: Seq,
    /// In and out: data that has left, and acknowledged data.
    pub seq_map: SeqMap,
    /// Out: everything before was sent at least once; data behind waits for room.
    pub sent: Seq,
    /// Out: the right edge of the receiver's window, if known.
    pub right: Option<Seq>,
    /// In: the highest acknowledgement number announced to its sender.
    pub acked_to: Seq,
    /// In: the right edge of the window announced to its sender.
    pub advertised_right: Seq,
    /// In: the number of its FIN, once that was shown.
    pub fin: Option<Seq>,
    /// Segments that came too early.
    pub waiting: Waiting,
    /// Since when, without any of it having been shown, nanoseconds.
    pub waits_since: i64,
    /// Unacknowledged data, sent or to be sent.
    pub retransmit: List,
    /// Its sender's latest timestamp, and the echoed one.
    pub timestamps: Option<(u32, u32)>,
    /// Its sender scales its windows by this, if both sides sent the option.
    pub scale: Option<u8>,
    /// The window that its sender announced last, not scaled.
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
    /// Acknowledgements in a row without news while bytes are unacknowledged.
    pub repeats: u8,
    /// Times that we sent again in vain.
    pub tries: u8,
    /// A place in the queue of timers is taken.
    pub is_armed: bool,
    /// It is among those examined for eviction.
    pub is_listed: bool,
}

impl Endpoint {
    pub(crate) const UNKNOWN: Endpoint = Endpoint {
        is_known: false,
        has_syn: false,
        isn: Seq::new(0),
        is_behind: false,
        next: Seq::new(0),
        seq_map: SeqMap::new(Seq::new(0), Seq::new(0)),
        sent: Seq::new(0),
        right: None,
        acked_to: Seq::new(0),
        advertised_right: Seq::new(0),
        fin: None,
        waiting: Waiting::NONE,
        waits_since: 0,
        retransmit: List::EMPTY,
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
        self.seq_map = SeqMap::new(at, at);
        self.sent = at;
        self.acked_to = at;
        self.advertised_right = at;
    }

    /// Out: the end of data that has left, whether sent or waiting for room.
    #[inline]
    pub(crate) fn end_out(&self) -> Seq {
        self.seq_map.end_out()
    }

    /// Whether packets of it are with functions, or were lost there.
    #[inline]
    pub(crate) fn is_within(&self) -> bool {
        self.is_known && self.next != self.seq_map.end_in()
    }

    /// Whether bytes have left that only we can send again: their sender knows all of its own to
    /// be acknowledged.
    #[inline]
    pub(crate) fn owes(&self) -> bool {
        let unacked = self.seq_map.acked_out() != self.end_out();
        unacked && (self.acked_to == self.seq_map.end_in() || self.sent == self.seq_map.acked_out())
    }
}

/// Where a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Going on.
    Alive,
    /// Reset by one of its ends.
    Reset,
    /// Ended by us: each segment of either end is answered by RST.
    Dead,
    /// Its packets pass without inspection, as too much would have to be kept.
    Passed,
    /// Another host serves it, and this one knows enough to end it.
    Standby,
}

/// A connection. Half 0 is the data of the side that opened it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conn {
    pub endpoints: [Endpoint; 2],
    pub phase: Phase,
    /// How much is done to it.
    pub mode: Mode,
    /// Of a connection that another host served, a bit for each direction: its receiver has not
    /// been heard since this host ended it.
    pub silent: u8,
    /// In use, and for the how manyth time: timers of former uses mean nothing.
    pub is_used: bool,
    pub serial: u32,
}

impl Conn {
    pub(crate) const FREE: Conn = Conn {
        endpoints: [Endpoint::UNKNOWN; 2],
        phase: Phase::Alive,
        mode: Mode::Follow,
        silent: 0,
        is_used: false,
        serial: 0,
    };

    /// Longest payload for the receiver of a direction, behind so many bytes of options: the MSS
    /// counts both (RFC 6691).
    #[inline]
    pub(crate) fn limit(&self, dir: usize, options: usize) -> usize {
        let limit = match self.endpoints[1 - dir].mss {
            0 => usize::from(self.endpoints[dir].longest)
                .max(usize::from(MSS_UNKNOWN).saturating_sub(options)),
            mss => usize::from(mss.max(MSS_LEAST)).saturating_sub(options),
        };
        limit.max(PAYLOAD_LEAST)
    }

    /// Whether both SYNs were seen: where one was not, the other may have been a late one.
    pub(crate) fn is_whole(&self) -> bool {
        self.endpoints.iter().all(|endpoint| endpoint.has_syn)
    }

    /// Whether both sides have finished and know it.
    pub(crate) fn is_over(&self) -> bool {
        let finished = |endpoint: &Endpoint| {
            endpoint.fin.is_some()
                && endpoint.seq_map.acked_out() == endpoint.end_out()
                && endpoint.is_known
        };
        self.endpoints.iter().all(finished)
    }
}
