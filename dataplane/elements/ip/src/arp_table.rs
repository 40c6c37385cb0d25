//! ARPTable: one table of Ethernet addresses for several ARPQueriers.

use std::any::Any;
use std::net::Ipv4Addr;
use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, HandlerError, Handlers, HotSwap, NOTHING_MORE, Names,
    Replicas, Resize, Spec, Topic, Ty,
};
use thruway_packet::Batch;

use super::arp_querier::{QUERY_INTERVAL, QUERY_INTERVAL_LATE};
use super::resolution::config::{self, EXPIRE_EVERY, limits};
use super::resolution::{Limits, Lost, Shared, Table};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<ArpTable>(
    Spec {
        name: "ARPTable",
        topic: Topic::Ip,
        summary: "holds Ethernet addresses for several ARPQueriers",
        docs: "The table of all ARPQueriers that name it as their TABLE: what one learns, all \
               know, and its bounds are theirs together. An address not confirmed for TIMEOUT is \
               forgotten. What is inserted by handler is used for packets that come then; those \
               that wait already go on waiting for an answer. When another configuration takes \
               over (hot swap), an ARPTable of the same name goes on with the table.",
        example: "t :: ARPTable(TIMEOUT 60s); Idle -> [1] q :: ARPQuerier(2.0.0.1, 2:0:0:0:0:1, TABLE t) \
                  -> Discard; InfiniteSource(\\<01000001>, LIMIT 1, STOP true) -> GetIPAddress(0) -> q",
        ports: "0/0",
        processing: "/",
        args: &[
            config::CAPACITY,
            config::ENTRY_CAPACITY,
            config::ENTRY_PACKET_CAPACITY,
            config::CAPACITY_SLIM_FACTOR,
            Arg::keyword("TIMEOUT", Ty::Time, "an unconfirmed address is forgotten; 0 for never")
                .or("300s"),
        ],
        drops: Lost::DROPS,
        cost: NOTHING_MORE,
        replicas: Replicas::Sharing("the table, with the elements that use it"),
        ..Spec::DEFAULT
    },
    build,
)
.with_hot_swap::<ArpTable>()
.with_resize::<ArpTable>();

#[derive(Handlers)]
#[handler(
    read, shared, name = "table", "a line per address: address, known, Ethernet, age",
    read = self.look(cx, name)
)]
#[handler(
    sum, name = "drops", "packets dropped because their address was forgotten",
    read = self.look(cx, name)
)]
#[handler(
    sum, name = "stats", "the same in words", get = format!("{} packets killed\n", self.drops)
)]
#[handler(read, shared, name = "count", "addresses in the table", read = self.look(cx, name))]
#[handler(read, shared, name = "length", "packets that wait", read = self.look(cx, name))]
#[handler(write, shared, name = "insert", "enters IP ETH", write = self.enter(cx, name, value))]
#[handler(write, shared, name = "delete", "forgets IP", write = self.enter(cx, name, value))]
#[handler(
    write, shared, name = "clear", "removes all entries, drops waiting packets",
    write = self.write_clear(cx)
)]
struct ArpTable {
    shared: Arc<Shared<Ipv4Addr>>,
    limits: Limits,
    names: Names,
    drops: u64,
    lost: Batch,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let limits = limits(args, (QUERY_INTERVAL, QUERY_INTERVAL_LATE))?;
    Ok(Box::new(ArpTable {
        shared: Shared::hold(args, limits),
        limits,
        names: args.names(),
        drops: 0,
        lost: Batch::new(),
    }))
}

impl ArpTable {
    /// Changes the table; what loses its place there is dropped.
    fn change(&mut self, cx: &mut Cx<'_>, change: impl FnOnce(&mut Table<Ipv4Addr>, &mut Batch)) {
        let lost = &mut self.lost;
        self.shared.change(|table| change(table, lost));
        self.drops += lost.len() as u64;
        cx.drop_all(Lost::Unresolved, lost);
    }
}

impl Element for ArpTable {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.limits.timeout != 0 {
            cx.set_timer(0, cx.now() + EXPIRE_EVERY);
        }
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        let now = cx.now();
        self.change(cx, |table, lost| table.slim(now, lost));
        cx.set_timer(0, now + EXPIRE_EVERY);
    }
}

impl ArpTable {
    fn look(&self, cx: &Cx<'_>, name: &str) -> Result<String, HandlerError> {
        config::read(&self.shared, self.drops, cx.now(), name)
            .ok_or_else(|| HandlerError::no_read(name))
    }

    fn enter(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let (address, mac) = config::change(&self.names, name, value)?;
        let now = cx.now();
        self.change(cx, |table, lost| {
            table.set(address, mac, now, lost);
        });
        Ok(())
    }

    fn write_clear(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        self.change(cx, |table, lost| table.clear(lost));
        Ok(())
    }
}

impl HotSwap for ArpTable {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let empty = Table::new(self.limits);
        Some(Box::new(self.shared.change(|table| std::mem::replace(table, empty))))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(state) = state.downcast::<Table<Ipv4Addr>>() {
            self.shared.change(|table| table.adopt(*state));
        }
    }
}

impl Resize for ArpTable {
    /// All have one table, which the first has handed over.
    fn join(&mut self, _state: Box<dyn Any + Send>) {}
}
