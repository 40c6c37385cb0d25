//! Any bytes as both directions of a connection. Nothing may panic, and what is said of them may
//! not depend on the steps in which they come. Run by the smoke test here and by the fuzz target.

use thruway_stream::http::{
    Change, Connection, Fault, Framing, Kind, Piece, Reader, Rules, Shown, Step, rewrite,
    with_framing,
};

/// What was said: pieces, those that depend on steps put together, and how it ended.
#[derive(Debug, PartialEq, Default)]
struct Outcome {
    pieces: Vec<(u8, Vec<u8>)>,
    fault: Option<Fault>,
}

/// The first byte chooses the policy, the second where responses begin, the third the steps.
pub fn any_bytes(bytes: &[u8]) {
    let [policy, part, step, rest @ ..] = bytes else { return };
    let lenient = policy & 1 == 1;
    let rules = Rules { lenient, head_bytes: 256, fields: 8, extension_bytes: 16 };
    let (requests, responses) = rest.split_at(rest.len() * usize::from(*part) / 256);
    let whole = outcome(rules, [requests, responses], usize::MAX);
    let steps = outcome(rules, [requests, responses], usize::from(*step % 16) + 1);
    assert_eq!(whole, steps);
}

fn outcome(rules: Rules, streams: [&[u8]; 2], step: usize) -> Outcome {
    let (mut reader, mut connection) = (Reader::new(rules), Connection::default());
    let mut outcome = Outcome::default();
    for (kind, bytes) in [Kind::Request, Kind::Response].into_iter().zip(streams) {
        let left = read(&mut reader, &mut connection, (kind, bytes), step, &mut outcome);
        let ended = left.and_then(|left| reader.finish(&mut connection, kind, left));
        if let Err(fault) = ended {
            outcome.fault = Some(fault);
            // Framing in which something is wrong is reported as far as it came before.
            while outcome.pieces.pop_if(|(number, _)| [2, 6].contains(number)).is_some() {}
            return outcome;
        }
    }
    outcome
}

/// Reads a direction in steps; gives how many bytes were not reported.
fn read(
    reader: &mut Reader,
    connection: &mut Connection,
    (kind, bytes): (Kind, &[u8]),
    step: usize,
    outcome: &mut Outcome,
) -> Result<usize, Fault> {
    let (mut done, mut shown) = (0, 0usize);
    loop {
        shown = bytes.len().min(shown.max(done).saturating_add(step));
        while let Step::Piece(piece, len) = reader.step(connection, kind, &bytes[done..shown])? {
            assert!(len > 0 || piece == Piece::End);
            let these = &bytes[done..done + len];
            done += len;
            record(reader, piece, these, outcome);
        }
        if shown == bytes.len() {
            return Ok(bytes.len() - done);
        }
    }
}

fn record(reader: &Reader, piece: Piece, bytes: &[u8], outcome: &mut Outcome) {
    let number = match piece {
        Piece::Head => 0,
        Piece::Body { .. } => 1,
        Piece::Framing => 2,
        Piece::Trailer => 3,
        Piece::End => 4,
        Piece::Opaque => 5,
        Piece::Extension => 6,
    };
    if piece == Piece::Head {
        write_anew(reader, bytes);
    }
    match outcome.pieces.last_mut() {
        Some((last, so_far)) if *last == number && [1, 2, 5, 6].contains(&number) => {
            so_far.extend(bytes);
        }
        _ => outcome.pieces.push((number, bytes.to_vec())),
    }
}

fn write_anew(reader: &Reader, bytes: &[u8]) {
    let view = reader.view(bytes);
    let (host, path) = (view.host(), view.path());
    assert!(host.len() + path.len() <= bytes.len());
    let shown = Shown::parse(Shown::TEXT).expect("types");
    std::hint::black_box(shown.shows(view));
    let mut same = Vec::new();
    rewrite(view, &[], &mut same).expect("no change");
    // Except the empty line: a lenient policy may have accepted it without its CR.
    assert_eq!(&same[..same.len() - 2], &bytes[..same.len() - 2]);
    let name = view.fields().map(|(name, _)| name).find(|name| !name.is_empty());
    for framing in [Framing::Length(u64::MAX), Framing::Chunked, Framing::Close] {
        with_framing(view, framing, &mut same);
    }
    let _ = rewrite(view, &[Change::Set(name.unwrap_or(b"a"), b"b")], &mut same);
}
