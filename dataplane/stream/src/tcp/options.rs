//! Options of the TCP header, read and changed in place. The header keeps its length: removed
//! options become no-operation.
//!
//! A list of options that does not parse is refused as a whole and stays as it is: stacks differ in
//! their interpretation.

use thruway_packet::Packet;
use thruway_wire::checksum::{Delta, Sum};
use thruway_wire::tcp::TcpHeader;
use thruway_wire::tcp_option::{MAX_WINDOW_SCALE, TcpOption, TcpOptions, kind};

use crate::segment::{Parts, tcp_mut};
use crate::tcp::Seq;

/// An option's length is wrong, or reaches beyond the header (RFC 9293 section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("bad-tcp-options")]
pub struct OptionsError;

/// Of the timestamps option (RFC 7323 section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamps {
    /// The sender's clock: TSval.
    pub value: u32,
    /// The last clock that it saw of the other side: TSecr.
    pub echo: u32,
}

/// The options of a segment. Of a repeated option the last one counts, as in the common stacks; an
/// option of invalid length is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ParsedOptions {
    /// Longest segment that the sender takes, in bytes of payload.
    pub mss: Option<u16>,
    /// Binary logarithm of the unit of its windows, 14 at most (RFC 7323 section 2.3).
    pub window_scale: Option<u8>,
    /// Whether it understands selective acknowledgements (RFC 2018 section 2).
    pub is_sack_permitted: bool,
    /// Its clocks.
    pub timestamps: Option<Timestamps>,
    /// Whether there are selective acknowledgements.
    pub has_sack: bool,
    /// Whether there are others than these: see [`is_known`].
    pub has_unknown: bool,
}

/// Reads options.
///
/// # Errors
/// [`OptionsError`].
#[inline]
pub fn read(options: &[u8]) -> Result<ParsedOptions, OptionsError> {
    let mut parsed = ParsedOptions::default();
    for option in TcpOptions::new(options) {
        match option.map_err(|_| OptionsError)? {
            TcpOption::Mss(mss) => parsed.mss = Some(mss),
            TcpOption::WindowScale(shift) => {
                parsed.window_scale = Some(shift.min(MAX_WINDOW_SCALE))
            }
            TcpOption::SackPermitted => parsed.is_sack_permitted = true,
            TcpOption::Timestamps { value, echo } => {
                parsed.timestamps = Some(Timestamps { value, echo });
            }
            TcpOption::Sack(_) => parsed.has_sack = true,
            TcpOption::Other { kind, .. } => parsed.has_unknown |= !is_known(kind),
            _ => parsed.has_unknown = true,
        }
    }
    Ok(parsed)
}

/// Whether a middlebox that changes lengths and numbers can keep an option of this kind valid.
/// Others (signatures, several paths, cookies) become wrong, or change their meaning, with changed
/// numbers.
#[must_use]
pub const fn is_known(option: u8) -> bool {
    matches!(
        option,
        kind::MSS | kind::WINDOW_SCALE | kind::SACK_PERMITTED | kind::SACK | kind::TIMESTAMPS
    )
}

/// Changes the timestamps, if there are some. Returns the new checksum.
/// # Errors
/// [`OptionsError`].
pub fn map_timestamps(
    options: &mut [u8],
    mut map: impl FnMut(Timestamps) -> Timestamps,
) -> Result<Delta, OptionsError> {
    edit(options, |option| {
        let &mut [kind::TIMESTAMPS, _, a, b, c, d, e, f, g, h] = option else { return };
        let value = u32::from_be_bytes([a, b, c, d]);
        let to = map(Timestamps { value, echo: u32::from_be_bytes([e, f, g, h]) });
        option[2..6].copy_from_slice(&to.value.to_be_bytes());
        option[6..].copy_from_slice(&to.echo.to_be_bytes());
    })
}

/// Changes the edges of selective acknowledgements (RFC 2018 section 3), and removes blocks that
/// map to nothing; the others keep their order, on which D-SACK depends (RFC 2883 section 4). A
/// SACK option of an odd length is removed. Returns the new checksum.
/// # Errors
/// [`OptionsError`].
pub fn map_sack(
    options: &mut [u8],
    mut map: impl FnMut((Seq, Seq)) -> Option<(Seq, Seq)>,
) -> Result<Delta, OptionsError> {
    edit(options, |option| {
        let &mut [kind::SACK, _, ref mut body @ ..] = option else { return };
        let (blocks, odd) = body.as_chunks_mut::<8>();
        let mut kept = 0;
        for nth in 0..if odd.is_empty() { blocks.len() } else { 0 } {
            let [a, b, c, d, e, f, g, h] = blocks[nth];
            let [left, right] = [[a, b, c, d], [e, f, g, h]].map(u32::from_be_bytes);
            let Some((left, right)) = map((Seq::new(left), Seq::new(right))) else { continue };
            let both = (u64::from(left.get()) << 32) | u64::from(right.get());
            blocks[kept] = both.to_be_bytes();
            kept += 1;
        }
        let len = if kept == 0 { 0 } else { 2 + kept * 8 };
        if len > 0 {
            option[1] = len as u8; // at most what it was
        }
        option[len..].fill(kind::NOP);
    })
}

/// Whether the first block of selective acknowledgements reports a duplicate: it is below the
/// segment's acknowledgement number, or within the second one (RFC 2883 section 4).
#[must_use]
pub fn has_duplicate(options: &[u8], ack: Seq) -> bool {
    let blocks = TcpOptions::new(options).find_map(|option| match option {
        Ok(TcpOption::Sack(blocks)) => Some(blocks),
        _ => None,
    });
    let Some(blocks) = blocks else { return false };
    let mut blocks = blocks.iter().map(|(left, right)| (Seq::new(left), Seq::new(right)));
    let Some((left, right)) = blocks.next() else { return false };
    let is_within = |second: (Seq, Seq)| !left.before(second.0) && !right.after(second.1);
    !right.after(ack) || blocks.next().is_some_and(is_within)
}

/// Changes the largest segment (RFC 9293 section 3.7.1), if it has the option. Returns the new
/// checksum.
/// # Errors
/// [`OptionsError`].
pub fn map_mss(options: &mut [u8], mut map: impl FnMut(u16) -> u16) -> Result<Delta, OptionsError> {
    edit(options, |option| {
        let &mut [kind::MSS, _, a, b] = option else { return };
        option[2..].copy_from_slice(&map(u16::from_be_bytes([a, b])).to_be_bytes());
    })
}

/// Removes the options of unwanted kinds. Returns the new checksum.
///
/// # Errors
/// [`OptionsError`].
pub fn strip(options: &mut [u8], is_unwanted: impl Fn(u8) -> bool) -> Result<Delta, OptionsError> {
    edit(options, |option| {
        if option.first().is_some_and(|kind| is_unwanted(*kind)) {
            option.fill(kind::NOP);
        }
    })
}

/// Changes the options of a segment, and its checksum accordingly.
///
/// # Errors
/// [`OptionsError`].
pub fn change(
    packet: &mut Packet,
    parts: &Parts,
    by: impl FnOnce(&mut [u8]) -> Result<Delta, OptionsError>,
) -> Result<(), OptionsError> {
    let from = parts.transport + size_of::<TcpHeader>();
    let options = packet.data_mut().get_mut(from..parts.payload).ok_or(OptionsError)?;
    let delta = by(options)?;
    if let Some(header) = tcp_mut(packet, parts) {
        header.update_checksum(delta);
    }
    Ok(())
}

/// Shows each option, with its kind and length, to be changed within its bytes, which must be whole
/// options afterwards.
fn edit(options: &mut [u8], mut each: impl FnMut(&mut [u8])) -> Result<Delta, OptionsError> {
    if TcpOptions::new(options).any(|option| option.is_err()) {
        return Err(OptionsError);
    }
    // Options begin at an even place of the segment (RFC 9293 section 3.1): their sum is part of
    // its sum.
    let before = Sum::ZERO.with(options).checksum();
    let mut rest = &mut *options;
    while let Some(kind) = rest.first().copied().filter(|kind| *kind != kind::END) {
        let len =
            if kind == kind::NOP { 1 } else { rest.get(1).map_or(1, |len| usize::from(*len)) };
        let Some((option, behind)) = rest.split_at_mut_checked(len.max(1)) else { break };
        if kind != kind::NOP {
            each(option);
        }
        rest = behind;
    }
    // A checksum is the inverse of the sum.
    Ok(Delta::of_u16(!before, !Sum::ZERO.with(options).checksum()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thruway_wire::ip_protocol;

    use super::*;
    use crate::testing::segment;

    /// Options as plain values.
    #[derive(Debug, Clone, PartialEq)]
    enum Plain {
        Nop,
        Mss(u16),
        Scale(u8),
        Permitted,
        Sack(Vec<(u32, u32)>),
        Times(u32, u32),
        Other(u8, Vec<u8>),
    }

    impl Plain {
        fn bytes(&self) -> Vec<u8> {
            let with = |kind: u8, body: &[u8]| {
                let mut bytes = vec![kind, body.len() as u8 + 2];
                bytes.extend(body);
                bytes
            };
            let two = |a: u32, b: u32| [a.to_be_bytes(), b.to_be_bytes()].concat();
            match self {
                Plain::Nop => vec![1],
                Plain::Mss(mss) => with(2, &mss.to_be_bytes()),
                Plain::Scale(shift) => with(3, &[*shift]),
                Plain::Permitted => with(4, &[]),
                Plain::Sack(blocks) => {
                    with(5, &blocks.iter().flat_map(|(a, b)| two(*a, *b)).collect::<Vec<u8>>())
                }
                Plain::Times(value, echo) => with(8, &two(*value, *echo)),
                Plain::Other(kind, body) => with(*kind, body),
            }
        }
    }

    fn one() -> impl Strategy<Value = Plain> {
        let body = prop::collection::vec(any::<u8>(), 0..8);
        let blocks = prop::collection::vec((0..9u32, any::<u32>()), 1..4);
        prop_oneof![
            Just(Plain::Nop),
            any::<u16>().prop_map(Plain::Mss),
            any::<u8>().prop_map(Plain::Scale),
            Just(Plain::Permitted),
            blocks.prop_map(Plain::Sack),
            (any::<u32>(), any::<u32>()).prop_map(|(a, b)| Plain::Times(a, b)),
            (19..255u8, body).prop_map(|(kind, body)| Plain::Other(kind, body)),
        ]
    }

    /// As many options as go into a header; padded as the lengths of headers want it.
    fn header(list: &mut Vec<Plain>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let fits = |bytes: &[u8], more: &Plain| bytes.len() + more.bytes().len() <= 40;
        let count = list
            .iter()
            .take_while(|option| {
                let is_in = fits(&bytes, option);
                if is_in {
                    bytes.extend(option.bytes());
                }
                is_in
            })
            .count();
        list.truncate(count);
        bytes.resize(bytes.len().next_multiple_of(4), kind::END);
        bytes
    }

    /// A segment with such options.
    fn with_options(options: &[u8], payload: &[u8]) -> (Packet, Parts) {
        let behind = [options, payload].concat();
        let mut packet = segment(1, 2, 0x10, &behind);
        let mut parts = Parts::of_tcp(&packet).unwrap();
        let header = tcp_mut(&mut packet, &parts).unwrap();
        header.set_header_len(20 + options.len()).unwrap();
        parts = Parts::of_tcp(&packet).unwrap();
        assert!(crate::segment::finish(&mut packet, &parts, ip_protocol::TCP));
        (packet, parts)
    }

    /// The options without no-operation.
    fn listed(options: &[u8]) -> Vec<TcpOption<'_>> {
        TcpOptions::new(options).map(Result::unwrap).collect()
    }

    proptest! {
        #[test]
        fn changes_are_those_of_plain_values(
            mut list in prop::collection::vec(one(), 0..12),
            payload in prop::collection::vec(any::<u8>(), 0..20),
            by in any::<u32>(),
            what in 0..4u8,
        ) {
            let options = header(&mut list);
            let (mut packet, parts) = with_options(&options, &payload);
            let shift = |(left, right): (Seq, Seq)| {
                (left.get() % 3 > 0).then_some((left + by, right + by))
            };
            let clocks = |t: Timestamps| Timestamps { value: t.value ^ by, echo: t.value };
            change(&mut packet, &parts, |options| match what {
                0 => map_sack(options, shift),
                1 => map_timestamps(options, clocks),
                2 => map_mss(options, |mss| mss.min(1000)),
                _ => strip(options, |kind| !is_known(kind)),
            }).unwrap();
            prop_assert_eq!(parts.verify(&packet, ip_protocol::TCP), Ok(()));
            for option in &mut list {
                match option {
                    Plain::Sack(blocks) if what == 0 => {
                        blocks.retain(|(left, _)| left % 3 > 0);
                        for (left, right) in blocks.iter_mut() {
                            *left = left.wrapping_add(by);
                            *right = right.wrapping_add(by);
                        }
                    }
                    Plain::Times(value, echo) if what == 1 => (*value, *echo) = (*value ^ by, *value),
                    Plain::Mss(mss) if what == 2 => *mss = 1000.min(*mss),
                    Plain::Other(..) if what == 3 => *option = Plain::Nop,
                    _ => {}
                }
            }
            list.retain(|option| *option != Plain::Sack(Vec::new()));
            let want: Vec<u8> = list.iter().flat_map(Plain::bytes).collect();
            let data = packet.data();
            prop_assert_eq!(listed(&data[parts.transport + 20..parts.payload]), listed(&want));
            prop_assert_eq!(&data[parts.payload..], &payload[..]);
        }

        #[test]
        fn any_bytes_are_read_or_refused_untouched(
            mut bytes in prop::collection::vec(0..12u8, 0..40), what in 0..4u8,
        ) {
            let before = bytes.clone();
            let is_good = TcpOptions::new(&bytes).all(|option| option.is_ok());
            prop_assert_eq!(read(&bytes).is_ok(), is_good);
            let done = match what {
                0 => map_sack(&mut bytes, |_| None),
                1 => map_timestamps(&mut bytes, |t| Timestamps { value: 7, ..t }),
                2 => map_mss(&mut bytes, |_| 9),
                _ => strip(&mut bytes, |kind| kind == 5),
            };
            prop_assert_eq!(done.is_ok(), is_good);
            if !is_good {
                prop_assert_eq!(bytes, before);
            } else {
                prop_assert!(read(&bytes).is_ok_and(|all| !all.has_sack || matches!(what, 1 | 2)));
            }
        }

        #[test]
        fn what_is_said_is_the_last_of_each(mut list in prop::collection::vec(one(), 0..12)) {
            let bytes = header(&mut list);
            let mut want = ParsedOptions::default();
            for option in &list {
                match option {
                    Plain::Nop => {}
                    Plain::Mss(mss) => want.mss = Some(*mss),
                    Plain::Scale(shift) => want.window_scale = Some(14.min(*shift)),
                    Plain::Permitted => want.is_sack_permitted = true,
                    Plain::Sack(_) => want.has_sack = true,
                    Plain::Times(value, echo) => {
                        want.timestamps = Some(Timestamps { value: *value, echo: *echo });
                    }
                    Plain::Other(..) => want.has_unknown = true,
                }
            }
            prop_assert_eq!(read(&bytes), Ok(want));
        }
    }

    #[test]
    fn blocks_of_which_nothing_becomes_leave_no_operation() {
        let mut options = [1, 1, 5, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 9];
        let _ = map_sack(&mut options, |block| (block.0.get() == 7).then_some(block)).unwrap();
        assert_eq!(options, [1, 1, 5, 10, 0, 0, 0, 7, 0, 0, 0, 9, 1, 1, 1, 1, 1, 1, 1, 1]);
        let _ = map_sack(&mut options, |_| None).unwrap();
        assert_eq!(options, [1; 20]);
        let mut odd = [5, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let _ = map_sack(&mut odd, Some).unwrap();
        assert_eq!(odd, [1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0]);
    }
}
