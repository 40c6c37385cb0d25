//! DHCPServer: gives IPv4 addresses to hosts (RFC 2131).

mod leases;

use std::any::Any;
use std::net::Ipv4Addr;

use thruway_element::text::split_words;
use thruway_element::{
    Arg, ArgError, ArgErrors, Args, Cx, Element, Entry, HandlerError, Handlers, HotSwap, IpPrefix,
    Names, Nanos, Operation, Replicas, Spec, Topic, Ty, Wants, reasons,
};
use thruway_packet::{Anno, Batch, Packet};
use thruway_wire::dhcp::{
    BOOTREPLY, BOOTREQUEST, BROADCAST, CLIENT_PORT, DhcpHeader, DhcpWriter, SERVER_PORT,
    message_type, option,
};
use thruway_wire::{MacAddr, ParseError};

use super::dhcp::{Frame, Path, Received, receive};
use leases::{ADDRESSES_MAX, Client, Leases};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<DhcpServer>(
    Spec {
        name: "DHCPServer",
        topic: Topic::Ip,
        summary: "gives IPv4 addresses to hosts by DHCP",
        docs: "DHCP messages of clients enter in Ethernet frames, and answers leave by output 0 \
               likewise, from IP and ETH (RFC 2131). Other packets leave by output 1, or is \
               dropped where there is none. Clients get addresses from FIRST to LAST, at most \
               4096, with the mask of NET, ROUTER, DNS and DOMAIN. A client is known by its client \
               identifier, or by its Ethernet address if it sends none or one of more than 32 \
               bytes. It keeps its address as long as it renews it, and gets it again later if no \
               other client needed it. An offer holds its address for a minute, an address that a \
               client found in use is kept back for ten.\n\
               It is the only server of its network: a request for another network's address, or \
               for one that another client has, is refused (DHCPNAK), and a client that asks for a \
               free address of the range gets it, even if this server does not know the client. So \
               leases survive a restart as far as clients still use them; a hot swap hands them \
               over if the range stays. It does not ping an address before it offers it, does not \
               serve relays (RFC 3046) nor BOOTP, and reads options in several parts (RFC 3396) as \
               far as their first. An attacker inside can take all addresses, as with any server: \
               the table does not grow, and searching it costs nothing while it is full.",
        example: "InfiniteSource(DATA \\<ffffffffffff 020000000009 0800>, LIMIT 1, STOP true) \
                  -> dhcp :: DHCPServer(192.168.1.1, 02:00:00:00:00:02, 192.168.1.0/24, \
                  192.168.1.100, 192.168.1.199, DNS 192.168.1.1) -> Discard; dhcp[1] -> Print(other) -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        args: &[
            Arg::required("IP", Ty::Ip, "the server's address"),
            Arg::required("ETH", Ty::Ether, "the server's Ethernet address"),
            Arg::required("NET", Ty::IpPrefix, "the clients' network"),
            Arg::required("FIRST", Ty::Ip, "first address for clients"),
            Arg::required("LAST", Ty::Ip, "last address for clients"),
            Arg::keyword("ROUTER", Ty::Ip, "the clients' router; IP if left out"),
            Arg::keyword("DNS", Ty::Any, "the clients' resolvers, addresses with blanks between"),
            Arg::keyword("DOMAIN", Ty::Str, "domain in which clients look names up"),
            Arg::keyword("LEASE", Ty::Time, "how long clients have an address").or("3600s"),
        ],
        drops: Other::DROPS,
        wants: Wants { classes: &["12/0800 23/11 36/0043"], ..Wants::NOTHING },
        cost: &[
            Operation::HeaderRead.times(3.0),
            Operation::HashLookup.once(),
            Operation::HeaderWrite.times(4.0),
            Operation::ChecksumLine.times(6.0),
        ],
        replicas: Replicas::OneThread("it must not give one address to two clients"),
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_hot_swap::<DhcpServer>();

const LEASES: &str = "addresses in use, a line each: address, Ethernet address, offered, leased or \
                      declined, seconds left";

reasons! {
    /// Why a message is not answered.
    enum Other {
        NotDhcp = "not-dhcp": "it is no valid DHCP message of an Ethernet client to a server",
        Relayed = "relayed": "it came by a relay, which this server does not serve",
        Foreign = "other-server": "it is for another server",
        NoAddress = "no-address": "all addresses are in use",
        Ended = consumed "ended": "a client gave its address back, or refused it",
    }
}

/// Longest time of a lease, seconds: all ones would be for ever (RFC 2132 section 9.2).
const LEASE_MAX_S: i64 = u32::MAX as i64 - 1;
/// Shortest time of a lease, seconds: shorter ones would have clients ask without end.
const LEASE_MIN_S: i64 = 10;
/// Most resolvers that clients are informed of.
const DNS_MAX: usize = 8;
/// Longest DOMAIN: with all other options a message has room for it.
const DOMAIN_MAX: usize = 200;

/// The options that clients get.
struct Announced {
    ip: Ipv4Addr,
    mask: Ipv4Addr,
    mac: MacAddr,
    router: Ipv4Addr,
    dns: Vec<Ipv4Addr>,
    domain: String,
    lease_s: u32,
}

#[derive(Handlers)]
#[handler(read, name = "leases", doc = LEASES, get = self.leases.table(cx.now()))]
#[handler(read, name = "count", "addresses in use", get = self.leases.count(cx.now()))]
#[handler(
    both, name = "dns", "the clients' resolvers", read = self.read_dns(),
    write = self.write_dns(value)
)]
struct DhcpServer {
    announced: Announced,
    leases: Leases,
    names: Names,
}

fn resolvers(names: &Names, text: &str) -> Result<Vec<Ipv4Addr>, String> {
    let words = split_words(text);
    let all = words.iter().map(|word| names.parse(word)).collect::<Result<Vec<Ipv4Addr>, _>>()?;
    if all.len() > DNS_MAX {
        return Err(format!("there may be {DNS_MAX} resolvers at most"));
    }
    Ok(all)
}

fn leases(args: &Args<'_>, ip: Ipv4Addr, net: IpPrefix) -> Result<Leases, ArgError> {
    let (first, last): (Ipv4Addr, Ipv4Addr) = (args.get("FIRST")?, args.get("LAST")?);
    let outside = [("FIRST", first), ("LAST", last)].into_iter().find(|it| !net.contains(it.1));
    if let Some((name, address)) = outside {
        return Err(args.error(name, format!("{address} is not in NET")));
    }
    if first > last || last.to_bits() - first.to_bits() >= ADDRESSES_MAX {
        let why = format!("expected an address from FIRST on, at most {ADDRESSES_MAX} in all");
        return Err(args.error("LAST", why));
    }
    if (first..=last).contains(&ip) {
        return Err(args.error("LAST", "the server's own address is in the range"));
    }
    Ok(Leases::new(first, last))
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let (ip, net): (Ipv4Addr, IpPrefix) = (args.get("IP")?, args.get("NET")?);
    if !net.contains(ip) {
        return Err(args.error("IP", format!("{ip} is not in NET")).into());
    }
    let names = args.names();
    let Nanos(lease_ns) = args.get("LEASE")?;
    let lease_s = lease_ns / 1_000_000_000;
    if !(LEASE_MIN_S..=LEASE_MAX_S).contains(&lease_s) {
        let why = format!("expected {LEASE_MIN_S} s to {LEASE_MAX_S} s");
        return Err(args.error("LEASE", why).into());
    }
    let domain: String = args.opt("DOMAIN")?.unwrap_or_default();
    if domain.len() > DOMAIN_MAX || !domain.is_ascii() {
        let why = format!("expected at most {DOMAIN_MAX} ASCII characters");
        return Err(args.error("DOMAIN", why).into());
    }
    let dns = resolvers(&names, args.text("DNS").unwrap_or(""));
    let announced = Announced {
        ip,
        mask: net.mask,
        mac: args.get("ETH")?,
        router: args.opt("ROUTER")?.unwrap_or(ip),
        dns: dns.map_err(|why| args.error("DNS", why))?,
        domain,
        // Within the bounds above.
        lease_s: lease_s as u32,
    };
    Ok(Box::new(DhcpServer { announced, leases: leases(args, ip, net)?, names }))
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Offer(Ipv4Addr),
    Ack(Ipv4Addr),
    /// Options without an address (DHCPINFORM).
    Inform,
    Nak,
}

/// A message of a client.
struct Asked<'a> {
    received: Received<'a>,
    client: Client,
    mac: MacAddr,
    /// The address that it has, by what it says.
    has: Option<Ipv4Addr>,
    wants: Option<Ipv4Addr>,
}

impl<'a> Asked<'a> {
    fn of(frame: &'a [u8]) -> Result<Asked<'a>, Other> {
        let received = receive(frame, SERVER_PORT).ok_or(Other::NotDhcp)?;
        let header = received.message.header();
        let mac = header.mac().filter(|mac| !mac.is_multicast() && header.op() == BOOTREQUEST);
        let mac = mac.ok_or(Other::NotDhcp)?;
        if header.giaddr() != 0 {
            return Err(Other::Relayed);
        }
        let has = Some(header.ciaddr()).filter(|addr| *addr != 0).map(Ipv4Addr::from_bits);
        let wants = received.message.address(option::REQUESTED_ADDRESS);
        Ok(Asked { received, client: Client::of(&received.message, mac), mac, has, wants })
    }
}

impl DhcpServer {
    /// The effect of a message, and the answer.
    fn decide(&mut self, asked: &Asked<'_>, now: i64) -> Result<Answer, Other> {
        let message = &asked.received.message;
        let (client, mac) = (&asked.client, asked.mac);
        let server = message.address(option::SERVER_ID);
        let is_other = server.is_some_and(|server| server != self.announced.ip);
        match message.message_type() {
            Some(message_type::DISCOVER) => {
                let offer = self.leases.offer(client, mac, asked.wants, now);
                offer.map(Answer::Offer).ok_or(Other::NoAddress)
            }
            // It has chosen another server's offer (RFC 2131 section 3.1 step 4).
            Some(message_type::REQUEST) if is_other => {
                self.leases.release(client, None);
                Err(Other::Foreign)
            }
            // Selecting or rebooting it names the address that it wants, renewing the one that it
            // has (RFC 2131 section 4.3.2).
            Some(message_type::REQUEST) => {
                let address = asked.wants.or(asked.has).ok_or(Other::NotDhcp)?;
                let until = now.saturating_add(i64::from(self.announced.lease_s) * 1_000_000_000);
                let given = self.leases.lease(client, mac, address, (now, until));
                Ok(if given { Answer::Ack(address) } else { Answer::Nak })
            }
            Some(message_type::DECLINE | message_type::RELEASE) if is_other => Err(Other::Foreign),
            Some(message_type::DECLINE) => {
                self.leases.decline(client, asked.wants, now);
                Err(Other::Ended)
            }
            Some(message_type::RELEASE) => {
                self.leases.release(client, asked.has);
                Err(Other::Ended)
            }
            Some(message_type::INFORM) if asked.has.is_some() => Ok(Answer::Inform),
            _ => Err(Other::NotDhcp),
        }
    }

    /// The frame that answers one.
    fn reply(&mut self, frame: &[u8], now: i64) -> Result<Frame, Other> {
        let asked = Asked::of(frame)?;
        let answer = self.decide(&asked, now)?;
        // `build` saw to it that all options have room.
        self.announced.frame(&asked, answer).map_err(|_| Other::NotDhcp)
    }
}

impl Announced {
    /// The answer in a frame for the client (RFC 2131 section 4.1).
    fn frame(&self, asked: &Asked<'_>, answer: Answer) -> Result<Frame, ParseError> {
        let request = asked.received.message.header();
        let mut header = DhcpHeader::new(BOOTREPLY, asked.mac, request.xid());
        header.set_flags(request.flags());
        let by_broadcast = (MacAddr::BROADCAST, Ipv4Addr::BROADCAST);
        let (kind, given) = match answer {
            Answer::Offer(address) => (message_type::OFFER, address),
            Answer::Ack(address) => (message_type::ACK, address),
            Answer::Inform => (message_type::ACK, Ipv4Addr::UNSPECIFIED),
            Answer::Nak => (message_type::NAK, Ipv4Addr::UNSPECIFIED),
        };
        header.set_yiaddr(given.to_bits());
        let to = match asked.has {
            _ if answer == Answer::Nak => by_broadcast,
            Some(address) => {
                header.set_ciaddr(address.to_bits());
                (asked.mac, address)
            }
            None if request.flags() & BROADCAST != 0 => by_broadcast,
            None => (asked.mac, given),
        };
        let path = Path {
            ethers: (self.mac, to.0),
            addresses: (self.ip, to.1),
            ports: (SERVER_PORT, CLIENT_PORT),
        };
        Frame::new(&path, &header, kind, |writer| {
            writer.put_addresses(option::SERVER_ID, &[self.ip]);
            if answer != Answer::Nak {
                self.write(writer, answer != Answer::Inform);
            }
        })
    }

    /// Options for hosts of the network, with the times of a lease if it is one.
    fn write(&self, writer: &mut DhcpWriter<'_>, is_lease: bool) {
        if is_lease {
            writer.put_seconds(option::LEASE_TIME, self.lease_s);
            // RFC 2131 section 4.4.5
            writer.put_seconds(option::RENEWAL_TIME, self.lease_s / 2);
            writer.put_seconds(option::REBINDING_TIME, self.lease_s - self.lease_s / 8);
        }
        writer.put_addresses(option::MASK, &[self.mask]);
        writer.put_addresses(option::ROUTER, &[self.router]);
        writer.put_addresses(option::DNS, &self.dns);
        if !self.domain.is_empty() {
            writer.put(option::DOMAIN, self.domain.as_bytes());
        }
    }
}

impl DhcpServer {
    fn answer(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let frame = match self.reply(packet.data(), cx.now()) {
            Ok(frame) => frame,
            Err(Other::Ended) => return cx.drop(Other::Ended, packet),
            Err(other) => return cx.reject(1, other, packet),
        };
        let Some(mut answer) = cx.packet(frame.bytes()) else { return };
        answer.set_mac_offset(0);
        answer.set_anno_number(Anno::VLAN_TCI, packet.anno_number(Anno::VLAN_TCI));
        cx.emit(0, answer);
    }
}

impl Element for DhcpServer {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            self.answer(cx, packet);
        }
    }
}

impl DhcpServer {
    fn read_dns(&mut self) -> Result<String, HandlerError> {
        let dns: Vec<String> = self.announced.dns.iter().map(Ipv4Addr::to_string).collect();
        Ok(dns.join(" "))
    }

    fn write_dns(&mut self, value: &str) -> Result<(), HandlerError> {
        let dns = resolvers(&self.names, value);
        self.announced.dns = dns.map_err(|why| HandlerError::refused(format!("dns: {why}")))?;
        Ok(())
    }
}

impl HotSwap for DhcpServer {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let (first, last) = self.leases.range();
        Some(Box::new(std::mem::replace(&mut self.leases, Leases::new(first, last))))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(leases) = state.downcast::<Leases>() else { return };
        if leases.range() == self.leases.range() {
            self.leases = *leases;
        }
    }
}

#[cfg(test)]
mod tests;
