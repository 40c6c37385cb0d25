//! Captures: pcap and pcapng files, read as streams, loaded whole, and written.
//!
//! The reader is this crate's own: exact offsets in its errors, no allocation that a file's claims
//! could drive, and frames borrowed from the read buffer. (pcap-parser is the oracle of its tests.)

mod linktype;
mod pcap;
mod pcapng;
mod source;
mod step;
mod trace;
mod writer;

pub use linktype::LinkType;
pub use trace::Trace;
pub use writer::{CaptureWriter, WriterOptions};

use crate::error::CaptureError;
use pcap::Pcap;
use pcapng::Pcapng;
use source::Source;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use step::{Located, Step};

/// A capture file's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// pcap with microseconds.
    PcapMicro,
    /// pcap with nanoseconds.
    PcapNano,
    /// pcapng.
    Pcapng,
}

/// A frame of a capture, borrowed from the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturedFrame<'a> {
    /// The bytes that were captured.
    pub bytes: &'a [u8],
    /// Length on the wire, in bytes, as the capture claims: not less than captured in a sane one.
    pub wire_len: u32,
    /// Nanoseconds since 1970; zero in a pcapng simple packet block, which carries no time.
    pub timestamp_ns: u64,
    /// What the first byte is.
    pub link: LinkType,
    /// Interface of the section (pcapng), or zero.
    pub interface: u32,
}

enum Format {
    Pcap(Pcap, FileFormat),
    Pcapng(Pcapng),
}

/// Reads a capture frame by frame.
pub struct CaptureReader {
    source: Source,
    format: Format,
    /// Frames delivered.
    record: u64,
    /// Bytes after the last frame that belong to its record.
    padding: usize,
    finished: bool,
}

impl CaptureReader {
    /// Opens the capture at `path`, or standard input for `-`.
    ///
    /// # Errors
    /// The file cannot be read, is not a capture, or is cut off or damaged before its first frame.
    pub fn open(path: &str) -> Result<CaptureReader, CaptureError> {
        if path == "-" {
            return Self::from_read("standard input", std::io::stdin());
        }
        match File::open(path) {
            Ok(file) => Self::from_read(path, file),
            Err(e) => {
                Err(CaptureError::Open { action: "open", path: path.into(), source: Arc::new(e) })
            }
        }
    }

    /// Reads a capture from anything; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`CaptureReader::open`].
    pub fn from_read(
        name: &str,
        input: impl Read + Send + 'static,
    ) -> Result<CaptureReader, CaptureError> {
        let mut source = Source::new(name.into(), Box::new(input));
        let format = recognise(&mut source)?;
        let mut reader = CaptureReader { source, format, record: 0, padding: 0, finished: false };
        reader.find_first_interface()?;
        Ok(reader)
    }

    /// pcapng: reads up to the first interface, so that [`CaptureReader::link`] can answer.
    fn find_first_interface(&mut self) -> Result<(), CaptureError> {
        let Format::Pcapng(section) = &mut self.format else { return Ok(()) };
        while section.link().is_none() {
            // A packet before an interface is an error, so no frame can be lost here.
            if let Step::End = section.step(&mut self.source, 0)? {
                self.finished = true;
                break;
            }
        }
        Ok(())
    }

    /// The next frame; `None` at the end, and after an error.
    ///
    /// # Errors
    /// [`CaptureError::Truncated`], [`CaptureError::Malformed`] or [`CaptureError::Read`]; every
    /// frame before was delivered.
    pub fn next_frame(&mut self) -> Result<Option<CapturedFrame<'_>>, CaptureError> {
        if self.finished {
            return Ok(None);
        }
        match self.step() {
            Ok(Some(frame)) => {
                self.record += 1;
                self.padding = frame.padding;
                let Located { len, wire_len, timestamp_ns, link, interface, .. } = frame;
                let bytes = self.source.take(len);
                Ok(Some(CapturedFrame { bytes, wire_len, timestamp_ns, link, interface }))
            }
            other => {
                self.finished = true;
                other.map(|_| None)
            }
        }
    }

    fn step(&mut self) -> Result<Option<Located>, CaptureError> {
        // The format's step made sure that a whole block was at hand, its padding included.
        self.source.take(std::mem::take(&mut self.padding));
        loop {
            let step = match &mut self.format {
                Format::Pcap(pcap, _) => pcap.step(&mut self.source, self.record)?,
                Format::Pcapng(section) => section.step(&mut self.source, self.record)?,
            };
            match step {
                Step::Frame(frame) => return Ok(Some(frame)),
                Step::Other => {}
                Step::End => return Ok(None),
            }
        }
    }

    /// The format of the file.
    pub fn format(&self) -> FileFormat {
        match &self.format {
            Format::Pcap(_, format) => *format,
            Format::Pcapng(_) => FileFormat::Pcapng,
        }
    }

    /// The link type of the file, or of the first interface of the section being read; `None` for a
    /// pcapng file without any.
    pub fn link(&self) -> Option<LinkType> {
        match &self.format {
            Format::Pcap(pcap, _) => Some(pcap.link),
            Format::Pcapng(section) => section.link(),
        }
    }

    /// Frames delivered so far.
    pub fn frame_count(&self) -> u64 {
        self.record
    }

    /// Bytes of the file consumed so far: for progress.
    pub fn byte_offset(&self) -> u64 {
        self.source.offset()
    }

    /// Moves on to byte `offset` of the file, which must be where a record starts: nobody can check
    /// that, and elsewhere garbage is read. Offsets already passed are left alone.
    ///
    /// # Errors
    /// [`CaptureError::Read`].
    pub fn skip_to(&mut self, offset: u64) -> Result<(), CaptureError> {
        self.source.take(std::mem::take(&mut self.padding));
        let distance = offset.saturating_sub(self.source.offset());
        self.source.skip(distance).map(|_| ())
    }

    /// Whether `link` is among `wanted`.
    ///
    /// # Errors
    /// [`CaptureError::LinkType`], which names the file, the type and the types that would do.
    pub fn check_link(&self, link: LinkType, wanted: &[LinkType]) -> Result<(), CaptureError> {
        if wanted.contains(&link) {
            return Ok(());
        }
        let names: Vec<String> = wanted.iter().map(LinkType::to_string).collect();
        let path = self.source.path.clone();
        Err(CaptureError::LinkType { path, link, wanted: names.join(", ") })
    }
}

/// Distinguishes the formats by their first four bytes.
fn recognise(source: &mut Source) -> Result<Format, CaptureError> {
    let present = source.fill(4)?;
    let first = source.peek(present);
    if let Ok(bytes) = <[u8; 4]>::try_from(first) {
        if let Some(magic) = pcap::magic(bytes) {
            let format = if magic.1 == 1 { FileFormat::PcapNano } else { FileFormat::PcapMicro };
            return Ok(Format::Pcap(Pcap::open(source, magic)?, format));
        }
        if u32::from_be_bytes(bytes) == pcapng::SECTION {
            return Ok(Format::Pcapng(Pcapng::new()));
        }
    }
    let first = match first {
        [] => "no bytes at all".to_owned(),
        bytes => bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" "),
    };
    Err(CaptureError::NotACapture { path: source.path.clone(), first })
}

impl Source {
    /// The error of a record that starts where the source stands.
    fn truncated(&self, record: u64, needed: u64, present: u64) -> CaptureError {
        let (path, offset) = (self.path.clone(), self.offset());
        CaptureError::Truncated { path, record, offset, needed, present }
    }

    /// The error of a record that starts where the source stands.
    fn malformed(&self, record: u64, what: &'static str) -> CaptureError {
        CaptureError::Malformed { path: self.path.clone(), record, offset: self.offset(), what }
    }
}

#[cfg(test)]
mod tests;
