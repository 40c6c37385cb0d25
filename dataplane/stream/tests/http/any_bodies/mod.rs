//! Any bytes as a body with a coding. Nothing may panic, and what they unpack to may not depend on
//! the steps in which they come. Run by the smoke test here and by the fuzz target.

use thruway_stream::http::{Bounds, Coding, Fault, Unpacker};

/// The first byte chooses the coding, the second the steps.
pub fn any_bodies(bytes: &[u8]) {
    let [coding, step, body @ ..] = bytes else { return };
    let codings = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];
    let coding = codings[usize::from(*coding) % codings.len()];
    let whole = unpacked(coding, body, body.len().max(1));
    let steps = unpacked(coding, body, usize::from(*step) % 16 + 1);
    // How much work there may be is a matter of packets.
    if ![&whole, &steps].contains(&&Err(Fault::Bomb)) {
        assert!(
            whole == steps,
            "{:?} {:?}",
            whole.map(|all| all.len()),
            steps.map(|all| all.len())
        );
    }
}

fn unpacked(coding: Coding, body: &[u8], step: usize) -> Result<Vec<u8>, Fault> {
    let (mut unpacker, mut all) = (Unpacker::new(coding), Vec::new());
    for piece in body.chunks(step) {
        let (before, most) = (all.len(), Bounds::of_packet(piece.len()));
        let fed = unpacker.feed(piece, &Bounds::DEFAULT, (&mut all, most));
        assert!(all.len() - before <= most + (128 << 10), "{}", all.len() - before);
        assert!(unpacker.cost() <= Bounds::DEFAULT.memory + (1 << 20));
        fed?;
    }
    unpacker.finish().map(|()| all)
}
