//! What stands at the end of the wire: stacks of many kinds, none of which may be shown a byte that
//! was not inspected.

use std::collections::BTreeMap;
use std::ops::Range;

use thruway_packet::Packet;
use thruway_stream::segment::{Parts, tcp};
use thruway_stream::tcp::Seq;
use thruway_stream::tcp::overlap::Overlap;
use thruway_wire::ip_protocol;
use thruway_wire::tcp::flags::{ACK, FIN, RST, SYN, URG};

/// How a stack differs from one that does as RFC 9293 and RFC 5961 say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quirk {
    None,
    /// It does not look at checksums.
    Checksums,
    /// It takes what is outside of the window it offered.
    Window,
    /// It takes data in segments without ACK.
    WithoutAck,
    /// It takes acknowledgements of what it never sent.
    WrongAck,
    /// It gives data of the SYN to the application.
    DataOfSyn,
    /// A SYN begins the stream anew.
    SynResets,
    /// A RST of any sequence number ends the connection.
    AnyRst,
    /// No RST does.
    NoRst,
    /// It takes data behind the FIN.
    BehindFin,
    /// The urgent byte is no part of the stream.
    UrgentOutOfBand,
    /// Packets of a TTL below 5 do not come to it.
    FarAway,
    /// It takes segments with old timestamps.
    OldTimestamps,
}

pub const QUIRKS: [Quirk; 13] = [
    Quirk::None,
    Quirk::Checksums,
    Quirk::Window,
    Quirk::WithoutAck,
    Quirk::WrongAck,
    Quirk::DataOfSyn,
    Quirk::SynResets,
    Quirk::AnyRst,
    Quirk::NoRst,
    Quirk::BehindFin,
    Quirk::UrgentOutOfBand,
    Quirk::FarAway,
    Quirk::OldTimestamps,
];

/// The window that receivers offer, bytes.
const WINDOW: u32 = 0xffff;

/// One direction of a connection, where it is received.
pub struct Receiver {
    pub overlap: Overlap,
    pub quirk: Quirk,
    /// What the application reads of each connection that began.
    pub streams: Vec<Vec<u8>>,
    next: Option<Seq>,
    /// Bytes that wait: by their distance from the stream's begin, with the segment they are of.
    waiting: BTreeMap<u32, (u8, Range<Seq>)>,
    fin: Option<Seq>,
    is_over: bool,
    /// The newest timestamp.
    recent: Option<u32>,
    /// The number after the last one that this end sent.
    sent: Option<Seq>,
}

impl Receiver {
    pub fn new(overlap: Overlap, quirk: Quirk) -> Receiver {
        Receiver {
            overlap,
            quirk,
            streams: Vec::new(),
            next: None,
            waiting: BTreeMap::new(),
            fin: None,
            is_over: false,
            recent: None,
            sent: None,
        }
    }

    fn is(&self, quirk: Quirk) -> bool {
        self.quirk == quirk
    }

    /// This end sends a segment.
    pub fn sends(&mut self, packet: &Packet) {
        let Ok(parts) = Parts::of_tcp(packet) else { return };
        let Some(header) = tcp(packet, &parts) else { return };
        let span = parts.payload_len() as u32
            + u32::from(header.has_flags(SYN))
            + u32::from(header.has_flags(FIN));
        let end = Seq::new(header.seq()) + span;
        // It has ended the connection, unless this was forged.
        self.is_over |= header.has_flags(RST)
            && self.sent == Some(end)
            && parts.verify(packet, ip_protocol::TCP).is_ok();
        self.sent = Some(self.sent.map_or(end, |sent| sent.max(end)));
    }

    /// A segment comes.
    pub fn comes(&mut self, packet: &Packet) {
        let ttl = packet.network().get(8).copied().unwrap_or(0);
        if self.is(Quirk::FarAway) && ttl < 5 {
            return;
        }
        let Ok(parts) = Parts::of_tcp(packet) else { return };
        let Some(header) = tcp(packet, &parts).copied() else { return };
        let options = &packet.data()[parts.transport + 20..parts.payload];
        if !self.is(Quirk::Checksums) && parts.verify(packet, ip_protocol::TCP).is_err() {
            return;
        }
        let (flags, seq) = (header.flags(), Seq::new(header.seq()));
        let payload = &packet.data()[parts.payload..parts.end];
        let is_syn = flags & (SYN | RST) == SYN;
        if is_syn && (self.next.is_none() || self.is_over || self.is(Quirk::SynResets)) {
            self.begin(seq + 1);
            if self.is(Quirk::DataOfSyn) {
                self.data(seq + 1, payload);
            }
            return;
        }
        let Some(next) = self.next.filter(|_| !self.is_over && flags & SYN == 0) else { return };
        if flags & RST != 0 {
            self.is_over = match self.quirk {
                Quirk::NoRst => false,
                Quirk::AnyRst => true,
                _ => seq == next,
            };
            return;
        }
        if !self.passes(flags, Seq::new(header.ack()), stamp(options)) {
            return;
        }
        let urgent = (flags & URG != 0 && self.is(Quirk::UrgentOutOfBand))
            .then(|| usize::from(header.urgent()).wrapping_sub(1));
        match urgent.filter(|at| *at < payload.len()) {
            Some(at) => self.data(seq, &[&payload[..at], &payload[at + 1..]].concat()),
            None => self.data(seq, payload),
        }
        let end = seq + payload.len() as u32;
        if flags & FIN != 0 && self.next.is_some_and(|next| !end.before(next)) {
            self.fin.get_or_insert(end);
        }
        self.is_over |= !self.is(Quirk::BehindFin) && self.fin.is_some() && self.fin == self.next;
    }

    fn begin(&mut self, next: Seq) {
        self.next = Some(next);
        self.waiting.clear();
        (self.fin, self.is_over, self.recent) = (None, false, None);
        self.streams.push(Vec::new());
    }

    /// Whether a segment is looked at at all.
    fn passes(&mut self, flags: u8, ack: Seq, stamp: Option<u32>) -> bool {
        if flags & ACK == 0 && !self.is(Quirk::WithoutAck) {
            return false;
        }
        let is_wrong = self.sent.is_none_or(|sent| ack.after(sent));
        if flags & ACK != 0 && is_wrong && !self.is(Quirk::WrongAck) {
            return false;
        }
        if let Some(stamp) = stamp {
            let is_old = self.recent.is_some_and(|recent| Seq::new(stamp).before(Seq::new(recent)));
            if is_old && !self.is(Quirk::OldTimestamps) {
                return false;
            }
            self.recent = Some(stamp);
        }
        true
    }

    /// Bytes come: those of the window wait, and what is in order goes to the application.
    fn data(&mut self, seq: Seq, bytes: &[u8]) {
        let Some(next) = self.next else { return };
        let window = if self.is(Quirk::Window) { 1 << 24 } else { WINDOW };
        let span = seq..seq + bytes.len() as u32;
        for (at, byte) in (0..).zip(bytes) {
            let offset = (seq + at).distance(next);
            if offset >= window
                || self.fin.is_some_and(|fin| !(seq + at).before(fin)) && !self.is(Quirk::BehindFin)
            {
                continue;
            }
            let number = (seq + at).get();
            let old = self.waiting.get(&number);
            if old.is_none_or(|(_, old)| self.overlap.is_new_kept(old, &span)) {
                self.waiting.insert(number, (*byte, span.clone()));
            }
        }
        let Some(stream) = self.streams.last_mut() else { return };
        let mut next = next;
        while let Some((byte, _)) = self.waiting.remove(&next.get()) {
            stream.push(byte);
            next = next + 1;
        }
        self.next = Some(next);
    }
}

/// The value of the timestamps option.
fn stamp(options: &[u8]) -> Option<u32> {
    let at = options.windows(2).position(|two| two == [8, 10])?;
    let value = options.get(at + 2..at + 6)?;
    Some(u32::from_be_bytes(value.try_into().ok()?))
}
