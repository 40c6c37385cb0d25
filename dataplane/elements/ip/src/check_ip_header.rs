//! CheckIPHeader: only sound IPv4 headers go on (RFC 1812 section 5.2.2).

use std::fmt::Write;
use std::net::Ipv4Addr;

use thruway_element::text::split_words;
use thruway_element::{
    Alias, Arg, ArgError, ArgErrors, Args, Changes, Cost, CostModel, Cx, Element, Entry,
    HandlerError, Handlers, IpPrefix, Load, Operation, Reason, Replicas, ShortCut, Spec, Topic, Ty,
    Verdict, reasons,
};
use thruway_elements_support::marked::Marked;
use thruway_packet::lanes::{HeaderLanes, LANES, Lane};
use thruway_packet::{Batch, Packet};
use thruway_wire::checksum;

use super::header_flaws::{destinations, flaws, sources, total_lens};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<CheckIpHeader>(
    Spec {
        name: "CheckIPHeader",
        aliases: &[Alias { name: "CheckIPHeader2", summary: "does not look at the checksum" }],
        topic: Topic::Ip,
        summary: "checks IP headers, marks them and sets the destination annotation",
        docs: "Expects the IP header OFFSET bytes into the packet. Version, header length, total \
               length and (unless CHECKSUM is false) checksum must be right. With BADSRC or \
               INTERFACES the source must not be on the list of bad ones, except in packets to a \
               GOODDST (RFC 1812 section 5.3.7). Good packets leave by output 0: their network \
               header is marked, bytes beyond the total length are cut off, and the destination \
               address annotation is set. Bad ones leave by output 1, or are dropped where there \
               is none; the first one, with VERBOSE every one, is reported to the user.\n\
               INTERFACES 18.26.4.9/24 makes the subnet's broadcast address, 0.0.0.0 and \
               255.255.255.255 bad sources and 18.26.4.9 a good destination. The old form \
               CheckIPHeader(BADSRC, OFFSET) makes 0.0.0.0 and 255.255.255.255 bad sources besides \
               the listed ones.",
        example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
                  -> CheckIPHeader(VERBOSE true) -> Print(ok) -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        straight: true,
        args: &[
            Arg::optional("BADSRC*", Ty::Any, "OFFSET; or bad sources, in the old form"),
            Arg::optional("OFFSET", Ty::UInt, "where the IP header begins").or("0"),
            Arg::keyword("INTERFACES", Ty::Any, "this router's addresses, as prefixes"),
            Arg::keyword("BADSRC", Ty::Any, "bad source addresses, with blanks between"),
            Arg::keyword("GOODDST", Ty::Any, "destinations that may have bad sources"),
            Arg::keyword("CHECKSUM", Ty::Bool, "whether the checksum is checked").or("true"),
            Arg::keyword("VERBOSE", Ty::Bool, "whether every bad packet is reported").or("false"),
            Arg::keyword("DETAILS", Ty::Bool, "whether drop_details can be read").or("false"),
        ],
        drops: CheckIpHeaderDrop::DROPS,
        cost: &[Operation::HeaderCheck.once(), Operation::ChecksumIp.once()],
        changes: Changes::Nothing,
        replicas: Replicas::Alike,
        short_cut: ShortCut::Passes,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_cost_model::<CheckIpHeader>();

reasons! {
    /// Defects of a header.
    pub(super) enum CheckIpHeaderDrop {
        Tiny = "too-short": "fewer than 20 bytes",
        Version = "bad-version": "the version is not 4",
        HeaderLength = "bad-header-length": "the header length is less than 20 bytes",
        Length = "bad-length": "the total length is less than the header's or more than there is",
        Checksum = "bad-checksum": "the header checksum is wrong",
        Source = "bad-source": "the source address is on the list of bad ones",
    }
}

/// Click's words for the reasons, in the order of [`CheckIpHeaderDrop`].
const TEXTS: [&str; 6] = [
    "tiny packet",
    "bad IP version",
    "bad IP header length",
    "bad IP length",
    "bad IP checksum",
    "bad source address",
];

/// A few addresses, in network order.
#[derive(Default)]
struct Addresses {
    list: Vec<[u8; 4]>,
    /// A bit for every last octet there is: nearly all packets need no more than this.
    last: [u64; 4],
}

impl Addresses {
    fn push(&mut self, address: [u8; 4]) {
        let last = address[3];
        self.last[usize::from(last >> 6)] |= 1 << (last & 63);
        self.list.push(address);
    }

    #[inline]
    fn contains(&self, address: [u8; 4]) -> bool {
        let last = address[3];
        self.last[usize::from(last >> 6)] >> (last & 63) & 1 != 0 && self.list.contains(&address)
    }
}

/// Bad sources that are compared with the sources of several packets at a time. For more of them,
/// one look-up per packet is cheaper.
const COMPARED_SOURCES: usize = 16;

/// The checks, without their results.
struct Check {
    offset: usize,
    checksum: bool,
    /// Sources that are bad.
    bad_src: Addresses,
    /// Destinations that excuse them.
    good_dst: Addresses,
}

#[derive(Handlers)]
#[handler(sum, field = count, "good packets")]
#[handler(sum, name = "drops", "bad packets", get = self.bad.iter().sum::<u64>())]
#[handler(
    sum, name = "drop_details", "bad packets by reason, with DETAILS",
    read = self.read_drop_details()
)]
pub(super) struct CheckIpHeader {
    check: Check,
    verbose: bool,
    details: bool,
    count: u64,
    bad: [u64; TEXTS.len()],
    /// Bad packets still to be reported to the user.
    complaints: Vec<CheckIpHeaderDrop>,
}

/// Adds the addresses of an argument.
fn add(args: &Args<'_>, name: &str, to: &mut Addresses) -> Result<(), ArgError> {
    for word in split_words(args.text(name).unwrap_or_default()) {
        let ip = args.parse::<Ipv4Addr>(word).map_err(|why| args.error(name, why))?;
        to.push(ip.octets());
    }
    Ok(())
}

/// Addresses that no packet comes from (RFC 1812 section 5.3.7).
const NEVER_SOURCES: [[u8; 4]; 2] = [[0; 4], [255; 4]];

/// Adds what INTERFACES means.
fn add_interfaces(args: &Args<'_>, check: &mut Check) -> Result<(), ArgError> {
    let Some(text) = args.text("INTERFACES") else { return Ok(()) };
    for word in split_words(text) {
        let own: IpPrefix = args.parse(word).map_err(|why| args.error("INTERFACES", why))?;
        check.good_dst.push(own.addr.octets());
        check.bad_src.push((own.addr.to_bits() | !own.mask.to_bits()).to_be_bytes());
    }
    NEVER_SOURCES.into_iter().for_each(|never| check.bad_src.push(never));
    Ok(())
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(CheckIpHeader::from_args(args)?))
}

impl CheckIpHeader {
    /// The element that the arguments describe.
    pub(super) fn from_args(args: &Args<'_>) -> Result<CheckIpHeader, ArgErrors> {
        let mut check = Check {
            offset: args.get("OFFSET")?,
            checksum: args.get("CHECKSUM")?,
            bad_src: Addresses::default(),
            good_dst: Addresses::default(),
        };
        add(args, "BADSRC", &mut check.bad_src)?;
        add(args, "GOODDST", &mut check.good_dst)?;
        if args.class() == "CheckIPHeader2" && !args.given("CHECKSUM") {
            check.checksum = false;
        }
        match args.opt::<usize>("BADSRC*") {
            Ok(Some(offset)) if !args.given("OFFSET") => check.offset = offset,
            Ok(None) => {}
            _ => {
                add(args, "BADSRC*", &mut check.bad_src)?;
                NEVER_SOURCES.into_iter().for_each(|never| check.bad_src.push(never));
            }
        }
        add_interfaces(args, &mut check)?;
        Ok(CheckIpHeader {
            check,
            verbose: args.get("VERBOSE")?,
            details: args.get("DETAILS")?,
            count: 0,
            bad: [0; TEXTS.len()],
            complaints: Vec::new(),
        })
    }
}

impl Check {
    /// Checks and marks one packet.
    #[inline]
    fn check(&self, packet: &mut Packet) -> Result<(), CheckIpHeaderDrop> {
        let bytes = packet.data().get(self.offset..).unwrap_or(&[]);
        let Some(header) = bytes.first_chunk::<20>() else { return Err(CheckIpHeaderDrop::Tiny) };
        let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let header_len = if header[0] == 0x45 {
            // RFC 1812 section 5.2.2: what nearly all packets are, without options.
            if total_len < 20 || total_len > bytes.len() {
                return Err(CheckIpHeaderDrop::Length);
            }
            if self.checksum && checksum::checksum_20(header) != 0 {
                return Err(CheckIpHeaderDrop::Checksum);
            }
            20
        } else {
            self.check_long(bytes, total_len)?
        };
        let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *header;
        let (src, dst) = ([s0, s1, s2, s3], [d0, d1, d2, d3]);
        // RFC 1812 sections 5.3.7 and 4.2.2.11
        if !self.bad_src.list.is_empty()
            && self.bad_src.contains(src)
            && !self.good_dst.contains(dst)
        {
            return Err(CheckIpHeaderDrop::Source);
        }
        self.mark(packet, header_len, total_len, dst);
        Ok(())
    }

    /// Marks the good packets of a group, and returns them as bits. The others still need a check
    /// of their own: they are bad, or have unusual headers.
    #[inline]
    fn mark_group(&self, group: &mut [Packet; LANES]) -> u8 {
        let Some(headers) = HeaderLanes::of(group, self.offset) else { return 0 };
        let mut flaws = flaws(&headers, self.checksum);
        self.suspect(sources(&headers), &mut flaws);
        let total_lens = total_lens(&headers);
        let mut bits = 0;
        for (at, packet) in group.iter_mut().enumerate() {
            if flaws[at] == 0 {
                let (len, dst) = (total_lens[at] as usize, destinations(&headers)[at]);
                self.mark(packet, 20, len, dst.to_le_bytes());
                bits |= 1 << at;
            }
        }
        bits
    }

    /// Adds a flaw where a source may be a bad one.
    #[inline]
    fn suspect(&self, sources: &Lane, flaws: &mut Lane) {
        let bad = &self.bad_src.list;
        if bad.len() > COMPARED_SOURCES {
            for at in 0..LANES {
                flaws[at] |= u32::from(self.bad_src.contains(sources[at].to_le_bytes()));
            }
            return;
        }
        for bad in bad {
            let bad = u32::from_le_bytes(*bad);
            for at in 0..LANES {
                flaws[at] |= u32::from(sources[at] == bad);
            }
        }
    }

    /// Notes what a good header says.
    #[inline]
    fn mark(&self, packet: &mut Packet, header_len: usize, total_len: usize, dst: [u8; 4]) {
        packet.set_network(self.offset, header_len);
        packet.truncate(self.offset + total_len);
        packet.set_dst_ip(dst);
    }

    /// The checks for a header with options, or none at all; its length.
    #[cold]
    fn check_long(&self, bytes: &[u8], total_len: usize) -> Result<usize, CheckIpHeaderDrop> {
        if bytes[0] >> 4 != 4 {
            return Err(CheckIpHeaderDrop::Version);
        }
        let header_len = usize::from(bytes[0] & 0x0f) * 4;
        if header_len < 20 {
            return Err(CheckIpHeaderDrop::HeaderLength);
        }
        if total_len < header_len || total_len > bytes.len() {
            return Err(CheckIpHeaderDrop::Length);
        }
        match checksum::checksum(&bytes[..header_len]) {
            0 => Ok(header_len),
            _ if !self.checksum => Ok(header_len),
            _ => Err(CheckIpHeaderDrop::Checksum),
        }
    }
}

impl CheckIpHeader {
    /// Counts a bad packet, and returns its verdict.
    #[cold]
    pub(super) fn note(&mut self, bad: CheckIpHeaderDrop) -> Verdict {
        if self.verbose || self.bad.iter().all(|count| *count == 0) {
            self.complaints.push(bad);
        }
        self.bad[bad as usize] += 1;
        Verdict::Reject(1, Reason::from(bad))
    }

    /// Checks the packets that are not marked, one by one.
    fn check_others(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, marked: &Marked) {
        let mut at = 0;
        cx.filter(batch, |packet| {
            let is_marked = marked.holds(at);
            at += 1;
            match is_marked {
                true => Verdict::Pass,
                false => {
                    self.check.check(packet).map_or_else(|bad| self.note(bad), |()| Verdict::Pass)
                }
            }
        });
    }

    #[cold]
    fn complain(&mut self, cx: &mut Cx<'_>) {
        let name = cx.name();
        for bad in self.complaints.drain(..) {
            cx.log(&format!("{name}: IP header check failed: {}", TEXTS[bad as usize]));
        }
    }
}

impl Element for CheckIpHeader {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let packets = batch.iter_mut().into_slice();
        let marked = Marked::by_groups(packets, |group| self.check.mark_group(group));
        if marked.count() < batch.len() {
            self.check_others(cx, batch, &marked);
        }
        self.count += batch.len() as u64;
        if !self.complaints.is_empty() {
            self.complain(cx);
        }
    }
}

impl CheckIpHeader {
    fn read_drop_details(&mut self) -> Result<String, HandlerError> {
        if !self.details {
            let why = "drop_details: write DETAILS true to keep details";
            return Err(HandlerError::refused(why));
        }
        let mut text = String::new();
        for (count, what) in self.bad.iter().zip(TEXTS) {
            let _ = writeln!(text, "{count}\t{what}");
        }
        Ok(text)
    }
}

impl CostModel for CheckIpHeader {
    fn cost(&self, _load: &Load) -> Option<Vec<Cost>> {
        let sums = self.check.checksum.then(|| Operation::ChecksumIp.once());
        Some([Operation::HeaderCheck.once()].into_iter().chain(sums).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_wire::ipv4::Ipv4Header;
    use thruway_wire::{Defect, Header};

    fn check() -> Check {
        let (mut bad_src, mut good_dst) = (Addresses::default(), Addresses::default());
        bad_src.push([0; 4]);
        good_dst.push([9, 9, 9, 9]);
        Check { offset: 0, checksum: true, bad_src, good_dst }
    }

    fn header(src: [u8; 4], dst: [u8; 4], payload_len: usize) -> Vec<u8> {
        let header = Ipv4Header::new(17, src.into(), dst.into(), payload_len).unwrap();
        let mut bytes = vec![0; 20 + payload_len];
        header.emit(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_good_packet_is_marked_and_cut() {
        let mut bytes = header([1, 0, 0, 1], [2, 0, 0, 2], 4);
        bytes.extend([0; 22]);
        let mut packet = Packet::new(&bytes).unwrap();
        assert_eq!(check().check(&mut packet), Ok(()));
        assert_eq!((packet.len(), packet.transport().len()), (24, 4));
        assert_eq!(packet.dst_ip(), [2, 0, 0, 2]);
    }

    #[test]
    fn bad_sources_and_good_destinations() {
        let mut packet = Packet::new(&header([0; 4], [2, 0, 0, 2], 0)).unwrap();
        assert_eq!(check().check(&mut packet), Err(CheckIpHeaderDrop::Source));
        let mut packet = Packet::new(&header([0; 4], [9, 9, 9, 9], 0)).unwrap();
        assert_eq!(check().check(&mut packet), Ok(()));
    }

    /// A packet that is nearly an IPv4 one, its checksum often right.
    fn nearly() -> impl Strategy<Value = Vec<u8>> {
        let version_ihl = prop_oneof![4 => Just(0x45u8), 2 => 0x40u8..0x50, 1 => any::<u8>()];
        let bytes = prop::collection::vec(any::<u8>(), 0..80);
        (bytes, version_ihl, 0u16..90, any::<bool>(), 0..6u8).prop_map(
            |(mut bytes, version_ihl, total_len, fix, source)| {
                if bytes.len() >= 20 {
                    bytes[0] = version_ihl;
                    bytes[2..4].copy_from_slice(&total_len.to_be_bytes());
                    if source < 3 {
                        bytes[12..16].fill(source);
                    }
                }
                let header_len = (usize::from(version_ihl & 15) * 4).min(bytes.len());
                if fix && header_len >= 20 {
                    bytes[10..12].fill(0);
                    let sum = checksum::checksum(&bytes[..header_len]);
                    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
                }
                bytes
            },
        )
    }

    proptest! {
        /// The short path says what the header view and a plain checksum say.
        #[test]
        fn agrees_with_the_header_view(bytes in nearly()) {
            let wanted = match Ipv4Header::parse_with_options(&bytes) {
                Ok((header, options, _)) if header.checksum_ok(options) => Ok(()),
                Ok(_) => Err(CheckIpHeaderDrop::Checksum),
                Err(error) => Err(match error.defect {
                    Defect::TooShort { required_len: 20, .. } => CheckIpHeaderDrop::Tiny,
                    Defect::BadVersion { .. } => CheckIpHeaderDrop::Version,
                    Defect::BadHeaderLength { .. } => CheckIpHeaderDrop::HeaderLength,
                    // A header longer than the packet has a bad total length too.
                    _ => CheckIpHeaderDrop::Length,
                }),
            };
            let mut packet = Packet::new(&bytes).unwrap();
            let check = Check { bad_src: Addresses::default(), ..check() };
            prop_assert_eq!(check.check(&mut packet), wanted);
        }

        /// Groups are marked as their packets would be one by one, except for those with unusual
        /// headers.
        #[test]
        fn groups_are_marked_as_single_packets(
            packets in prop::collection::vec(nearly(), 0..40),
            checksum: bool,
            offset in prop_oneof![3 => Just(0usize), 1 => 0usize..30],
            bad in prop::sample::select(vec![0u8, 2, 30]),
        ) {
            let mut check = Check { checksum, offset, ..check() };
            (1..=bad).for_each(|nth| check.bad_src.push([nth; 4]));
            let packets: Vec<_> = packets
                .into_iter()
                .map(|bytes| Packet::new(&[vec![0; offset], bytes].concat()).unwrap())
                .collect();
            let mut batch: Batch = packets.iter().filter_map(Packet::duplicate).collect();
            let group_bits = |group: &mut [Packet; LANES]| check.mark_group(group);
            let marked = Marked::by_groups(batch.iter_mut().into_slice(), group_bits);
            let is_long = |packet: &Packet| packet.len() >= offset + 20;
            let stands_in_a_group = |at: usize| {
                let group = packets.get(at / LANES * LANES..at / LANES * LANES + LANES);
                group.is_some_and(|group| group.iter().all(is_long))
            };
            let stand_in_groups: Vec<bool> = (0..packets.len()).map(stands_in_a_group).collect();
            for (at, (mut alone, packet)) in packets.into_iter().zip(&batch).enumerate() {
                let is_plain = alone.data().get(offset).is_some_and(|first| *first == 0x45)
                    && is_long(&alone)
                    && !check.bad_src.contains([12, 13, 14, 15].map(|of| alone.data()[offset + of]));
                let is_good = check.check(&mut alone).is_ok();
                prop_assert_eq!(marked.holds(at), is_good && is_plain && stand_in_groups[at]);
                if marked.holds(at) {
                    prop_assert_eq!(packet.data(), alone.data());
                    prop_assert_eq!(packet.network_offset(), alone.network_offset());
                    prop_assert_eq!(packet.transport_offset(), alone.transport_offset());
                    prop_assert_eq!(packet.dst_ip(), alone.dst_ip());
                }
            }
        }
    }
}
