//! What an active host, or a stranger, sends to a backup: what was understood is, written again,
//! the same bytes.

use thruway_element::{states, write_state};
use thruway_replication::{
    Claim, Frame, FrameReader, Greeting, Key, Packets, Record, Records, Session, Standing, Verdict,
    write_packet,
};

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
        if let Record::Session(Session { states, .. }) = record {
            function_states(states);
        }
    }
    function_states(bytes);
    packets(bytes);
    frames(bytes);
}

/// The whole states of a session's functions are, written again, the same bytes.
fn function_states(bytes: &[u8]) {
    let mut written = Vec::new();
    for (slot, state) in states(bytes).map_while(|state| state) {
        let export = |out: &mut Vec<u8>| {
            out.extend_from_slice(state);
            true
        };
        assert!(write_state(slot, &mut written, export));
    }
    assert!(bytes.starts_with(&written));
    assert_eq!(states(bytes).all(|state| state.is_some()), written.len() == bytes.len());
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
