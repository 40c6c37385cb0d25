//! The XDP features of an interface's driver, as reported by the kernel (Linux 6.3): by generic
//! netlink, family "netdev".

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{netlink, recv, send, socket_with};
use std::os::fd::OwnedFd;

// <linux/genetlink.h>
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
// <linux/netdev.h>
const GET_DEVICE: u8 = 1;
const INTERFACE: u16 = 1;
const XDP_FEATURES: u16 = 3;
const BASIC_AND_REDIRECT: u64 = 1 | 2;
const ZERO_COPY: u64 = 8;
// <linux/netlink.h>
const REQUEST: u16 = 1;
/// A netlink header, and with a generic one behind it.
const HEADER_LEN: usize = 16;
const HEADERS_LEN: usize = HEADER_LEN + 4;

/// What a driver has for AF_XDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// XDP in the driver, with what steering needs.
    pub native: bool,
    /// Frames written to and read from our memory by the device itself.
    pub zero_copy: bool,
}

/// The features of an interface, by its number; `None` where the kernel does not report.
pub fn features(interface: u32) -> Option<Features> {
    let kind = Some(netlink::GENERIC);
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, kind).ok()?;
    let reply = ask(&socket, CONTROLLER, GET_FAMILY, (FAMILY_NAME, b"netdev\0"))?;
    let family = u16::from_ne_bytes(attribute(&reply, FAMILY_ID)?.try_into().ok()?);
    let reply = ask(&socket, family, GET_DEVICE, (INTERFACE, &interface.to_ne_bytes()))?;
    let bits = u64::from_ne_bytes(attribute(&reply, XDP_FEATURES)?.try_into().ok()?);
    let native = bits & BASIC_AND_REDIRECT == BASIC_AND_REDIRECT;
    Some(Features { native, zero_copy: native && bits & ZERO_COPY != 0 })
}

/// The answer to a request with one attribute; `None` for an error.
fn ask(socket: &OwnedFd, family: u16, command: u8, attribute: (u16, &[u8])) -> Option<Vec<u8>> {
    send(socket, &request(family, command, attribute), SendFlags::empty()).ok()?;
    let mut reply = vec![0; 8192];
    // The kernel answers before `send` returns.
    let (len, _) = recv(socket, &mut reply[..], RecvFlags::DONTWAIT).ok()?;
    reply.truncate(len);
    let kind = u16::from_ne_bytes(reply.get(4..6)?.try_into().ok()?);
    (kind == family).then_some(reply)
}

fn request(family: u16, command: u8, (kind, value): (u16, &[u8])) -> Vec<u8> {
    let attribute_len = 4 + value.len();
    let len = HEADERS_LEN + attribute_len.next_multiple_of(4);
    let mut request = Vec::with_capacity(len);
    request.extend((len as u32).to_ne_bytes());
    request.extend(family.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    // Sequence number, and the port that the kernel fills in.
    request.extend([0; 8]);
    let version = 1;
    request.extend([command, version, 0, 0]);
    request.extend((attribute_len as u16).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(value);
    request.resize(len, 0);
    request
}

/// The value of an attribute of an answer.
fn attribute(reply: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut rest = reply.get(HEADERS_LEN..)?;
    // Every turn moves on by at least the four bytes of an attribute's header.
    loop {
        let number = |at: usize| Some(u16::from_ne_bytes(rest.get(at..at + 2)?.try_into().ok()?));
        let (len, kind) = (usize::from(number(0)?), number(2)?);
        let value = rest.get(4..len)?;
        if kind == wanted {
            return Some(value);
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_and_hostile_answers_bear_no_panic() {
        let one = request(7, 1, (2, b"netdev\0"));
        assert_eq!(one.len(), 32);
        assert_eq!(attribute(&one, 2), Some(&b"netdev\0"[..]));
        assert_eq!(attribute(&one, 3), None);
        let mut two = one.clone();
        two.extend(&request(7, 1, (3, &[9; 8]))[HEADERS_LEN..]);
        assert_eq!(attribute(&two, 3), Some(&[9; 8][..]));
        for at in 0..two.len() {
            attribute(&two[..at], 3);
            for value in [0, 1, 3, 255] {
                let mut wrong = two.clone();
                wrong[at] = value;
                attribute(&wrong, 3);
                attribute(&wrong, 99);
            }
        }
    }

    #[test]
    fn the_loopback_has_no_native_mode() {
        let lo = crate::interface::find("lo").expect("there is always one");
        // A kernel before 6.3 does not report them.
        if let Some(features) = features(lo.index) {
            assert_eq!(features, Features { native: false, zero_copy: false });
        }
    }
}
