//! Where the fields of a session's slot lie: written here, read and counted up by the kernel's
//! programs.
//!
//! A slot has a half for each direction. A field is written by one side only, but for the numbers
//! of TCP, which the kernel's program moves on once the half is active.

/// Bytes of a slot.
pub(super) const SLOT_LEN: u32 = 288;
/// Sessions that can have a short cut at a time, of all ports of the process: 2.3 MB.
pub(super) const SLOTS: u32 = 8192;

/// Of a slot, 32 bits each: where the checksum of TCP or UDP stands in a frame, and the flags by
/// which it is changed.
pub(super) const CHECKSUM_AT: i16 = 0;
pub(super) const CHECKSUM_FLAGS: i16 = 4;
/// The generation that it was made in, 64 bits.
pub(super) const GENERATION: i16 = 8;
const HALVES: i16 = 32;
const HALF_LEN: i16 = 128;

/// Where the half of a direction begins.
pub(super) const fn half(direction: usize) -> i16 {
    HALVES + HALF_LEN * direction as i16
}

// Of a half, 64 bits each.
/// Packets as they are on a wire, and their bytes.
pub(super) const PACKETS: i16 = 0;
pub(super) const BYTES: i16 = 8;
/// Until when it holds, on the kernel's monotonic clock; 0: it does not.
pub(super) const DEADLINE: i16 = 16;
/// TCP: until when only a segment begins that follows the last one of the software's.
pub(super) const IN_ORDER_UNTIL: i16 = 24;
// 32 bits each.
/// TCP: the number behind the last one sent, the latest acknowledgement, the largest window.
pub(super) const END: i16 = 32;
pub(super) const ACK: i16 = 36;
pub(super) const ROOM: i16 = 40;
/// TCP: by how much the windows of segments are shifted.
pub(super) const SHIFT: i16 = 44;
/// Where packets leave, and how long they may be, without the link's header.
pub(super) const INTERFACE: i16 = 48;
pub(super) const MTU: i16 = 52;
/// 1: packets of this direction may take it.
pub(super) const ACTIVE: i16 = 56;
/// By how much the time to live is less: 0 or 1.
pub(super) const HOPS: i16 = 60;
/// Twelve bytes each: destination and source of the frame as it comes, and as it leaves.
pub(super) const MACS_IN: i16 = 64;
pub(super) const MACS_OUT: i16 = 76;
/// Addresses and ports as they leave.
pub(super) const ADDRESSES_OUT: i16 = 88;
pub(super) const PORTS_OUT: i16 = 96;
/// What changes in the sum over the IP header, and in that over ports.
pub(super) const IP_CHANGE: i16 = 100;
pub(super) const PORT_CHANGE: i16 = 104;
/// Addresses and ports as they come.
pub(super) const FLOW_IN: i16 = 108;
/// What changes in the sum over the pseudo header.
pub(super) const PSEUDO_CHANGE: i16 = 120;
/// 1: addresses or ports change.
pub(super) const TRANSLATES: i16 = 124;

/// The key of a direction: port, protocol, source, destination, ports, each of 32 bits; the last
/// three as they stand in the packet.
pub(super) const KEY_LEN: u32 = 20;
/// What a filter leaves for the program that redirects: slot, direction and 1, and the frame's
/// length.
pub(super) const DECISION_LEN: u32 = 8;

const _: () = assert!(half(2) as u32 == SLOT_LEN);
