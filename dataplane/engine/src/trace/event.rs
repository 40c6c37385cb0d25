//! Events of a traced packet.

use std::fmt::Write as _;

use thruway_packet::{Anno, Packet};

use crate::layout::Layout;

/// Bytes of a packet that are kept at each place.
pub const SHOT_MAX: usize = 256;

/// An event of a packet at an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// It came by this input.
    In(u32),
    /// It left by this output; a copy appears so.
    Out(u32),
    /// It was dropped for this reason.
    Dropped(u8),
    /// The reason was counted, and the packet not dropped: it left by another output than usual.
    Counted(u8),
    /// It ended here among other packets, some of which were dropped for this reason.
    PerhapsDropped(u8),
    /// It ended here: sent, freed, or put into another.
    Ended,
    /// The element keeps it.
    Kept,
    /// So many packets that are not followed left because of it.
    Others(u32),
}

/// A packet at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Shot {
    len: u32,
    /// Where it begins in its frame, and which frame that is.
    start: u32,
    frame: u64,
    /// Where its headers begin, relative to its first byte.
    mac: Option<isize>,
    network: Option<isize>,
    transport: Option<isize>,
    fcb: u32,
    anno: [u8; Anno::SPACE],
    kept: u16,
    bytes: [u8; SHOT_MAX],
}

impl Shot {
    pub(crate) fn of(packet: &Packet) -> Shot {
        let data = packet.data();
        let mut shot = Shot {
            len: data.len() as u32,
            start: packet.headroom() as u32,
            frame: data.as_ptr().addr().wrapping_sub(packet.headroom()) as u64,
            mac: packet.mac_offset(),
            network: packet.network_signed_offset(),
            transport: packet.transport_signed_offset(),
            fcb: packet.fcb(),
            anno: [0; Anno::SPACE],
            kept: data.len().min(SHOT_MAX) as u16,
            bytes: [0; SHOT_MAX],
        };
        let all = Anno { offset: 0, size: Anno::SPACE as u8 };
        shot.anno.copy_from_slice(packet.anno(all));
        let kept = usize::from(shot.kept);
        shot.bytes[..kept].copy_from_slice(&data[..kept]);
        shot
    }

    /// `LEN START FRAME MAC NETWORK TRANSPORT FCB ANNOTATIONS BYTES`; frames, annotations and bytes
    /// in hexadecimal, `-` where a header is not marked or there are no bytes.
    fn write(&self, line: &mut String) {
        let _ = write!(line, "\t{}\t{}\t{:x}", self.len, self.start, self.frame);
        for place in [self.mac, self.network, self.transport] {
            let _ = match place {
                Some(at) => write!(line, "\t{at}"),
                None => write!(line, "\t-"),
            };
        }
        let _ = write!(line, "\t{}\t", self.fcb);
        hex(line, &self.anno);
        line.push('\t');
        match &self.bytes[..usize::from(self.kept)] {
            [] => line.push('-'),
            bytes => hex(line, bytes),
        }
    }
}

fn hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
}

/// One line of a trace.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// Cycle counter when it was written down.
    pub cycles: u64,
    /// Number of the packet, and of that which it is a copy of (0 for none).
    pub packet: u64,
    pub parent: u64,
    /// Element index.
    pub node: u32,
    pub what: What,
    /// The packet's contents, while it was there.
    pub shot: Option<Shot>,
}

impl Event {
    /// `event THREAD CYCLES PACKET PARENT NAME CLASS WHAT DETAIL [SHOT]`, separated by tabs.
    pub(crate) fn write(&self, layout: &Layout, thread: usize, text: &mut String) {
        let Some(decl) = layout.graph.elements.get(self.node as usize) else { return };
        let reason =
            |at: u8| decl.spec.reasons().nth(usize::from(at)).map_or("?", |drop| drop.name);
        let (what, detail) = match self.what {
            What::In(port) => ("in", port.to_string()),
            What::Out(port) => ("out", port.to_string()),
            What::Dropped(at) => ("dropped", reason(at).to_owned()),
            What::Counted(at) => ("counted", reason(at).to_owned()),
            What::PerhapsDropped(at) => ("perhaps-dropped", reason(at).to_owned()),
            What::Ended => ("ended", "-".to_owned()),
            What::Kept => ("kept", "-".to_owned()),
            What::Others(count) => ("others", count.to_string()),
        };
        let _ = write!(
            text,
            "event\t{thread}\t{}\t{}\t{}\t{}\t{}\t{what}\t{detail}",
            self.cycles, self.packet, self.parent, decl.name, decl.class
        );
        if let Some(shot) = &self.shot {
            shot.write(text);
        }
        text.push('\n');
    }
}
