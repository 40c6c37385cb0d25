//! Capture files: what is read does not depend on the pieces in which it comes, and what was read
//! can be written and read again.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use thruway_port::capture::{CaptureReader, CaptureWriter, FileFormat, WriterOptions};

/// A frame: bytes, length on the wire, time.
type Frame = (Vec<u8>, u32, u64);

/// A file that comes in pieces.
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    len: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let rest = &self.bytes[self.at..];
        let len = rest.len().min(self.len).min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        self.at += len;
        Ok(len)
    }
}

/// A file that stays in memory.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().map(|mut written| written.extend_from_slice(bytes)).expect("one thread");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// All frames of a file that comes in pieces of `len` bytes, and what was wrong at its end.
fn read(bytes: &[u8], len: usize) -> (Vec<Frame>, Option<String>) {
    let pieces = Pieces { bytes: bytes.to_vec(), at: 0, len };
    let mut reader = match CaptureReader::from_read("fuzz", pieces) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error.to_string())),
    };
    let mut frames = Vec::new();
    loop {
        match reader.next_frame() {
            Ok(Some(frame)) => {
                frames.push((frame.bytes.to_vec(), frame.wire_len, frame.timestamp_ns));
            }
            Ok(None) => return (frames, None),
            Err(error) => return (frames, Some(error.to_string())),
        }
    }
}

/// See the module. The first byte is the length of pieces.
pub fn run(bytes: &[u8]) {
    let Some((len, bytes)) = bytes.split_first() else { return };
    let (frames, wrong) = read(bytes, usize::MAX);
    let again = read(bytes, usize::from(*len).max(1));
    assert_eq!((&frames, &wrong), (&again.0, &again.1), "in pieces of {len}");
    if frames.is_empty() {
        return;
    }
    let written = Written::default();
    let options = WriterOptions { format: FileFormat::Pcapng, ..WriterOptions::default() };
    let mut writer =
        CaptureWriter::from_write("fuzz", written.clone(), &options).expect("memory takes all");
    for (frame, wire_len, timestamp_ns) in &frames {
        writer.write(*timestamp_ns, frame, *wire_len).expect("memory takes all");
    }
    writer.finish().expect("memory takes all");
    let bytes = written.0.lock().expect("one thread").clone();
    let (back, wrong) = read(&bytes, usize::MAX);
    assert_eq!(wrong, None);
    assert_eq!(back.len(), frames.len());
    for (back, frame) in back.iter().zip(&frames) {
        assert_eq!((&back.0, back.2), (&frame.0, frame.2));
    }
}
