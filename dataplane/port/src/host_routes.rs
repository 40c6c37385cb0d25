//! Routes of the host's kernel that end with this process: they lead to an interface of its own,
//! which the kernel removes when the process ends, however it does, and with it the routes.

use std::io;
use std::net::IpAddr;

use rustix::io::Errno;
use thruway_netlink::{ACK, CREATE, Message, REPLACE, REQUEST, Socket};

use crate::error::PortError;
use crate::interface;
use crate::tap::{Tap, TapKind, TapOptions};

/// Of rtnetlink(7).
const NEW_ROUTE: u16 = 24;
const DEL_ROUTE: u16 = 25;
const DST: u16 = 1;
const OIF: u16 = 4;
const PRIORITY: u16 = 6;
const TABLE: u16 = 15;
/// `RTPROT_STATIC`: routing daemons take routes of this origin for the administrator's.
const PROTOCOL_STATIC: u8 = 4;
const SCOPE_LINK: u8 = 253;
const TYPE_UNICAST: u8 = 1;

/// A prefix that a route is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostRoute {
    /// The network's address, without host bits.
    pub net: IpAddr,
    /// Bits of it that count.
    pub len: u8,
}

/// The interface, and the way to change routes.
#[derive(Debug)]
pub struct HostRoutes {
    device: Tap,
    index: u32,
    socket: Socket,
    table: u32,
    metric: u32,
}

impl HostRoutes {
    /// Makes the interface `name` (empty: the kernel chooses) for routes of this table and metric
    /// (0: the kernel's default). There are no routes yet.
    ///
    /// # Errors
    /// The process may not make interfaces, or there is one of that name.
    pub fn open(name: &str, table: u32, metric: u32) -> Result<HostRoutes, PortError> {
        let options = TapOptions { name: name.into(), kind: TapKind::Ip, address: None, mtu: None };
        let device = Tap::open(&options)?;
        let name = device.name();
        let index = interface::index(name)
            .ok_or_else(|| PortError::unfit(name, "it disappeared while it was set up"))?;
        // Protocol 0 is NETLINK_ROUTE.
        let socket = Socket::open(None)
            .map_err(|errno| PortError::system(name, "socket (netlink)", io::Error::from(errno)))?;
        Ok(HostRoutes { device, index, socket, table, metric })
    }

    /// Name of the interface.
    pub fn name(&self) -> &str {
        self.device.name()
    }

    /// Adds a route to the interface; one of the same prefix, table and metric is replaced.
    ///
    /// # Errors
    /// The kernel refused it.
    pub fn add(&mut self, route: &HostRoute) -> Result<(), PortError> {
        self.ask(NEW_ROUTE, CREATE | REPLACE, route)
    }

    /// Removes it; no error if it is not there.
    ///
    /// # Errors
    /// The kernel refused that.
    pub fn remove(&mut self, route: &HostRoute) -> Result<(), PortError> {
        self.ask(DEL_ROUTE, 0, route)
    }

    fn ask(&mut self, kind: u16, flags: u16, route: &HostRoute) -> Result<(), PortError> {
        let request = self.request(kind, flags, route);
        match (kind, self.socket.ask(request)) {
            (_, Ok(_)) | (DEL_ROUTE, Err(Errno::SRCH)) => Ok(()),
            (_, Err(errno)) => {
                let step = if kind == NEW_ROUTE { "RTM_NEWROUTE" } else { "RTM_DELROUTE" };
                Err(PortError::admin(self.name(), step, io::Error::from(errno)))
            }
        }
    }

    fn request(&self, kind: u16, flags: u16, route: &HostRoute) -> Message {
        let (family, net) = match route.net {
            IpAddr::V4(net) => (libc::AF_INET as u8, net.octets().to_vec()),
            IpAddr::V6(net) => (libc::AF_INET6 as u8, net.octets().to_vec()),
        };
        // struct rtmsg; the table is an attribute, as it may be above 255.
        let (table, scope) = (0, SCOPE_LINK);
        let fixed =
            [family, route.len, 0, 0, table, PROTOCOL_STATIC, scope, TYPE_UNICAST, 0, 0, 0, 0];
        let message = Message::new(kind, REQUEST | ACK | flags, &fixed)
            .with(DST, &net)
            .with(OIF, &self.index.to_ne_bytes())
            .with(TABLE, &self.table.to_ne_bytes());
        match self.metric {
            0 => message,
            metric => message.with(PRIORITY, &metric.to_ne_bytes()),
        }
    }
}
