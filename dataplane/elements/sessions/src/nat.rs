//! NAT: network address and port translation for IPv4.

mod address;
mod blocks;
mod chains;
mod embryonic;
mod eviction;
pub(super) mod kind;
mod lane;
mod log;
mod mapping;
mod ports;
mod rules;
mod sessions;
mod state;
mod transfer;

use std::any::Any;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::net::Ipv4Addr;

use thruway_element::{
    Answers, Arg, ArgErrors, Args, Changes, Cx, Element, Entry, HandlerError, Handlers, HotSwap,
    Operation, PerSession, Replicas, SessionFunction, SessionTransfer, ShortCut, Spec, Topic, Ty,
    Wants,
};
use thruway_flow::Ended;
use thruway_packet::Batch;
use thruway_port::interface;
use zerocopy::{FromBytes, IntoBytes};

use embryonic::Embryonic;
use kind::Kind;
use mapping::Mappings;
use ports::{Pool, Ports, Share};
use rules::Rules;
use sessions::{Filter, NatDrop, Translator, describe};
use state::{NatSession, WORDS};
use thruway_elements_support::random::Secret;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<Nat>(
    Spec {
        name: "NAT",
        topic: Topic::Sessions,
        summary: "translates IPv4 addresses and ports between inside and outside",
        docs: "Input 0 takes packets from inside, input 1 those from outside; both behind a \
               FlowClassifier. Output 0 leads outside, output 1 inside, output 2 (if connected) to \
               the middlebox itself. The destination annotation is set to the new destination. \
               TCP, UDP and ICMP queries (by their identifier) are translated, and ICMP errors \
               about them in both directions with the packet that they quote (RFC 5508); checksums \
               are changed, not computed anew. Payloads are not looked at (no FTP, no SIP), IPv6 \
               is not supported, neither is NAT64.\n\n\
               Rules:\n\
               SNAT SOURCES -> ADDRESS[-ADDRESS][:PORT-PORT] gives packets from these inside \
               addresses an outside address and port (1024-65535 if not written). The first rule \
               that has the source counts. Threads have equal shares of the ports. A host keeps \
               one address while that has ports; ports are chosen at random (RFC 6056), below 1024 \
               for ports below 1024 if the range has such.\n\
               DNAT PROTOCOL ADDRESS[:PORT[-PORT]] -> ADDRESS[:PORT[-PORT]] sends packets for an \
               outside address and port to an inside host. Without ports all are meant; SNAT gives \
               none of them away.\n\
               KEEP ADDRESSES leaves inside addresses as they are, in both directions.\n\
               A packet from inside for an outside address that leads inside is turned round \
               (hairpin): both its addresses are translated.\n\n\
               With MAPPING endpoint-independent (RFC 4787 REQ-1) an inside address and port has \
               one outside port for all destinations, while any session uses it; FILTER selects \
               the hosts that may send to it: only sessions' peers (address-and-port-dependent), \
               any port of an address that was sent to, or any host; it also holds for inside \
               hosts that send to another's mapping. With MAPPING connection every session has its \
               own port. A port is never shared by two hosts. Replies may come by another thread. \
               Mappings belong to one thread: if several threads take packets from inside, sort \
               them by source address, or one endpoint gets a port in each; hosts that FILTER \
               admits must come by the thread of the mapping.\n\n\
               BLOCK n gives each host ports by blocks of n, at most HOST_BLOCKS; LOG writes when \
               a block is given and freed, not every session: 'TIME given|freed HOST ADDRESS \
               FIRST-LAST'.\n\n\
               Packets without a session (fragments: put an IPReassembler in front; other \
               protocols) are not let through untranslated, unless their address is kept; from \
               outside they leave by output 2. When no port is free, a new TCP session takes the \
               port of the oldest embryonic one (TCP handshake not complete), which ends; the \
               handler embryonic_evicted counts these. It does not end established sessions. With \
               ports by blocks, a host without one takes a block with embryonic sessions only, \
               which end; up to 16 blocks are inspected. When all mappings are in use, new \
               sessions of any protocol do the same. Up to 16 embryonic sessions are inspected for \
               a new one. If none can end, the new session is dropped (no-port, host-limit, \
               mappings-full) and existing ones go on. At a hot swap mappings and ports in use are \
               kept if the outside addresses, forwards, table sizes and threads stay the same; \
               else running sessions keep their translation, and new ones begin with all ports \
               free.",
        example: "in :: FlowClassifier ~> nat :: NAT(SNAT 10.0.0.0/8 -> 192.0.2.1:1024-65535) \
                  -> IPPrint(out) -> IPMirror -> out :: FlowClassifier ~> [1]nat; \
                  nat[1] -> IPPrint(back) -> Discard; \
                  FastUDPSource(0, 1, 64, 2:0:0:0:0:1, 10.0.0.1, 5000, 2:0:0:0:0:2, 198.51.100.1, 53, \
                  STOP true) -> Unqueue -> in",
        ports: "2/2-3",
        processing: "h/h",
        flow: "xy/x[xy][xy]",
        args: &[
            Arg::rest("RULE", Ty::Rule("SNAT, DNAT or KEEP rule"), "what is translated"),
            Arg::keyword(
                "MAPPING",
                Ty::Choice(&["endpoint-independent", "connection"]),
                "which sessions of an inside port share an outside port",
            )
            .or("endpoint-independent"),
            Arg::keyword(
                "FILTER",
                Ty::Choice(&[
                    "endpoint-independent",
                    "address-dependent",
                    "address-and-port-dependent",
                ]),
                "hosts that may send to a mapping",
            )
            .or("address-and-port-dependent"),
            Arg::keyword("MAPPINGS", Ty::UInt, "most endpoint-independent mappings of a thread")
                .or("65536"),
            Arg::keyword("BLOCK", Ty::UInt, "ports of a block; 0 for no blocks").or("0"),
            Arg::keyword("HOST_BLOCKS", Ty::UInt, "most blocks of a host").or("8"),
            Arg::keyword("LOG", Ty::OutFile, "where blocks are logged; - for standard error"),
            Arg::keyword("SEED", Ty::UInt, "repeats the choice of ports; random if not given"),
        ],
        drops: NatDrop::DROPS,
        wants: Wants {
            translates: true,
            shared_words: WORDS,
            ..Wants::session::<NatSession>("connection")
        },
        changes: Changes::Headers,
        cost: &[Operation::SessionState.once(), Operation::RewriteIp.once()],
        replicas: Replicas::Apart(
            "each has the mappings of sessions that begin in its thread, with a share of the \
             ports",
        ),
        short_cut: ShortCut::Passes,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_session_function::<Nat>()
.with_hot_swap::<Nat>()
.with_session_transfer::<Nat>();

const MAPPINGS: &str = "endpoint-independent mappings, a line each: protocol, inside, outside, \
                        sessions; as many as the parameter says (100)";

/// Largest MAPPINGS.
const MAPPINGS_MAX: usize = 1 << 24;
/// Largest HOST_BLOCKS: a host's blocks are looked at one by one.
const HOST_BLOCKS_MAX: u32 = 64;
/// Largest BLOCK.
const BLOCK_MAX: u32 = 4096;
/// Events that wait for the log.
const LOG_ROOM: usize = 1 << 14;
/// How often the log is written, nanoseconds.
const LOG_EVERY_NS: i64 = 100_000_000;

/// Where blocks are logged.
enum LogTo {
    Nowhere,
    LogSink,
    File(String, Option<File>),
}

#[derive(Handlers)]
#[handler(sum, name = "created", "translated sessions so far", get = self.translator.created)]
#[handler(
    sum, name = "embryonic_evicted",
    "embryonic TCP sessions ended because a new session needed their port",
    get = self.translator.embryonic.evicted
)]
#[handler(
    sum, name = "ports_in_use", "outside ports in use or kept for DNAT, of all protocols",
    get = self.translator.ports.in_use()
)]
#[handler(
    sum, name = "free", "a line per outside address: free ports of tcp, udp and icmp",
    get = self.free()
)]
#[handler(
    sum, name = "mapping_count", "endpoint-independent mappings now",
    get = self.translator.mappings.as_ref().map_or(0, Mappings::len)
)]
#[handler(read, concat, name = "mappings", doc = MAPPINGS, get = self.mappings(param)?)]
#[handler(
    sum, name = "blocks", "blocks that hosts have",
    get = self.translator.ports.blocks().map_or(0, |blocks| blocks.len())
)]
#[handler(
    sum, name = "log_lost", "events for which there was no room in the log",
    get = self.translator.ports.blocks().map_or(0, |blocks| blocks.log.lost)
)]
struct Nat {
    translator: Translator,
    log: LogTo,
    /// The construction of the tables, to be compared with a successor's.
    made_of: MadeOf,
    text: String,
}

/// The parameters that decide the layout of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MadeOf {
    pools: Vec<Pool>,
    forwards: Vec<rules::Forward>,
    share: Share,
    /// Mappings, permits, size of blocks and blocks of a host, 0 where there are none.
    sizes: (usize, usize, u32, u32),
    logs: bool,
}

/// The state for a successor.
struct Tables {
    made_of: MadeOf,
    ports: Ports,
    mappings: Option<Mappings>,
    embryonic: Embryonic,
    tables: u32,
    created: u64,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    // Read here and not when packets flow, so that an overlap is reported at its rule.
    let interfaces = interface::list().unwrap_or_default();
    let own: Vec<(String, Ipv4Addr)> = interfaces
        .iter()
        .flat_map(|interface| interface.ipv4().map(|(addr, _)| (interface.name.clone(), addr)))
        .collect();
    Ok(Box::new(Nat::new(args, &own)?))
}

/// The arguments for the tables' sizes, and for the filter.
fn layout(args: &Args<'_>, rules: &Rules, logs: bool) -> Result<(MadeOf, Filter), ArgErrors> {
    let share = Share { thread: args.env().rank, threads: args.env().threads.max(1) };
    let is_shared = args.choice("MAPPING")? == 0;
    let filter = match args.choice("FILTER")? {
        0 => Filter::EndpointIndependent,
        1 => Filter::Address,
        _ => Filter::AddressAndPort,
    };
    if !is_shared && filter != Filter::AddressAndPort {
        let why = "with MAPPING connection only a session's peer can send; write MAPPING \
                   endpoint-independent, or leave FILTER out";
        return Err(args.error("FILTER", why).into());
    }
    let mappings: usize = args.get("MAPPINGS")?;
    if !(1..=MAPPINGS_MAX).contains(&mappings) {
        return Err(args.error("MAPPINGS", format!("expected 1 to {MAPPINGS_MAX}")).into());
    }
    let mappings = if is_shared { mappings } else { 0 };
    // One host may speak to many: a permit for each of them.
    let permits = if filter == Filter::Address { 2 * mappings } else { 0 };
    let block: u32 = args.get("BLOCK")?;
    let host_blocks: u32 = args.get("HOST_BLOCKS")?;
    if block > 0 {
        check_blocks(args, rules, share, block)?;
        if !(1..=HOST_BLOCKS_MAX).contains(&host_blocks) {
            let why = format!("expected 1 to {HOST_BLOCKS_MAX}");
            return Err(args.error("HOST_BLOCKS", why).into());
        }
    } else if logs {
        let why = "blocks of ports are logged, not sessions: give BLOCK too";
        return Err(args.error("LOG", why).into());
    }
    let sizes = (mappings, permits, block, if block > 0 { host_blocks } else { 0 });
    let (pools, forwards) = (rules.pools.clone(), rules.forwards.clone());
    Ok((MadeOf { pools, forwards, share, sizes, logs }, filter))
}

/// Blocks must fit into each thread's share of each range.
fn check_blocks(args: &Args<'_>, rules: &Rules, share: Share, block: u32) -> Result<(), ArgErrors> {
    if block > BLOCK_MAX {
        return Err(args.error("BLOCK", format!("expected 1 to {BLOCK_MAX}")).into());
    }
    for Pool { ports: (first, last), .. } in &rules.pools {
        if *first < address::WELL_KNOWN_END {
            let why = format!(
                "blocks have no well-known ports: write the range {first}-{last} so \
                               that it begins at {} or later",
                address::WELL_KNOWN_END
            );
            return Err(args.error("BLOCK", why).into());
        }
        let (_, len) = share.of(*first, *last);
        if len < block {
            let why = format!(
                "a thread's share of ports {first}-{last} is {len}: write {len} or less, or a \
                 larger range"
            );
            return Err(args.error("BLOCK", why).into());
        }
    }
    Ok(())
}

/// Empty tables.
fn tables_of(made_of: &MadeOf, mut random: Secret) -> (Ports, Option<Mappings>, Embryonic) {
    let (mappings, permits, block, host_blocks) = made_of.sizes;
    let seeds = [random.next_u64(), random.next_u64()];
    let mappings = (mappings > 0).then(|| Mappings::new(mappings, permits, seeds));
    let mut ports = Ports::new(&made_of.pools, made_of.share, random);
    for forward in made_of.forwards.iter().filter(|forward| forward.kind != Kind::Icmp) {
        ports.reserve(forward.addr, forward.kind, forward.ports);
    }
    if block > 0 {
        ports.set_blocks(block, host_blocks, if made_of.logs { LOG_ROOM } else { 0 });
    }
    let addresses = ports.addresses();
    let listed: u32 = addresses.iter().map(|a| a.len(Kind::Tcp)).sum();
    let embryonic = Embryonic::new(ports.lists_len(), listed as usize);
    (ports, mappings, embryonic)
}

impl Nat {
    /// `own` are addresses of interfaces of this host, with their names.
    fn new(args: &Args<'_>, own: &[(String, Ipv4Addr)]) -> Result<Nat, ArgErrors> {
        let rules = Rules::parse(args, own)?;
        let log = match args.text("LOG") {
            None => LogTo::Nowhere,
            Some("-") => LogTo::LogSink,
            Some(_) => LogTo::File(args.get("LOG")?, None),
        };
        let (made_of, filter) = layout(args, &rules, !matches!(log, LogTo::Nowhere))?;
        let mut random = Secret::of_element(args, args.opt("SEED")?);
        let tables = random.next_u64() as u32 | 1;
        let (ports, mappings, embryonic) = tables_of(&made_of, random);
        let translator = Translator {
            rules,
            ports,
            mappings,
            embryonic,
            filter,
            tables,
            has_local: args.env().outputs > 2,
            input: 0,
            now: 0,
            created: 0,
        };
        Ok(Nat { translator, log, made_of, text: String::new() })
    }

    /// Writes what waits.
    fn write_log(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let Some(blocks) = self.translator.ports.blocks_mut() else { return Ok(()) };
        self.text.clear();
        blocks.log.drain(&mut self.text);
        if self.text.is_empty() {
            return Ok(());
        }
        match &mut self.log {
            LogTo::File(name, Some(file)) => file
                .write_all(self.text.as_bytes())
                .map_err(|error| format!("LOG {name}: {error}; events were lost")),
            LogTo::LogSink => {
                self.text.lines().for_each(|line| cx.log(line));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Free ports by address.
    fn free(&self) -> String {
        let mut text = String::new();
        for address in self.translator.ports.addresses() {
            let [tcp, udp, icmp] = Kind::ALL.map(|kind| address.free(kind));
            // Writing to a string cannot fail.
            let addr = Ipv4Addr::from_bits(address.addr);
            let _ = writeln!(text, "{addr} tcp {tcp} udp {udp} icmp {icmp}");
        }
        text
    }

    fn mappings(&self, param: &str) -> Result<String, HandlerError> {
        let limit = match param.trim() {
            "" => 100,
            number => thruway_element::handler_value("mappings", number)?,
        };
        let Some(mappings) = &self.translator.mappings else { return Ok(String::new()) };
        let ports = &self.translator.ports;
        Ok(mappings.iter().take(limit).map(|mapping| describe(mapping, ports)).collect())
    }
}

impl Element for Nat {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let LogTo::File(name, file) = &mut self.log {
            // Threads append whole lines to one file.
            let opened = OpenOptions::new().append(true).create(true).open(&*name);
            *file = Some(opened.map_err(|error| format!("LOG {name}: {error}"))?);
        }
        if !matches!(self.log, LogTo::Nowhere) {
            cx.set_timer(0, cx.now().saturating_add(LOG_EVERY_NS));
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        self.translator.input = port as u8;
        self.translator.now = cx.now();
        cx.per_session(&mut self.translator, batch);
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        if let Err(error) = self.write_log(cx) {
            cx.log(&error);
        }
        cx.set_timer(0, cx.now().saturating_add(LOG_EVERY_NS));
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.write_log(cx)
    }
}

impl HotSwap for Nat {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let (ports, mappings, embryonic) = tables_of(&self.made_of, Secret::from_seed(0));
        let translator = &mut self.translator;
        Some(Box::new(Tables {
            made_of: self.made_of.clone(),
            ports: std::mem::replace(&mut translator.ports, ports),
            mappings: std::mem::replace(&mut translator.mappings, mappings),
            embryonic: std::mem::replace(&mut translator.embryonic, embryonic),
            tables: translator.tables,
            created: translator.created,
        }))
    }

    /// Of other tables nothing is taken: sessions that hold something of those go on, and free
    /// nothing here when they end.
    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(tables) = state.downcast::<Tables>() else { return };
        if tables.made_of == self.made_of {
            let translator = &mut self.translator;
            (translator.ports, translator.mappings) = (tables.ports, tables.mappings);
            translator.embryonic = tables.embryonic;
            (translator.tables, translator.created) = (tables.tables, tables.created);
        }
    }
}

impl SessionTransfer for Nat {
    fn export(&self, state: &[u8], out: &mut Vec<u8>) -> bool {
        NatSession::read_from_bytes(state).is_ok_and(|state| transfer::export(&state, out))
    }

    fn import(
        &mut self,
        bytes: &[u8],
        answers: &mut dyn Answers,
        state: &mut [u8],
    ) -> Result<(), &'static str> {
        let imported = self.translator.import(bytes, answers)?;
        imported.write_to(state).map_err(|_| "a state of another size")
    }
}

impl SessionFunction for Nat {
    fn closed(&mut self, cx: &mut Cx<'_>, state: &[u8], why: Ended) {
        self.translator.now = cx.now();
        if let Ok(state) = NatSession::read_from_bytes(state) {
            self.translator.close(&state, why);
        }
    }
}

#[cfg(test)]
mod tests;
