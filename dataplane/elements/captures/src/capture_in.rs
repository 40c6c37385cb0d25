//! A capture as a source of packets: what FromDump and capture ports share.

use thruway_element::{Cx, Pressing};
use thruway_packet::{Anno, LARGE_FRAME, Packet};
use thruway_port::capture::{CaptureReader, CapturedFrame, LinkType};

use super::encap;
use thruway_elements_support::traffic_profile::{PACKETS_MAX, TrafficProfile};

/// Least head room that a packet is made with; what is longer than this leaves has no frame.
const FRAME_MAX: usize = LARGE_FRAME - 128;

/// The result of reading the next record.
pub enum Taken {
    /// A packet, and what its first byte is.
    Packet(Packet, LinkType),
    /// No frame is that large.
    TooLong,
    /// Packet memory is used up.
    NoMemory,
    /// The capture is damaged, as this line says; nothing follows.
    Damage(String),
    /// There are no more.
    End,
}

/// A capture file and how far it has been read.
pub struct CaptureIn {
    path: String,
    reader: Option<CaptureReader>,
    /// Where the last packet's record started, in bytes.
    packet_at: u64,
    damaged: bool,
    pressing: Pressing,
}

/// A packet of a captured frame: bytes, time, what the capture left out.
#[inline]
fn packet_of(frame: &CapturedFrame<'_>) -> Option<Packet> {
    let mut packet = Packet::new(frame.bytes)?;
    packet.set_timestamp(i64::try_from(frame.timestamp_ns).unwrap_or(i64::MAX));
    packet.set_mac_offset(0);
    let left_out = (frame.wire_len as usize).saturating_sub(frame.bytes.len());
    if left_out > 0 {
        let noted = left_out.min(usize::from(u16::MAX)) as u32;
        packet.set_anno_number(Anno::EXTRA_LENGTH, noted);
    }
    Some(packet)
}

impl CaptureIn {
    /// The capture at `path`, not opened yet.
    pub fn new(path: String) -> CaptureIn {
        CaptureIn {
            path,
            reader: None,
            packet_at: 0,
            damaged: false,
            pressing: Pressing::default(),
        }
    }

    /// Whether an isolated function downstream cannot keep up: the file waits.
    pub fn is_pressed(&mut self, cx: &Cx<'_>) -> bool {
        self.pressing.is_felt(cx)
    }

    /// Opens the file unless it is open.
    pub fn open(&mut self) -> Result<&mut CaptureReader, String> {
        if self.reader.is_none() {
            let reader = CaptureReader::open(&self.path).map_err(|error| error.to_string())?;
            self.reader = Some(reader);
        }
        self.reader.as_mut().ok_or_else(|| format!("'{}' is not open", self.path))
    }

    /// Whether all that is known of the file's link type is among `wanted`.
    pub fn check_link(&mut self, wanted: &[LinkType]) -> Result<(), String> {
        let reader = self.open()?;
        match reader.link() {
            Some(link) => reader.check_link(link, wanted).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    /// Reads on to the next packet.
    #[inline]
    pub fn take(&mut self) -> Taken {
        let Some(reader) = &mut self.reader else { return Taken::End };
        self.packet_at = reader.byte_offset();
        match reader.next_frame() {
            Ok(Some(frame)) => match packet_of(&frame) {
                Some(packet) => Taken::Packet(packet, frame.link),
                None if frame.bytes.len() > FRAME_MAX => Taken::TooLong,
                None => Taken::NoMemory,
            },
            Ok(None) => Taken::End,
            Err(error) => {
                self.damaged = true;
                Taken::Damage(error.to_string())
            }
        }
    }

    /// Goes to byte `at` of the file, where a record must start.
    pub fn seek(&mut self, at: u64) -> Result<(), String> {
        if self.position() > at {
            self.reader = None;
        }
        self.open()?.skip_to(at).map_err(|error| error.to_string())
    }

    /// What the file's first packets are like, read anew; nothing of what is no plain file, for
    /// that can be read once only.
    pub fn traffic_profile(&self) -> TrafficProfile {
        let mut traffic_profile = TrafficProfile::default();
        if self.file_bytes().is_none() {
            return traffic_profile;
        }
        let Ok(mut reader) = CaptureReader::open(&self.path) else { return traffic_profile };
        while let Ok(Some(frame)) = reader.next_frame() {
            traffic_profile.add(frame.bytes);
            if traffic_profile.packets() == PACKETS_MAX {
                break;
            }
        }
        traffic_profile
    }

    /// The file's name as given.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The file's link type as `encap` handlers give it.
    pub fn encap(&mut self) -> Result<String, String> {
        Ok(self.open()?.link().map_or_else(|| "-".to_owned(), encap::name))
    }

    /// The file's length in bytes, if it is a plain file.
    pub fn file_bytes(&self) -> Option<u64> {
        let file = std::fs::metadata(&self.path).ok().filter(std::fs::Metadata::is_file);
        file.map(|file| file.len())
    }

    /// The file's length in bytes, or `-`.
    pub fn size(&self) -> String {
        self.file_bytes().map_or_else(|| "-".to_owned(), |bytes| bytes.to_string())
    }

    /// Byte of the file at which the next record starts.
    pub fn position(&self) -> u64 {
        self.reader.as_ref().map_or(0, CaptureReader::byte_offset)
    }

    /// Byte of the file at which the last packet's record started.
    pub fn packet_position(&self) -> u64 {
        self.packet_at
    }

    /// Whether the file was sound as far as it was read.
    pub fn finish(&self) -> Result<(), String> {
        match self.damaged {
            true => Err(format!("'{}' was read only up to where it is damaged", self.path)),
            false => Ok(()),
        }
    }
}
