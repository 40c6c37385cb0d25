//! ARPResponder: says where this host's addresses are (RFC 826).

use std::fmt::Write;
use std::net::Ipv4Addr;

use thruway_element::text::{join, split_args, split_words};
use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, HandlerError, Handlers, IpPrefix, Names, Operation,
    Replicas, Spec, Topic, Ty, Wants, reasons,
};
use thruway_packet::{Anno, Batch, Packet};
use thruway_wire::arp::{self, ArpPacket};
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::{Header, MacAddr};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<ArpResponder>(
    Spec {
        name: "ARPResponder",
        topic: Topic::Ip,
        summary: "answers ARP queries",
        docs: "Each argument is one or more IP addresses or prefixes and an Ethernet address (or a \
               name that stands for both, see AddressInfo): ARP queries for those addresses are \
               answered with it. The most specific prefix counts. Queries enter with their \
               Ethernet header and come out as replies. Other packets leave by output 1, \
               or is dropped where there is none.",
        example: "InfiniteSource(\\<ffffffffffff 020000000001 0806 0001 0800 06 04 0001 \
                  020000000001 01000001 000000000000 01000002>, LIMIT 1, STOP true) \
                  -> ARPResponder(1.0.0.2 02:00:00:00:00:02) -> Print(reply) -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        args: &[Arg::rest("ENTRY", Ty::Rule("IP/MASK... ETH"), "addresses and where they are")],
        drops: Other::DROPS,
        wants: Wants { classes: &["arp request"], ..Wants::NOTHING },
        cost: &[Operation::HeaderRead.once(), Operation::HeaderWrite.once()],
        replicas: Replicas::Alike,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet is not answered.
    enum Other {
        NotQuery = "not-query": "it is no ARP query for an IPv4 address over Ethernet",
        NotOurs = "not-ours": "the query is for an address that has no entry",
    }
}

/// Where the addresses of a prefix are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PrefixEntry {
    /// Its host bits are zero.
    prefix: IpPrefix,
    mac: MacAddr,
}

/// Index of an argument, and what is wrong with it.
type Wrong = (usize, String);

/// Places, the more specific ones first.
#[derive(Debug, Clone, Default)]
struct PrefixTable(Vec<PrefixEntry>);

impl PrefixTable {
    /// All of these arguments, and the prefixes that several of them are about: the last counts.
    fn of<'a>(
        texts: impl Iterator<Item = (usize, &'a str)>,
        names: &Names,
    ) -> Result<(PrefixTable, Vec<IpPrefix>), Vec<Wrong>> {
        let (mut table, mut repeated, mut wrong) = (PrefixTable::default(), Vec::new(), Vec::new());
        for (index, text) in texts {
            match table.add(text, names) {
                Ok(again) => repeated.extend(again),
                Err(why) => wrong.push((index, why)),
            }
        }
        if wrong.is_empty() { Ok((table, repeated)) } else { Err(wrong) }
    }

    /// Adds the prefixes of one argument; a prefix that is there already (these are returned) gets
    /// the new address.
    fn add(&mut self, text: &str, names: &Names) -> Result<Vec<IpPrefix>, String> {
        let words = split_words(text);
        let (mut prefixes, mut macs) = (Vec::<IpPrefix>::new(), Vec::<MacAddr>::new());
        for word in &words {
            match (names.parse(word), names.parse(word)) {
                (Ok(prefix), _) => prefixes.push(prefix),
                (_, Ok(mac)) => macs.push(mac),
                _ => return Err(format!("'{word}': expected IP/MASK ETH")),
            }
        }
        // A name may stand for both.
        if macs.is_empty() {
            macs.extend(words.iter().find_map(|word| names.parse::<MacAddr>(word).ok()));
        }
        let &[mac] = &macs[..] else {
            let what = if macs.is_empty() { "missing ETH" } else { "more than one ETH" };
            return Err(format!("{what}; expected IP/MASK ETH"));
        };
        if prefixes.is_empty() {
            return Err("missing IP/MASK; expected IP/MASK ETH".into());
        }
        Ok(prefixes.into_iter().map(canonical).filter(|prefix| self.put(*prefix, mac)).collect())
    }

    /// Enters a prefix; says whether it takes the place of another entry.
    fn put(&mut self, prefix: IpPrefix, mac: MacAddr) -> bool {
        let again = self.remove(prefix);
        // In front of the first that is less specific: its mask lacks a bit of this one's.
        let mask = prefix.mask.to_bits();
        let at = self.0.iter().position(|place| {
            let other = place.prefix.mask.to_bits();
            mask & other == other && mask != other
        });
        self.0.insert(at.unwrap_or(self.0.len()), PrefixEntry { prefix, mac });
        again
    }

    fn look_up(&self, ip: Ipv4Addr) -> Option<MacAddr> {
        self.0.iter().find(|place| place.prefix.contains(ip)).map(|place| place.mac)
    }

    fn remove(&mut self, prefix: IpPrefix) -> bool {
        let before = self.0.len();
        self.0.retain(|place| place.prefix != prefix);
        self.0.len() < before
    }
}

/// The prefix without host bits.
fn canonical(prefix: IpPrefix) -> IpPrefix {
    let addr = Ipv4Addr::from_bits(prefix.addr.to_bits() & prefix.mask.to_bits());
    IpPrefix { addr, ..prefix }
}

fn show(prefix: &IpPrefix) -> String {
    match prefix.length() {
        Some(length) => format!("{}/{length}", prefix.addr),
        None => format!("{}/{}", prefix.addr, prefix.mask),
    }
}

#[derive(Handlers)]
#[handler(
    both, field = config, "the entries; those written take the place of all",
    write = self.write_config(cx, value)
)]
#[handler(
    read, name = "table", "a line per prefix: prefix, Ethernet address", read = self.read_table()
)]
#[handler(
    read, name = "lookup", "the Ethernet address for an IP address, empty for none",
    read = self.read_lookup(param)
)]
#[handler(write, name = "add", "adds IP/MASK... ETH", write = self.write_add(value))]
#[handler(write, name = "remove", "removes IP/MASK", write = self.write_remove(value))]
struct ArpResponder {
    table: PrefixTable,
    names: Names,
    config: String,
    /// Prefixes that occurred twice in the configuration, still to be reported.
    repeated: Vec<IpPrefix>,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let names = args.names();
    let (table, repeated) = PrefixTable::of(args.rest(), &names).map_err(|wrong| {
        ArgErrors(wrong.into_iter().map(|(at, why)| args.rest_error(at, why)).collect())
    })?;
    let config = join(&args.rest().map(|(_, text)| text).collect::<Vec<_>>());
    Ok(Box::new(ArpResponder { table, names, config, repeated }))
}

/// The reply to a query.
fn reply(frame: &[u8], table: &PrefixTable) -> Result<[u8; 42], Other> {
    let (ether, body) = EthernetHeader::parse(frame).map_err(|_| Other::NotQuery)?;
    let (query, _) = ArpPacket::parse(body).map_err(|_| Other::NotQuery)?;
    if ether.ethertype() != ethertype::ARP || query.operation() != arp::REQUEST {
        return Err(Other::NotQuery);
    }
    let mac = table.look_up(query.target_addr()).ok_or(Other::NotOurs)?;
    let mut reply = [0; EthernetHeader::LEN + ArpPacket::LEN];
    let ether = EthernetHeader::new(query.sender_mac(), mac, ethertype::ARP);
    // The array has just that length.
    let _ = ether.emit(&mut reply).and_then(|rest| query.reply_from(mac).emit(rest));
    Ok(reply)
}

impl ArpResponder {
    fn answer(&self, cx: &mut Cx<'_>, packet: Packet) {
        let reply = match reply(packet.data(), &self.table) {
            Ok(reply) => reply,
            Err(other) => return cx.reject(1, other, packet),
        };
        let Some(mut answer) = cx.packet(&reply) else { return };
        answer.set_mac_offset(0);
        answer.set_network(EthernetHeader::LEN, 0);
        answer.set_anno_number(Anno::VLAN_TCI, packet.anno_number(Anno::VLAN_TCI));
        cx.emit(0, answer);
    }
}

impl ArpResponder {
    /// Reports on entries that others hide.
    fn warn(&mut self, cx: &mut Cx<'_>) {
        let name = cx.name();
        for prefix in std::mem::take(&mut self.repeated) {
            let what = show(&prefix);
            cx.log(&format!(
                "While configuring '{name} :: ARPResponder':\n  warning: multiple entries for {what}"
            ));
        }
    }
}

impl ArpResponder {
    fn read_table(&mut self) -> Result<String, HandlerError> {
        let mut text = String::new();
        for place in &self.table.0 {
            let _ = writeln!(text, "{} {:#}", show(&place.prefix), place.mac.dashed());
        }
        Ok(text)
    }

    fn read_lookup(&mut self, param: &str) -> Result<String, HandlerError> {
        let mac = self.table.look_up(self.names.handler_value("lookup", param)?);
        Ok(mac.map_or(String::new(), |mac| format!("{:#}", mac.dashed())))
    }

    fn write_config(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        // All or nothing.
        let args = split_args(value);
        let texts = args.iter().map(|(text, _)| (0, &**text));
        let (table, repeated) = PrefixTable::of(texts, &self.names).map_err(|wrong| {
            let why: Vec<String> = wrong.into_iter().map(|(_, why)| why).collect();
            HandlerError::refused(format!("config: {}", why.join("; ")))
        })?;
        (self.table, self.repeated) = (table, repeated);
        self.config = value.trim().to_owned();
        self.warn(cx);
        Ok(())
    }

    fn write_add(&mut self, value: &str) -> Result<(), HandlerError> {
        let added = self.table.add(value, &self.names);
        added.map(drop).map_err(|why| HandlerError::refused(format!("add: {why}")))
    }

    fn write_remove(&mut self, value: &str) -> Result<(), HandlerError> {
        let prefix = canonical(self.names.handler_value("remove", value)?);
        match self.table.remove(prefix) {
            true => Ok(()),
            false => Err(HandlerError::refused(format!("{} not found", show(&prefix)))),
        }
    }
}

impl Element for ArpResponder {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.warn(cx);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            self.answer(cx, packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn add(table: &mut PrefixTable, text: &str) -> Result<(), String> {
        table.add(text, &Names::default()).map(drop)
    }

    #[test]
    fn the_most_specific_counts_and_the_last_replaces() {
        let mut table = PrefixTable::default();
        add(&mut table, "0/0 2:0:0:0:0:1").unwrap();
        add(&mut table, "1.0.0.0/8 1.2.0.0/16 2:0:0:0:0:2").unwrap();
        add(&mut table, "1.2.3.4 2:0:0:0:0:3").unwrap();
        let again = table.add("1.2.9.9/16 2:0:0:0:0:4", &Names::default()).unwrap();
        assert_eq!(again, [IpPrefix::parse("1.2.0.0/16").unwrap()]);
        let last = |ip: [u8; 4]| table.look_up(ip.into()).unwrap().0[5];
        assert_eq!([last([1, 2, 3, 4]), last([1, 2, 0, 0])], [3, 4]);
        assert_eq!([last([1, 9, 9, 9]), last([9, 9, 9, 9])], [2, 1]);
        assert_eq!(table.0.len(), 4);
        assert!(table.remove(IpPrefix::parse("0/0").unwrap()));
        assert_eq!(table.look_up([9, 9, 9, 9].into()), None);
    }

    #[test]
    fn wrong_entries() {
        let mut table = PrefixTable::default();
        for (text, why) in [
            ("1.0.0.1", "missing ETH"),
            ("2:0:0:0:0:1", "missing IP/MASK"),
            ("1.0.0.1 2:0:0:0:0:1 2:0:0:0:0:2", "more than one ETH"),
            ("1.0.0.1 nonsense", "'nonsense'"),
            ("", "missing ETH"),
        ] {
            assert!(add(&mut table, text).unwrap_err().starts_with(why), "{text}");
        }
        assert!(table.0.is_empty());
    }

    proptest! {
        /// The order by masks finds what a search for the longest prefix finds.
        #[test]
        fn order_is_longest_prefix(
            prefixes in prop::collection::vec((0u32..64, 0u32..7), 1..20),
            ip in 0u32..64,
        ) {
            let mut table = PrefixTable::default();
            let mut wanted: Option<(u32, usize)> = None;
            for (n, (bits, length)) in prefixes.iter().enumerate() {
                // Prefixes of the low six bits, so that they often overlap.
                let mask = u32::MAX << (6 - length);
                let prefix = IpPrefix { addr: (bits & mask).into(), mask: mask.into() };
                table.put(prefix, MacAddr::from_u64(n as u64));
                if bits & mask == ip & mask && wanted.is_none_or(|(best, _)| *length >= best) {
                    wanted = Some((*length, n));
                }
            }
            let found = table.look_up(ip.into()).map(|mac| mac.to_u64() as usize);
            prop_assert_eq!(found, wanted.map(|(_, n)| n));
        }

        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = reply(&bytes, &PrefixTable::default());
        }
    }
}
