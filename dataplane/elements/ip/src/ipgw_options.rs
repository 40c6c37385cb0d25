//! IPGWOptions: what a gateway does with IP options.

use std::net::Ipv4Addr;

use thruway_element::text::split_words;
use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, ShortCut,
    Spec, Topic, Ty, Verdict, reasons,
};
use thruway_packet::{Anno, Batch, Packet};
use thruway_wire::Header;
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::ipv4_option as option;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<IpGwOptions>(
    Spec {
        name: "IPGWOptions",
        topic: Topic::Ip,
        summary: "processes record route and timestamp options of IP packets",
        docs: "Expects marked IP headers. Enters MYADDR into Record Route options, and the time \
               (and MYADDR) into Timestamp options, as a gateway must (RFC 791 section 3.1, RFC \
               1812 section 5.2.4); a prespecified timestamp is entered when its address is MYADDR \
               or one of OTHERADDRS. The checksum is recomputed. All other options pass as they \
               are. A packet with a bad option leaves by output 1, or is dropped where there is \
               none, with its ICMP parameter problem annotation set to the offset of the bad byte, \
               for ICMPError(..., parameterproblem).",
        example: "InfiniteSource(\\<4600001800000000401175d3010000010200000201000000>, LIMIT 1, \
                  STOP true) -> CheckIPHeader -> IPGWOptions(18.26.4.24) -> Print(ok) -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        straight: true,
        args: &[
            Arg::required("MYADDR", Ty::Ip, "address to enter into options"),
            Arg::optional("OTHERADDRS", Ty::Any, "this router's other addresses"),
        ],
        drops: IpGwOptionsDrop::DROPS,
        changes: Changes::Headers,
        cost: &[Operation::HeaderRead.once()],
        replicas: Replicas::Alike,
        short_cut: ShortCut::Passes,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet is not forwarded.
    enum IpGwOptionsDrop {
        Option = "bad-option": "an option has a bad length, pointer or flag",
        NoHeader = "no-ip-header": "no sound IP header is marked",
    }
}

/// The gateway's entries in options.
pub(super) struct Gateway {
    address: [u8; 4],
    /// All addresses that are its own.
    own: Vec<[u8; 4]>,
}

#[derive(Handlers)]
struct IpGwOptions {
    gateway: Gateway,
    /// packets with bad options
    #[handler(sum)]
    drops: u64,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let address = args.get::<Ipv4Addr>("MYADDR")?.octets();
    let mut own = vec![address];
    for word in split_words(args.text("OTHERADDRS").unwrap_or_default()) {
        let other: Ipv4Addr = args.parse(word).map_err(|why| args.error("OTHERADDRS", why))?;
        own.push(other.octets());
    }
    Ok(Box::new(IpGwOptions { gateway: Gateway { address, own }, drops: 0 }))
}

/// Milliseconds since midnight UT (RFC 791 section 3.1, Internet Timestamp).
fn milliseconds_of_day(now_ns: i64) -> u32 {
    (now_ns.div_euclid(1_000_000).rem_euclid(86_400_000)) as u32
}

impl Gateway {
    /// A gateway with one address.
    pub(super) fn new(address: [u8; 4]) -> Gateway {
        Gateway { address, own: vec![address] }
    }

    /// Processes all options. True when something was written; `Err` with the offset of the bad
    /// byte in the options.
    fn process(&self, options: &mut [u8], ms: u32) -> Result<bool, usize> {
        let mut at = 0;
        let mut written = false;
        while at < options.len() {
            let kind = options[at];
            match kind {
                option::END => break,
                option::NOP => {
                    at += 1;
                    continue;
                }
                _ => {}
            }
            let len = options.get(at + 1).map_or(0, |len| usize::from(*len));
            let rest = &mut options[at..];
            if len < 2 || len > rest.len() {
                return Err(at + 1);
            }
            let option = &mut rest[..len];
            written |= match kind {
                option::RECORD_ROUTE => self.record_route(option),
                option::TIMESTAMP => self.timestamp(option, ms),
                _ => Ok(false),
            }
            .map_err(|offset| at + offset)?;
            at += len;
        }
        Ok(written)
    }

    /// Record Route: kind, length, pointer (counted from 1), addresses.
    fn record_route(&self, option: &mut [u8]) -> Result<bool, usize> {
        let &[_, _, pointer, ..] = &*option else { return Err(1) };
        let at = usize::from(pointer).wrapping_sub(1);
        // A full list passes; room for part of an address only is an error (RFC 791 section 3.1).
        if at == option.len() {
            return Ok(false);
        }
        match at.checked_add(4).and_then(|end| option.get_mut(at..end)) {
            Some(place) if at >= 3 => place.copy_from_slice(&self.address),
            _ => return Err(2),
        }
        option[2] = pointer + 4;
        Ok(true)
    }

    /// Internet Timestamp: kind, length, pointer (counted from 1), overflow and flag, entries.
    fn timestamp(&self, option: &mut [u8], ms: u32) -> Result<bool, usize> {
        let &[_, _, pointer, overflow_flag, ..] = &*option else { return Err(1) };
        let at = usize::from(pointer).wrapping_sub(1);
        if at < 4 || at == usize::MAX {
            return Err(2);
        }
        let (overflow, flag) = (overflow_flag >> 4, overflow_flag & 15);
        let size = match flag {
            0 => 4,
            1 | 3 => 8,
            _ => return Err(3),
        };
        let Some(entry) = option.get_mut(at..at + size) else {
            // No room is an error for a prespecified address and when nothing counts it any more.
            if flag == 3 || overflow == 15 {
                return Err(3);
            }
            option[3] = (overflow + 1) << 4 | flag;
            return Ok(true);
        };
        let (address, time) = entry.split_at_mut(size - 4);
        match flag {
            1 => address.copy_from_slice(&self.address),
            3 if !self.own.iter().any(|own| own == address) => return Ok(false),
            _ => {}
        }
        time.copy_from_slice(&ms.to_be_bytes());
        option[2] = pointer + size as u8;
        Ok(true)
    }

    /// Processes a packet with options; `Err` with the offset of the bad byte in the IP header.
    #[cold]
    pub(super) fn rewrite(&self, network: &mut [u8], now_ns: i64) -> Result<(), Option<usize>> {
        let Ok((header, options, _)) = Ipv4Header::parse_with_options_mut(network) else {
            return Err(None);
        };
        let written = self.process(options, milliseconds_of_day(now_ns));
        if written.map_err(|offset| Some(Ipv4Header::LEN + offset))? {
            header.fill_checksum(options);
        }
        Ok(())
    }
}

impl IpGwOptions {
    #[inline]
    fn judge(&mut self, packet: &mut Packet, now_ns: i64) -> Verdict {
        let network = packet.network_mut();
        if network.len() >= Ipv4Header::LEN && network[0] == 0x45 {
            return Verdict::Pass;
        }
        match self.gateway.rewrite(network, now_ns) {
            Ok(()) => Verdict::Pass,
            Err(None) => Verdict::reject(1, IpGwOptionsDrop::NoHeader),
            Err(Some(offset)) => {
                self.drops += 1;
                packet.set_anno_number(Anno::ICMP_PARAM, offset as u32);
                Verdict::reject(1, IpGwOptionsDrop::Option)
            }
        }
    }
}

impl Element for IpGwOptions {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let now = cx.now();
        cx.filter(batch, |packet| self.judge(packet, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ME: [u8; 4] = [18, 26, 4, 24];

    fn gateway() -> Gateway {
        Gateway { address: ME, own: vec![ME, [7, 7, 7, 7]] }
    }

    fn run(options: &[u8]) -> (Result<bool, usize>, Vec<u8>) {
        let mut options = options.to_vec();
        (gateway().process(&mut options, 0x0102_0304), options)
    }

    #[test]
    fn record_route() {
        let (result, out) = run(&[1, 7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((result, out), (Ok(true), vec![1, 7, 11, 8, 18, 26, 4, 24, 0, 0, 0, 0]));
        // Full.
        assert_eq!(run(&[7, 7, 8, 1, 1, 1, 1, 0]).0, Ok(false));
        // Room for part of an address, pointer into the option's head, pointer of 0, no pointer.
        assert_eq!(run(&[7, 9, 8, 1, 1, 1, 1, 0, 0, 0, 0, 0]).0, Err(2));
        assert_eq!(run(&[7, 7, 3, 0, 0, 0, 0, 0]).0, Err(2));
        assert_eq!(run(&[7, 7, 0, 0, 0, 0, 0, 0]).0, Err(2));
        assert_eq!(run(&[1, 7, 2, 0]).0, Err(2));
    }

    #[test]
    fn timestamps() {
        let (result, out) = run(&[68, 8, 5, 0, 0, 0, 0, 0]);
        assert_eq!((result, out), (Ok(true), vec![68, 8, 9, 0, 1, 2, 3, 4]));
        let (result, out) = run(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((result, out), (Ok(true), vec![68, 12, 13, 1, 18, 26, 4, 24, 1, 2, 3, 4]));
        let (result, out) = run(&[68, 12, 5, 3, 7, 7, 7, 7, 0, 0, 0, 0]);
        assert_eq!((result, out), (Ok(true), vec![68, 12, 13, 3, 7, 7, 7, 7, 1, 2, 3, 4]));
        assert_eq!(run(&[68, 12, 5, 3, 6, 6, 6, 6, 0, 0, 0, 0]).0, Ok(false));
        // Overflow is counted up to 15.
        let (result, out) = run(&[68, 8, 9, 0xe0, 0, 0, 0, 0]);
        assert_eq!((result, out[3]), (Ok(true), 0xf0));
        assert_eq!(run(&[68, 8, 9, 0xf0, 0, 0, 0, 0]).0, Err(3));
        assert_eq!(run(&[68, 8, 5, 2, 0, 0, 0, 0]).0, Err(3));
        assert_eq!(run(&[68, 8, 4, 0, 0, 0, 0, 0]).0, Err(2));
        assert_eq!(run(&[68, 8, 0, 0, 0, 0, 0, 0]).0, Err(2));
    }

    #[test]
    fn bad_lengths() {
        assert_eq!(run(&[1, 1, 1, 7]).0, Err(4));
        assert_eq!(run(&[1, 130, 1, 0]).0, Err(2));
        assert_eq!(run(&[1, 130, 4, 0]).0, Err(2));
        assert_eq!(run(&[0, 130, 4, 0]).0, Ok(false));
        assert_eq!(milliseconds_of_day(86_400_000_000_000 * 3 + 5_000_000), 5);
    }

    proptest! {
        #[test]
        fn random_options_never_panic(options in prop::collection::vec(
            prop_oneof![4 => any::<u8>(), 1 => Just(7u8), 1 => Just(68u8), 2 => 0u8..16], 0..41,
        )) {
            let (result, out) = run(&options);
            prop_assert_eq!(out.len(), options.len());
            if let Err(offset) = result {
                prop_assert!(offset <= options.len());
            }
            if result == Ok(false) {
                prop_assert_eq!(out, options);
            }
        }
    }
}
