//! A client's messages and their times (RFC 2131 section 4.4): pure, with the time as an argument.

use std::net::Ipv4Addr;

use thruway_wire::MacAddr;
use thruway_wire::dhcp::{
    BOOTREPLY, BOOTREQUEST, CLIENT_PORT, DhcpHeader, SERVER_PORT, message_type, option,
};

use super::super::dhcp::{Frame, Path, Received};
use thruway_elements_support::random::Secret;

const SECOND: i64 = 1_000_000_000;
/// Time until a message is sent again: this, then twice that... (RFC 2131 section 4.1).
const RESEND_NS: i64 = 4 * SECOND;
/// The longest such time (RFC 2131 section 4.1).
const RESEND_MAX_NS: i64 = 64 * SECOND;
/// How often a request for an offer is sent before the client looks for another one.
const REQUESTS: u32 = 4;
/// Shortest time until a lease is asked for again while it runs (RFC 2131 section 4.4.5).
const RENEW_MIN_NS: i64 = 60 * SECOND;
/// How long a client waits after a refusal, so that a server cannot make it ask without end.
const REFUSED_NS: i64 = 10 * SECOND;
/// Shortest lease that is taken, seconds, for the same reason.
const LEASE_MIN_S: u32 = 10;

/// Options that the client asks for.
const PARAMETERS: [u8; 6] = [
    option::MASK,
    option::ROUTER,
    option::DNS,
    option::LEASE_TIME,
    option::RENEWAL_TIME,
    option::REBINDING_TIME,
];

/// A server's offer or lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub address: Ipv4Addr,
    /// Length of the network's prefix.
    pub prefix_len: u8,
    /// 0.0.0.0 for none.
    pub router: Ipv4Addr,
    /// 0.0.0.0 for none.
    pub dns: Ipv4Addr,
    pub server: Ipv4Addr,
    /// The sender of the server's frame: the server or a router.
    pub server_mac: MacAddr,
    /// When the server is asked to renew it, when any server is, and when it is over.
    pub renew_at: i64,
    pub rebind_at: i64,
    pub end_at: i64,
}

impl Lease {
    /// The client's configuration.
    pub(super) fn settings(&self) -> (Ipv4Addr, u8, Ipv4Addr, Ipv4Addr) {
        (self.address, self.prefix_len, self.router, self.dns)
    }

    /// The lease in an offer or acknowledgement for a request that was sent at `asked_at`; `None`
    /// if it is none that a host could use.
    fn of(received: &Received<'_>, asked_at: i64) -> Option<Lease> {
        let message = &received.message;
        let address = Ipv4Addr::from_bits(message.header().yiaddr());
        let is_no_host = address.is_unspecified()
            || address.is_multicast()
            || address.is_broadcast()
            || address.is_loopback();
        let mask = message.address(option::MASK).unwrap_or(Ipv4Addr::new(255, 255, 255, 0));
        let prefix_len = mask.to_bits().leading_ones();
        let lease_s = message.seconds(option::LEASE_TIME).filter(|s| *s >= LEASE_MIN_S)?;
        if is_no_host || mask.to_bits().count_ones() != prefix_len {
            return None;
        }
        let (renew_s, rebind_s) = times(
            lease_s,
            message.seconds(option::RENEWAL_TIME),
            message.seconds(option::REBINDING_TIME),
        );
        let after = |seconds: u32| asked_at.saturating_add(i64::from(seconds) * SECOND);
        let first = |code| message.address(code).unwrap_or(Ipv4Addr::UNSPECIFIED);
        Some(Lease {
            address,
            prefix_len: prefix_len as u8,
            router: first(option::ROUTER),
            dns: first(option::DNS),
            server: message.address(option::SERVER_ID)?,
            server_mac: received.ether_src,
            renew_at: after(renew_s),
            rebind_at: after(rebind_s),
            end_at: after(lease_s),
        })
    }
}

/// When a lease is renewed and rebound: as the server says, if that makes sense, else at half and
/// seven eighths of it (RFC 2131 section 4.4.5).
fn times(lease_s: u32, renew_s: Option<u32>, rebind_s: Option<u32>) -> (u32, u32) {
    match (renew_s, rebind_s) {
        (Some(renew), Some(rebind)) if 0 < renew && renew < rebind && rebind < lease_s => {
            (renew, rebind)
        }
        _ => (lease_s / 2, lease_s - lease_s.div_ceil(8)),
    }
}

/// Where the client is (RFC 2131 figure 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientState {
    Selecting,
    Requesting(Lease),
    Bound(Lease),
    Renewing(Lease),
    Rebinding(Lease),
}

/// The externally visible effect of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Nothing changed.
    None,
    /// The message was none for this client, or not to be believed.
    Ignored,
    /// A lease began, or what it says has changed.
    Leased,
    /// There is no lease any more.
    Lost,
}

/// A client's exchange with servers.
#[derive(Debug)]
pub(super) struct Exchange {
    mac: MacAddr,
    host_name: Vec<u8>,
    random: Secret,
    xid: u32,
    pub(super) state: ClientState,
    /// Messages of this state that were sent.
    tries: u32,
    /// When the exchange began.
    since: i64,
    /// When the last request was sent: leases count from there (RFC 2131 section 4.4.1).
    asked_at: i64,
    /// When [`Exchange::act`] is to be called.
    pub(super) next_at: i64,
}

impl Exchange {
    pub(super) fn new(mac: MacAddr, host_name: Vec<u8>, random: Secret) -> Exchange {
        Exchange {
            mac,
            host_name,
            random,
            xid: 0,
            state: ClientState::Selecting,
            tries: 0,
            since: 0,
            asked_at: 0,
            next_at: i64::MIN,
        }
    }

    /// The Ethernet address that it speaks for.
    pub(super) fn mac(&self) -> MacAddr {
        self.mac
    }

    /// The lease that is in force.
    pub(super) fn lease(&self) -> Option<&Lease> {
        match &self.state {
            ClientState::Bound(lease)
            | ClientState::Renewing(lease)
            | ClientState::Rebinding(lease) => Some(lease),
            ClientState::Selecting | ClientState::Requesting(_) => None,
        }
    }

    /// Begins a state, in which the first message goes out at `at`.
    fn enter(&mut self, state: ClientState, at: i64) {
        (self.state, self.tries, self.next_at) = (state, 0, at);
    }

    /// Begins anew; says whether a lease was lost by that.
    pub(super) fn restart(&mut self, at: i64) -> Event {
        let had = self.lease().is_some();
        self.enter(ClientState::Selecting, at);
        if had { Event::Lost } else { Event::None }
    }

    /// Does what is due: says what changed, and gives the frame to be sent.
    pub(super) fn act(&mut self, now: i64) -> (Event, Option<Frame>) {
        if now < self.next_at {
            return (Event::None, None);
        }
        let mut event = Event::None;
        match self.state {
            ClientState::Bound(lease) => self.enter(ClientState::Renewing(lease), now),
            ClientState::Renewing(lease) if now >= lease.rebind_at => {
                self.enter(ClientState::Rebinding(lease), now);
            }
            ClientState::Requesting(_) if self.tries >= REQUESTS => event = self.restart(now),
            _ => {}
        }
        if self.lease().is_some_and(|lease| now >= lease.end_at) {
            event = self.restart(now);
        }
        (event, self.send(now))
    }

    /// The message of the present state.
    fn send(&mut self, now: i64) -> Option<Frame> {
        if self.tries == 0 && !matches!(self.state, ClientState::Requesting(_)) {
            self.since = now;
        }
        // A lease counts from the message that its answer is for. Each has a number of its own,
        // but for a request, which has the offer's: there the first counts.
        let has_number = match self.state {
            ClientState::Selecting => self.tries > 0,
            ClientState::Requesting(_) => true,
            _ => false,
        };
        if !has_number {
            self.xid = self.random.next_u64() as u32;
        }
        if !has_number || self.tries == 0 {
            self.asked_at = now;
        }
        self.next_at = now.saturating_add(self.wait_ns(now));
        self.tries = self.tries.saturating_add(1);
        let mut header = DhcpHeader::new(BOOTREQUEST, self.mac, self.xid);
        let secs = (now - self.since) / SECOND;
        header.set_secs(u16::try_from(secs).unwrap_or(u16::MAX));
        let mut path = Path {
            ethers: (self.mac, MacAddr::BROADCAST),
            addresses: (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST),
            ports: (CLIENT_PORT, SERVER_PORT),
        };
        let kind = match &self.state {
            ClientState::Selecting => message_type::DISCOVER,
            _ => message_type::REQUEST,
        };
        if let Some(lease) = self.lease() {
            header.set_ciaddr(lease.address.to_bits());
            path.addresses.0 = lease.address;
        }
        if let ClientState::Renewing(lease) = &self.state {
            (path.addresses.1, path.ethers.1) = (lease.server, lease.server_mac);
        }
        let frame = Frame::new(&path, &header, kind, |writer| {
            // Only a SELECTING client names the server in its request (RFC 2131 section 4.3.2).
            if let ClientState::Requesting(lease) = &self.state {
                writer.put_addresses(option::REQUESTED_ADDRESS, &[lease.address]);
                writer.put_addresses(option::SERVER_ID, &[lease.server]);
            }
            writer.put(option::PARAMETERS, &PARAMETERS);
            if !self.host_name.is_empty() {
                writer.put(option::HOST_NAME, &self.host_name);
            }
        });
        frame.ok()
    }

    /// How long to wait for an answer.
    fn wait_ns(&mut self, now: i64) -> i64 {
        let half_until = |at: i64| ((at - now) / 2).max(RENEW_MIN_NS).min((at - now).max(0));
        match &self.state {
            ClientState::Renewing(lease) => half_until(lease.rebind_at),
            ClientState::Rebinding(lease) => half_until(lease.end_at),
            _ => {
                let wait = (RESEND_NS << self.tries.min(8)).min(RESEND_MAX_NS);
                // A second more or less, so that clients do not speak in step.
                wait - SECOND + self.random.below(2 * SECOND as u64) as i64
            }
        }
    }

    /// Takes a server's message. If a request must follow, [`Exchange::next_at`] is now.
    pub(super) fn take(&mut self, received: &Received<'_>, now: i64) -> Event {
        let message = &received.message;
        let header = message.header();
        let is_ours = header.op() == BOOTREPLY
            && header.mac() == Some(self.mac)
            && header.xid() == self.xid
            && self.tries > 0;
        if !is_ours {
            return Event::Ignored;
        }
        match (self.state, message.message_type()) {
            (ClientState::Selecting, Some(message_type::OFFER)) => {
                let Some(offer) = Lease::of(received, now) else { return Event::Ignored };
                self.enter(ClientState::Requesting(offer), now);
                Event::None
            }
            (ClientState::Requesting(lease), Some(message_type::ACK))
                if message.address(option::SERVER_ID) == Some(lease.server) =>
            {
                self.bind(received, None, now)
            }
            (
                ClientState::Renewing(lease) | ClientState::Rebinding(lease),
                Some(message_type::ACK),
            ) => self.bind(received, Some(lease), now),
            (
                ClientState::Requesting(lease) | ClientState::Renewing(lease),
                Some(message_type::NAK),
            ) if message.address(option::SERVER_ID) == Some(lease.server) => {
                self.restart(now.saturating_add(REFUSED_NS))
            }
            (ClientState::Rebinding(_), Some(message_type::NAK)) => {
                self.restart(now.saturating_add(REFUSED_NS))
            }
            _ => Event::Ignored,
        }
    }

    /// The lease is granted, or renewed where there was one `before`.
    fn bind(&mut self, received: &Received<'_>, before: Option<Lease>, now: i64) -> Event {
        let lease = Lease::of(received, self.asked_at).filter(|lease| lease.renew_at > now);
        let Some(lease) = lease else { return Event::Ignored };
        self.enter(ClientState::Bound(lease), lease.renew_at);
        match before {
            Some(before) if before.settings() == lease.settings() => Event::None,
            _ => Event::Leased,
        }
    }
}

#[cfg(test)]
mod tests;
