//! Routes of the host's kernel that end with this process: they lead to an interface of its own,
//! which the kernel removes when the process ends, however it does, and with it the routes.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::error::PortError;
use crate::interface;
use crate::tap::{Tap, TapKind, TapOptions};

/// Of `struct nlmsghdr` (netlink(7)).
const HEADER_LEN: usize = 16;
const REQUEST: u16 = 0x1;
const ACK: u16 = 0x4;
const REPLACE: u16 = 0x100;
const CREATE: u16 = 0x400;
const ERROR: u16 = 2;
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
    socket: OwnedFd,
    table: u32,
    metric: u32,
    /// Number of the last request.
    sequence: u32,
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
        let system = |step| {
            move |errno: rustix::io::Errno| PortError::system(name, step, io::Error::from(errno))
        };
        let index = interface::index(name)
            .ok_or_else(|| PortError::unfit(name, "it disappeared while it was set up"))?;
        // Protocol 0 of this family is NETLINK_ROUTE.
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        );
        let socket = socket.map_err(system("socket (netlink)"))?;
        Ok(HostRoutes { device, index, socket, table, metric, sequence: 0 })
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
        self.sequence += 1;
        let request = self.request(kind, flags, route);
        let error = self.exchange(&request).unwrap_or_else(|errno| errno.raw_os_error());
        match (kind, error) {
            (_, 0) | (DEL_ROUTE, libc::ESRCH) => Ok(()),
            (_, errno) => {
                let step = if kind == NEW_ROUTE { "RTM_NEWROUTE" } else { "RTM_DELROUTE" };
                Err(PortError::admin(self.name(), step, io::Error::from_raw_os_error(errno)))
            }
        }
    }

    /// Sends a request; the error number in the kernel's answer, 0 for none. The kernel answers
    /// before the call that sends returns, so nothing waits.
    fn exchange(&self, request: &[u8]) -> rustix::io::Result<i32> {
        rustix::net::send(&self.socket, request, SendFlags::empty())?;
        loop {
            let mut answer = [0; 1024];
            let (len, _) = rustix::net::recv(&self.socket, &mut answer[..], RecvFlags::DONTWAIT)?;
            if let Some(error) = error_of(&answer[..len], self.sequence) {
                return Ok(error);
            }
        }
    }

    fn request(&self, kind: u16, flags: u16, route: &HostRoute) -> Vec<u8> {
        let (family, net) = match route.net {
            IpAddr::V4(net) => (libc::AF_INET as u8, net.octets().to_vec()),
            IpAddr::V6(net) => (libc::AF_INET6 as u8, net.octets().to_vec()),
        };
        let mut bytes = vec![0; HEADER_LEN];
        // struct rtmsg; the table is an attribute, as it may be above 255.
        let (table, scope) = (0, SCOPE_LINK);
        bytes.extend_from_slice(&[family, route.len, 0, 0, table, PROTOCOL_STATIC, scope]);
        bytes.extend_from_slice(&[TYPE_UNICAST, 0, 0, 0, 0]);
        let mut attribute = |kind: u16, value: &[u8]| {
            bytes.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
            bytes.extend_from_slice(&kind.to_ne_bytes());
            bytes.extend_from_slice(value);
        };
        attribute(DST, &net);
        attribute(OIF, &self.index.to_ne_bytes());
        attribute(TABLE, &self.table.to_ne_bytes());
        if self.metric > 0 {
            attribute(PRIORITY, &self.metric.to_ne_bytes());
        }
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(REQUEST | ACK | flags).to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        bytes
    }
}

/// The error number (0: none) in an answer to the request of this number.
fn error_of(answer: &[u8], sequence: u32) -> Option<i32> {
    let (header, body) = answer.split_first_chunk::<HEADER_LEN>()?;
    let [_, _, _, _, a, b, _, _, s, t, u, v, ..] = *header;
    let (kind, number) = (u16::from_ne_bytes([a, b]), u32::from_ne_bytes([s, t, u, v]));
    let error = i32::from_ne_bytes(*body.first_chunk()?);
    (kind == ERROR && number == sequence).then(|| error.saturating_neg())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let answer = |kind: u16, sequence: u32, error: i32| {
            let mut bytes = vec![36, 0, 0, 0];
            bytes.extend_from_slice(&kind.to_ne_bytes());
            bytes.extend_from_slice(&[0, 0]);
            bytes.extend_from_slice(&sequence.to_ne_bytes());
            bytes.extend_from_slice(&[0; 4]);
            bytes.extend_from_slice(&error.to_ne_bytes());
            bytes
        };
        assert_eq!(error_of(&answer(ERROR, 7, -17), 7), Some(17));
        assert_eq!(error_of(&answer(ERROR, 7, 0), 7), Some(0));
        assert_eq!(error_of(&answer(ERROR, 7, i32::MIN), 7), Some(i32::MAX));
        assert_eq!(error_of(&answer(ERROR, 8, 0), 7), None);
        assert_eq!(error_of(&answer(NEW_ROUTE, 7, 0), 7), None);
        assert_eq!(error_of(&answer(ERROR, 7, 0)[..19], 7), None);
    }
}
