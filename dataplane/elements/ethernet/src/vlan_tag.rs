//! What the elements that deal with VLAN tags have in common: which tag a packet gets, and putting
//! it there and taking it off.

use thruway_element::{ArgError, Args, FromArg, HandlerError, handler_value};
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
#[derive(Debug, Clone, Copy)]
pub(super) struct TagChoice {
    /// `None`: that of the annotation.
    fixed: Option<u16>,
    /// The identifier whose packets go without a tag.
    native: Option<u16>,
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
    /// From VLAN_TCI, VLAN_ID and VLAN_PCP; where `with_native`, NATIVE_VLAN too.
    pub(super) fn from_args(args: &Args<'_>, with_native: bool) -> Result<TagChoice, ArgError> {
        let checked = |name, why: String| args.error(name, why);
        let pcp: u8 = args.get("VLAN_PCP")?;
        at_most(pcp, MAX_PCP).map_err(|why| checked("VLAN_PCP", why))?;
        let id: Option<u16> = args.opt("VLAN_ID")?;
        at_most(id.unwrap_or(0), MAX_ID).map_err(|why| checked("VLAN_ID", why))?;
        let native = match with_native {
            true => native(args.get("NATIVE_VLAN")?).map_err(|why| checked("NATIVE_VLAN", why))?,
            false => None,
        };
        if id.is_some() && args.given("VLAN_TCI") {
            return Err(args.error("VLAN_ID", "cannot be given together with VLAN_TCI"));
        }
        let fixed = match args.text("VLAN_TCI") {
            Some("ANNO") if with_native => None,
            Some(_) => Some(args.get::<u16>("VLAN_TCI")? | tci(pcp, false, 0)),
            None => Some(tci(pcp, false, id.unwrap_or(0))),
        };
        Ok(TagChoice { fixed, native })
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

    /// Reads handler `vlan_tci`, `vlan_id`, `vlan_pcp` or `native_vlan`.
    pub(super) fn read(&self, name: &str) -> Result<String, HandlerError> {
        let tci = self.fixed();
        match name {
            "vlan_tci" => Ok(self.fixed.map_or("ANNO".to_owned(), |tci| tci.to_string())),
            "vlan_id" => Ok((tci & MAX_ID).to_string()),
            "vlan_pcp" => Ok((tci >> 13).to_string()),
            "native_vlan" => Ok(self.native.map_or("-1".to_owned(), |id| id.to_string())),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    /// Writes one of them.
    pub(super) fn write(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        let tci = self.fixed();
        match name {
            "vlan_tci" if value.trim() == "ANNO" => self.fixed = None,
            "vlan_tci" => self.fixed = Some(handler_value(name, value)?),
            "vlan_id" => self.fixed = Some(tci & !MAX_ID | bounded(name, value, MAX_ID)?),
            "vlan_pcp" => {
                let pcp = u16::from(bounded(name, value, MAX_PCP)?);
                self.fixed = Some(tci & 0x1fff | pcp << 13);
            }
            "native_vlan" => {
                let refused = |why| HandlerError::refused(format!("{name}: {why}"));
                self.native = native(handler_value(name, value)?).map_err(refused)?;
            }
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}

/// A handler's value of at most `max`.
fn bounded<T>(name: &str, value: &str, max: T) -> Result<T, HandlerError>
where
    T: FromArg + PartialOrd + std::fmt::Display,
{
    let refused = |why| HandlerError::refused(format!("{name}: {why}"));
    at_most(handler_value::<T>(name, value)?, max).map_err(refused)
}
