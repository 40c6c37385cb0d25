//! LoadBalancer: sessions for one address, spread over servers.

use std::any::Any;
use std::net::Ipv4Addr;

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, HandlerError, Handlers, HotSwap, Names,
    Operation, PerSession, Replicas, SessionFunction, Spec, Topic, Ty, Wants,
};
use thruway_flow::Ended;
use thruway_packet::Batch;
use zerocopy::FromBytes;

use balance::{Balanced, Balancer, HashOf};
use lost::Lost;
use servers::{METHODS, Server, ServerAddress, Servers, method};

use super::pool::Standing;

mod address;
mod balance;
mod lost;
mod servers;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<LoadBalancer>(
    Spec {
        name: "LoadBalancer",
        topic: Topic::Sessions,
        summary: "spreads sessions over servers by rewriting the destination address",
        docs: "VIP lists services (virtual addresses), with spaces between: ADDRESS:PORT/tcp, \
               ADDRESS:PORT/udp, ADDRESS/tcp (every port), ADDRESS/icmp. Each SERVER is \
               ADDRESS[:PORT] [WEIGHT]; without a port packets keep theirs. A session that begins \
               with a packet to a service gets a server: from then on destination address and port \
               of the client's packets are the server's, and source address and port of the \
               answers, and of ICMP errors from the server's side, the service's. The destination \
               annotation follows. Checksums are changed by the difference, so a wrong one stays \
               wrong. All other packets pass unchanged.\n\n\
               Input 0 is for packets from clients, input 1 for those from servers; they leave by \
               the output of the same number. If one link carries both, only input 0 is used. The \
               answers must come back through this element: servers route to clients by this host. \
               A client that is a server's direct neighbour would be answered directly, and its \
               connection fail.\n\n\
               METHOD is round-robin, weighted (round robin by weight), least-connections (fewest \
               open sessions for its weight, of those that this thread began) or consistent-hash \
               (rendezvous hashing with weights: a change of the list moves only sessions that \
               must move; all threads and hosts with the same list choose alike). HASH says of \
               what: the connection, or the client's source address, so that a client keeps its \
               server. If the answers of the chosen server could not be distinguished from those \
               of another session, another server is taken.\n\n\
               Servers change at run time by handlers: drain (no new sessions, open ones go on), \
               resume, weight, add, remove. A server that is removed keeps its open sessions until \
               they end, like a drained one, and is forgotten then; after 'remove SERVER now' the \
               next packet of each is dropped and ends it, and the packet behind gets another \
               server: TCP clients connect again. When no server takes sessions, packets of new \
               ones are dropped (no-server). A new configuration that takes over keeps the \
               sessions and standing of servers that are on its list too, and removes others.\n\n\
               IPv4 only: IPv6 packets pass unchanged. Fragments to a service's address are \
               dropped, as they name no port: put an IPReassembler in front. FlowClassifier finds \
               the sessions, so it must be upstream in both directions.",
        example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier \
                  ~> LoadBalancer(VIP 192.0.2.1:80/tcp, 10.1.0.1:8080, 10.1.0.2:8080 3, \
                  METHOD weighted) -> Discard",
        ports: "1-2/1-2",
        processing: "h/h",
        flow: "#/#",
        args: &[
            Arg::rest("SERVER", Ty::Rule("ADDRESS[:PORT] [WEIGHT]"), "a server"),
            Arg::required_keyword("VIP", Ty::Rule("ADDRESS[:PORT]/PROTOCOL..."), "the services"),
            Arg::keyword("METHOD", Ty::Choice(METHODS), "how servers are chosen").or("round-robin"),
            Arg::keyword(
                "HASH",
                Ty::Choice(&["connection", "source"]),
                "what consistent-hash hashes",
            )
            .or("connection"),
        ],
        drops: Lost::DROPS,
        wants: Wants {
            translates: true,
            shared_words: 3,
            ..Wants::session::<Balanced>("connection")
        },
        changes: Changes::Headers,
        cost: &[Operation::SessionState.once(), Operation::RewriteIp.once()],
        replicas: Replicas::Apart(
            "each spreads the sessions that begin in its thread, and sums are as even: each \
             server has at most one session for each thread more than it should",
        ),
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_session_function::<LoadBalancer>()
.with_hot_swap::<LoadBalancer>();

#[derive(Handlers)]
#[handler(
    read, name = "servers", "a line per server: address, weight, up, drained or leaving",
    get = self.servers()
)]
#[handler(
    sum, name = "counts", "a line per server: address, sessions now and so far, packets, bytes",
    get = self.counts()
)]
#[handler(
    write, name = "add", "SERVER [WEIGHT]: a new server, or one back that was leaving",
    write = self.write(name, value)
)]
#[handler(
    write, name = "remove", "SERVER [now]: no longer on the list", write = self.write(name, value)
)]
#[handler(write, name = "drain", "SERVER: no new sessions", write = self.write(name, value))]
#[handler(write, name = "resume", "SERVER: new sessions again", write = self.write(name, value))]
#[handler(
    write, name = "weight", "SERVER WEIGHT: another weight for new sessions",
    write = self.write(name, value)
)]
struct LoadBalancer {
    names: Names,
    balancer: Balancer,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let read_addr = |text: &str| args.parse::<Ipv4Addr>(text);
    let services = address::services(args.text("VIP").unwrap_or(""), &read_addr)
        .map_err(|message| args.error("VIP", message))?;
    if services.is_empty() {
        return Err(args.error("VIP", "is empty; write ADDRESS:PORT/tcp").into());
    }
    let word: String = args.get("METHOD")?;
    let method = method(&word).ok_or_else(|| {
        args.error("METHOD", format!("'{word}' is none of {}", METHODS.join(", ")))
    })?;
    let hash_of = match args.get::<String>("HASH")?.as_str() {
        "connection" => HashOf::Connection,
        "source" => HashOf::Source,
        other => {
            let message = format!("'{other}' is neither connection nor source");
            return Err(args.error("HASH", message).into());
        }
    };
    let mut servers = Servers::new(method);
    let mut errors = Vec::new();
    for (index, text) in args.rest() {
        let added = address::server(text, &read_addr).and_then(|(server_address, weight)| {
            match services.iter().any(|service| service.addr == server_address.addr) {
                true => Err(format!("server {server_address} has the address of a service")),
                false => servers.add(server_address, weight),
            }
        });
        errors.extend(added.err().map(|message| args.rest_error(index, message)));
    }
    if !errors.is_empty() {
        return Err(ArgErrors(errors));
    }
    if servers.iter().next().is_none() {
        return Err(ArgErrors::whole("no server is given: add arguments ADDRESS:PORT [WEIGHT]"));
    }
    let balancer = Balancer { services, servers, hash_of };
    Ok(Box::new(LoadBalancer { names: args.names(), balancer }))
}

impl LoadBalancer {
    fn server(&self, text: &str) -> Result<(ServerAddress, u32), String> {
        address::server(text, &|text| self.names.parse::<Ipv4Addr>(text))
    }

    fn change(&mut self, what: &str, value: &str) -> Result<(), String> {
        match what {
            "add" => {
                let (server_address, weight) = self.server(value)?;
                if self.balancer.services.iter().any(|service| service.addr == server_address.addr)
                {
                    return Err(format!("server {server_address} has the address of a service"));
                }
                self.balancer.servers.add(server_address, weight)
            }
            "remove" => {
                let (text, now) = match value.trim().strip_suffix("now") {
                    Some(text) if text.ends_with(char::is_whitespace) => (text, true),
                    _ => (value, false),
                };
                let (server_address, _) = self.server(text)?;
                self.balancer.servers.remove(server_address, now)
            }
            "weight" => {
                let (server_address, weight) = self.server(value)?;
                self.balancer.servers.set_weight(server_address, weight)
            }
            _ => {
                let standing = if what == "drain" { Standing::Drained } else { Standing::Up };
                let (server_address, _) = self.server(value)?;
                self.balancer.servers.named(server_address)?.standing = standing;
                Ok(())
            }
        }
    }
}

impl Element for LoadBalancer {
    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        cx.per_session(&mut self.balancer, batch);
        if port == 1 {
            cx.emit_all(1, batch);
        }
    }
}

impl LoadBalancer {
    /// A line for each server.
    fn lines(&self, line: impl FnMut(&Server) -> String) -> String {
        self.balancer.servers.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn servers(&self) -> String {
        self.lines(|server| format!("{} {} {}", server.id, server.weight, server.standing))
    }

    fn counts(&self) -> String {
        self.lines(|server| {
            let (now, total) = (server.sessions, server.total);
            format!("{} {now} {total} {} {}", server.id, server.packets, server.bytes)
        })
    }

    fn write(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        let refused = |message| HandlerError::refused(format!("{name}: {message}"));
        self.change(name, value).map_err(refused)
    }
}

impl HotSwap for LoadBalancer {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(self.balancer.servers.hand_over()))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(slots) = state.downcast::<Vec<Server>>() {
            self.balancer.servers.take_over(*slots);
        }
    }
}

impl SessionFunction for LoadBalancer {
    fn closed(&mut self, _cx: &mut Cx<'_>, state: &[u8], why: Ended) {
        if let Ok(state) = Balanced::read_from_bytes(state) {
            self.balancer.close(&state, why);
        }
    }
}

#[cfg(test)]
mod tests;
