//! ARPQuerier: Ethernet headers by ARP (RFC 826).

use std::any::Any;
use std::net::Ipv4Addr;

use thruway_element::{
    Arg, ArgErrors, Args, Cost, CostModel, Cx, Element, Entry, Handlers, HotSwap, IpPrefix, Load,
    Operation, Replicas, Resize, ShortCut, Spec, Topic, Ty, Wants,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::arp::{self, ArpPacket};
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::{Header, MacAddr};

use super::resolution::config::{self, limits_and_poll, own_mac};
use super::resolution::{Lost, Questioner, Resolver};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<ArpQuerier>(
    Spec {
        name: "ARPQuerier",
        topic: Topic::Ip,
        summary: "puts IP packets into Ethernet frames, with addresses found by ARP",
        docs: "IP packets enter at input 0 with their next hop in the destination annotation \
               (CheckIPHeader, GetIPAddress or a route table sets it) and leave by output 0 in \
               Ethernet frames from ETH. While the next hop's Ethernet address is not known, the \
               packet is held and an ARP query is sent: by output 1 if there is one, else by \
               output 0. ARP replies enter at input 1 with their Ethernet header; what waited for \
               the address then goes out in order of arrival. With one argument, IP is a name that \
               stands for both addresses (AddressInfo).\n\
               Packets to 255.255.255.255, to BROADCAST or to a multicast group need no query. \
               Packets to 0.0.0.0 are dropped. An address is asked for at most ten times a second, \
               and every two seconds once ten queries went unanswered. An address in use that was \
               not confirmed for POLL_TIMEOUT is asked for again, by unicast unless \
               BROADCAST_POLL, after three of these by broadcast, while its packets still flow; \
               one not confirmed for TIMEOUT is forgotten. When an interface loses its link, all \
               addresses are resolved again (unless TIMEOUT is 0): another station may come back.\n\
               When more than CAPACITY packets wait, those that wait for the oldest entries are \
               dropped, 1/CAPACITY_SLIM_FACTOR of them at once. Threads share one table; with \
               TABLE, it is that of an ARPTable, which then has these four arguments and TIMEOUT. \
               Different from Click: entries are bounded even where ENTRY_CAPACITY is 0, by 65536, \
               so that a scan cannot use up memory.",
        example: "InfiniteSource(\\<45000014000000004011000001000001 02000002>, LIMIT 1, \
                  STOP true) -> MarkIPHeader -> GetIPAddress(16) \
                  -> q :: ARPQuerier(2.0.0.1, 02:00:00:00:00:01) -> Print(q) -> Discard; \
                  Idle -> [1] q",
        ports: "2/1-2",
        processing: "h/h",
        flow: "xy/x",
        args: &[
            Arg::required("IP", Ty::IpPrefix, "this host's address; a prefix implies BROADCAST"),
            Arg::optional("ETH", Ty::Ether, "this host's Ethernet address; as IP if left out"),
            Arg::keyword("TABLE", Ty::Element, "an ARPTable to use"),
            config::CAPACITY,
            config::ENTRY_CAPACITY,
            config::ENTRY_PACKET_CAPACITY,
            config::CAPACITY_SLIM_FACTOR,
            Arg::keyword("TIMEOUT", Ty::Time, "an unconfirmed address is forgotten; 0 for never")
                .or("300s"),
            Arg::keyword(
                "POLL_TIMEOUT",
                Ty::Time,
                "an address in use is asked for again; 0: never",
            )
            .or("60s"),
            Arg::keyword("BROADCAST", Ty::Ip, "packets to it go to all"),
            Arg::keyword("BROADCAST_POLL", Ty::Bool, "whether polls are broadcast").or("false"),
        ],
        drops: Lost::DROPS,
        cost: &[Operation::HashLookup.once()],
        wants: Wants { classes: &["-", "arp reply"], ..Wants::NOTHING },
        replicas: Replicas::Sharing("the table of addresses, with the packets that wait"),
        short_cut: ShortCut::Passes,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_cost_model::<ArpQuerier>()
.with_hot_swap::<ArpQuerier>()
.with_resize::<ArpQuerier>();

/// Arguments that belong to the table.
const OF_TABLE: [&str; 5] =
    ["CAPACITY", "ENTRY_CAPACITY", "ENTRY_PACKET_CAPACITY", "CAPACITY_SLIM_FACTOR", "TIMEOUT"];

/// Shortest time between two queries for an address: ten a second.
pub(super) const QUERY_INTERVAL: i64 = 100_000_000;
/// The same once they went unanswered.
pub(super) const QUERY_INTERVAL_LATE: i64 = 2_000_000_000;

#[derive(Handlers)]
#[handler(
    both, field = ip, name = "ipaddr", "this host's address",
    run = self.ip = self.asker.names.handler_value(name, value)?
)]
#[handler(
    both, name = "broadcast", "packets to it go to all", get = self.asker.resolver.broadcast(),
    run = self.asker.resolver.set_broadcast(self.asker.names.handler_value(name, value)?)
)]
struct ArpQuerier {
    #[part]
    asker: Questioner<Ipv4Addr>,
    /// Name of the ARPTable that it uses.
    borrows: Option<String>,
    ip: Ipv4Addr,
    mac: MacAddr,
    broadcast_poll: bool,
    zero_warned: bool,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let own: IpPrefix = args.get("IP")?;
    let mac = own_mac(args)?;
    let directed = Ipv4Addr::from_bits(own.addr.to_bits() | !own.mask.to_bits());
    let directed = if directed == own.addr { Ipv4Addr::BROADCAST } else { directed };
    let broadcast = args.opt("BROADCAST")?.unwrap_or(directed);
    let limits = limits_and_poll(args, (QUERY_INTERVAL, QUERY_INTERVAL_LATE))?;
    let borrows: Option<String> = args.opt("TABLE")?;
    let resolver = match &borrows {
        Some(name) => {
            let given = OF_TABLE.iter().find(|argument| args.text(argument).is_some());
            if let Some(argument) = given {
                return Err(args.error(argument, "belongs to TABLE; give it there").into());
            }
            Resolver::with_table(args, name, limits, (mac, broadcast))
        }
        None => Resolver::new(args, limits, mac, broadcast),
    };
    Ok(Box::new(ArpQuerier {
        asker: Questioner::new(args, resolver, limits.timeout != 0 && borrows.is_none()),
        borrows,
        ip: own.addr,
        mac,
        broadcast_poll: args.get("BROADCAST_POLL")?,
        zero_warned: false,
    }))
}

/// The mapping in an ARP reply; `None` for anything else (RFC 826 "Packet reception").
fn answer(frame: &[u8]) -> Option<(Ipv4Addr, MacAddr)> {
    let (ether, body) = EthernetHeader::parse(frame).ok()?;
    let (arp, _) = ArpPacket::parse(body).ok()?;
    let reply = ether.ethertype() == ethertype::ARP && arp.operation() == arp::REPLY;
    // A group address is no host's own (RFC 1812 section 3.3.2).
    let answer = (arp.sender_addr(), arp.sender_mac());
    (reply && !answer.1.is_multicast() && !answer.0.is_unspecified()).then_some(answer)
}

impl ArpQuerier {
    fn encapsulate(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if self.ip.is_unspecified() {
            self.asker.resolver.drops += batch.len() as u64;
            cx.drop_all(Lost::NotConfigured, batch);
            return;
        }
        let zero = !self.zero_warned && batch.iter().any(|packet| packet.dst_ip() == [0; 4]);
        self.asker.resolver.encapsulate(cx, batch);
        if zero {
            self.warn_of_zero(cx);
        }
        self.send_queries(cx);
    }

    #[cold]
    fn warn_of_zero(&mut self, cx: &mut Cx<'_>) {
        self.zero_warned = true;
        let node = cx.node();
        let name =
            cx.describe(node).map_or(String::new(), |(name, class)| format!("{name} :: {class}: "));
        let what = "would query for 0.0.0.0; missing dest IP addr annotation?";
        cx.log(&format!("{name}{what}"));
    }

    fn send_queries(&mut self, cx: &mut Cx<'_>) {
        let (mac, ip, to_all) = (self.mac, self.ip, self.broadcast_poll);
        self.asker.send(cx, |cx, query| {
            let to = query.to.filter(|_| !to_all).unwrap_or(MacAddr::BROADCAST);
            let mut frame = [0; EthernetHeader::LEN + ArpPacket::LEN];
            let ether = EthernetHeader::new(to, mac, ethertype::ARP);
            let request = ArpPacket::request(mac, ip, query.address);
            // The array has just that length.
            let _ = ether.emit(&mut frame).and_then(|rest| request.emit(rest));
            let mut packet = query.packet(cx, &frame)?;
            packet.set_network(EthernetHeader::LEN, 0);
            Some(packet)
        });
    }

    fn take_answer(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        if packet.len() >= EthernetHeader::LEN + ArpPacket::LEN {
            self.asker.responses += 1;
        }
        let Some((ip, mac)) = answer(packet.data()) else {
            cx.drop(Lost::BadAnswer, packet);
            return;
        };
        self.asker.resolver.learn(cx, ip, mac);
        cx.drop(Lost::Answer, packet);
        self.send_queries(cx);
    }
}

impl Element for ArpQuerier {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(name) = &self.borrows
            && !self.asker.resolver.find_table()
        {
            return Err(format!("TABLE: no ARPTable named '{name}'"));
        }
        self.asker.initialize(cx);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        if port == 0 {
            self.encapsulate(cx, batch);
            return;
        }
        for packet in batch.drain() {
            self.take_answer(cx, packet);
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.asker.timer(cx);
    }
}

impl HotSwap for ArpQuerier {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        // An ARPTable hands over its table itself.
        self.borrows.is_none().then(|| self.asker.resolver.hand_over(self.ip))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if self.borrows.is_none() {
            self.asker.resolver.take_over(self.ip, state);
        }
    }
}

impl Resize for ArpQuerier {
    /// All have one table, which the first has handed over.
    fn join(&mut self, _state: Box<dyn Any + Send>) {}
}

impl CostModel for ArpQuerier {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        Some(self.asker.resolver.cost(load))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(arp: &ArpPacket, ethertype: u16) -> Vec<u8> {
        let mut bytes = vec![0; 42];
        let ether = EthernetHeader::new(MacAddr::BROADCAST, MacAddr::ZERO, ethertype);
        let rest = ether.emit(&mut bytes).unwrap();
        arp.emit(rest).unwrap();
        bytes
    }

    #[test]
    fn answers_are_replies_of_one_station() {
        let mac = MacAddr([2, 0, 0, 0, 0, 9]);
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let request = ArpPacket::request(MacAddr::ZERO, a, b);
        let reply = request.reply_from(mac);
        assert_eq!(answer(&frame(&reply, ethertype::ARP)), Some((b, mac)));
        assert_eq!(answer(&frame(&reply, ethertype::IPV4)), None);
        assert_eq!(answer(&frame(&request, ethertype::ARP)), None);
        let group = request.reply_from(MacAddr::BROADCAST);
        assert_eq!(answer(&frame(&group, ethertype::ARP)), None);
        for len in 0..42 {
            assert_eq!(answer(&frame(&reply, ethertype::ARP)[..len]), None);
        }
    }
}
