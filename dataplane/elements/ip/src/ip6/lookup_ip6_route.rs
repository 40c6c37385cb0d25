//! LookupIP6Route: IPv6 routing by the destination annotation.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cost, CostModel, Cx, Element, Entry, Handlers, Load, Operation,
    Replicas, Spec, Topic, Ty, Verdict, reasons,
};
use thruway_elements_support::reaching::routing;
use thruway_lpm::{Reader, Route};
use thruway_packet::{Batch, MAX_BATCH, Packet};

use crate::dispatch::{Sorter, drop_for};
use crate::route_table::SharedFib6;
use crate::routes::{self, Routes};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<LookupIp6Route>(
    Spec {
        name: "LookupIP6Route",
        topic: Topic::Ip6,
        summary: "looks up the next hop and the output of IPv6 packets",
        docs: "Looks the IPv6 destination annotation (set by CheckIP6Header) up by longest prefix \
               match. If the route has a gateway, the annotation becomes the gateway's address; \
               the packet leaves by the route's output. A packet without a route is dropped.\n\n\
               Each argument is a route, ADDR/LENGTH [GATEWAY] OUTPUT; a gateway of :: or - is \
               none. Of two routes for one prefix the first stays. A large table loads faster with \
               FILE: a route on each line, # begins a comment.\n\n\
               Handlers are those of DirectIPLookup: add refuses a prefix that has a route, and \
               ctrl takes several lines and does all or nothing. Readers see all changes of one \
               write at once. One table, a poptrie, serves all threads.",
        example: "InfiniteSource(LIMIT 1, STOP true) -> \
                  r :: LookupIP6Route(2001:db8::/32 0, ::/0 fe80::1 0) -> Discard",
        ports: "1/-",
        processing: "h/h",
        straight: true,
        args: &[
            Arg::rest("ROUTE", Ty::Rule("ADDR/LENGTH [GATEWAY] OUTPUT"), "a route"),
            routes::FILE,
        ],
        drops: Lost::DROPS,
        cost: &[Operation::RouteLookup6.once()],
        changes: Changes::Nothing,
        replicas: Replicas::Sharing("the table"),
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_cost_model::<LookupIp6Route>();

reasons! {
    /// Why a packet goes no further.
    enum Lost {
        NoRoute = "no-route": "no prefix of the table holds its destination",
    }
}

#[derive(Handlers)]
struct LookupIp6Route {
    #[part]
    routes: Routes<SharedFib6>,
    reader: Reader<u128>,
    keys: Box<[u128; MAX_BATCH]>,
    /// Indices of routes, and then their outputs.
    found: Box<[u32; MAX_BATCH]>,
    sorter: Sorter,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let routes: Routes<SharedFib6> = Routes::of(args)?;
    let reader = routes.table().ok_or_else(|| ArgErrors::whole("no table"))?.fib().reader();
    Ok(Box::new(LookupIp6Route {
        routes,
        reader,
        keys: Box::new([0; MAX_BATCH]),
        found: Box::new([0; MAX_BATCH]),
        sorter: Sorter::new(args.env().outputs),
    }))
}

#[inline]
fn key(packet: &Packet) -> u128 {
    u128::from_be_bytes(packet.dst_ip6())
}

/// Sets a packet's gateway annotation, if its route has one, and returns the output.
#[inline]
fn forward(packet: &mut Packet, route: Option<Route<u128>>) -> u32 {
    let Some(route) = route else { return drop_for(Lost::NoRoute as u8) };
    if route.gateway != 0 {
        packet.set_dst_ip6(route.gateway.to_be_bytes());
    }
    route.port
}

impl Element for LookupIp6Route {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.routes.initialize(cx)
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        self.reader.refresh();
        let reader = &self.reader;
        let count = batch.len();
        if count > MAX_BATCH {
            return cx.filter(batch, |packet| {
                let route = reader.lookup(key(packet));
                forward(packet, route);
                route.map_or(Verdict::drop(Lost::NoRoute), |r| Verdict::To(r.port as usize))
            });
        }
        for (key_of, packet) in self.keys.iter_mut().zip(batch.iter()) {
            *key_of = key(packet);
        }
        let found = &mut self.found[..count];
        reader.lookup_batch(&self.keys[..count], found);
        let mut differs = 0;
        let mut first = None;
        for (packet, found) in batch.iter_mut().zip(&mut *found) {
            *found = forward(packet, reader.route(*found));
            differs |= *found ^ *first.get_or_insert(*found);
        }
        self.sorter.send(cx, batch, found, differs == 0);
    }
}

impl CostModel for LookupIp6Route {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        Some(vec![routing(Operation::RouteLookup6, self.reader.fib().footprint(), load)])
    }
}
