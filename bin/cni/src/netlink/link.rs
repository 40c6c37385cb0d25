//! Interfaces.

use std::os::fd::{AsFd, AsRawFd as _};

use rustix::io::Errno;
use thruway_netlink::{
    CREATE, DUMP, EXCLUSIVE, Message, REQUEST, Result, attributes, number, text,
};

use super::socket::Route;
use crate::mac::Mac;

/// Of rtnetlink(7).
const NEW_LINK: u16 = 16;
const DEL_LINK: u16 = 17;
const GET_LINK: u16 = 18;
/// `IFLA_...` of linux/if_link.h.
const ADDRESS: u16 = 1;
const NAME: u16 = 3;
const MTU: u16 = 4;
const LINK: u16 = 5;
const INFO: u16 = 18;
const ALIAS: u16 = 20;
const NAMESPACE: u16 = 28;
const MASK: u16 = 29;
const LINK_NAMESPACE: u16 = 37;
/// `IFLA_INFO_KIND`, `IFLA_INFO_DATA`, `VETH_INFO_PEER`, `IFLA_MACVLAN_MODE`.
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const MACVLAN_MODE: u16 = 1;
/// `RTEXT_FILTER_SKIP_STATS`: statistics are not asked for.
const WITHOUT_STATISTICS: u32 = 1 << 3;
/// `IFF_UP`, `IFF_NOARP` (netdevice(7)).
const UP: u32 = 1;
const NO_ARP: u32 = 1 << 7;
/// Of `struct ifinfomsg`.
const FIXED_LEN: usize = 16;

/// How pods of one port reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// By the chain alone (`MACVLAN_MODE_VEPA`).
    ByChain,
    /// Without the chain (`MACVLAN_MODE_BRIDGE`).
    Directly,
}

/// Kinds of interfaces that the plugin makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkKind {
    /// One end of a pair; the other end gets this name.
    Veth {
        /// The other end.
        peer: String,
    },
    /// An interface with an address of its own, at the interface of this number.
    Macvlan {
        /// What it sends by and receives from.
        lower: u32,
        /// What its neighbours at that interface are to it.
        sharing: Sharing,
    },
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is up.
    pub up: bool,
    /// Its Ethernet address.
    pub mac: Option<Mac>,
    /// The longest packet, in bytes.
    pub mtu: u32,
    /// What was written to it for people and programs.
    pub alias: String,
    /// The number of the other end, or of the interface below; 0 for none.
    pub lower: u32,
    /// Whether that is in another namespace.
    pub lower_is_elsewhere: bool,
}

impl Link {
    fn read(body: &[u8]) -> Option<Link> {
        let (fixed, rest) = body.split_first_chunk::<FIXED_LEN>()?;
        let mut link = Link {
            index: number(&fixed[4..8]),
            up: number(&fixed[8..12]) & UP != 0,
            ..Link::default()
        };
        for (kind, value) in attributes(rest) {
            match kind {
                ADDRESS => link.mac = value.try_into().ok().map(Mac),
                NAME => link.name = text(value),
                MTU => link.mtu = number(value),
                LINK => link.lower = number(value),
                LINK_NAMESPACE => link.lower_is_elsewhere = true,
                ALIAS => link.alias = text(value),
                _ => {}
            }
        }
        Some(link)
    }
}

/// `struct ifinfomsg` of an interface; `flags` and which of them are meant.
fn fixed(index: u32, flags: u32, change: u32) -> [u8; FIXED_LEN] {
    let mut bytes = [0; FIXED_LEN];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..].copy_from_slice(&change.to_ne_bytes());
    bytes
}

impl Route {
    /// The interface of this name, if there is one.
    ///
    /// # Errors
    /// The kernel refused the question.
    pub fn link(&mut self, name: &str) -> Result<Option<Link>> {
        let request = Route::request(GET_LINK, 0, &fixed(0, 0, 0)).with_text(NAME, name);
        let request = request.with(MASK, &WITHOUT_STATISTICS.to_ne_bytes());
        match self.0.ask(request) {
            Ok(bodies) => Ok(bodies.iter().find_map(|body| Link::read(body))),
            Err(Errno::NODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All interfaces.
    ///
    /// # Errors
    /// The kernel refused the question.
    pub fn links(&mut self) -> Result<Vec<Link>> {
        let request = || {
            Message::new(GET_LINK, REQUEST | DUMP, &fixed(0, 0, 0))
                .with(MASK, &WITHOUT_STATISTICS.to_ne_bytes())
        };
        let bodies = self.0.list(request)?;
        Ok(bodies.iter().filter_map(|body| Link::read(body)).collect())
    }

    /// Makes an interface; it is down.
    ///
    /// # Errors
    /// There is one of that name or address, or the kernel has no such kind.
    pub fn add_link(
        &mut self,
        name: &str,
        kind: &LinkKind,
        mtu: Option<u32>,
        mac: Option<Mac>,
    ) -> Result<()> {
        let mut request = Route::request(NEW_LINK, CREATE | EXCLUSIVE, &fixed(0, 0, 0));
        request = common(request, name, mtu);
        if let Some(mac) = mac {
            request = request.with(ADDRESS, &mac.0);
        }
        if let LinkKind::Macvlan { lower, .. } = kind {
            request = request.with(LINK, &lower.to_ne_bytes());
        }
        let request = request.with_nested(INFO, |info| match kind {
            LinkKind::Veth { peer } => {
                info.with(INFO_KIND, b"veth").with_nested(INFO_DATA, |data| {
                    data.with_nested(VETH_PEER, |end| {
                        common(end.with_bytes(&fixed(0, 0, 0)), peer, mtu)
                    })
                })
            }
            LinkKind::Macvlan { sharing, .. } => {
                let mode: u32 = match sharing {
                    Sharing::ByChain => 2,
                    Sharing::Directly => 4,
                };
                let data = |data: Message| data.with(MACVLAN_MODE, &mode.to_ne_bytes());
                info.with(INFO_KIND, b"macvlan").with_nested(INFO_DATA, data)
            }
        });
        self.0.ask(request).map(drop)
    }

    /// Writes an alias to an interface.
    ///
    /// # Errors
    /// The kernel refused it.
    pub fn set_alias(&mut self, index: u32, alias: &str) -> Result<()> {
        let request = Route::request(NEW_LINK, 0, &fixed(index, 0, 0));
        self.0.ask(request.with(ALIAS, alias.as_bytes())).map(drop)
    }

    /// Gives an interface that is down another name.
    ///
    /// # Errors
    /// There is one of that name.
    pub fn rename(&mut self, index: u32, name: &str) -> Result<()> {
        let request = Route::request(NEW_LINK, 0, &fixed(index, 0, 0));
        self.0.ask(request.with_text(NAME, name)).map(drop)
    }

    /// Moves an interface into a namespace, where it gets a name.
    ///
    /// # Errors
    /// There is one of that name.
    pub fn move_link(&mut self, index: u32, namespace: impl AsFd, name: &str) -> Result<()> {
        let descriptor = namespace.as_fd().as_raw_fd();
        let request = Route::request(NEW_LINK, 0, &fixed(index, 0, 0)).with_text(NAME, name);
        self.0.ask(request.with(NAMESPACE, &descriptor.to_ne_bytes())).map(drop)
    }

    /// Brings an interface up.
    ///
    /// # Errors
    /// The kernel refused it.
    pub fn set_up(&mut self, index: u32) -> Result<()> {
        self.0.ask(Route::request(NEW_LINK, 0, &fixed(index, UP, UP))).map(drop)
    }

    /// Has the kernel send and answer no ARP on an interface.
    ///
    /// # Errors
    /// The kernel refused it.
    pub fn set_without_arp(&mut self, index: u32) -> Result<()> {
        self.0.ask(Route::request(NEW_LINK, 0, &fixed(index, NO_ARP, NO_ARP))).map(drop)
    }

    /// Removes an interface; no error if it is not there.
    ///
    /// # Errors
    /// The kernel refused it.
    pub fn delete_link(&mut self, index: u32) -> Result<()> {
        match self.0.ask(Route::request(DEL_LINK, 0, &fixed(index, 0, 0))) {
            Ok(_) | Err(Errno::NODEV) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// What both ends of a pair have.
fn common(request: Message, name: &str, mtu: Option<u32>) -> Message {
    let request = request.with_text(NAME, name);
    match mtu {
        Some(mtu) => request.with(MTU, &mtu.to_ne_bytes()),
        None => request,
    }
}
