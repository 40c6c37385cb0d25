//! The header between UDP and what travels: VXLAN-GPE or Geneve.

use thruway_element::reasons;
use thruway_flow::tags;
use thruway_wire::geneve::{self, GeneveHeader, GeneveOption, GeneveOptions};
use thruway_wire::vxlan_gpe::{self, VxlanGpeHeader};
use thruway_wire::{Defect, Header};

use crate::inner::{ethertype_of, number_of};

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overlay {
    /// draft-ietf-nvo3-vxlan-gpe.
    VxlanGpe,
    /// RFC 8926.
    Geneve,
}

/// The words of NETWORK, in the order of [`Overlay::ALL`].
pub(crate) const WORDS: &[&str] = &["vxlan-gpe", "geneve"];
/// Bytes of the option with the tag of a class: its header and a word with the tag in front.
const OPTION_LEN: usize = 4 + tags::OPTION_LEN;
/// The longest header that is written.
const LEN_MAX: usize = 8 + OPTION_LEN;
/// Largest network identifier.
pub(crate) const VNI_MAX: u32 = 0xff_ffff;

/// A header that was written.
pub(crate) struct Written {
    bytes: [u8; LEN_MAX],
    len: usize,
}

impl Written {
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A header that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Read {
    /// The network.
    pub(crate) vni: u32,
    /// Type of the payload, in NSH's numbers.
    pub(crate) number: u8,
    /// Tag of the class; 0 for none.
    pub(crate) tag: u16,
    /// Bytes of the header and its options.
    pub(crate) len: usize,
}

reasons! {
    /// Why a header is not taken.
    pub(crate) enum NoOverlay {
        Short = "truncated": "it ends before the header of NETWORK does",
        Version = "bad-version": "that header has another version than 0",
        Flags = "bad-flags": "that header has no network identifier",
        Oam = "oam": "it is an OAM packet, not a user's",
        Critical = "critical-option": "it has an option that a receiver must know, and this one does not",
        Option = "bad-option": "its options are cut",
        Protocol = "other-protocol": "its payload is not PROTOCOL",
    }
}

impl Overlay {
    pub(crate) const ALL: [Overlay; 2] = [Overlay::VxlanGpe, Overlay::Geneve];

    /// Its UDP port.
    pub(crate) fn port(self) -> u16 {
        match self {
            Overlay::VxlanGpe => vxlan_gpe::PORT,
            Overlay::Geneve => geneve::PORT,
        }
    }

    /// Bytes of the header with or without a tag.
    pub(crate) fn len(self, is_tagged: bool) -> usize {
        if is_tagged && self == Overlay::Geneve { LEN_MAX } else { 8 }
    }

    /// The header of a packet in network `vni` that carries what `number` of NSH stands for; of
    /// Geneve with the tag of a class, if there is one.
    #[inline]
    pub(crate) fn write(self, vni: u32, number: u8, tag: Option<u16>) -> Written {
        let mut bytes = [0; LEN_MAX];
        // There is room for all of it.
        let len = match (self, tag) {
            (Overlay::VxlanGpe, _) => {
                let _ = VxlanGpeHeader::new(vni, number).emit(&mut bytes);
                VxlanGpeHeader::LEN
            }
            (Overlay::Geneve, tag) => {
                let options_len = if tag.is_some() { OPTION_LEN } else { 0 };
                let header = GeneveHeader::new(vni, ethertype_of(number), options_len);
                if let Ok(rest) = header.and_then(|header| header.emit(&mut bytes))
                    && let Some(tag) = tag
                {
                    let value = &tag.to_be_bytes();
                    let option =
                        GeneveOption { class: tags::OPTION_CLASS, kind: tags::OPTION_KIND, value };
                    let _ = option.emit(rest);
                }
                GeneveHeader::LEN + options_len
            }
        };
        Written { bytes, len }
    }

    /// The header at the front of a datagram's payload.
    #[inline]
    pub(crate) fn read(self, bytes: &[u8]) -> Result<Read, NoOverlay> {
        let read = match self {
            Overlay::VxlanGpe => {
                let (header, _) = VxlanGpeHeader::parse(bytes).map_err(reason)?;
                if header.is_oam() {
                    return Err(NoOverlay::Oam);
                }
                let number = header.next_protocol();
                Read { vni: header.vni(), number, tag: 0, len: VxlanGpeHeader::LEN }
            }
            Overlay::Geneve => read_geneve(bytes)?,
        };
        Ok(read)
    }
}

#[inline]
fn read_geneve(bytes: &[u8]) -> Result<Read, NoOverlay> {
    let (header, options, _) = GeneveHeader::parse_with_options(bytes).map_err(reason)?;
    if header.is_oam() {
        return Err(NoOverlay::Oam);
    }
    let tag = tag(options)?;
    // A sender may set the bit alone; there are then no options to know (RFC 8926 section 3.4).
    let number = number_of(header.protocol()).ok_or(NoOverlay::Protocol)?;
    Ok(Read { vni: header.vni(), number, tag, len: GeneveHeader::LEN + options.len() })
}

/// The tag of a class among options.
#[inline]
fn tag(options: &[u8]) -> Result<u16, NoOverlay> {
    let mut tag = 0;
    for option in GeneveOptions::new(options) {
        let option = option.map_err(|_| NoOverlay::Option)?;
        match (option.class, option.kind, option.value) {
            (tags::OPTION_CLASS, tags::OPTION_KIND, &[a, b, ..]) => {
                tag = u16::from_be_bytes([a, b])
            }
            _ if option.is_critical() => return Err(NoOverlay::Critical),
            _ => {}
        }
    }
    Ok(tag)
}

fn reason(error: thruway_wire::ParseError) -> NoOverlay {
    match error.defect {
        Defect::BadVersion { .. } => NoOverlay::Version,
        Defect::BadField { .. } => NoOverlay::Flags,
        _ => NoOverlay::Short,
    }
}
