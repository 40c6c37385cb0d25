//! IP6NDSolicitor: Ethernet headers by neighbour discovery (RFC 4861 section 7.2).

use std::any::Any;
use std::net::Ipv6Addr;

use thruway_element::{
    Arg, ArgErrors, Args, Cost, CostModel, Cx, Element, Entry, HandlerError, Handlers, HotSwap,
    Load, Names, Operation, Replicas, Spec, Topic, Ty, Wants,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::MacAddr;
use thruway_wire::ndp::{NeighborMessage, flags, solicited_node};

use super::neighbor::{self, Neighbor};
use crate::resolution::config::{self, EXPIRE_EVERY, limits_and_poll, own_mac};
use crate::resolution::{Lost, Query, Resolver};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<Ip6NdSolicitor>(
    Spec {
        name: "IP6NDSolicitor",
        topic: Topic::Ip6,
        summary: "puts IPv6 packets into Ethernet frames, with addresses found by discovery",
        docs: "IPv6 packets enter at input 0 with their next hop in the IPv6 destination \
               annotation (CheckIP6Header or LookupIP6Route sets it) and leave by output 0 in \
               Ethernet frames from ETH. While the next hop's Ethernet address is not known, the \
               packet is held and a neighbour solicitation is sent: by output 1 if there is one, \
               else by output 0. Neighbour advertisements enter at input 1 with their Ethernet \
               header; what waited for the address then goes out in order of arrival. Packets to \
               multicast groups need no solicitation; packets to :: are dropped.\n\
               An address is asked for at most once a second (RFC 4861 section 10), an address in \
               use that was not confirmed for POLL_TIMEOUT by unicast, while its packets still \
               flow; one not confirmed for TIMEOUT is forgotten. Advertisements must be valid (RFC \
               4861 section 7.1.2); those for addresses that nobody asked for are not learnt, and \
               those without the override flag do not replace a known address (section 7.2.5). The \
               bounds of held packets and addresses are ARPQuerier's. Different from Click: more \
               than one packet waits for an address, and all of them go out.",
        example: "InfiniteSource(\\<6000000000003b4020010db8000000000000000000000001 \
                  20010db8000000000000000000000002>, LIMIT 1, STOP true) -> CheckIP6Header \
                  -> nd :: IP6NDSolicitor(fe80::1, 02:00:00:00:00:01) -> Print(nd) -> Discard; \
                  Idle -> [1] nd",
        ports: "2/1-2",
        processing: "h/h",
        flow: "xy/x",
        args: &[
            Arg::required("IP", Ty::Ip6, "this host's address"),
            Arg::optional("ETH", Ty::Ether, "this host's Ethernet address; as IP if left out"),
            config::CAPACITY,
            config::ENTRY_CAPACITY,
            config::ENTRY_PACKET_CAPACITY,
            config::CAPACITY_SLIM_FACTOR,
            Arg::keyword("TIMEOUT", Ty::Time, "an unconfirmed address is forgotten; 0 for never")
                .or("120s"),
            Arg::keyword(
                "POLL_TIMEOUT",
                Ty::Time,
                "an address in use is asked for again; 0: never",
            )
            .or("60s"),
        ],
        drops: Lost::DROPS,
        wants: Wants { classes: &["-", "12/86dd 20/3a 54/88"], ..Wants::NOTHING },
        cost: &[Operation::HashLookup.once(), Operation::HeaderWrite.once()],
        replicas: Replicas::Sharing("the table of addresses, with the packets that wait"),
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_cost_model::<Ip6NdSolicitor>()
.with_hot_swap::<Ip6NdSolicitor>();

/// Shortest time between solicitations for one address: RETRANS_TIMER (RFC 4861 section 10), in ns.
const RETRANS_TIMER: i64 = 1_000_000_000;
/// The same once they went unanswered.
const QUERY_INTERVAL_LATE: i64 = 3_000_000_000;

#[derive(Handlers)]
#[handler(
    read, shared, name = "table", "a line per address: address, known, Ethernet, age",
    read = self.look(cx, name)
)]
#[handler(
    sum, name = "stats", "packets dropped and solicitations sent, in words",
    read = self.read_stats()
)]
#[handler(sum, field = queries, "solicitations sent")]
#[handler(sum, field = responses, "packets received at input 1")]
#[handler(sum, name = "drops", "packets dropped", read = self.look(cx, name))]
#[handler(read, shared, name = "count", "addresses in the table", read = self.look(cx, name))]
#[handler(read, shared, name = "length", "packets that wait", read = self.look(cx, name))]
#[handler(write, shared, name = "insert", "enters IP6 ETH", run = self.change(cx, name, value)?)]
#[handler(write, shared, name = "delete", "forgets IP6", run = self.change(cx, name, value)?)]
#[handler(
    write, name = "clear", "forgets all, drops what waits, sets the counts to zero",
    write = self.write_clear(cx)
)]
struct Ip6NdSolicitor {
    resolver: Resolver<Ipv6Addr>,
    ip: Ipv6Addr,
    mac: MacAddr,
    names: Names,
    expires: bool,
    queries: u64,
    responses: u64,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let mac = own_mac(args)?;
    let limits = limits_and_poll(args, (RETRANS_TIMER, QUERY_INTERVAL_LATE))?;
    Ok(Box::new(Ip6NdSolicitor {
        resolver: Resolver::new(args, limits, mac, Ipv6Addr::UNSPECIFIED),
        ip: args.get("IP")?,
        mac,
        names: args.names(),
        expires: limits.timeout != 0,
        queries: 0,
        responses: 0,
    }))
}

/// The Ethernet address that an advertisement tells, given what is known of its target (RFC 4861
/// section 7.2.5): `Some(None)` asked for, `Some(Some(mac))` known. `None` when nothing is learnt.
fn news(told: &Neighbor, known: Option<Option<MacAddr>>) -> Option<MacAddr> {
    let overrides = told.flags & flags::OVERRIDE != 0;
    match (known?, told.link.filter(|mac| !mac.is_multicast())) {
        (None, link) => link,
        (Some(old), None) => Some(old),
        (Some(old), Some(new)) => (overrides || old == new).then_some(new),
    }
}

impl Ip6NdSolicitor {
    fn send_queries(&mut self, cx: &mut Cx<'_>) {
        while !self.resolver.queries.is_empty() {
            let mut queries = std::mem::take(&mut self.resolver.queries);
            for query in &queries {
                self.send_query(cx, query);
            }
            queries.clear();
            self.resolver.queries = queries;
        }
    }

    fn send_query(&mut self, cx: &mut Cx<'_>, query: &Query<Ipv6Addr>) {
        let (to, to_mac) = match query.to {
            Some(mac) => (query.address, mac),
            None => {
                let group = solicited_node(query.address);
                (group, MacAddr::ipv6_multicast(group))
            }
        };
        let message = NeighborMessage::solicitation(query.address);
        let frame = neighbor::frame(&message, (self.mac, to_mac), (self.ip, to));
        if let Some(packet) = query.packet(cx, &frame) {
            self.queries += 1;
            cx.emit(cx.outputs().saturating_sub(1).min(1), packet);
        }
    }

    fn take_answer(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        self.responses += 1;
        let Some(told) = neighbor::parse(packet.data()).filter(|told| !told.solicits) else {
            cx.drop(Lost::BadAnswer, packet);
            return;
        };
        if let Some(mac) = news(&told, self.resolver.entry(told.target, cx.now())) {
            self.resolver.learn(cx, told.target, mac);
        }
        cx.drop(Lost::Answer, packet);
        self.send_queries(cx);
    }
}

impl Element for Ip6NdSolicitor {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.expires {
            cx.set_timer(0, cx.now() + EXPIRE_EVERY);
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        if port == 0 {
            self.resolver.encapsulate(cx, batch);
            self.send_queries(cx);
            return;
        }
        for packet in batch.drain() {
            self.take_answer(cx, packet);
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.resolver.expire(cx);
        cx.set_timer(0, cx.now() + EXPIRE_EVERY);
    }
}

impl Ip6NdSolicitor {
    fn look(&self, cx: &Cx<'_>, name: &str) -> Result<String, HandlerError> {
        config::read(self.resolver.shared(), self.resolver.drops, cx.now(), name)
            .ok_or_else(|| HandlerError::no_read(name))
    }

    fn change(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let (address, mac) = config::change(&self.names, name, value)?;
        self.resolver.learn(cx, address, mac);
        Ok(())
    }

    fn read_stats(&mut self) -> Result<String, HandlerError> {
        let (drops, queries) = (self.resolver.drops, self.queries);
        Ok(format!("{drops} packets killed\n{queries} ND Solicitation Message sent\n"))
    }

    fn write_clear(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        self.resolver.clear(cx);
        (self.queries, self.responses, self.resolver.drops) = (0, 0, 0);
        Ok(())
    }
}

impl HotSwap for Ip6NdSolicitor {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(self.resolver.hand_over(self.ip))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        self.resolver.take_over(self.ip, state);
    }
}

impl CostModel for Ip6NdSolicitor {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        Some(self.resolver.cost(load))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_learnt() {
        let (old, new) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        let told = |link, flags| Neighbor {
            ether_src: new,
            src: Ipv6Addr::LOCALHOST,
            solicits: false,
            target: Ipv6Addr::LOCALHOST,
            flags,
            link,
        };
        // Not asked for; asked for; known.
        assert_eq!(news(&told(Some(new), flags::OVERRIDE), None), None);
        assert_eq!(news(&told(Some(new), 0), Some(None)), Some(new));
        assert_eq!(news(&told(None, 0), Some(None)), None);
        assert_eq!(news(&told(Some(MacAddr::BROADCAST), 0), Some(None)), None);
        assert_eq!(news(&told(Some(new), 0), Some(Some(old))), None);
        assert_eq!(news(&told(Some(new), flags::OVERRIDE), Some(Some(old))), Some(new));
        assert_eq!(news(&told(Some(old), 0), Some(Some(old))), Some(old));
        assert_eq!(news(&told(None, flags::SOLICITED), Some(Some(old))), Some(old));
    }
}
