//! What one host writes of a connection for the other one.
//!
//! ```text
//! image: direction 0 | direction 1, and of a connection that can go on: number (4) | rest of both
//! direction: flags (1) | port (2) | sent (4) | acknowledged (4) | timestamps (8, by a flag)
//!            | headers
//! rest: flags (1) | scale (1) | first number (4) | place, in and out (4, 4)
//!       | acknowledged, out (4) | right edge (4) | announced right edge (4)
//!       | window (2) | MSS (2) | longest payload (2)
//!       | length (2) of functions' states | these
//! ```
//!
//! Numbers are big-endian.

use super::Seq;
use super::checkpoints::Checkpoint;
use super::endpoint::{Conn, Endpoint};
use super::template::Template;

/// Flags of a direction: its numbers are known, and there are timestamps.
const KNOWN: u8 = 1;
const TIMESTAMPS: u8 = 2;
/// Flags of the rest: there is a window scale, selective acknowledgements are understood, the right
/// edge is known, the FIN was shown.
const SCALE: u8 = 1;
const SACK: u8 = 2;
const RIGHT: u8 = 4;
const FINISHED: u8 = 8;
/// The largest window scale (RFC 7323 section 2.3).
const SCALE_MAX: u8 = 14;
/// Most bytes of functions' states in one direction: what is longer is not replicated.
pub const FUNCTIONS_MAX: usize = 512;

/// An image that was read.
pub(super) struct Image {
    pub ends: [(Endpoint, Template); 2],
    /// Of a connection that can go on.
    pub whole: Option<Whole>,
}

/// Where it can go on.
pub(super) struct Whole {
    /// The how manyth image of the connection it is.
    pub number: u32,
    /// By direction: what the receiver had acknowledged, and the place.
    pub positions: [(Seq, Checkpoint); 2],
}

/// Takes a number from the front.
fn number(bytes: &mut &[u8]) -> Option<u32> {
    take(bytes).map(u32::from_be_bytes)
}

fn short(bytes: &mut &[u8]) -> Option<u16> {
    take(bytes).map(u16::from_be_bytes)
}

fn seq(bytes: &mut &[u8]) -> Option<Seq> {
    number(bytes).map(Seq::new)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

/// A flag, where a condition holds.
fn flag(flag: u8, holds: bool) -> u8 {
    if holds { flag } else { 0 }
}

/// Appends what it takes to reset a connection.
pub(super) fn write_ends(conn: &Conn, templates: &[Template; 2], out: &mut Vec<u8>) {
    for (endpoint, template) in conn.endpoints.iter().zip(templates) {
        out.push(flag(KNOWN, endpoint.is_known) | flag(TIMESTAMPS, endpoint.timestamps.is_some()));
        out.extend_from_slice(&endpoint.in_port.to_be_bytes());
        for seq in [endpoint.sent, endpoint.acked_to] {
            out.extend_from_slice(&seq.get().to_be_bytes());
        }
        for clock in endpoint.timestamps.into_iter().flat_map(|(value, echo)| [value, echo]) {
            out.extend_from_slice(&clock.to_be_bytes());
        }
        template.write(out);
    }
}

/// Appends what else it takes to go on with it, with the states of functions by direction.
pub(super) fn write_whole(conn: &Conn, number: u32, functions: [&[u8]; 2], out: &mut Vec<u8>) {
    out.extend_from_slice(&number.to_be_bytes());
    for (endpoint, functions) in conn.endpoints.iter().zip(functions) {
        let Endpoint { scale, right, seq_map, .. } = endpoint;
        let flags = flag(SCALE, scale.is_some())
            | flag(SACK, endpoint.sack)
            | flag(RIGHT, right.is_some())
            | flag(FINISHED, endpoint.fin.is_some());
        out.extend_from_slice(&[flags, scale.unwrap_or(0)]);
        let right = right.unwrap_or_default();
        let acked = seq_map.acked_out();
        let (at_in, at_out) = (seq_map.end_in(), seq_map.end_out());
        for seq in [endpoint.isn, at_in, at_out, acked, right, endpoint.advertised_right] {
            out.extend_from_slice(&seq.get().to_be_bytes());
        }
        let len = functions.len() as u16; // at most FUNCTIONS_MAX
        for short in [endpoint.window, endpoint.mss, endpoint.longest, len] {
            out.extend_from_slice(&short.to_be_bytes());
        }
        out.extend_from_slice(functions);
    }
}

fn read_end(bytes: &mut &[u8], fcb: u32, ports: u16) -> Option<(Endpoint, Template)> {
    let [flags] = take(bytes)?;
    let port = short(bytes)?;
    if flags & !(KNOWN | TIMESTAMPS) != 0 || port >= ports {
        return None;
    }
    let (sent, acked_to) = (seq(bytes)?, seq(bytes)?);
    let timestamps = match flags & TIMESTAMPS {
        0 => None,
        _ => Some((number(bytes)?, number(bytes)?)),
    };
    let endpoint = Endpoint {
        is_known: flags & KNOWN != 0,
        sent,
        acked_to,
        timestamps,
        in_port: port,
        out_port: port,
        fcb,
        ..Endpoint::UNKNOWN
    };
    Some((endpoint, Template::read(bytes, fcb)?))
}

/// Reads the rest of a direction into its endpoint.
fn read_position(bytes: &mut &[u8], endpoint: &mut Endpoint) -> Option<(Seq, Checkpoint)> {
    let [flags, scale] = take(bytes)?;
    if flags > SCALE | SACK | RIGHT | FINISHED || scale > SCALE_MAX {
        return None;
    }
    endpoint.isn = seq(bytes)?;
    let (at_in, at_out, acked, right) = (seq(bytes)?, seq(bytes)?, seq(bytes)?, seq(bytes)?);
    endpoint.advertised_right = seq(bytes)?;
    (endpoint.window, endpoint.mss, endpoint.longest) =
        (short(bytes)?, short(bytes)?, short(bytes)?);
    let len = usize::from(short(bytes)?);
    let (functions, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    let is_whole = endpoint.is_known && !acked.after(at_out) && len <= FUNCTIONS_MAX;
    endpoint.scale = (flags & SCALE != 0).then_some(scale);
    endpoint.right = (flags & RIGHT != 0).then_some(right);
    (endpoint.sack, endpoint.has_syn) = (flags & SACK != 0, true);
    let is_finished = flags & FINISHED != 0;
    let checkpoint = Checkpoint { at_in, at_out, is_finished, functions: functions.into() };
    is_whole.then_some((acked, checkpoint))
}

impl Image {
    /// Reads one. `fcbs` are the flow manager's words for the directions here, ports are below
    /// `ports`.
    pub(super) fn read(mut bytes: &[u8], fcbs: [u32; 2], ports: u16) -> Option<Image> {
        let bytes = &mut bytes;
        let mut ends = [read_end(bytes, fcbs[0], ports)?, read_end(bytes, fcbs[1], ports)?];
        if bytes.is_empty() {
            return Some(Image { ends, whole: None });
        }
        let number = number(bytes)?;
        let [(one, _), (other, _)] = &mut ends;
        let positions = [read_position(bytes, one)?, read_position(bytes, other)?];
        bytes.is_empty().then_some(Image { ends, whole: Some(Whole { number, positions }) })
    }
}
