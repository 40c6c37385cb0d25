//! DirectIPLookup and its other names: IPv4 routing by the destination annotation.

use std::net::Ipv4Addr;

use thruway_element::{
    Alias, Arg, ArgErrors, Args, Changes, Cost, CostModel, Cx, Element, Entry, Handlers, Load,
    Operation, Replicas, ShortCut, Spec, Topic, Ty, Verdict, reasons,
};
use thruway_elements_support::reaching::routing;
use thruway_lpm::{Fib4, Hop};
use thruway_packet::{Batch, MAX_BATCH, Packet};

use super::dispatch::{Sorter, drop_for};
use super::routes::{self, Routes};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<IpLookup>(
    Spec {
        name: "DirectIPLookup",
        aliases: &[
            Alias { name: "LinearIPLookup", summary: "the same table" },
            Alias {
                name: "LookupIPRouteMP",
                summary: "the same table, which serves all threads without a cache for each",
            },
            Alias { name: "RadixIPLookup", summary: "the same table" },
            Alias { name: "RangeIPLookup", summary: "the same table" },
            Alias { name: "SortedIPLookup", summary: "the same table" },
            Alias {
                name: "StaticIPLookup",
                summary: "the same table without handlers to change it",
            },
        ],
        topic: Topic::Ip,
        summary: "looks up the next hop and the output of IPv4 packets",
        docs: "Looks the destination address annotation (set by GetIPAddress or CheckIPHeader) up by \
               longest prefix match. If the route has a gateway, the annotation becomes the \
               gateway's address; the packet leaves by the route's output. A packet without a \
               route is dropped; the first five are reported to the user.\n\n\
               Each argument is a route, ADDR/MASK [GATEWAY] OUTPUT; a gateway of - is none. Of two \
               routes for one prefix the first stays. A large table loads faster with FILE: a route \
               on each line, # begins a comment.\n\n\
               Handlers add, set and remove take one route; ctrl takes lines with one of these \
               words and a route, and does all or nothing. A packet sees each address's route from \
               before or after a change, never a mixture. One table serves all threads: two memory \
               accesses for an address (DIR-24-8), 32,767 different gateway and output pairs, \
               32,767 /24 networks with longer prefixes. All names are this one table, so none \
               becomes slow with many routes, and the table handler lists routes in order of \
               address.",
        example: "FastUDPFlows(0, 10, 60, 0:0:0:0:0:1, 1.0.0.1, 0:0:0:0:0:2, 2.0.0.2, 4, 2, \
                  STOP true) -> Unqueue -> Strip(14) -> CheckIPHeader -> \
                  DirectIPLookup(2.0.0.0/8 1.0.0.1 0, 0.0.0.0/0 0) -> Discard",
        ports: "1/-",
        processing: "h/h",
        straight: true,
        args: &[
            Arg::rest("ROUTE", Ty::Rule("ADDR/MASK [GATEWAY] OUTPUT"), "a route"),
            routes::FILE,
        ],
        drops: Lost::DROPS,
        cost: &[Operation::RouteLookup.once()],
        changes: Changes::Nothing,
        replicas: Replicas::Sharing("the table"),
        short_cut: ShortCut::Passes,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_cost_model::<IpLookup>();

reasons! {
    /// Why a packet goes no further.
    enum Lost {
        NoRoute = "no-route": "no prefix of the table holds its destination",
    }
}

// The lookup itself gives the port that dispatch takes for this drop.
const _: () = assert!(Hop::NONE.port() == drop_for(Lost::NoRoute as u8));

/// How many packets without a route the user is informed of.
const COMPLAINTS: u32 = 5;

#[derive(Handlers)]
struct IpLookup {
    #[part]
    routes: Routes<Fib4>,
    complaints: u32,
    keys: Box<[u32; MAX_BATCH]>,
    hops: Box<[Hop; MAX_BATCH]>,
    ports: Box<[u32; MAX_BATCH]>,
    sorter: Sorter,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let routes = Routes::of(args)?;
    Ok(Box::new(IpLookup {
        routes: if args.class() == "StaticIPLookup" { routes.fixed() } else { routes },
        complaints: 0,
        keys: Box::new([0; MAX_BATCH]),
        hops: Box::new([Hop::NONE; MAX_BATCH]),
        ports: Box::new([0; MAX_BATCH]),
        sorter: Sorter::new(args.env().outputs),
    }))
}

#[inline]
fn key(packet: &Packet) -> u32 {
    u32::from_be_bytes(packet.dst_ip())
}

/// Points a packet at its gateway, if it has one.
#[inline]
fn forward(packet: &mut Packet, hop: Hop) {
    if hop.gateway() != 0 {
        packet.set_dst_ip(hop.gateway().to_be_bytes());
    }
}

impl IpLookup {
    /// Informs the user of packets that have no route, a few times. Once that is done, no packet
    /// pays for it.
    #[cold]
    fn complain(&mut self, cx: &mut Cx<'_>, count: usize) {
        for at in 0..count {
            if self.hops[at] == Hop::NONE && self.complaints < COMPLAINTS {
                self.complaints += 1;
                let addr = Ipv4Addr::from(self.keys[at]);
                cx.log(&format!("IPRouteTable: no route for {addr}"));
            }
        }
    }

    /// For batches beyond what the arrays hold: packet by packet.
    #[cold]
    fn one_by_one(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let Some(table) = self.routes.table() else { return };
        cx.filter(batch, |packet| match table.fib().lookup_route(key(packet)) {
            Some(route) => {
                forward(packet, Hop::new(route));
                Verdict::To(route.port as usize)
            }
            None => Verdict::drop(Lost::NoRoute),
        });
    }
}

impl Element for IpLookup {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.routes.initialize(cx)
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let count = batch.len();
        let Some(table) = self.routes.table() else { return };
        if count > MAX_BATCH {
            return self.one_by_one(cx, batch);
        }
        for (key_of, packet) in self.keys.iter_mut().zip(batch.iter()) {
            *key_of = key(packet);
        }
        table.fib().hop_batch(&self.keys[..count], &mut self.hops[..count]);
        let first = self.hops[0].port();
        let (mut differs, mut lost) = (0, false);
        for ((packet, hop), port) in batch.iter_mut().zip(&*self.hops).zip(&mut *self.ports) {
            *port = hop.port();
            differs |= *port ^ first;
            lost |= *hop == Hop::NONE;
            forward(packet, *hop);
        }
        if lost && self.complaints < COMPLAINTS {
            self.complain(cx, count);
        }
        self.sorter.send(cx, batch, &self.ports[..count], differs == 0);
    }
}

impl CostModel for IpLookup {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        let table = self.routes.table()?;
        Some(vec![routing(Operation::RouteLookup, table.fib().footprint(), load)])
    }
}
