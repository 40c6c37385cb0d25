//! How a connection begins, and what the two ends agree upon.

use thruway_wire::tcp::flags;
use thruway_wire::tcp_option::MAX_WINDOW_SCALE;

use super::{Fault, Host, MSS_LEAST, Stage};
use crate::frame::Segment;

/// Options of a host's SYN.
#[derive(Debug, Clone)]
pub struct Offer {
    pub mss: Option<u16>,
    pub sack: bool,
    pub stamps: bool,
    pub scale: Option<u8>,
}

/// What both ends want.
#[derive(Debug, Clone, Copy, Default)]
pub struct Agreed {
    pub sack: bool,
    pub stamps: bool,
    pub my_scale: u8,
    pub peer_scale: u8,
    /// This side's FIN left before the other's came.
    pub closed_first: bool,
}

impl Host {
    /// Waits for a SYN.
    pub fn listen(&mut self) {
        self.stage = Stage::Listen;
    }

    /// Sends a SYN.
    pub fn connect(&mut self, now: i64) {
        self.now = now;
        self.stage = Stage::SynSent;
        self.tx.nxt = 1;
        self.tx.max = 1;
        self.tx.timer = Some(now + self.tx.rto());
        self.send_syn();
    }

    /// The retransmission timer expired during the handshake.
    pub(super) fn repeat_handshake(&mut self) {
        if matches!(self.stage, Stage::SynSent | Stage::SynReceived) {
            self.tx.nxt = 1;
            self.send_syn();
        }
    }

    fn send_syn(&mut self) {
        let offer = self.config.offer.clone();
        let has_peer = self.peer_syn.is_some();
        // The window of a SYN is never scaled (RFC 7323 section 2.2).
        let window = self.config.receiver.buffer.min(0xffff) as u16;
        self.rx.edge = self.rx.edge.max(1 + i64::from(window));
        let mut syn = self.header(0, window);
        syn.flags = flags::SYN | if has_peer { flags::ACK } else { 0 };
        syn.ack = if has_peer { syn.ack } else { 0 };
        syn.mss = offer.mss;
        syn.sack_permitted = if has_peer { self.agreed.sack } else { offer.sack };
        let stamps = if has_peer { self.agreed.stamps } else { offer.stamps };
        syn.stamps = stamps.then_some((self.stamp(), self.recent_stamp));
        syn.scale = offer.scale.filter(|_| !has_peer || self.peer_scale().is_some());
        self.first_stamp.get_or_insert(self.stamp());
        self.last_ack_sent = self.rx.nxt;
        self.rx.acknowledged();
        self.out.push(syn);
    }

    fn peer_scale(&self) -> Option<u8> {
        self.peer_syn.as_ref().and_then(|syn| syn.scale)
    }

    /// Before the peer is known (RFC 9293 sections 3.10.7.2 and 3.10.7.3).
    pub(super) fn greet(&mut self, segment: &Segment) {
        let ack = self.offset_of_mine(segment.ack);
        let has_good_ack = segment.has(flags::ACK) && ack == 1 && self.stage == Stage::SynSent;
        if segment.has(flags::RST) {
            if has_good_ack {
                self.got_reset = true;
                self.close();
            }
            return;
        }
        if segment.has(flags::ACK) && !has_good_ack {
            return self.answer_unknown(segment);
        }
        if !segment.has(flags::SYN) {
            return;
        }
        self.meet(segment);
        if !has_good_ack {
            self.stage = Stage::SynReceived;
            self.tx.nxt = 1;
            self.tx.max = 1;
            self.tx.timer = Some(self.now + self.tx.rto());
            return self.send_syn();
        }
        self.establish();
        self.take_syn_ack(segment);
        self.rx.urge();
    }

    /// Records the peer and its offers.
    fn meet(&mut self, syn: &Segment) {
        self.irs = syn.seq;
        self.rx.nxt = 1;
        self.rx.edge = self.rx.edge.max(1);
        self.peer_syn = Some(syn.clone());
        let offer = self.config.offer.clone();
        let refused = syn.has(flags::ACK)
            && (syn.sack_permitted && !offer.sack
                || syn.stamps.is_some() && !offer.stamps
                || syn.scale.is_some() && offer.scale.is_none());
        if refused {
            self.blame(Fault::Options, format_args!("were not offered: {syn:?}"));
        }
        self.agreed.sack = offer.sack && syn.sack_permitted;
        self.agreed.stamps = offer.stamps && syn.stamps.is_some();
        if let (Some(mine), Some(peers)) = (offer.scale, syn.scale) {
            self.agreed.my_scale = mine;
            self.agreed.peer_scale = peers.min(MAX_WINDOW_SCALE);
        }
        self.recent_stamp = syn.stamps.map_or(0, |(value, _)| value);
    }

    /// The first acknowledgement of this side's SYN, which the SYN of the other came with: its
    /// window is not scaled.
    fn take_syn_ack(&mut self, segment: &Segment) {
        let scale = std::mem::take(&mut self.agreed.peer_scale);
        self.take_ack(segment, 0);
        self.agreed.peer_scale = scale;
    }

    pub(super) fn establish(&mut self) {
        self.stage = Stage::Open;
        let least = if self.wire.v6 { 1220 } else { 536 };
        let peers = self.peer_syn.as_ref().and_then(|syn| syn.mss).unwrap_or(least);
        self.tx.start(usize::from(peers).min(self.config.link_mss).max(1));
    }

    /// A SYN in an existing connection: the first again, the other half of a simultaneous open, or
    /// wrong.
    pub(super) fn take_late_syn(&mut self, segment: &Segment) {
        let Some(first) = &self.peer_syn else { return };
        if segment.seq != first.seq {
            // Its sender has forgotten the connection, and learns of it so (RFC 5961 section 4).
            return self.challenge();
        }
        // The second SYN of a simultaneous open leaves out what the peer did not want.
        let is_same = segment.mss == first.mss
            && (segment.scale == first.scale || segment.scale.is_none() || first.scale.is_none());
        if !is_same {
            let text = format!("{segment:?}, first {first:?}");
            return self.blame(Fault::Options, text);
        }
        if self.stage == Stage::SynReceived {
            if segment.has(flags::ACK) && self.offset_of_mine(segment.ack) == 1 {
                self.establish();
                self.take_syn_ack(segment);
                return self.rx.urge();
            }
            return self.send_syn();
        }
        self.challenge();
    }

    /// Options are those that were agreed upon (RFC 7323 section 3.2, RFC 2018 section 2).
    pub(super) fn check_options(&mut self, segment: &Segment) {
        if segment.has(flags::SYN) || segment.has(flags::RST) {
            return;
        }
        let has_blocks = !segment.blocks.as_slice().is_empty();
        let of_syn = segment.mss.is_some() || segment.scale.is_some() || segment.sack_permitted;
        let stamps = segment.stamps.is_some();
        if of_syn || has_blocks && !self.agreed.sack || stamps != self.agreed.stamps {
            let agreed = self.agreed;
            self.blame(Fault::Options, format_args!("{segment:?}, agreed {agreed:?}"));
        }
    }

    /// No longer than was said to be welcome, options counted (RFC 6691).
    pub(super) fn check_length(&mut self, segment: &Segment) {
        let least = if self.wire.v6 { 1220 } else { 536 };
        let mss = usize::from(self.config.offer.mss.unwrap_or(least));
        let len = segment.payload.len();
        let most = mss.max(MSS_LEAST).saturating_sub(segment.options_len());
        if len > most {
            self.blame(Fault::TooLong, format_args!("{len}, at most {most}: {segment:?}"));
        }
    }
}
