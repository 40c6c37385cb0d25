//! DHCPClient: gets an IPv4 address from a network (RFC 2131).

mod exchange;

use std::any::Any;
use std::net::Ipv4Addr;

use thruway_element::{
    Arguments, Cx, Element, Entry, HandlerError, Handlers, HotSwap, Operation, Purpose, Replicas,
    Spec, Topic, Ty, Wants, reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::MacAddr;
use thruway_wire::dhcp::CLIENT_PORT;

use super::dhcp::receive;
use exchange::{ClientState, Event, Exchange};
use thruway_elements_support::random::Secret;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<DhcpClient>(Spec {
    name: "DHCPClient",
    topic: Topic::Ip,
    summary: "gets an IPv4 address from a network by DHCP",
    docs: "Asks for an address in Ethernet frames that leave by output 0, for the host with \
           Ethernet address ETH (RFC 2131). The servers' answers enter in frames likewise; what is \
           none leaves by output 1, or is dropped where there is none. The lease is renewed while \
           it runs.\n\
           CALL names a write handler. When a lease begins or changes, and after a hot swap, it is \
           written 'ADDRESS NETWORK ROUTER DNS', such as '192.0.2.50 192.0.2.0/24 192.0.2.1 \
           192.0.2.1', with 0.0.0.0 for a router or resolver that the server does not announce; \
           when the lease is lost, '0.0.0.0 0.0.0.0/0 0.0.0.0 0.0.0.0'. So a passive Script can \
           set addresses and routes of other elements.\n\
           The client takes the first offer, asks at once when it starts, and does not look \
           whether another host has the address (RFC 2131 section 4.4.1 would have it ask by ARP). \
           A server is renewed with by the Ethernet address that its answer came from. A refusal, \
           or a lease of less than 10 s, does not make the client ask more than once in 10 s.",
    example: "dhcp :: DHCPClient(02:00:00:00:00:01, CALL leased.run) -> Print(asks) -> Discard; \
              InfiniteSource(DATA \\<ffffffffffff 020000000009 0800>, LIMIT 1, STOP true) -> dhcp; \
              dhcp[1] -> Discard; leased :: Script(TYPE PASSIVE, print \"address $1\")",
    ports: "1/1-2",
    processing: "h/h",
    drops: Other::DROPS,
    wants: Wants { classes: &["12/0800 23/11 36/0044"], ..Wants::NOTHING },
    cost: &[Operation::HeaderRead.times(3.0)],
    replicas: Replicas::OneThread("it has one exchange with the servers"),
    purpose: Purpose::SendUnasked,
    large_packets: true,
    ..Spec::DEFAULT
})
.with_hot_swap::<DhcpClient>();

reasons! {
    /// Why a frame shows the client nothing.
    enum Other {
        NotDhcp = "not-dhcp": "it is no valid DHCP message to a client",
        NotOurs = "not-ours": "it answers no request of this client, or offers an unusable address",
        Taken = consumed "taken": "an answer that was taken",
    }
}

/// Longest HOSTNAME (a label of a name, RFC 1035 section 2.3.4).
const HOSTNAME_MAX: usize = 63;

#[derive(Arguments, Handlers)]
#[handler(
    read, name = "state", "selecting, requesting, bound, renewing or rebinding",
    read = self.read_state()
)]
#[handler(
    read, name = "address", "the address; 0.0.0.0 while there is none", get = self.setting(0)
)]
#[handler(read, name = "network", "its network, as ADDRESS/LENGTH", get = self.setting(1))]
#[handler(read, name = "router", "the network's router", get = self.setting(2))]
#[handler(read, name = "dns", "the network's resolver", get = self.setting(3))]
#[handler(
    read, name = "server", "the server that gave the lease",
    get = self.exchange.lease().map_or(Ipv4Addr::UNSPECIFIED, |lease| lease.server)
)]
#[handler(read, name = "left", "seconds until the lease is over", read = self.read_left(cx))]
#[handler(
    write, name = "restart", "gives the lease up and asks anew", write = self.write_restart(cx)
)]
struct DhcpClient {
    #[arg(required, name = "ETH", value = MacAddr, "Ethernet address of the host")]
    /// write handler that is given the lease
    #[arg(keyword, ty = Ty::Handler)]
    call: Option<String>,
    #[arg(
        keyword, name = "HOSTNAME", value = Vec<u8>, as = String, via = host_name,
        else = Vec::new(), "name that servers are given"
    )]
    #[new(Exchange::new(eth, hostname, Secret::of_element(args, None)))]
    exchange: Exchange,
}

fn host_name(name: String) -> Result<Vec<u8>, String> {
    if name.len() > HOSTNAME_MAX || !name.is_ascii() {
        return Err(format!("expected at most {HOSTNAME_MAX} ASCII characters"));
    }
    Ok(name.into_bytes())
}

impl DhcpClient {
    /// Address, network, router and resolver as text.
    fn settings(&self) -> [String; 4] {
        const NONE: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
        let settings = self.exchange.lease().map(|lease| lease.settings());
        let (address, len, router, dns) = settings.unwrap_or((NONE, 0, NONE, NONE));
        let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
        let network = Ipv4Addr::from_bits(address.to_bits() & mask);
        [address.to_string(), format!("{network}/{len}"), router.to_string(), dns.to_string()]
    }

    fn report(&self, cx: &mut Cx<'_>, event: Event) {
        if let (Event::Leased | Event::Lost, Some(call)) = (event, &self.call) {
            cx.write_later(call.as_str(), self.settings().join(" "));
        }
    }

    /// Sends what is due, and sleeps until the next message is.
    fn act(&mut self, cx: &mut Cx<'_>) {
        let (event, frame) = self.exchange.act(cx.now());
        self.report(cx, event);
        cx.clear_timer(0);
        cx.set_timer(0, self.exchange.next_at);
        if let Some(mut packet) = frame.and_then(|frame| cx.packet(frame.bytes())) {
            packet.set_mac_offset(0);
            cx.count_made(1);
            cx.emit(0, packet);
        }
    }

    fn receive(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let event = match receive(packet.data(), CLIENT_PORT) {
            None => return cx.reject(1, Other::NotDhcp, packet),
            Some(received) => self.exchange.take(&received, cx.now()),
        };
        if event == Event::Ignored {
            return cx.reject(1, Other::NotOurs, packet);
        }
        cx.drop(Other::Taken, packet);
        self.report(cx, event);
        self.act(cx);
    }
}

impl Element for DhcpClient {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        // A lease that was handed over: the other elements are new.
        if self.exchange.lease().is_some() {
            self.report(cx, Event::Leased);
        }
        cx.set_timer(0, self.exchange.next_at.max(cx.now()));
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            self.receive(cx, packet);
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.act(cx);
    }
}

impl DhcpClient {
    /// Address, network, router or resolvers.
    fn setting(&self, which: usize) -> String {
        self.settings()[which].clone()
    }

    fn read_state(&mut self) -> Result<String, HandlerError> {
        Ok(match self.exchange.state {
            ClientState::Selecting => "selecting",
            ClientState::Requesting(_) => "requesting",
            ClientState::Bound(_) => "bound",
            ClientState::Renewing(_) => "renewing",
            ClientState::Rebinding(_) => "rebinding",
        }
        .to_owned())
    }

    fn read_left(&mut self, cx: &mut Cx<'_>) -> Result<String, HandlerError> {
        Ok({
            let left =
                self.exchange.lease().map_or(0, |lease| lease.end_at.saturating_sub(cx.now()));
            (left / 1_000_000_000).to_string()
        })
    }

    fn write_restart(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let event = self.exchange.restart(cx.now());
        self.report(cx, event);
        self.act(cx);
        Ok(())
    }
}

impl HotSwap for DhcpClient {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let next = Exchange::new(self.exchange.mac(), Vec::new(), Secret::fresh());
        Some(Box::new(std::mem::replace(&mut self.exchange, next)))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(exchange) = state.downcast::<Exchange>() else { return };
        if exchange.mac() == self.exchange.mac() {
            self.exchange = *exchange;
        }
    }
}
