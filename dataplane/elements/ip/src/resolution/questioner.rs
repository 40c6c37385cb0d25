//! What ARPQuerier and IP6NDSolicitor have in common beside their resolver: handlers, counts, a
//! timer.

use thruway_element::{Args, Cx, HandlerError, Handlers, Names};
use thruway_packet::Packet;

use super::config::{self, EXPIRE_EVERY};
use super::{Address, Query, Resolver};

/// A resolver that sends questions.
#[derive(Handlers)]
#[handler(
    read, shared, name = "table", "a line per address: address, known, Ethernet, age",
    read = self.look(cx, name)
)]
#[handler(
    sum, name = "stats", "packets dropped and queries sent, in words",
    get = format!(
        "{} packets killed\n{} {} sent\n", self.resolver.drops, self.queries, A::QUESTIONS
    )
)]
#[handler(sum, field = queries, "queries sent")]
#[handler(sum, field = responses, "packets received at input 1")]
#[handler(sum, name = "drops", "packets dropped", read = self.look(cx, name))]
#[handler(read, shared, name = "count", "addresses in the table", read = self.look(cx, name))]
#[handler(read, shared, name = "length", "packets that wait", read = self.look(cx, name))]
#[handler(
    write, shared, name = "insert", "enters IP ETH", write = self.change(cx, name, value)
)]
#[handler(write, shared, name = "delete", "forgets IP", write = self.change(cx, name, value))]
#[handler(
    write, name = "clear", "removes all entries, drops waiting packets, resets the counts",
    run = self.clear(cx)
)]
pub struct Questioner<A: Address> {
    /// Finds addresses, and says what to ask.
    pub resolver: Resolver<A>,
    /// For addresses that handlers are given.
    pub names: Names,
    /// Whether old entries of its own table are forgotten.
    expires: bool,
    queries: u64,
    /// Packets received at input 1.
    pub responses: u64,
}

impl<A: Address> Questioner<A> {
    /// Of the element being built; `expires` if it forgets old entries.
    pub fn new(args: &Args<'_>, resolver: Resolver<A>, expires: bool) -> Questioner<A> {
        Questioner { resolver, names: args.names(), expires, queries: 0, responses: 0 }
    }

    /// Begins to forget old entries.
    pub fn initialize(&self, cx: &mut Cx<'_>) {
        if self.expires {
            cx.set_timer(0, cx.now() + EXPIRE_EVERY);
        }
    }

    /// Its timer came: forgets old entries.
    pub fn timer(&mut self, cx: &mut Cx<'_>) {
        self.resolver.expire(cx);
        cx.set_timer(0, cx.now() + EXPIRE_EVERY);
    }

    /// Sends the questions that the resolver has, by output 1 if there is one.
    pub fn send(
        &mut self,
        cx: &mut Cx<'_>,
        packet: impl Fn(&mut Cx<'_>, &Query<A>) -> Option<Packet>,
    ) {
        while !self.resolver.queries.is_empty() {
            let mut queries = std::mem::take(&mut self.resolver.queries);
            for query in queries.drain(..) {
                if let Some(packet) = packet(cx, &query) {
                    self.queries += 1;
                    cx.emit(cx.outputs().saturating_sub(1).min(1), packet);
                }
            }
            self.resolver.queries = queries;
        }
    }

    fn look(&self, cx: &Cx<'_>, name: &str) -> Result<String, HandlerError> {
        config::read(self.resolver.shared(), self.resolver.drops, cx.now(), name)
            .ok_or_else(|| HandlerError::no_read(name))
    }

    fn change(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let (address, mac) = config::change(&self.names, name, value)?;
        self.resolver.learn(cx, address, mac);
        Ok(())
    }

    fn clear(&mut self, cx: &mut Cx<'_>) {
        self.resolver.clear(cx);
        (self.queries, self.responses, self.resolver.drops) = (0, 0, 0);
    }
}
