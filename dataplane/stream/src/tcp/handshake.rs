//! How connections begin and break off: SYN, RST, and connections that were not seen to open.

use thruway_packet::Packet;
use thruway_wire::ip_protocol;
use thruway_wire::tcp::flags;

use super::arrive::WINDOW_UNKNOWN;
use super::endpoint::{Conn, Endpoint, Phase};
use super::options;
use super::seg::Seg;
use super::template::{ControlSegment, Template};
use super::{DropReason, Mode, Seq, Work};
use crate::segment::{cut_back, finish, tcp_mut};

/// Payload of a segment where the receiver did not say (RFC 9293 section 3.7.1).
const DEFAULT_MSS: u16 = 536;

impl Work<'_> {
    /// A SYN, with or without ACK.
    pub(super) fn syn(&mut self, dir: usize, mut seg: Seg, mut packet: Packet) {
        let endpoint = &self.conn.endpoints[dir];
        let is_repeated =
            endpoint.has_syn && endpoint.isn == seg.seq && self.conn.phase == Phase::Alive;
        if endpoint.is_known && !is_repeated && self.supersedes(dir, &seg) {
            self.forget(dir);
        } else if endpoint.is_known && !is_repeated && !self.begin_anew(dir, &seg) {
            if self.conn.mode >= Mode::Guard {
                // RFC 5961 section 4: an endpoint that lost its state answers this with a RST.
                self.ack_to_sender(dir, &[]);
                return self.out.drop(DropReason::SynInside, packet);
            }
            // Its receiver decides; an inspector without a guard follows the latest.
            self.forget(dir);
        }
        if seg.has(flags::ACK) && !self.answers_syn(dir, &seg) {
            self.disown(dir, &seg);
            return self.out.drop(DropReason::BadAck, packet);
        }
        if seg.has(flags::ACK) && !self.conn.endpoints[1 - dir].is_known {
            if !self.settings.pick_up {
                return self.out.drop(DropReason::NotOpened, packet);
            }
            // The SYN that this answers was not seen.
            self.counts.picked_up += 1;
            self.conn.endpoints[1 - dir].begin(seg.ack);
        }
        if !self.conn.endpoints[dir].is_known {
            self.first_syn(dir, &seg);
        } else if seg.has(flags::ACK) && self.conn.endpoints[dir].timestamps.is_some() {
            // The SYN of a simultaneous open echoes no clock, the one that follows it does.
            self.note_clocks(dir, &seg);
        }
        if seg.has(flags::ACK) {
            if let Err(drop_reason) = self.ack(dir, &seg) {
                return self.out.drop(drop_reason, packet);
            }
            // This window goes to the other side unscaled.
            let endpoint = &mut self.conn.endpoints[1 - dir];
            endpoint.advertised_right =
                endpoint.advertised_right.max(seg.ack + u32::from(seg.window));
        }
        if self.conn.mode >= Mode::Guard && !clean(&mut seg, &mut packet, self.conn.mode) {
            return self.out.drop(DropReason::BadOptions, packet);
        }
        self.templates[dir] = Template::of(&packet, &seg.parts);
        self.bypass(dir, packet);
    }

    /// The state of a direction belongs to another connection.
    fn forget(&mut self, dir: usize) {
        let endpoint = &mut self.conn.endpoints[dir];
        self.stores.clear(endpoint, self.out);
        let (in_port, out_port, fcb) = (endpoint.in_port, endpoint.out_port, endpoint.fcb);
        let (is_armed, is_listed) = (endpoint.is_armed, endpoint.is_listed);
        *endpoint = Endpoint { in_port, out_port, fcb, is_armed, is_listed, ..Endpoint::UNKNOWN };
    }

    /// Whether a SYN-ACK that answers the other side replaces an unanswered SYN, or a picked-up
    /// state: these were late, of a previous connection.
    fn supersedes(&self, dir: usize, seg: &Seg) -> bool {
        let (endpoint, other) = (&self.conn.endpoints[dir], &self.conn.endpoints[1 - dir]);
        let is_waiting =
            |endpoint: &Endpoint| endpoint.has_syn && endpoint.seq_map.acked_out() == endpoint.isn;
        let is_unanswered = is_waiting(endpoint) || !endpoint.has_syn && is_waiting(other);
        let is_answer = other.has_syn && seg.has(flags::ACK) && seg.ack == other.isn + 1;
        is_unanswered && is_answer && self.conn.phase == Phase::Alive
    }

    /// Whether a segment without SYN shows, before both SYNs were seen, that its connection began
    /// before this one's SYN: that was another's, or a late one.
    pub(super) fn is_of_former(&self, dir: usize, seg: &Seg) -> bool {
        let [endpoint, other] = [&self.conn.endpoints[dir], &self.conn.endpoints[1 - dir]];
        // A segment that overtook the SYN-ACK acknowledges the SYN, and there is nothing else yet.
        endpoint.has_syn || other.has_syn && seg.ack != other.isn + 1
    }

    /// A segment belongs to a connection that the other side has forgotten, as its new SYN shows,
    /// or that we have: an endpoint without state answers with a RST (RFC 9293 section 3.10.7.3).
    pub(super) fn disown(&mut self, dir: usize, seg: &Seg) {
        self.emit(
            1 - dir,
            ControlSegment { flags: flags::RST, seq: seg.ack, ..ControlSegment::default() },
            &[],
        );
    }

    /// Takes the parameters of a SYN.
    fn first_syn(&mut self, dir: usize, seg: &Seg) {
        let endpoint = &mut self.conn.endpoints[dir];
        endpoint.begin(seg.seq);
        endpoint.has_syn = true;
        endpoint.is_behind = false;
        endpoint.scale = seg.options.window_scale;
        endpoint.sack = seg.options.is_sack_permitted;
        endpoint.mss = seg.options.mss.unwrap_or(DEFAULT_MSS);
        endpoint.window = seg.scaled_window();
        endpoint.timestamps = seg.options.timestamps.map(|ts| (ts.value, ts.echo));
        // A list of two never fails.
        let _ = endpoint.seq_map.push(&mut self.stores.slab, 1, 1);
        endpoint.next = seg.seq + 1;
        endpoint.sent = seg.seq + 1;
        // Timestamps are used only if both sides offer them (RFC 7323 section 3.2).
        let both = self.conn.endpoints.iter().all(|endpoint| endpoint.timestamps.is_some());
        if self.conn.endpoints.iter().all(|endpoint| endpoint.has_syn) && !both {
            self.conn.endpoints.iter_mut().for_each(|endpoint| endpoint.timestamps = None);
        }
    }

    /// Whether the acknowledgement of a SYN is that of the other side's SYN, as far as it was seen.
    fn answers_syn(&self, dir: usize, seg: &Seg) -> bool {
        let other = &self.conn.endpoints[1 - dir];
        !other.has_syn || seg.ack == other.isn + 1 || other.seq_map.acked_out().after(other.isn)
    }

    /// Whether a SYN of other numbers begins a new connection between the same ports: the former is
    /// over (RFC 9293 section 3.6.1), was reset, or never came about.
    fn begin_anew(&mut self, dir: usize, seg: &Seg) -> bool {
        let other = &self.conn.endpoints[1 - dir];
        let never = self.conn.endpoints[dir].has_syn && !other.is_known;
        let over = self.conn.phase != Phase::Alive || self.conn.is_over();
        // For a connection picked up midway, too little may be known for a challenge.
        let is_announced = self.can_speak() && self.templates[1 - dir].is_known();
        let mute = self.conn.endpoints[dir].is_behind || !is_announced;
        if seg.has(flags::ACK) || !(never || over || mute) {
            return false;
        }
        for endpoint in &mut self.conn.endpoints {
            self.stores.clear(endpoint, self.out);
        }
        let ports =
            self.conn.endpoints.map(|endpoint| (endpoint.in_port, endpoint.out_port, endpoint.fcb));
        let listed = self.conn.endpoints.map(|endpoint| endpoint.is_listed);
        let serial = self.conn.serial.wrapping_add(1);
        *self.replica = None;
        *self.conn = Conn { is_used: true, mode: self.settings.mode, serial, ..Conn::FREE };
        for (endpoint, (in_port, out_port, fcb)) in self.conn.endpoints.iter_mut().zip(ports) {
            (endpoint.in_port, endpoint.out_port, endpoint.fcb) = (in_port, out_port, fcb);
        }
        for (endpoint, is_listed) in self.conn.endpoints.iter_mut().zip(listed) {
            endpoint.is_listed = is_listed;
        }
        true
    }

    /// Whether the numbers of this direction are known, or can be taken as they are.
    pub(super) fn is_open(&mut self, dir: usize, seg: &Seg) -> Result<(), DropReason> {
        let [known, other] =
            [self.conn.endpoints[dir].is_known, self.conn.endpoints[1 - dir].is_known];
        let began = self.conn.endpoints.iter().any(|endpoint| endpoint.has_syn);
        match (known, other) {
            (true, true) => Ok(()),
            // The other side's packets may take another path; with PICK_UP false, both must come
            // here.
            (true, false) if self.settings.pick_up => {
                if self.conn.endpoints[dir].has_syn && seg.has(flags::ACK) {
                    // Its SYN was answered: it came late, or the answer took another path.
                    self.conn.endpoints[1 - dir].begin(seg.ack);
                }
                Ok(())
            }
            (false, true) if self.settings.pick_up && self.is_established(dir, seg) => {
                self.pick_up(dir, seg);
                Ok(())
            }
            // The handshake is in progress: it permits nothing but SYN.
            _ if began => Err(DropReason::Unready),
            _ if !self.settings.pick_up => Err(DropReason::NotOpened),
            (true, false) => Ok(()),
            (false, other) => {
                self.counts.picked_up += u64::from(!other);
                self.pick_up(dir, seg);
                Ok(())
            }
        }
    }

    /// Takes the numbers of a direction from its first segment that was seen.
    fn pick_up(&mut self, dir: usize, seg: &Seg) {
        let endpoint = &mut self.conn.endpoints[dir];
        endpoint.begin(seg.seq);
        endpoint.mss = 0;
    }

    /// Whether a segment acknowledges more than the SYN that was seen, but not much: it is of the
    /// same connection, and the SYN came late.
    fn is_established(&self, dir: usize, seg: &Seg) -> bool {
        let other = &self.conn.endpoints[1 - dir];
        let beyond = seg.ack.after(other.isn + 1) && seg.ack.distance(other.isn) < WINDOW_UNKNOWN;
        other.has_syn && seg.has(flags::ACK) && beyond
    }

    /// A RST. With a guard, it counts only if its receiver takes it for certain: else the following
    /// data would pass without inspection (RFC 5961 section 3).
    pub(super) fn reset(&mut self, dir: usize, mut seg: Seg, mut packet: Packet) {
        let endpoint = &self.conn.endpoints[dir];
        let answers_syn = !endpoint.is_known
            && seg.has(flags::ACK)
            && self.conn.endpoints[1 - dir].sent == seg.ack;
        let expected =
            endpoint.is_known && (seg.seq == endpoint.next || seg.seq == endpoint.acked_to);
        if self.conn.mode >= Mode::Guard && !answers_syn && !expected {
            if endpoint.is_known && self.conn.phase == Phase::Alive {
                self.ack_to_sender(dir, &[]);
            }
            return self.out.drop(DropReason::BadReset, packet);
        }
        // A RST's payload is for diagnosis (RFC 9293 section 3.5.3).
        if self.conn.mode >= Mode::Guard && !cut_payload(&mut seg, &mut packet) {
            return self.out.drop(DropReason::BadSegment, packet);
        }
        if self.conn.mode == Mode::Map && endpoint.is_known {
            let at = self.expected(dir);
            if let Some(header) = tcp_mut(&mut packet, &seg.parts) {
                header.update_seq(at.get());
            }
            self.refresh(dir, &mut packet, &seg.parts);
        }
        if self.conn.phase == Phase::Alive {
            self.conn.phase = Phase::Reset;
        }
        self.free_kept();
        self.bypass(dir, packet);
    }

    /// Ends the connection: both ends get a RST, now and whenever they send something.
    pub(super) fn kill(&mut self) {
        if self.conn.phase == Phase::Dead {
            return;
        }
        self.conn.phase = Phase::Dead;
        self.counts.closed += 1;
        for dir in [0, 1] {
            let endpoint = self.conn.endpoints[dir];
            let ack = self.conn.endpoints[1 - dir].acked_to;
            if endpoint.is_known {
                let flags = flags::RST | flags::ACK;
                self.emit(
                    dir,
                    ControlSegment {
                        flags,
                        seq: self.expected(dir),
                        ack,
                        ..ControlSegment::default()
                    },
                    &[],
                );
            }
        }
        self.free_kept();
    }

    /// Answers a segment of a connection that has ended, as a host without the connection does (RFC
    /// 9293 section 3.10.7.1).
    pub(super) fn answer_dead(&mut self, dir: usize, seg: &Seg, packet: Packet) {
        self.conn.silent &= !(1 << (1 - dir));
        if !seg.has(flags::RST) {
            let control = match seg.has(flags::ACK) {
                true => {
                    ControlSegment { flags: flags::RST, seq: seg.ack, ..ControlSegment::default() }
                }
                false => ControlSegment {
                    flags: flags::RST | flags::ACK,
                    ack: seg.end() + u32::from(seg.has(flags::SYN)),
                    ..ControlSegment::default()
                },
            };
            self.emit(1 - dir, control, &[]);
        }
        self.out.drop(DropReason::Closed, packet);
    }

    /// Sends a packet of our own in a direction.
    pub(super) fn emit(&mut self, dir: usize, control: ControlSegment, blocks: &[(Seq, Seq)]) {
        let endpoint: &Endpoint = &self.conn.endpoints[dir];
        let port = if self.at_exit { endpoint.out_port } else { endpoint.in_port };
        if let Some(packet) = self.templates[dir].make(&control, blocks) {
            self.counts.acks += 1;
            self.out.made += 1;
            self.out.pass(port, packet);
        }
    }
}

/// Removes the unsupported parts of a SYN: payload (it comes again once the handshake is complete,
/// RFC 7413 section 4.2), and with changed numbers, options that depend on them.
fn clean(seg: &mut Seg, packet: &mut Packet, mode: Mode) -> bool {
    if mode == Mode::Map && seg.options.has_unknown {
        let unknown = |options: &mut [u8]| options::strip(options, |kind| !options::is_known(kind));
        if options::change(packet, &seg.parts, unknown).is_err() {
            return false;
        }
    }
    cut_payload(seg, packet)
}

/// Removes the payload. False if lengths cannot be corrected.
fn cut_payload(seg: &mut Seg, packet: &mut Packet) -> bool {
    if seg.len == 0 {
        return true;
    }
    cut_back(packet, &mut seg.parts, seg.len as usize);
    seg.len = 0;
    finish(packet, &seg.parts, ip_protocol::TCP)
}
