//! Writes captures: records gather in a buffer and go out whole.
//!
//! After any failure the file holds whole records only: what a full disk cut in two is cut off
//! again.

use super::{FileFormat, LinkType};
use crate::error::CaptureError;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

/// The buffer is written out when it holds this many bytes.
const FLUSH_LEN: usize = 256 * 1024;
/// The largest snapshot length that readers accept.
const SNAPLEN_MAX: u32 = 262_144;

/// The longest comment of a frame: its length has 16 bits.
const COMMENT_MAX: usize = 65_535;

/// Bytes that so many take where everything begins at a multiple of four.
fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

/// What to write.
#[derive(Debug, Clone, Copy)]
pub struct WriterOptions {
    /// The file's format.
    pub format: FileFormat,
    /// What the first byte of every frame is.
    pub link: LinkType,
    /// Bytes of a frame to keep; zero, or more than 262,144: that many.
    pub snaplen: u32,
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions { format: FileFormat::PcapMicro, link: LinkType::Ethernet, snaplen: 0 }
    }
}

/// Where the bytes go: a file can be cut back to a record's end, a pipe cannot.
enum Output {
    File(File),
    Stream(Box<dyn Write + Send>),
}

/// Writes a capture, buffered; flushed on drop ([`CaptureWriter::finish`] also reports failure).
pub struct CaptureWriter {
    output: Output,
    path: Arc<str>,
    format: FileFormat,
    snaplen: u32,
    buffer: Vec<u8>,
    /// Records in `buffer`.
    buffered: u64,
    /// Bytes and records that reached the output, whole records only.
    bytes: u64,
    records: u64,
    failure: Option<CaptureError>,
}

impl CaptureWriter {
    /// Creates the file at `path` (`-`: standard output) with its header.
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub fn create(path: &str, options: &WriterOptions) -> Result<CaptureWriter, CaptureError> {
        let not_created =
            |e| CaptureError::Open { action: "create", path: path.into(), source: Arc::new(e) };
        if path == "-" {
            // Past the standard library's line buffer, so that what is counted as written is; and a
            // stream even if it is a file, which may have had something in it before.
            let output = io::stdout().as_fd().try_clone_to_owned().map_err(not_created)?;
            return Self::from_write("standard output", File::from(output), options);
        }
        let file = File::create(path).map_err(not_created)?;
        // Cutting back is for regular files; a device or a named pipe is a stream.
        let regular = file.metadata().is_ok_and(|m| m.is_file());
        let output = if regular { Output::File(file) } else { Output::Stream(Box::new(file)) };
        Self::start(path.into(), output, options)
    }

    /// Writes a capture to anything; `name` stands for it in errors.
    ///
    /// # Errors
    /// The header cannot be written.
    pub fn from_write(
        name: &str,
        output: impl Write + Send + 'static,
        options: &WriterOptions,
    ) -> Result<CaptureWriter, CaptureError> {
        Self::start(name.into(), Output::Stream(Box::new(output)), options)
    }

    fn start(
        path: Arc<str>,
        output: Output,
        options: &WriterOptions,
    ) -> Result<CaptureWriter, CaptureError> {
        let snaplen = match options.snaplen {
            0 => SNAPLEN_MAX,
            n => n.min(SNAPLEN_MAX),
        };
        let mut writer = CaptureWriter {
            output,
            path,
            format: options.format,
            snaplen,
            buffer: Vec::with_capacity(FLUSH_LEN + 4096),
            buffered: 0,
            bytes: 0,
            records: 0,
            failure: None,
        };
        writer.header(options.link);
        // The header goes out at once: a reader at the other end of a pipe can start.
        writer.flush()?;
        Ok(writer)
    }

    fn header(&mut self, link: LinkType) {
        let link = link.number();
        if self.format == FileFormat::Pcapng {
            // Section header: byte-order magic, version 1.0, length unknown.
            self.words(&[0x0A0D_0D0A, 28, 0x1A2B_3C4D, 1, u32::MAX, u32::MAX, 28]);
            // Interface, with if_tsresol (option 9, one byte) = 9: nanoseconds.
            let options = [9 | 1 << 16, 9, 0];
            self.words(&[1, 32, u32::from(link), self.snaplen]);
            self.words(&options);
            self.words(&[32]);
        } else {
            let magic = if self.format == FileFormat::PcapNano { 0xA1B2_3C4D } else { 0xA1B2_C3D4 };
            // Version 2.4, no time zone, no accuracy.
            self.words(&[magic, 2 | 4 << 16, 0, 0, self.snaplen, u32::from(link)]);
        }
    }

    fn words(&mut self, words: &[u32]) {
        for word in words {
            self.buffer.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Writes one frame of `wire_len` bytes on the wire, cut at the snapshot length.
    ///
    /// # Errors
    /// [`CaptureError::Write`], from the first failure on at every call.
    pub fn write(
        &mut self,
        timestamp_ns: u64,
        bytes: &[u8],
        wire_len: u32,
    ) -> Result<(), CaptureError> {
        self.write_commented(timestamp_ns, bytes, wire_len, "")
    }

    /// Writes one frame with a comment, which formats other than pcapng leave out; of a long
    /// comment the first 65,535 bytes are kept.
    ///
    /// # Errors
    /// As [`CaptureWriter::write`].
    pub fn write_commented(
        &mut self,
        timestamp_ns: u64,
        bytes: &[u8],
        wire_len: u32,
        comment: &str,
    ) -> Result<(), CaptureError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let kept = &bytes[..bytes.len().min(self.snaplen as usize)];
        let len = kept.len() as u32;
        let wire_len = wire_len.max(len);
        if self.format == FileFormat::Pcapng {
            let comment = &comment.as_bytes()[..comment.floor_char_boundary(COMMENT_MAX)];
            let options = if comment.is_empty() { 0 } else { 8 + padded(comment.len()) };
            let block_len = (32 + padded(kept.len()) + options) as u32;
            let (high, low) = ((timestamp_ns >> 32) as u32, timestamp_ns as u32);
            self.words(&[6, block_len, 0, high, low, len, wire_len]);
            self.padded(kept);
            if !comment.is_empty() {
                // opt_comment (1), then opt_endofopt (0).
                self.words(&[1 | (comment.len() as u32) << 16]);
                self.padded(comment);
                self.words(&[0]);
            }
            self.words(&[block_len]);
        } else {
            let unit_ns = if self.format == FileFormat::PcapNano { 1 } else { 1000 };
            let seconds = u32::try_from(timestamp_ns / 1_000_000_000).unwrap_or(u32::MAX);
            let fraction = (timestamp_ns % 1_000_000_000 / unit_ns) as u32;
            self.words(&[seconds, fraction, len, wire_len]);
            self.buffer.extend_from_slice(kept);
        }
        self.buffered += 1;
        if self.buffer.len() >= FLUSH_LEN { self.flush() } else { Ok(()) }
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        self.buffer.extend_from_slice(&[0; 3][..padded(bytes.len()) - bytes.len()]);
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// [`CaptureError::Write`].
    pub fn flush(&mut self) -> Result<(), CaptureError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let mut written = 0;
        while written < self.buffer.len() {
            match self.output.write(&self.buffer[written..]) {
                Ok(0) => return self.fail(written, ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return self.fail(written, e),
            }
        }
        self.bytes += written as u64;
        self.records += self.buffered;
        self.buffered = 0;
        self.buffer.clear();
        self.output.flush().or_else(|e| self.fail(0, e))
    }

    /// Keeps of the `written` bytes of the buffer the whole records, and remembers the failure.
    fn fail(&mut self, written: usize, source: io::Error) -> Result<(), CaptureError> {
        let (whole, records) = self.whole_records(written);
        self.bytes += whole as u64;
        self.records += records;
        if let Output::File(file) = &mut self.output {
            // Freeing space cannot fail for want of space; if it fails all the same, readers stop
            // at the cut record, as they do with any file that is cut off.
            let _ = file.set_len(self.bytes);
        }
        let failure = CaptureError::Write {
            path: self.path.clone(),
            bytes: self.bytes,
            records: self.records,
            source: Arc::new(source),
        };
        self.buffer.clear();
        self.buffered = 0;
        self.failure = Some(failure.clone());
        Err(failure)
    }

    /// Bytes and records of the whole records within the first `written` bytes of the buffer.
    fn whole_records(&self, written: usize) -> (usize, u64) {
        if self.bytes == 0 {
            // The buffer holds the file's header, and half a header is no capture.
            return (if written == self.buffer.len() { written } else { 0 }, 0);
        }
        let (mut whole, mut records) = (0, 0);
        while whole < written {
            let length_at = if self.format == FileFormat::Pcapng { 4 } else { 8 };
            let field = &self.buffer[whole + length_at..][..4];
            let length = u32::from_le_bytes([field[0], field[1], field[2], field[3]]) as usize;
            let len = if self.format == FileFormat::Pcapng { length } else { 16 + length };
            if whole + len > written {
                break;
            }
            whole += len;
            records += 1;
        }
        (whole, records)
    }

    /// Writes out what is buffered and closes the file.
    ///
    /// # Errors
    /// [`CaptureError::Write`], also of an earlier failure.
    pub fn finish(mut self) -> Result<(), CaptureError> {
        self.flush()
    }

    /// Records that reached the output or the buffer.
    pub fn record_count(&self) -> u64 {
        self.records + self.buffered
    }
}

impl Drop for CaptureWriter {
    fn drop(&mut self) {
        // A caller that needs the error calls `finish`.
        let _ = self.flush();
    }
}

impl Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::File(file) => file.write(bytes),
            Output::Stream(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::File(file) => file.flush(),
            Output::Stream(stream) => stream.flush(),
        }
    }
}
