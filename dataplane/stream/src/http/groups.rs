//! Packets of which each has one range of content at most, made from one that has parts of several
//! messages.

use std::ops::Range;

use thruway_packet::Packet;
use thruway_wire::tcp::flags as tcp_flags;

use super::reader::Piece;
use crate::content::{Content, HasContent, Layer, flag};
use crate::segment::{Parts, tcp, tcp_mut};
use crate::splice::splice;

/// Marks opaque packets that this context made, unlike those that arrived opaque.
pub const OURS: u8 = flag::FIRST;

/// Most unpacked bytes in a packet: a small frame has room for them, and most receivers take a
/// segment of that size.
pub const UNPACKED_MAX: usize = 1400;

/// Most packets that one becomes, besides those of decompressed bytes.
pub const MAX_GROUPS: usize = 128;

/// The parser's report on some bytes of a packet.
#[derive(Debug, Clone, Copy)]
pub struct PieceInfo {
    pub piece: Piece,
    /// How many they are now.
    pub len: usize,
    /// How many they were as their sender sent them.
    pub sent: usize,
    /// Functions are shown the body that they belong to.
    pub is_shown: bool,
    /// They are not forwarded: the framing is rewritten behind the functions.
    pub is_stripped: bool,
    /// They are none of the packet's: they were unpacked from some that were stripped.
    pub is_unpacked: bool,
    /// Flags of a head in addition to those of all heads; all flags of an aside.
    pub flags: u8,
}

impl PieceInfo {
    /// `len` bytes of a packet that are forwarded unchanged, and not shown.
    pub fn new(piece: Piece, len: usize) -> PieceInfo {
        let (is_shown, is_stripped, is_unpacked, flags) = (false, false, false, 0);
        PieceInfo { piece, len, sent: len, is_shown, is_stripped, is_unpacked, flags }
    }

    /// Bytes that are not in the packet: decompressed ones, or extensions and trailers.
    pub fn made(piece: Piece, len: usize, flags: u8) -> PieceInfo {
        PieceInfo {
            sent: 0,
            is_unpacked: true,
            is_shown: true,
            flags,
            ..PieceInfo::new(piece, len)
        }
    }

    /// Whether it consists of a body's extensions or trailers, shown after it.
    pub fn is_aside(&self) -> bool {
        self.is_unpacked && self.piece == Piece::Trailer
    }
}

/// The composition of one packet: consecutive bytes.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    layer: Layer,
    flags: u8,
    prefix: usize,
    body: usize,
    suffix: usize,
    /// The body is not the packet's, but was unpacked.
    is_unpacked: bool,
    /// Bytes that the sender sent up to the group's end, from the packet's first byte on.
    sent: usize,
}

impl Group {
    fn new(layer: Layer, flags: u8) -> Group {
        Group { layer, flags, prefix: 0, body: 0, suffix: 0, is_unpacked: false, sent: 0 }
    }

    /// Bytes of it that are the packet's.
    fn own(&self) -> usize {
        self.prefix + self.suffix + if self.is_unpacked { 0 } else { self.body }
    }

    /// Whether decompressed bytes fit into it: no group has more of them than a packet takes.
    fn takes_unpacked(&self, len: usize) -> bool {
        !self.is_opaque()
            && self.suffix == 0
            && (self.is_unpacked || self.body == 0)
            && self.body + len <= UNPACKED_MAX
    }

    fn is_opaque(&self) -> bool {
        self.layer == Layer::Opaque
    }
}

/// Groups the reported pieces.
#[derive(Debug, Default)]
pub struct Groups {
    all: Vec<Group>,
    /// How many of them have unpacked bytes.
    unpacked: usize,
    is_open: bool,
    sent: usize,
}

/// There would be too many.
#[derive(Debug)]
pub struct TooMany;

impl Groups {
    /// Begins with nothing.
    pub fn clear(&mut self) {
        self.all.clear();
        self.unpacked = 0;
        (self.is_open, self.sent) = (false, 0);
    }

    /// The current group, or a new one.
    fn open(&mut self, layer: Layer, flags: u8, goes_on: impl Fn(&Group) -> bool) -> &mut Group {
        let goes_on = self.is_open && self.all.last().is_some_and(goes_on);
        if !goes_on {
            self.all.push(Group { sent: self.sent, ..Group::new(layer, flags) });
            self.is_open = true;
        }
        let last = self.all.len() - 1;
        &mut self.all[last]
    }

    /// Adds the next piece.
    pub fn add(&mut self, info: &PieceInfo) -> Result<(), TooMany> {
        self.sent += info.sent;
        let sent = self.sent;
        let len = if info.is_stripped { 0 } else { info.len };
        match info.piece {
            Piece::Head => {
                let flags = flag::HEAD | flag::FIRST | info.flags;
                let group = self.open(Layer::Http, flags, |_| false);
                (group.prefix, group.sent) = (len, sent);
                // Of a body that is not shown functions see nothing: this is all.
                self.is_open = info.is_shown;
            }
            Piece::End if info.is_shown => {
                let group = self.open(Layer::Http, 0, |group| !group.is_opaque());
                group.flags |= flag::LAST;
                self.is_open = false;
            }
            Piece::End => {}
            _ if info.is_aside() => {
                let group = self.open(Layer::Http, info.flags, |_| false);
                (group.body, group.is_unpacked) = (len, true);
                self.unpacked += 1;
                self.is_open = false;
            }
            _ if info.is_stripped => {
                if let Some(group) = self.all.last_mut() {
                    group.sent = sent;
                }
            }
            Piece::Body { .. } if info.is_unpacked => {
                let group = self.open(Layer::Http, 0, |group| group.takes_unpacked(len));
                let is_new = !std::mem::replace(&mut group.is_unpacked, true);
                (group.body, group.sent) = (group.body + len, sent);
                self.unpacked += usize::from(is_new);
            }
            Piece::Body { .. } if info.is_shown => {
                let group = self.open(Layer::Http, 0, |g| !g.is_opaque() && g.suffix == 0);
                (group.body, group.sent) = (group.body + len, sent);
            }
            Piece::Framing | Piece::Extension if info.is_shown => {
                let goes_on = |group: &Group| {
                    !group.is_opaque() && (group.body > 0 || group.flags & flag::HEAD == 0)
                };
                let group = self.open(Layer::Http, 0, goes_on);
                match group.body + group.suffix {
                    0 => group.prefix += len,
                    _ => group.suffix += len,
                }
                group.sent = sent;
            }
            Piece::Trailer if info.is_shown => {
                let group = self.open(Layer::Http, 0, |group| !group.is_opaque());
                (group.suffix, group.sent) = (group.suffix + len, sent);
            }
            _ => {
                let group = self.open(Layer::Opaque, OURS, Group::is_opaque);
                (group.body, group.sent) = (group.body + len, sent);
            }
        }
        if self.all.len() - self.unpacked > MAX_GROUPS { Err(TooMany) } else { Ok(()) }
    }

    /// Adds a packet of its own for an end of the direction that must not be taken for a message's,
    /// or for nothing at all.
    pub fn add_empty(&mut self) {
        self.open(Layer::Opaque, OURS, |_| false);
        self.is_open = false;
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// The sender's bytes before bytes were held back and added.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// Bytes in front that came with earlier packets.
    pub kept: usize,
    /// Bytes of content that the packet itself brought.
    pub came: usize,
}

impl Sent {
    /// How many of the bytes that the packet accounts for are among the first `sent` bytes.
    fn share(self, sent: usize, took: usize) -> usize {
        if took != self.came {
            // It was changed before: the correspondence of bytes is lost.
            return 0;
        }
        sent.saturating_sub(self.kept).min(self.came)
    }
}

/// Removes the bytes that are not forwarded from the content.
pub fn strip(packet: &mut Packet, pieces: &[PieceInfo]) {
    if !pieces.iter().any(|one| one.is_stripped && one.len > 0) {
        return;
    }
    let content = packet.content_mut();
    let (mut from, mut to) = (0, 0);
    for one in pieces.iter().filter(|one| !one.is_unpacked) {
        if !one.is_stripped {
            content.copy_within(from..from + one.len, to);
            to += one.len;
        }
        from += one.len;
    }
    let place = packet.content_range();
    // Both are within.
    let _ = splice(packet, place.start + to, from - to, &[]);
}

/// Makes a packet of each group (there is at least one); the content is the groups' bytes,
/// including decompressed ones, and the packet contains nothing else after the TCP header. False
/// when there is no memory for that: then some are not made.
#[must_use]
pub fn split(
    packet: Packet,
    (groups, unpacked): (&Groups, &[u8]),
    sent: Sent,
    out: &mut Vec<Packet>,
) -> bool {
    let Some(parts) = Parts::of_changed_tcp(&packet) else { return false };
    let (mark, place) = (packet.content_mark(), out.len());
    let took = usize::from(mark.took);
    out.push(packet);
    let last = groups.all.len() - 1;
    let (mut at, mut reported, mut unpacked) = (parts.payload, 0, unpacked);
    let mut first: &[u8] = &[];
    for (index, group) in groups.all.iter().enumerate() {
        let until = if index == last { took } else { sent.share(group.sent, took) };
        let mut mark = mark_of(mark, group, parts.payload - parts.network);
        mark.took = (until - reported) as u16;
        if index < last {
            mark.flags &= !(flag::LAST & !group.flags);
        }
        let taken = if group.is_unpacked { group.body } else { 0 };
        let Some((body, rest)) = unpacked.split_at_checked(taken) else { return false };
        unpacked = rest;
        if index > 0 {
            let range = at..at + group.own();
            let Some(mut made) = carve(&out[place], &parts, range) else { return false };
            if !splice(&mut made, parts.payload + group.prefix, 0, body) {
                return false;
            }
            let mask = if index == last { u8::MAX } else { !(tcp_flags::FIN | tcp_flags::PSH) };
            set_header(&mut made, &parts, mask, reported as u32);
            mark.flags |= flag::CHANGED;
            made.set_content_mark(mark);
            out.push(made);
        } else {
            mark.flags |= if body.is_empty() { 0 } else { flag::CHANGED };
            out[place].set_content_mark(mark);
            first = body;
        }
        at += group.own();
        reported = until;
    }
    if last > 0 {
        let packet = &mut out[place];
        set_header(packet, &parts, !(tcp_flags::FIN | tcp_flags::PSH), 0);
        packet.truncate(parts.payload + groups.all[0].own());
        let mark = packet.content_mark();
        packet.set_content_mark(with_flags(mark, mark.flags | flag::CHANGED));
    }
    splice(&mut out[place], parts.payload + groups.all[0].prefix, 0, first)
}

/// The annotation of a group's packet.
fn mark_of(mark: Content, group: &Group, payload: usize) -> Content {
    let start = (payload + group.prefix) as u16;
    let flags = mark.flags & (flag::CHANGED | flag::LAST) | group.flags;
    let mut made = with_flags(mark, flags).with_layer(group.layer);
    (made.start, made.suffix) = (start, group.suffix as u16);
    made
}

/// The same with other flags.
pub fn with_flags(mut mark: Content, flags: u8) -> Content {
    mark.flags = flags;
    mark
}

/// A packet with the same headers, and part of the bytes.
pub fn carve(packet: &Packet, parts: &Parts, range: Range<usize>) -> Option<Packet> {
    let data = packet.data();
    let bytes = data.get(range)?;
    let mut made = Packet::new(&data[..parts.payload])?;
    if !made.put(bytes.len()) {
        return None;
    }
    made.data_mut()[parts.payload..].copy_from_slice(bytes);
    made.copy_annotations(packet);
    made.set_fcb(packet.fcb());
    if let Some(mac) = packet.mac_offset().and_then(|mac| usize::try_from(mac).ok()) {
        made.set_mac_offset(mac);
    }
    made.set_network(parts.network, parts.transport - parts.network);
    Some(made)
}

/// Appends a packet to the one that it was part of, if it was and nothing has grown: then the
/// receiver gets the packets that were sent. Else gives it back.
///
/// The length fields, not updated since the packet was split, identify its parts: packets with the
/// same IP header and contiguous sequence numbers, together no longer than its total length.
pub fn glue(before: &mut Packet, packet: Packet) -> Option<Packet> {
    let (first, second) = (before.content_mark(), packet.content_mark());
    let (Some(to), Some(from)) = (Parts::of_changed_tcp(before), Parts::of_changed_tcp(&packet))
    else {
        return Some(packet);
    };
    let is_plain = |mark: &Content| mark.layer() == Layer::Tcp && !mark.has(flag::CLOSE);
    let (Some(a), Some(b)) = (tcp(before, &to), tcp(&packet, &from)) else { return Some(packet) };
    let follows = a.seq().wrapping_add(u32::from(first.took)) == b.seq() && first.took > 0;
    let flags = b.flags();
    let fits = before.fcb() == packet.fcb()
        && is_plain(&first)
        && is_plain(&second)
        && !first.has(flag::LAST)
        && follows
        && before.data()[to.network..to.transport] == packet.data()[from.network..from.transport]
        && to.payload_len() + from.payload_len() <= declared_len(before, &to);
    let bytes = &packet.data()[from.payload..from.end];
    if !fits || !before.put(bytes.len()) {
        return Some(packet);
    }
    before.data_mut()[to.end..].copy_from_slice(bytes);
    if let Some(header) = tcp_mut(before, &to) {
        header.update_flags(flags);
    }
    let mut mark = with_flags(first, first.flags | second.flags);
    mark.took = first.took.saturating_add(second.took);
    before.set_content_mark(mark);
    None
}

/// Bytes of payload that the length field of the IP header speaks of.
fn declared_len(packet: &Packet, parts: &Parts) -> usize {
    let (at, base) = if parts.is_ipv6 { (4, 40) } else { (2, 0) };
    let field = packet.data().get(parts.network + at..parts.network + at + 2);
    let Some(&[high, low]) = field else { return 0 };
    let end = parts.network + base + usize::from(u16::from_be_bytes([high, low]));
    end.saturating_sub(parts.payload)
}

/// Keeps the TCP flags of `mask`, and moves the sequence number on.
fn set_header(packet: &mut Packet, parts: &Parts, mask: u8, add: u32) {
    if let Some(header) = tcp_mut(packet, parts) {
        let (seq, flags) = (header.seq().wrapping_add(add), header.flags());
        header.update_seq(seq);
        header.update_flags(flags & mask);
    }
}
