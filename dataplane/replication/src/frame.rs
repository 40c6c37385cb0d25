//! Frames of an authenticated stream.
//!
//! ```text
//! length of what follows (4) | kind (1) | sequence number (8) | payload | HMAC-SHA-256 (32)
//! ```
//!
//! The sequence number of a direction's first frame is 0, and each next one has one more. What does
//! not fit ends the stream: a new one begins with all sessions.

use ring::hmac;

/// Most bytes of a frame's payload.
pub const PAYLOAD_MAX: usize = 32 << 10;
const HEAD: usize = 4 + 1 + 8;
const TAG: usize = 32;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Of the host that connects: its standing, and its chain as text.
    Hello = 1,
    /// The other host's standing: it agrees to a stream.
    Welcome = 2,
    /// The other host's standing, and why it does not.
    Refusal = 3,
    /// Records.
    Batch = 4,
    /// Records of this number have been installed or refused so far.
    Acknowledged = 5,
    /// The number of the present term.
    Term = 6,
    /// Packets that came to a host that no longer serves them.
    Packets = 7,
    /// What a host asks of the witness.
    Claim = 8,
    /// What the witness answers.
    Verdict = 9,
    /// A sign of life: when it was sent, and the last one that came from the other host.
    Beat = 10,
}

impl Kind {
    fn of_number(number: u8) -> Option<Kind> {
        use Kind::{
            Acknowledged, Batch, Beat, Claim, Hello, Packets, Refusal, Term, Verdict, Welcome,
        };
        let all =
            [Hello, Welcome, Refusal, Batch, Acknowledged, Term, Packets, Claim, Verdict, Beat];
        all.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// Why a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// It cannot be so long.
    #[error("a frame of {0} bytes; at most {max} are allowed", max = HEAD + PAYLOAD_MAX + TAG)]
    Length(u64),
    /// The tag is not that of this key and stream.
    #[error(
        "a frame that the other host's key did not sign: forged, replayed, or the KEY files differ; \
         copy one host's to the other"
    )]
    Forged,
    /// A frame is missing, or came twice.
    #[error("frame {0} came in the place of frame {1}")]
    Sequence(u64, u64),
    /// A kind that there is not.
    #[error("a frame of kind {0}, which there is not: run the same release on both hosts")]
    Kind(u8),
}

/// A frame that was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is for.
    pub kind: Kind,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// Writes the frames of one direction.
pub struct FrameWriter {
    key: hmac::Key,
    next: u64,
}

impl FrameWriter {
    /// Of a direction's key.
    pub fn new(key: hmac::Key) -> FrameWriter {
        FrameWriter { key, next: 0 }
    }

    /// Appends a frame.
    ///
    /// # Panics
    /// The payload is longer than [`PAYLOAD_MAX`].
    pub fn write(&mut self, kind: Kind, payload: &[u8], out: &mut Vec<u8>) {
        assert!(payload.len() <= PAYLOAD_MAX, "a payload of {} bytes", payload.len());
        let begin = out.len();
        let len = (HEAD - 4 + payload.len() + TAG) as u32;
        out.extend_from_slice(&len.to_be_bytes());
        out.push(kind as u8);
        out.extend_from_slice(&self.next.to_be_bytes());
        out.extend_from_slice(payload);
        let tag = hmac::sign(&self.key, &out[begin..]);
        out.extend_from_slice(tag.as_ref());
        self.next += 1;
    }
}

/// Reads the frames of one direction, from bytes as they come.
pub struct FrameReader {
    key: hmac::Key,
    next: u64,
    bytes: Vec<u8>,
}

impl FrameReader {
    /// Of a direction's key.
    pub fn new(key: hmac::Key) -> FrameReader {
        FrameReader { key, next: 0, bytes: Vec::new() }
    }

    /// Adds bytes that came. To be followed by calls of [`FrameReader::read`] until it gives none:
    /// then less than a frame is kept.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame, if it is there as a whole.
    ///
    /// # Errors
    /// The stream is not to be read any further.
    pub fn read(&mut self) -> Result<Option<Frame>, StreamError> {
        let Some(len) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let len = 4 + u64::from(u32::from_be_bytes(*len));
        if !((HEAD + TAG) as u64..=(HEAD + PAYLOAD_MAX + TAG) as u64).contains(&len) {
            return Err(StreamError::Length(len));
        }
        let len = len as usize;
        let Some(frame) = self.bytes.get(..len) else { return Ok(None) };
        let (signed, tag) = frame.split_at(len - TAG);
        hmac::verify(&self.key, signed, tag).map_err(|_| StreamError::Forged)?;
        let [_, _, _, _, kind, a, b, c, d, e, f, g, h, payload @ ..] = signed else {
            return Err(StreamError::Length(len as u64));
        };
        let number = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
        if number != self.next {
            return Err(StreamError::Sequence(number, self.next));
        }
        let kind = Kind::of_number(*kind).ok_or(StreamError::Kind(*kind))?;
        let payload = payload.to_vec();
        self.bytes.drain(..len);
        self.next += 1;
        Ok(Some(Frame { kind, payload }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use proptest::prelude::*;

    fn ends(stream: u8) -> (FrameWriter, FrameReader) {
        let key = Key::of_bytes(b"0123456789abcdef").of_stream("active", [&[stream], &[1]]);
        (FrameWriter::new(key.clone()), FrameReader::new(key))
    }

    proptest! {
        #[test]
        fn frames_come_whole_however_bytes_come(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..99), 0..9),
            piece in 1usize..99,
        ) {
            let (mut writer, mut reader) = ends(0);
            let mut bytes = Vec::new();
            payloads.iter().for_each(|payload| writer.write(Kind::Batch, payload, &mut bytes));
            let mut read = Vec::new();
            for piece in bytes.chunks(piece) {
                reader.add(piece);
                while let Some(frame) = reader.read().unwrap() {
                    read.push(frame.payload);
                }
            }
            prop_assert_eq!(read, payloads);
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let (_, mut reader) = ends(0);
            reader.add(&bytes);
            prop_assert!(!matches!(reader.read(), Ok(Some(_))));
        }
    }

    #[test]
    fn what_others_sent_is_refused() {
        let mut bytes = Vec::new();
        ends(0).0.write(Kind::Batch, b"sessions", &mut bytes);
        let read = |stream, bytes: &[u8]| {
            let mut reader = ends(stream).1;
            reader.add(bytes);
            reader.read().and_then(|_| reader.read())
        };
        assert_eq!(read(0, &bytes), Ok(None));
        assert_eq!(read(1, &bytes), Err(StreamError::Forged), "of another stream");
        let twice = [&bytes[..], &bytes[..]].concat();
        assert_eq!(read(0, &twice), Err(StreamError::Sequence(0, 1)));
        for at in 4..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(read(0, &changed), Err(StreamError::Forged), "byte {at}");
        }
        assert_eq!(read(0, &[0xff; 64]), Err(StreamError::Length(0x1_0000_0003)));
    }
}
