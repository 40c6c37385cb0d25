//! BNG: a broadband network gateway.

mod downstream;
mod drop_reason;
mod entries;
mod inner;
mod settings;
mod tables;
mod upstream;
mod voice;

use std::net::Ipv4Addr;
use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Cost, CostModel, Cx, Element, Entry, Handler, HandlerError, Handlers,
    Load, Nanos, Operation, Reason, Replicas, Spec, Topic, Ty,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::Header;
use thruway_wire::ip_protocol;
use thruway_wire::ipv4::Ipv4Header;

use self::drop_reason::BngDrop;
use self::entries::Reading;
use self::inner::Inner;
use self::settings::Settings;
use self::tables::Tables;
use self::voice::Voice;
use super::dispatch::{outcome, punt};
use super::outer::{Destination, Outer};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "BNG",
        topic: Topic::Ip,
        summary: "is a broadband network gateway: subscribers behind QinQ, a core of GRE over MPLS",
        docs: "Input and output of one number are a port. The first ACCESS ports lead to \
               subscribers. Their frames have two VLAN tags: the outer one, of type ETHERTYPE, \
               selects the access node, the inner one (0x8100) its line, on any port. The others \
               lead to the core, where the same IP packets travel in GRE (RFC 2784, RFC 2890) over \
               IP, behind MPLS labels. Each argument, line of FILE (# begins a comment) or value \
               of handlers add and set is one entry:\n\n\
               SUBSCRIBER SVLAN CVLAN KEY ADDR[/LEN] [ETHER PORT] is the line with these VLANs, \
               the GRE key of its packets, unique to it, and the subscriber's address or \
               addresses. Their location (Ethernet address and port) is given, or learnt from its \
               packets and kept for TIMEOUT.\n\n\
               TUNNEL NUMBER ADDR ETHER PORT [LABEL...] is a tunnel that ends at ADDR, by the next \
               hop ETHER out of PORT, with up to two labels, the last one on top.\n\n\
               ROUTE ADDR/LEN TUNNEL selects the tunnel for packets to a prefix; the longest \
               prefix counts.\n\n\
               From subscribers: the line must be known, the source address that of its \
               subscriber. The packet's header is checked, its time-to-live decremented; then it \
               gets a GRE header with the line's key (and, if CHECKSUM, a checksum), an IP header \
               from IP to the end of the tunnel with TTL and the packet's DSCP and don't-fragment \
               flag, the tunnel's labels and an Ethernet header from CORE_MAC. ARP queries of \
               known subscribers are answered with ACCESS_MAC where they are for GATEWAY or for \
               addresses that are not the subscriber's own (RFC 1027), as subscribers cannot reach \
               one another directly. Where GATEWAY is given it answers pings, and subscribers get \
               ICMP errors for packets that expired, have no route, or are longer than MTU and \
               must not be fragmented.\n\n\
               From the core: labels are taken off, where there still are any; the packet must be \
               for IP, from the end of a tunnel, not a fragment, its checksums right. Key and \
               destination say which subscriber it is for. The packet inside is checked, its \
               time-to-live decremented, and it gets two tags and an Ethernet header from \
               ACCESS_MAC.\n\n\
               Other packets (IPv6, PPPoE, DHCP and other broadcasts, packets for GATEWAY other \
               than pings, and all invalid ones) that were not answered leave by output PUNT \
               unchanged, or are dropped if that is not given; the drop reasons count them. \
               Packets between subscribers pass only by way of the core.\n\n\
               The tables are shared by all threads, have room for CAPACITY subscribers, 1,024 \
               tunnels and the routes of DirectIPLookup, and change while packets look up, without \
               a lock. remove takes SUBSCRIBER SVLAN CVLAN, TUNNEL NUMBER or ROUTE ADDR/LEN.",
        example: "gw :: BNG(ACCESS_MAC 02:00:00:00:00:01, CORE_MAC 02:00:00:00:00:02, IP 192.0.2.1, \
                  TUNNEL 0 192.0.2.9 02:00:00:00:00:09 1 1000, ROUTE 0.0.0.0/0 0, \
                  SUBSCRIBER 100 7 42 10.0.0.7);\n\
                  InfiniteSource(\\<020000000001 020000000007 88a8 0064 8100 0007 0800 \
                  4500001400000000401160c30a00000708080808>, LIMIT 1, STOP true) -> gw -> Discard;\n\
                  Idle -> [1] gw [1] -> Print(core) -> Discard",
        ports: "2-/2-",
        processing: "h/h",
        args: &[
            Arg::required_keyword("ACCESS_MAC", Ty::Ether, "the gateway's address to subscribers"),
            Arg::required_keyword("CORE_MAC", Ty::Ether, "the gateway's address in the core"),
            Arg::required_keyword("IP", Ty::Ip, "where the tunnels begin"),
            Arg::keyword("GATEWAY", Ty::Ip, "the address that subscribers know as their gateway"),
            Arg::keyword("ACCESS", Ty::UInt, "number of ports that lead to subscribers").or("1"),
            Arg::keyword("ETHERTYPE", Ty::UInt, "type of the outer tag").or("0x88a8"),
            Arg::keyword("CHECKSUM", Ty::Bool, "whether GRE headers have a checksum").or("true"),
            Arg::keyword("TTL", Ty::UInt, "time-to-live of outer headers and labels").or("64"),
            Arg::keyword("MTU", Ty::UInt, "longest IP packet to the core, in bytes").or("65503"),
            Arg::keyword("TIMEOUT", Ty::Time, "how long it counts where an address was seen")
                .or("4h"),
            Arg::keyword("CAPACITY", Ty::UInt, "maximum number of subscribers").or("65536"),
            Arg::keyword("PUNT", Ty::UInt, "output for packets that are not forwarded"),
            Arg::keyword("FILE", Ty::File, "a file of entries, one a line"),
            Arg::rest("ENTRY", Ty::Rule("SUBSCRIBER, TUNNEL or ROUTE ..."), "the tables"),
        ],
        drops: BngDrop::DROPS,
        handlers: &[
            Handler::read("subscribers", "a line for each: SVLAN, CVLAN, KEY, ADDR/LEN").shared(),
            Handler::read("tunnels", "a line for each: NUMBER, ADDR, ETHER, PORT, LABEL...")
                .shared(),
            Handler::read("routes", "a line for each: ADDR/LEN, TUNNEL").shared(),
            Handler::read(
                "places",
                "where addresses are: SVLAN, CVLAN, KEY, ADDR, ETHER, PORT, 'static'",
            )
            .shared(),
            Handler::write("add", "adds an entry; fails if there is one").shared(),
            Handler::write("set", "adds an entry or changes it").shared(),
            Handler::write("remove", "removes an entry").shared(),
        ],
        cost: &[
            Operation::HeaderRead.times(4.0),
            Operation::ArrayLookup.once(),
            Operation::HashLookup.times(0.5),
            Operation::HashLearn.times(0.5),
            Operation::RouteLookup.times(0.5),
            Operation::ChecksumIp.times(1.5),
            Operation::ChecksumLine.once(),
            Operation::TtlDecrement.once(),
            Operation::HeaderWrite.times(4.0),
        ],
        replicas: Replicas::Sharing(
            "the tables of subscribers and tunnels, and each subscriber's rates",
        ),
        ..Spec::DEFAULT
    },
    build,
)
.with_cost_model::<Bng>()
.with_handlers::<Bng>();

/// Largest CAPACITY.
const MAX_CAPACITY: usize = 1 << 20;
/// Longest IP packet that fits behind its headers: 20 bytes of IP, 12 of GRE.
const MAX_MTU: usize = 65_535 - 32;
/// Most ports.
const MAX_PORTS: usize = 1 << 16;

type Shared = Result<Tables, ArgErrors>;

/// Forwards by the tables.
struct Gateway {
    settings: Settings,
    /// The IP header of tunnels.
    outer: Outer,
    /// Where GATEWAY is given.
    voice: Option<Voice>,
}

/// Why a packet was not forwarded.
struct Failed {
    reason: Reason,
    /// The output by which an answer leaves, which took the packet's place.
    reported: Option<u16>,
}

impl From<Reason> for Failed {
    fn from(reason: Reason) -> Failed {
        Failed { reason, reported: None }
    }
}

impl From<BngDrop> for Failed {
    fn from(bad: BngDrop) -> Failed {
        Reason::from(bad).into()
    }
}

struct Bng {
    tables: Arc<Shared>,
    gateway: Gateway,
    file: Option<String>,
}

fn settings(args: &Args<'_>) -> Result<Settings, ArgErrors> {
    let (inputs, outputs) = (args.env().inputs, args.env().outputs);
    if outputs < inputs || inputs > MAX_PORTS {
        let message = format!("BNG needs an output for each input; it has {inputs} and {outputs}");
        return Err(ArgErrors::whole(message));
    }
    let access: usize = args.get("ACCESS")?;
    if !(1..inputs).contains(&access) {
        let message = format!("must be from 1 to {}: the other ports lead to the core", inputs - 1);
        return Err(args.error("ACCESS", message).into());
    }
    let mtu: usize = args.get("MTU")?;
    if !(68..=MAX_MTU).contains(&mtu) {
        // RFC 791: every link carries 68 bytes.
        return Err(args.error("MTU", format!("must be from 68 to {MAX_MTU}")).into());
    }
    let number = Ipv4Addr::to_bits;
    Ok(Settings {
        access_mac: args.get("ACCESS_MAC")?,
        core_mac: args.get("CORE_MAC")?,
        ip: number(args.get("IP")?),
        gateway: args.opt("GATEWAY")?.map(number),
        access,
        outer_type: args.get("ETHERTYPE")?,
        checksum: args.get("CHECKSUM")?,
        ttl: args.get("TTL")?,
        mtu,
        punt: punt(args)?,
    })
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let settings = settings(args)?;
    let Nanos(timeout) = args.get("TIMEOUT")?;
    if timeout <= 0 {
        return Err(args.error("TIMEOUT", "must be more than 0").into());
    }
    let capacity = args.get("CAPACITY")?;
    if !(1..=MAX_CAPACITY).contains(&capacity) {
        return Err(args.error("CAPACITY", format!("must be from 1 to {MAX_CAPACITY}")).into());
    }
    let ports = args.env().inputs;
    let reading = Reading { names: args.names(), access: settings.access, ports };
    let tables: Arc<Shared> =
        args.shared("tables", || Tables::build(args, reading, capacity, timeout));
    if let Err(errors) = &*tables {
        return Err(errors.clone());
    }
    let mut outer = Outer::new(args, ip_protocol::GRE, settings.ip.into(), Destination::Anno);
    outer.header().set_ttl(settings.ttl);
    let voice = settings.gateway.map(|addr| Voice::new(addr, settings.mtu));
    let gateway = Gateway { settings, outer, voice };
    Ok(Box::new(Bng { tables, gateway, file: args.opt("FILE")? }))
}

/// Whether packets to this address have one destination: neither multicast nor reserved nor
/// broadcast (RFC 1112 section 4), and not "this network".
#[inline]
fn is_unicast(addr: u32) -> bool {
    addr < 0xe000_0000 && addr >> 24 != 0
}

/// Leaves of a packet the IP packet that begins at `at`, with one hop less.
#[inline]
fn strip_to(packet: &mut Packet, at: usize, inner: &Inner) -> bool {
    packet.truncate(at + inner.total_len);
    if !packet.pull(at) {
        return false;
    }
    if let Ok((header, _)) = Ipv4Header::view_mut(packet.data_mut()) {
        header.decrement_ttl();
    }
    true
}

fn tables(shared: &Shared) -> Result<&Tables, HandlerError> {
    shared.as_ref().map_err(|errors| HandlerError::refused(errors.to_string()))
}

impl Element for Bng {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        match (&*self.tables, &self.file) {
            (Ok(tables), Some(file)) => tables.load(file),
            _ => Ok(()),
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        let gateway = &mut self.gateway;
        let Ok(tables) = &*self.tables else { return };
        let (now, punt) = (cx.now(), gateway.settings.punt);
        cx.filter(batch, |packet| {
            let done = if port < gateway.settings.access {
                gateway.upstream(tables, packet, port, now)
            } else {
                gateway.downstream(tables, packet, now).map_err(Failed::from)
            };
            match done {
                Ok(port) => outcome(Ok(port), punt),
                Err(Failed { reason, reported }) => {
                    outcome(Err(reason), reported.map(usize::from).or(punt))
                }
            }
        });
    }
}

impl Handlers for Bng {
    fn read_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        tables(&self.tables)?.read(name, cx.now())
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        tables(&self.tables)?.write(name, value)
    }
}

impl CostModel for Bng {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        let tables = (*self.tables).as_ref().ok()?;
        let own = [Operation::ArrayLookup, Operation::HashLookup, Operation::HashLearn];
        let own = |operation| own.contains(&operation) || operation == Operation::RouteLookup;
        let rest = ENTRY.spec.cost.iter().filter(|cost| !own(cost.operation)).copied();
        Some(rest.chain(tables.costs(load)).collect())
    }
}

#[cfg(test)]
mod tests;
