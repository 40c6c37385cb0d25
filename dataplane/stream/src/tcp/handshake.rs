//! How connections begin and break off: SYN, RST, and connections that were not seen to open.

use thruway_packet::Packet;
use thruway_wire::ip_protocol;
use thruway_wire::tcp::flags;

use super::arrive::WINDOW_UNKNOWN;
use super::half::{Conn, Half, Phase};
use super::options;
use super::seg::Seg;
use super::template::{Saying, Template};
use super::{Mode, Seq, Why, Work};
use crate::segment::{cut_back, finish, tcp_mut};

/// Payload of a segment where the receiver did not say (RFC 9293 section 3.7.1).
const DEFAULT_MSS: u16 = 536;

impl Work<'_> {
    /// A SYN, with or without ACK.
    pub(super) fn syn(&mut self, dir: usize, mut seg: Seg, mut packet: Packet) {
        let half = &self.conn.halves[dir];
        let is_repeated = half.has_syn && half.isn == seg.seq && self.conn.phase == Phase::Alive;
        if half.is_known && !is_repeated && self.supersedes(dir, &seg) {
            self.forget(dir);
        } else if half.is_known && !is_repeated && !self.begin_anew(dir, &seg) {
            if self.conn.mode >= Mode::Guard {
                // RFC 5961 section 4: whoever lost its state answers this with a RST.
                self.ack_to_sender(dir, &[]);
                return self.out.drop(Why::SynInside, packet);
            }
            // Its receiver decides; who only looks goes by the latest.
            self.forget(dir);
        }
        if seg.has(flags::ACK) && !self.answers_syn(dir, &seg) {
            self.disown(dir, &seg);
            return self.out.drop(Why::BadAck, packet);
        }
        if seg.has(flags::ACK) && !self.conn.halves[1 - dir].is_known {
            if !self.settings.pick_up {
                return self.out.drop(Why::NotOpened, packet);
            }
            // The SYN that this answers was not seen.
            self.counts.picked_up += 1;
            self.conn.halves[1 - dir].begin(seg.ack);
        }
        if !self.conn.halves[dir].is_known {
            self.first_syn(dir, &seg);
        } else if seg.has(flags::ACK) && self.conn.halves[dir].timestamps.is_some() {
            // The SYN of a simultaneous open echoes no clock, the one that follows it does.
            self.note_clocks(dir, &seg);
        }
        if seg.has(flags::ACK) {
            if let Err(why) = self.ack(dir, &seg) {
                return self.out.drop(why, packet);
            }
            // The other side is told this window as it is.
            let half = &mut self.conn.halves[1 - dir];
            half.told_right = half.told_right.max(seg.ack + u32::from(seg.window));
        }
        if self.conn.mode >= Mode::Guard && !clean(&mut seg, &mut packet, self.conn.mode) {
            return self.out.drop(Why::BadOptions, packet);
        }
        self.templates[dir] = Template::of(&packet, &seg.parts);
        self.bypass(dir, packet);
    }

    /// What is known of a direction is of another connection.
    fn forget(&mut self, dir: usize) {
        let half = &mut self.conn.halves[dir];
        self.stores.clear(half, self.out);
        let (in_port, out_port, fcb) = (half.in_port, half.out_port, half.fcb);
        let (is_armed, is_listed) = (half.is_armed, half.is_listed);
        *half = Half { in_port, out_port, fcb, is_armed, is_listed, ..Half::UNKNOWN };
    }

    /// Whether a SYN-ACK that answers the other side takes the place of a SYN that nobody answered,
    /// or of what was picked up: these were late, of a connection before.
    fn supersedes(&self, dir: usize, seg: &Seg) -> bool {
        let (half, other) = (&self.conn.halves[dir], &self.conn.halves[1 - dir]);
        let is_waiting = |half: &Half| half.has_syn && half.edits.acked_out() == half.isn;
        let is_unanswered = is_waiting(half) || !half.has_syn && is_waiting(other);
        let is_answer = other.has_syn && seg.has(flags::ACK) && seg.ack == other.isn + 1;
        is_unanswered && is_answer && self.conn.phase == Phase::Alive
    }

    /// Whether a segment without SYN shows, before both SYNs were seen, that its connection began
    /// before this one's SYN: that was another's, or a late one.
    pub(super) fn is_of_former(&self, dir: usize, seg: &Seg) -> bool {
        let [half, other] = [&self.conn.halves[dir], &self.conn.halves[1 - dir]];
        // What overtook the SYN-ACK acknowledges the SYN, and there is nothing else yet.
        half.has_syn || other.has_syn && seg.ack != other.isn + 1
    }

    /// A segment belongs to a connection that the other side has forgotten, as its new SYN shows, or
    /// that we have: who knows of none says so (RFC 9293 section 3.10.7.3).
    pub(super) fn disown(&mut self, dir: usize, seg: &Seg) {
        self.say(1 - dir, Saying { flags: flags::RST, seq: seg.ack, ..Saying::default() }, &[]);
    }

    /// Takes what a SYN says.
    fn first_syn(&mut self, dir: usize, seg: &Seg) {
        let half = &mut self.conn.halves[dir];
        half.begin(seg.seq);
        half.has_syn = true;
        half.is_behind = false;
        half.scale = seg.said.window_scale;
        half.sack = seg.said.is_sack_permitted;
        half.mss = seg.said.mss.unwrap_or(DEFAULT_MSS);
        half.window = seg.scaled_window();
        half.timestamps = seg.said.timestamps.map(|ts| (ts.value, ts.echo));
        // A list of two never fails.
        let _ = half.edits.push(&mut self.stores.slab, 1, 1);
        half.next = seg.seq + 1;
        half.sent = seg.seq + 1;
        // Timestamps are used only if both sides say so (RFC 7323 section 3.2).
        let both = self.conn.halves.iter().all(|half| half.timestamps.is_some());
        if self.conn.halves.iter().all(|half| half.has_syn) && !both {
            self.conn.halves.iter_mut().for_each(|half| half.timestamps = None);
        }
    }

    /// Whether the acknowledgement of a SYN is that of the other side's SYN, as far as it was seen.
    fn answers_syn(&self, dir: usize, seg: &Seg) -> bool {
        let other = &self.conn.halves[1 - dir];
        !other.has_syn || seg.ack == other.isn + 1 || other.edits.acked_out().after(other.isn)
    }

    /// Whether a SYN of other numbers begins a new connection between the same ports: the former is
    /// over (RFC 9293 section 3.6.1), was reset, or never came about.
    fn begin_anew(&mut self, dir: usize, seg: &Seg) -> bool {
        let other = &self.conn.halves[1 - dir];
        let never = self.conn.halves[dir].has_syn && !other.is_known;
        let over = self.conn.phase != Phase::Alive || self.conn.is_over();
        // Of a connection under way that was picked up too little may be known to ask back.
        let is_told = self.can_speak() && self.templates[1 - dir].is_known();
        let mute = self.conn.halves[dir].is_behind || !is_told;
        if seg.has(flags::ACK) || !(never || over || mute) {
            return false;
        }
        for half in &mut self.conn.halves {
            self.stores.clear(half, self.out);
        }
        let ports = self.conn.halves.map(|half| (half.in_port, half.out_port, half.fcb));
        let listed = self.conn.halves.map(|half| half.is_listed);
        let serial = self.conn.serial.wrapping_add(1);
        *self.conn = Conn { is_used: true, mode: self.settings.mode, serial, ..Conn::FREE };
        for (half, (in_port, out_port, fcb)) in self.conn.halves.iter_mut().zip(ports) {
            (half.in_port, half.out_port, half.fcb) = (in_port, out_port, fcb);
        }
        for (half, is_listed) in self.conn.halves.iter_mut().zip(listed) {
            half.is_listed = is_listed;
        }
        true
    }

    /// Whether the numbers of this direction are known, or can be taken as they are.
    pub(super) fn is_open(&mut self, dir: usize, seg: &Seg) -> Result<(), Why> {
        let [known, other] = [self.conn.halves[dir].is_known, self.conn.halves[1 - dir].is_known];
        let began = self.conn.halves.iter().any(|half| half.has_syn);
        match (known, other) {
            (true, true) => Ok(()),
            // What the other side says may go another way; who insists on handshakes sees both.
            (true, false) if self.settings.pick_up => {
                if self.conn.halves[dir].has_syn && seg.has(flags::ACK) {
                    // Its SYN was answered: it came late, or the answer another way.
                    self.conn.halves[1 - dir].begin(seg.ack);
                }
                Ok(())
            }
            (false, true) if self.settings.pick_up && self.is_under_way(dir, seg) => {
                self.pick_up(dir, seg);
                Ok(())
            }
            // The handshake is on its way: nothing but SYN has a place in it.
            _ if began => Err(Why::Unready),
            _ if !self.settings.pick_up => Err(Why::NotOpened),
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
        let half = &mut self.conn.halves[dir];
        half.begin(seg.seq);
        half.mss = 0;
    }

    /// Whether a segment acknowledges more than the SYN that was seen, but not much: it is of the
    /// same connection, and the SYN came late.
    fn is_under_way(&self, dir: usize, seg: &Seg) -> bool {
        let other = &self.conn.halves[1 - dir];
        let beyond = seg.ack.after(other.isn + 1) && seg.ack.distance(other.isn) < WINDOW_UNKNOWN;
        other.has_syn && seg.has(flags::ACK) && beyond
    }

    /// A RST. Where functions guard, it counts only if its receiver takes it for certain: else what
    /// follows it would go on unseen (RFC 5961 section 3).
    pub(super) fn reset(&mut self, dir: usize, mut seg: Seg, mut packet: Packet) {
        let half = &self.conn.halves[dir];
        let answers_syn =
            !half.is_known && seg.has(flags::ACK) && self.conn.halves[1 - dir].sent == seg.ack;
        let expected = half.is_known && (seg.seq == half.next || seg.seq == half.told);
        if self.conn.mode >= Mode::Guard && !answers_syn && !expected {
            if half.is_known && self.conn.phase == Phase::Alive {
                self.ack_to_sender(dir, &[]);
            }
            return self.out.drop(Why::BadReset, packet);
        }
        // What a RST says besides is for who looks for the cause (RFC 9293 section 3.5.3).
        if self.conn.mode >= Mode::Guard && !cut_payload(&mut seg, &mut packet) {
            return self.out.drop(Why::BadSegment, packet);
        }
        if self.conn.mode == Mode::Map && half.is_known {
            let at = half.sent;
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
            let half = self.conn.halves[dir];
            let ack = self.conn.halves[1 - dir].told;
            if half.is_known {
                let flags = flags::RST | flags::ACK;
                self.say(dir, Saying { flags, seq: half.sent, ack, ..Saying::default() }, &[]);
            }
        }
        self.free_kept();
    }

    /// Answers a segment of a connection that has ended, as a host without the connection does (RFC
    /// 9293 section 3.10.7.1).
    pub(super) fn answer_dead(&mut self, dir: usize, seg: &Seg, packet: Packet) {
        if !seg.has(flags::RST) {
            let saying = match seg.has(flags::ACK) {
                true => Saying { flags: flags::RST, seq: seg.ack, ..Saying::default() },
                false => Saying {
                    flags: flags::RST | flags::ACK,
                    ack: seg.end() + u32::from(seg.has(flags::SYN)),
                    ..Saying::default()
                },
            };
            self.say(1 - dir, saying, &[]);
        }
        self.out.drop(Why::Closed, packet);
    }

    /// Sends a packet of our own in a direction.
    pub(super) fn say(&mut self, dir: usize, saying: Saying, blocks: &[(Seq, Seq)]) {
        let half: &Half = &self.conn.halves[dir];
        let port = if self.at_exit { half.out_port } else { half.in_port };
        if let Some(packet) = self.templates[dir].make(&saying, blocks) {
            self.counts.acks += 1;
            self.out.made += 1;
            self.out.pass(port, packet);
        }
    }
}

/// Takes off a SYN what cannot be answered for: payload (it comes again once the handshake is
/// complete, RFC 7413 section 4.2), and where numbers change, options that depend on them.
fn clean(seg: &mut Seg, packet: &mut Packet, mode: Mode) -> bool {
    if mode == Mode::Map && seg.said.has_unknown {
        let unknown = |options: &mut [u8]| options::strip(options, |kind| !options::is_known(kind));
        if options::change(packet, &seg.parts, unknown).is_err() {
            return false;
        }
    }
    cut_payload(seg, packet)
}

/// Takes the payload off. False where lengths cannot be put right.
fn cut_payload(seg: &mut Seg, packet: &mut Packet) -> bool {
    if seg.len == 0 {
        return true;
    }
    cut_back(packet, &mut seg.parts, seg.len as usize);
    seg.len = 0;
    finish(packet, &seg.parts, ip_protocol::TCP)
}
