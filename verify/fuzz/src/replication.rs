//! What an active host, or a stranger, sends to a backup: what was understood is, written again,
//! the same bytes.

use thruway_element::{parts, write_part};
use thruway_replication::{
    Claim, Frame, FrameReader, Greeting, Key, Packets, Record, Records, Session, Standing, Verdict,
    write_packet,
};
use thruway_stream::tcp::{Mode, Out, Settings, Tcp};

/// See the module.
pub fn run(bytes: &[u8]) {
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for record in Records::new(bytes) {
        let Ok(record) = record else { break };
        read.push(record);
    }
    read.iter().for_each(|record: &Record<'_>| assert!(record.write(&mut written)));
    assert_eq!(written.get(..2), bytes.get(..2).filter(|_| !read.is_empty()));
    let again: Vec<Record<'_>> = Records::new(&written).map_while(Result::ok).collect();
    assert_eq!(again, read);
    if let Some(Ok(greeting)) = bytes.get(..Greeting::LEN).map(<&[u8; Greeting::LEN]>::try_from)
        && let Ok(greeting) = Greeting::parse(greeting)
    {
        assert_eq!(greeting.bytes()[..], bytes[..Greeting::LEN]);
    }
    if let Some((standing, _)) = Standing::parse(bytes) {
        assert_eq!(standing.bytes()[..], bytes[..Standing::LEN]);
    }
    if let Some(claim) = Claim::parse(bytes) {
        assert_eq!(claim.bytes()[..], *bytes);
    }
    if let Some((verdict, number)) = Verdict::parse(bytes) {
        assert_eq!(Verdict::parse(&verdict.bytes(number)), Some((verdict, number)));
    }
    for record in &read {
        match record {
            Record::Session(Session { states, .. }) => whole_parts(states),
            Record::Connection(_, _, contexts) => {
                whole_parts(contexts);
                parts(contexts).flatten().for_each(|(_, image)| connection(image));
            }
            _ => {}
        }
    }
    whole_parts(bytes);
    connection(bytes);
    packets(bytes);
    frames(bytes);
}

/// The whole parts of what functions exported are, written again, the same bytes.
fn whole_parts(bytes: &[u8]) {
    let mut written = Vec::new();
    for (slot, part) in parts(bytes).map_while(|part| part) {
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(part);
            true
        };
        assert!(write_part(slot, &mut written, write));
    }
    assert!(bytes.starts_with(&written));
    assert_eq!(parts(bytes).all(|part| part.is_some()), written.len() == bytes.len());
}

/// A host takes over a connection of which it got these bytes, or refuses them.
fn connection(bytes: &[u8]) {
    let settings = Settings { mode: Mode::Map, pick_up: false, ..Settings::default() };
    let mut tcp = Tcp::new(settings);
    let Ok(conn) = tcp.import(None, bytes, [1, 2], 2) else {
        assert!(tcp.is_empty());
        return;
    };
    let mut ends = Vec::new();
    assert!(tcp.export(conn, None, &mut ends));
    assert!(bytes.starts_with(&ends));
    // Another one of the same connection, as news.
    let known = tcp.import(Some(conn), bytes, [1, 2], 2);
    assert_eq!(known, Ok(conn));
    let mut out = Out::default();
    tcp.serve(0);
    (0..5).for_each(|second| tcp.tick(second * 1_000_000_000, &mut out));
    assert_eq!(tcp.counts.continued + tcp.counts.unreplicated, 1);
    assert!(out.packets.iter().all(|(port, _)| *port < 2));
    tcp.close(conn, &mut out);
    assert!(tcp.is_empty());
}

/// What is valid is, written again, the same bytes.
fn packets(bytes: &[u8]) {
    let mut written = Vec::new();
    for (network, frame) in Packets::new(bytes) {
        assert!(write_packet(network, frame, bytes.len(), &mut written));
    }
    assert!(bytes.starts_with(&written));
    assert_eq!(Packets::count_valid(bytes).is_some(), written.len() == bytes.len());
}

/// No bytes have a right signature by chance, in whichever pieces they come.
fn frames(bytes: &[u8]) {
    let mut reader =
        FrameReader::new(Key::of_bytes(b"0123456789abcdef").of_stream("fuzz", [&[]; 2]));
    for piece in bytes.chunks(1 + bytes.len() / 3) {
        reader.add(piece);
        let frame: Option<Frame> = reader.read().unwrap_or_default();
        assert_eq!(frame, None);
    }
}
