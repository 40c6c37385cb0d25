//! Bytes as what a few connections send, what functions do to it, and how time passes. Nothing may
//! panic, bounds hold, nothing is kept at the end, and what leaves is right where functions guard.

use thruway_packet::{LARGE_FRAME, Packet};
use thruway_payload::Pieces;
use thruway_stream::content::{Content, HasContent, Layer, flag};
use thruway_stream::pieces::Run;
use thruway_stream::segment::{Parts, finish, tcp};
use thruway_stream::tcp::overlap::Overlap;
use thruway_stream::tcp::{Arrival, AtBound, Mode, Out, Settings, Tcp, Urgent};
use thruway_wire::ip_protocol;

/// Connections that may be there at once.
const CONNECTIONS: usize = 3;
/// Bytes that may be kept of each direction: a few packets.
const BUFFER: u32 = 8 << 10;
/// The same of all.
const TOTAL: u64 = 24 << 10;

/// Bytes, read one after the other; zeros behind the end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn take(&mut self, n: usize) -> &[u8] {
        let (first, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        first
    }
}

fn settings(bytes: &mut Bytes<'_>) -> Settings {
    let (mode, how) = (bytes.next(), bytes.next());
    Settings {
        mode: [Mode::Follow, Mode::Order, Mode::Guard, Mode::Map][usize::from(mode & 3)],
        connections_max: CONNECTIONS,
        buffer: BUFFER,
        total: TOTAL,
        at_bound: [AtBound::Drop, AtBound::Pass, AtBound::Reset][usize::from(how & 3) % 3],
        pick_up: how & 4 != 0,
        urgent: [Urgent::Clear, Urgent::Pass, Urgent::Drop][usize::from(how >> 3 & 3) % 3],
        overlap: Overlap::ALL[usize::from(mode >> 2) % Overlap::ALL.len()].1,
        large_max: u32::MAX,
        stall: if how & 128 == 0 { 300_000_000_000 } else { 20_000_000 },
        verify: true,
    }
}

/// Where the numbers of all connections begin: they wrap soon.
const BEGIN: u32 = 0xffff_ffc0;

/// Options that come often, besides those of the bytes: none, window scale and MSS, timestamps,
/// a selective acknowledgement.
const OPTIONS: [&[u8]; 4] = [
    &[],
    &[2, 4, 5, 0xb4, 1, 3, 3, 2, 4, 2, 1, 1],
    &[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 9],
    &[1, 1, 5, 10, 0, 0, 0, 0, 0, 0, 0, 9],
];

/// A segment: flags, sequence and acknowledgement number from the beginning on.
fn segment(
    direction: usize,
    (flags, seq, ack): (u8, u32, u32),
    options: &[u8],
    len: usize,
) -> Vec<u8> {
    let mut frame = vec![0; 14];
    frame.extend([0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 6, 0, 0]);
    let ends = [[10, 0, 0, 1, 10, 0, 0, 2], [10, 0, 0, 2, 10, 0, 0, 1]];
    frame.extend(ends[direction]);
    frame.extend([3, 232, 0, 80]);
    frame.extend(BEGIN.wrapping_add(seq).to_be_bytes());
    frame.extend(BEGIN.wrapping_add(ack).to_be_bytes());
    frame.extend([80 + options.len() as u8 * 4, flags, 1, 0, 0, 0, 0, 1]);
    frame.extend(options);
    frame.resize(frame.len() + len, flags);
    frame
}

/// The packet of a frame; its checksums are made right where it is a segment.
fn packet(frame: &[u8], direction: usize) -> Option<Packet> {
    let mut packet = Packet::new(frame)?;
    packet.set_mac_offset(0);
    packet.set_network(14, 20);
    packet.set_fcb(direction as u32 + 1);
    if frame.len() >= 54 && frame[14] == 0x45 {
        let end = packet.len();
        let parts = Parts { network: 14, transport: 34, payload: 54, end, is_ipv6: false };
        assert!(finish(&mut packet, &parts, ip_protocol::TCP));
    }
    Some(packet)
}

/// A segment near where the connection began; or, seldom, what the bytes are. `came` has come from
/// the other side.
fn any_packet(bytes: &mut Bytes<'_>, direction: usize, came: u32, is_raw: bool) -> Option<Packet> {
    if is_raw {
        let len = usize::from(bytes.next());
        return packet(&[&[0; 14], bytes.take(len)].concat(), direction);
    }
    const FLAGS: [u8; 16] = [
        0x10, 0x10, 0x10, 0x18, 0x18, 0x18, 0x10, 0x18, 0x11, 0x19, 0x02, 0x12, 0x04, 0x14, 0x38, 0,
    ];
    let (flags, seq, ack) = (bytes.next(), bytes.next(), bytes.next());
    let flags = if flags < 240 { FLAGS[usize::from(flags & 15)] } else { bytes.next() };
    let (options, window, len) = (bytes.next(), bytes.next(), usize::from(bytes.next()));
    let written = bytes.take(usize::from(options & 3) * 4);
    let options = match options >> 4 {
        15 => written,
        other => OPTIONS[usize::from(other & 3)],
    };
    // Long ones fill what may be kept.
    let len = if len > 248 { 1400 } else { len / 16 };
    let ack = if ack < 160 { came } else { u32::from(ack) % 48 };
    let numbers = (flags, u32::from(seq >> 2), ack);
    let mut frame = segment(direction, numbers, options, len);
    // Every other window is small.
    frame[48] = if window & 1 == 0 { window } else { window >> 7 };
    packet(&frame, direction)
}

/// What a function does to a packet; `None` if it goes no further.
fn function(bytes: &mut Bytes<'_>, mode: Mode, mut packet: Packet) -> Option<Packet> {
    let action = bytes.next();
    if packet.content_mark().layer() != Layer::Tcp {
        return Some(packet);
    }
    let len = packet.content().len();
    let at = usize::from(action >> 4).min(len);
    match action & 15 {
        1 if mode >= Mode::Guard => packet.content_mut().fill(action),
        2 | 3 if mode == Mode::Map => {
            let cut = usize::from(action >> 3).min(len - at);
            let with = vec![action; usize::from(bytes.next()) * 8];
            assert!(Run(std::slice::from_mut(&mut packet)).splice(0, at, cut, &with));
        }
        4 if mode == Mode::Map => {
            assert!(Run(std::slice::from_mut(&mut packet)).splice(0, 0, len, &[]));
        }
        5 => {
            let mut mark: Content = packet.content_mark();
            mark.flags |= flag::CLOSE;
            packet.set_content_mark(mark);
        }
        6 => return None,
        _ => {}
    }
    Some(packet)
}

/// What leaves is whole; how far it has come, by direction.
fn check(out: &mut Out, mode: Mode, came: &mut [u32; 2]) {
    for (port, packet) in out.packets.drain(..) {
        if let Ok(parts) = Parts::of_tcp(&packet)
            && let Some(header) = tcp(&packet, &parts)
        {
            came[port] = header.seq().wrapping_sub(BEGIN).wrapping_add(parts.payload_len() as u32);
        }
        if mode >= Mode::Guard {
            let parts = Parts::of_tcp(&packet).expect("a segment");
            assert_eq!(parts.verify(&packet, ip_protocol::TCP), Ok(()));
            assert_eq!(parts.end, packet.len());
        }
    }
}

/// Packets by what became of them: none is lost, and none comes from nowhere.
#[derive(Default)]
struct Account {
    came: u64,
    /// A function dropped them.
    taken: u64,
    left: u64,
}

impl Account {
    #[track_caller]
    fn balance(&self, engine: &Tcp, outs: [&Out; 2]) {
        let made: u64 = outs.iter().map(|out| u64::from(out.made)).sum();
        let drops: u64 = outs.iter().flat_map(|out| out.drops).map(u64::from).sum();
        let Account { came, taken, left } = self;
        let between: usize = outs.iter().map(|out| out.packets.len()).sum();
        let delayed = (engine.delayed() + between) as u64;
        assert_eq!(
            came + made,
            left + taken + drops + delayed,
            "{came} came, {made} made, {left} left, {taken} taken, {drops} dropped, {delayed} wait"
        );
    }
}

/// See the module.
pub fn any_packets(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let settings = settings(&mut bytes);
    // A connection that may not be kept as it should passes as it comes.
    let guarded = settings.at_bound != AtBound::Pass && settings.verify;
    let mode = if guarded { settings.mode } else { Mode::Follow };
    let mut engine = Tcp::new(settings);
    let mut conns = [None; CONNECTIONS + 1];
    let mut came = [[1; 2]; CONNECTIONS + 1];
    let (mut inside, mut outside) = (Out::default(), Out::default());
    let (mut account, mut now) = (Account::default(), 1_000_000);
    while !bytes.0.is_empty() {
        let op = bytes.next();
        let (conn, direction) = (usize::from(op & 3), usize::from(op >> 2 & 1));
        now += i64::from(bytes.next()) * 4_000_000;
        if op >> 4 == 0 {
            if let Some(id) = conns[conn].take() {
                engine.close(id, &mut inside);
                came[conn] = [1; 2];
            }
            continue;
        }
        let Some(id) = conns[conn].or_else(|| engine.open()) else { continue };
        if conns[conn].replace(id).is_none() && op & 24 != 24 {
            for (direction, numbers) in [(0, (2, 0, 0)), (1, (0x12, 0, 1)), (0, (0x10, 1, 1))] {
                let frame = segment(direction, numbers, OPTIONS[usize::from(op >> 5 & 1)], 0);
                let arrival = Arrival { conn: id, direction, port: direction, now };
                engine.arrive(arrival, packet(&frame, direction).expect("memory"), &mut inside);
                account.came += 1;
            }
        }
        let Some(packet) =
            any_packet(&mut bytes, direction, came[conn][1 - direction], op >> 4 == 1)
        else {
            continue;
        };
        let arrival = Arrival { conn: id, direction, port: direction, now };
        engine.arrive(arrival, packet, &mut inside);
        account.came += 1;
        for (port, packet) in inside.packets.drain(..) {
            if let Some(packet) = function(&mut bytes, settings.mode, packet) {
                engine.depart(port, packet, now, &mut outside);
            } else {
                account.taken += 1;
            }
        }
        engine.tick(now, &mut outside);
        account.balance(&engine, [&inside, &outside]);
        account.left += outside.packets.len() as u64;
        check(&mut outside, mode, &mut came[conn]);
        assert!(engine.len() <= CONNECTIONS);
        // Waiting and unacknowledged data; parts of one packet may exceed it.
        let most = TOTAL + 2 * LARGE_FRAME as u64;
        assert!(engine.memory_bytes() <= most, "{} bytes", engine.memory_bytes());
    }
    conns.into_iter().flatten().for_each(|id| engine.close(id, &mut inside));
    account.balance(&engine, [&inside, &outside]);
    assert_eq!(engine.delayed(), 0);
    assert_eq!((engine.len(), engine.holding(), engine.memory_bytes()), (0, 0, 0));
}
