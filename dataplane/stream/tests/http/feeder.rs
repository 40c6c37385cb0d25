//! Feeds a reader: keeps the bytes that it cannot classify yet.

use thruway_stream::http::{Connection, Fault, Finish, Kind, Piece, Reader, Rules, Step};

/// What bytes were: as [`Piece`], without what depends on how they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Head,
    Body,
    Framing,
    Trailer,
    End,
    Opaque,
}

/// What bytes were reported to be, in order. Neighbours of one sort are put together.
pub type Parts = Vec<(Part, Vec<u8>)>;

/// Adds what follows.
pub fn append(parts: &mut Parts, part: Part, bytes: &[u8]) {
    match parts.last_mut() {
        Some((last, so_far)) if *last == part && part != Part::End => so_far.extend(bytes),
        _ => parts.push((part, bytes.to_vec())),
    }
}

/// A connection that is fed.
pub struct Feeder {
    pub reader: Reader,
    pub connection: Connection,
    kept: [Vec<u8>; 2],
    pub parts: [Parts; 2],
}

impl Feeder {
    pub fn new(rules: Rules) -> Feeder {
        Feeder {
            reader: Reader::new(rules),
            connection: Connection::default(),
            kept: Default::default(),
            parts: Default::default(),
        }
    }

    /// More of a direction has come.
    pub fn feed(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), Fault> {
        let mut all = std::mem::take(&mut self.kept[kind as usize]);
        all.extend(bytes);
        let mut at = 0;
        while let Step::Piece(piece, len) =
            self.reader.step(&mut self.connection, kind, &all[at..])?
        {
            assert!(len > 0 || piece == Piece::End, "{piece:?} of nothing");
            assert!(len <= all.len() - at, "more than there was");
            let part = match piece {
                Piece::Head => Part::Head,
                Piece::Body { .. } => Part::Body,
                Piece::Framing | Piece::Extension => Part::Framing,
                Piece::Trailer => Part::Trailer,
                Piece::End => Part::End,
                Piece::Opaque => Part::Opaque,
            };
            append(&mut self.parts[kind as usize], part, &all[at..at + len]);
            at += len;
        }
        self.kept[kind as usize] = all.split_off(at);
        Ok(())
    }

    /// Nothing more of a direction comes.
    pub fn finish(&mut self, kind: Kind) -> Result<Finish, Fault> {
        let left = self.kept[kind as usize].len();
        let finish = self.reader.finish(&mut self.connection, kind, left)?;
        if finish == Finish::End {
            append(&mut self.parts[kind as usize], Part::End, b"");
        }
        Ok(finish)
    }

    /// The bodies of messages that are complete.
    pub fn bodies(&self, kind: Kind) -> Vec<Vec<u8>> {
        let (mut bodies, mut body) = (Vec::new(), Vec::new());
        for (part, bytes) in &self.parts[kind as usize] {
            match part {
                Part::Body => body.extend(bytes),
                Part::End => bodies.push(std::mem::take(&mut body)),
                _ => {}
            }
        }
        bodies
    }
}
