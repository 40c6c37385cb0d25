//! IP6NDSolicitor: Ethernet headers by neighbour discovery (RFC 4861 section 7.2).

use std::any::Any;
use std::net::Ipv6Addr;

use thruway_element::{
    Arg, ArgErrors, Args, Cost, CostModel, Cx, Element, Entry, Handlers, HotSwap, Load, Operation,
    Replicas, Resize, Spec, Topic, Ty, Wants,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::MacAddr;
use thruway_wire::ndp::{NeighborMessage, flags, solicited_node};

use super::neighbor::{self, Neighbor};
use crate::resolution::config::{self, limits_and_poll, own_mac};
use crate::resolution::{Lost, Questioner, Resolver};

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
               4861 section 7.1.2); unsolicited ones are not learnt, and \
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
.with_hot_swap::<Ip6NdSolicitor>()
.with_resize::<Ip6NdSolicitor>();

/// Shortest time between solicitations for one address: RETRANS_TIMER (RFC 4861 section 10), in ns.
const RETRANS_TIMER: i64 = 1_000_000_000;
/// The same once they went unanswered.
const QUERY_INTERVAL_LATE: i64 = 3_000_000_000;

#[derive(Handlers)]
struct Ip6NdSolicitor {
    #[part]
    asker: Questioner<Ipv6Addr>,
    ip: Ipv6Addr,
    mac: MacAddr,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let mac = own_mac(args)?;
    let limits = limits_and_poll(args, (RETRANS_TIMER, QUERY_INTERVAL_LATE))?;
    let resolver = Resolver::new(args, limits, mac, Ipv6Addr::UNSPECIFIED);
    Ok(Box::new(Ip6NdSolicitor {
        asker: Questioner::new(args, resolver, limits.timeout != 0),
        ip: args.get("IP")?,
        mac,
    }))
}

/// The Ethernet address to learn from an advertisement, given the target's entry (RFC 4861 section
/// 7.2.5): `Some(None)` solicited, `Some(Some(mac))` known. `None`: nothing is learnt.
fn news(heard: &Neighbor, known: Option<Option<MacAddr>>) -> Option<MacAddr> {
    let overrides = heard.flags & flags::OVERRIDE != 0;
    match (known?, heard.link.filter(|mac| !mac.is_multicast())) {
        (None, link) => link,
        (Some(old), None) => Some(old),
        (Some(old), Some(new)) => (overrides || old == new).then_some(new),
    }
}

impl Ip6NdSolicitor {
    fn send_queries(&mut self, cx: &mut Cx<'_>) {
        let (mac, ip) = (self.mac, self.ip);
        self.asker.send(cx, |cx, query| {
            let (to, to_mac) = match query.to {
                Some(mac) => (query.address, mac),
                None => {
                    let group = solicited_node(query.address);
                    (group, MacAddr::ipv6_multicast(group))
                }
            };
            let message = NeighborMessage::solicitation(query.address);
            query.packet(cx, &neighbor::frame(&message, (mac, to_mac), (ip, to)))
        });
    }

    fn take_answer(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        self.asker.responses += 1;
        let Some(heard) = neighbor::parse(packet.data()).filter(|heard| !heard.solicits) else {
            cx.drop(Lost::BadAnswer, packet);
            return;
        };
        if let Some(mac) = news(&heard, self.asker.resolver.entry(heard.target, cx.now())) {
            self.asker.resolver.learn(cx, heard.target, mac);
        }
        cx.drop(Lost::Answer, packet);
        self.send_queries(cx);
    }
}

impl Element for Ip6NdSolicitor {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.asker.initialize(cx);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        if port == 0 {
            self.asker.resolver.encapsulate(cx, batch);
            self.send_queries(cx);
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

impl HotSwap for Ip6NdSolicitor {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(self.asker.resolver.hand_over(self.ip))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        self.asker.resolver.take_over(self.ip, state);
    }
}

impl Resize for Ip6NdSolicitor {
    /// All have one table, which the first has handed over.
    fn join(&mut self, _state: Box<dyn Any + Send>) {}
}

impl CostModel for Ip6NdSolicitor {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        Some(self.asker.resolver.cost(load))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_learnt() {
        let (old, new) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        let heard = |link, flags| Neighbor {
            ether_src: new,
            src: Ipv6Addr::LOCALHOST,
            solicits: false,
            target: Ipv6Addr::LOCALHOST,
            flags,
            link,
        };
        // Not asked for; asked for; known.
        assert_eq!(news(&heard(Some(new), flags::OVERRIDE), None), None);
        assert_eq!(news(&heard(Some(new), 0), Some(None)), Some(new));
        assert_eq!(news(&heard(None, 0), Some(None)), None);
        assert_eq!(news(&heard(Some(MacAddr::BROADCAST), 0), Some(None)), None);
        assert_eq!(news(&heard(Some(new), 0), Some(Some(old))), None);
        assert_eq!(news(&heard(Some(new), flags::OVERRIDE), Some(Some(old))), Some(new));
        assert_eq!(news(&heard(Some(old), 0), Some(Some(old))), Some(old));
        assert_eq!(news(&heard(None, flags::SOLICITED), Some(Some(old))), Some(old));
    }
}
