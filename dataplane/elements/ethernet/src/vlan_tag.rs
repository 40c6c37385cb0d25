//! What the elements that deal with VLAN tags have in common: which tag a packet gets, and putting
//! it there and taking it off.

use thruway_element::{
    ArgError, Args, Arguments, FromArg, HandlerError, Handlers, Ty, handler_value,
};
use thruway_packet::{Anno, Packet};
use thruway_wire::vlan::tci;

/// Largest VLAN identifier; this one is reserved.
pub(super) const MAX_ID: u16 = 0xfff;
/// Largest priority code point.
const MAX_PCP: u8 = 7;

/// Puts a tag behind the two addresses that the packet, of 12 bytes or more, begins with; false,
/// and nothing changed, when packet memory is used up.
#[inline]
#[must_use]
pub(super) fn put_tag(packet: &mut Packet, ethertype: u16, tci: u16) -> bool {
    if !packet.push(4) {
        return false;
    }
    let data = packet.data_mut();
    data.copy_within(4..16, 0);
    data[12..14].copy_from_slice(&ethertype.to_be_bytes());
    data[14..16].copy_from_slice(&tci.to_be_bytes());
    packet.set_mac_offset(0);
    true
}

/// The control information of the tag of this type that the frame has.
#[inline]
pub(super) fn tag_of(packet: &Packet, ethertype: u16) -> Option<u16> {
    let front = packet.data().first_chunk::<18>()?;
    let is_tag = front[12..14] == ethertype.to_be_bytes();
    is_tag.then(|| u16::from_be_bytes([front[14], front[15]]))
}

/// Takes a tag of this type off and gives its control information.
#[inline]
pub(super) fn take_tag(packet: &mut Packet, ethertype: u16) -> Option<u16> {
    let tci = tag_of(packet, ethertype)?;
    packet.data_mut().copy_within(0..12, 4);
    // There are 18 bytes.
    let _ = packet.pull(4);
    packet.set_mac_offset(0);
    Some(tci)
}

/// A tag by arguments, which handlers may change.
#[derive(Debug, Clone, Copy, Arguments, Handlers)]
pub(super) struct TagChoice {
    /// `None`: that of the annotation.
    #[arg(optional, name = "VLAN_TCI", unread, ty = Ty::Any, "control information, or ANNO")]
    #[arg(
        optional, name = "VLAN_PCP", value = u8, via = pcp, or = "0", "priority code point, 0 to 7"
    )]
    #[arg(
        keyword, name = "VLAN_ID", value = Option<u16>, via = id,
        "VLAN identifier, in place of VLAN_TCI"
    )]
    #[new(fixed(args, vlan_pcp, vlan_id, true)?)]
    #[handler(
        both, name = "vlan_tci", "control information, or ANNO",
        get = self.tci_text(), write = self.write_tci(value)
    )]
    #[handler(
        both, name = "vlan_id", "VLAN identifier",
        get = (self.fixed() & MAX_ID), write = self.write_id(value)
    )]
    #[handler(
        both, name = "vlan_pcp", "priority code point",
        get = (self.fixed() >> 13), write = self.write_pcp(value)
    )]
    fixed: Option<u16>,
    /// The VLAN identifier of packets that go untagged.
    #[arg(
        keyword, name = "NATIVE_VLAN", via = native, or = "0",
        "identifier that has no tag; -1 for none"
    )]
    #[handler(
        both, name = "native_vlan", "identifier that has no tag; -1 for none",
        get = self.native.map_or("-1".to_owned(), |id| id.to_string())
    )]
    native: Option<u16>,
}

/// VLAN_PCP, in range.
pub(super) fn pcp(value: u8) -> Result<u8, String> {
    at_most(value, MAX_PCP)
}

/// VLAN_ID, in range.
pub(super) fn id(value: u16) -> Result<u16, String> {
    at_most(value, MAX_ID)
}

/// The tag by VLAN_TCI, VLAN_PCP and VLAN_ID; `None` for that of the annotation, which it may be
/// `by_anno`.
pub(super) fn fixed(
    args: &Args<'_>,
    pcp: u8,
    id: Option<u16>,
    by_anno: bool,
) -> Result<Option<u16>, ArgError> {
    if id.is_some() && args.given("VLAN_TCI") {
        return Err(args.error("VLAN_ID", "cannot be given together with VLAN_TCI"));
    }
    Ok(match args.text("VLAN_TCI") {
        Some("ANNO") if by_anno => None,
        Some(_) => Some(args.get::<u16>("VLAN_TCI")? | tci(pcp, false, 0)),
        None => Some(tci(pcp, false, id.unwrap_or(0))),
    })
}

fn at_most<T: PartialOrd + std::fmt::Display>(value: T, max: T) -> Result<T, String> {
    if value <= max { Ok(value) } else { Err(format!("out of range; it must be from 0 to {max}")) }
}

/// -1 for none, or an identifier.
pub(super) fn native(value: i32) -> Result<Option<u16>, String> {
    match u16::try_from(value) {
        Ok(id @ 0..=MAX_ID) => Ok(Some(id)),
        _ if value == -1 => Ok(None),
        _ => Err("out of range; it must be from -1 to 4095".to_owned()),
    }
}

impl TagChoice {
    /// The same tag for all packets, or that of the annotation.
    pub(super) fn new(fixed: Option<u16>) -> TagChoice {
        TagChoice { fixed, native: None }
    }

    /// The tag's control information for this packet; `None` where it goes without.
    #[inline]
    pub(super) fn of(&self, packet: &Packet) -> Option<u16> {
        let tci = self.fixed.unwrap_or_else(|| packet.anno_number(Anno::VLAN_TCI) as u16);
        (Some(tci & MAX_ID) != self.native).then_some(tci)
    }

    /// The tag that does not depend on the packet; 0 where it does.
    pub(super) fn fixed(&self) -> u16 {
        self.fixed.unwrap_or(0)
    }

    pub(super) fn tci_text(&self) -> String {
        self.fixed.map_or("ANNO".to_owned(), |tci| tci.to_string())
    }

    pub(super) fn write_tci(&mut self, value: &str) -> Result<(), HandlerError> {
        self.fixed = match value.trim() {
            "ANNO" => None,
            _ => Some(handler_value("vlan_tci", value)?),
        };
        Ok(())
    }

    pub(super) fn write_id(&mut self, value: &str) -> Result<(), HandlerError> {
        self.fixed = Some(self.fixed() & !MAX_ID | bounded("vlan_id", value, id)?);
        Ok(())
    }

    pub(super) fn write_pcp(&mut self, value: &str) -> Result<(), HandlerError> {
        let pcp = u16::from(bounded("vlan_pcp", value, pcp)?);
        self.fixed = Some(self.fixed() & 0x1fff | pcp << 13);
        Ok(())
    }
}

/// A handler's value, if `check` lets it be.
fn bounded<T: FromArg>(
    name: &str,
    value: &str,
    check: fn(T) -> Result<T, String>,
) -> Result<T, HandlerError> {
    let refused = |why| HandlerError::refused(format!("{name}: {why}"));
    check(handler_value(name, value)?).map_err(refused)
}
