use super::super::super::dhcp::receive;
use super::*;
use proptest::prelude::*;
use thruway_wire::dhcp::DhcpMessage;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const SERVER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const GIVEN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 50);

fn client() -> Exchange {
    Exchange::new(MAC, b"gateway".to_vec(), Secret::from_seed(1))
}

/// A server's answer, one hour long, to the message with this number.
fn says(kind: u8, xid: u32, given: Ipv4Addr, lease_s: u32) -> Vec<u8> {
    let mut header = DhcpHeader::new(BOOTREPLY, MAC, xid);
    header.set_yiaddr(given.to_bits());
    let path = Path {
        ethers: (SERVER_MAC, MAC),
        addresses: (SERVER, given),
        ports: (SERVER_PORT, CLIENT_PORT),
    };
    let frame = Frame::new(&path, &header, kind, |writer| {
        writer.put_addresses(option::SERVER_ID, &[SERVER]);
        writer.put_seconds(option::LEASE_TIME, lease_s);
        writer.put_addresses(option::MASK, &[[255, 255, 254, 0].into()]);
        writer.put_addresses(option::ROUTER, &[SERVER]);
        writer.put_addresses(option::DNS, &[[9, 9, 9, 9].into()]);
    });
    frame.unwrap().bytes().to_vec()
}

fn hears(client: &mut Exchange, kind: u8, given: Ipv4Addr, now: i64) -> Event {
    let frame = says(kind, client.xid, given, 3600);
    client.take(&receive(&frame, CLIENT_PORT).unwrap(), now)
}

/// What it sends now: type, and whether to all.
fn sends(client: &mut Exchange, now: i64) -> Option<(u8, bool)> {
    let (_, frame) = client.act(now);
    let frame = frame?;
    let message: DhcpMessage<'_> = receive(frame.bytes(), SERVER_PORT).unwrap().message;
    let is_broadcast = frame.bytes()[..6] == MacAddr::BROADCAST.0;
    Some((message.message_type().unwrap(), is_broadcast))
}

fn bound(now: i64) -> Exchange {
    let mut client = client();
    assert_eq!(sends(&mut client, now), Some((message_type::DISCOVER, true)));
    assert_eq!(hears(&mut client, message_type::OFFER, GIVEN, now), Event::None);
    assert_eq!(sends(&mut client, now), Some((message_type::REQUEST, true)));
    assert_eq!(hears(&mut client, message_type::ACK, GIVEN, now), Event::Leased);
    client
}

#[test]
fn from_nothing_to_a_lease() {
    let client = bound(5 * SECOND);
    let lease = client.lease().unwrap();
    assert_eq!(lease.settings(), (GIVEN, 23, SERVER, [9, 9, 9, 9].into()));
    assert_eq!(lease.server_mac, SERVER_MAC);
    assert_eq!(client.next_at, 1805 * SECOND, "half of the lease");
    assert_eq!((lease.rebind_at, lease.end_at), (3155 * SECOND, 3605 * SECOND));
}

#[test]
fn a_lease_is_renewed_then_rebound_then_lost() {
    let mut client = bound(0);
    assert_eq!(sends(&mut client, 1799 * SECOND), None);
    assert_eq!(sends(&mut client, 1800 * SECOND), Some((message_type::REQUEST, false)));
    assert_eq!(client.next_at, 2475 * SECOND, "half of the time until it asks all");
    assert_eq!(hears(&mut client, message_type::ACK, GIVEN, 1801 * SECOND), Event::None);
    assert_eq!(client.lease().unwrap().end_at, 5400 * SECOND);
    let mut at = Vec::new();
    let mut now = client.next_at;
    let lost = loop {
        let (event, frame) = client.act(now);
        let all = frame.unwrap().bytes()[..6] == MacAddr::BROADCAST.0;
        at.push((now / SECOND, all));
        if event != Event::None {
            break event;
        }
        assert!(client.next_at > now, "it does not ask without end");
        now = client.next_at;
    };
    assert_eq!((lost, client.lease()), (Event::Lost, None));
    let first_to_all = at.iter().find(|(_, all)| *all).unwrap().0;
    assert_eq!((first_to_all, at.last().unwrap().0), (4950, 5400));
    assert!(at.len() < 14, "{at:?}");
}

#[test]
fn another_address_is_reported() {
    let mut client = bound(0);
    assert!(sends(&mut client, 1800 * SECOND).is_some());
    let other = Ipv4Addr::new(192, 0, 2, 51);
    assert_eq!(hears(&mut client, message_type::ACK, other, 1801 * SECOND), Event::Leased);
    assert!(sends(&mut client, 3600 * SECOND).is_some());
    assert_eq!(hears(&mut client, message_type::NAK, other, 3600 * SECOND), Event::Lost);
    assert_eq!(client.next_at, 3610 * SECOND);
}

#[test]
fn what_is_not_believed() {
    let mut client = client();
    // Before it has said anything, and with a wrong number, kind, address or time.
    assert_eq!(hears(&mut client, message_type::OFFER, GIVEN, 0), Event::Ignored);
    assert!(sends(&mut client, 0).is_some());
    for (kind, xid, given, lease_s) in [
        (message_type::OFFER, client.xid ^ 1, GIVEN, 3600),
        (message_type::ACK, client.xid, GIVEN, 3600),
        (message_type::NAK, client.xid, GIVEN, 3600),
        (message_type::OFFER, client.xid, Ipv4Addr::UNSPECIFIED, 3600),
        (message_type::OFFER, client.xid, Ipv4Addr::BROADCAST, 3600),
        (message_type::OFFER, client.xid, Ipv4Addr::LOCALHOST, 3600),
        (message_type::OFFER, client.xid, GIVEN, 0),
    ] {
        let frame = says(kind, xid, given, lease_s);
        let event = client.take(&receive(&frame, CLIENT_PORT).unwrap(), 1);
        assert_eq!(event, Event::Ignored, "{kind} {given} {lease_s}");
    }
    assert_eq!(client.state, ClientState::Selecting);
}

#[test]
fn messages_are_sent_again_ever_later() {
    let mut client = client();
    let mut waits = Vec::new();
    let mut now = 0;
    for _ in 0..7 {
        assert_eq!(sends(&mut client, now), Some((message_type::DISCOVER, true)));
        waits.push(client.next_at - now);
        now = client.next_at;
    }
    for (wait, wanted) in waits.iter().zip([4, 8, 16, 32, 64, 64, 64]) {
        assert!((wait - wanted * SECOND).abs() <= SECOND, "{waits:?}");
    }
    // A request without an answer is given up.
    assert_eq!(hears(&mut client, message_type::OFFER, GIVEN, now), Event::None);
    for wanted in [message_type::REQUEST; 4] {
        assert_eq!(sends(&mut client, now), Some((wanted, true)));
        now = client.next_at;
    }
    assert_eq!(sends(&mut client, now), Some((message_type::DISCOVER, true)));
}

#[test]
fn senseless_times_are_replaced() {
    assert_eq!(times(3600, Some(60), Some(120)), (60, 120));
    for (renew, rebind) in [(0, 10), (10, 10), (20, 10), (10, 3600)] {
        assert_eq!(times(3600, Some(renew), Some(rebind)), (1800, 3150));
    }
    for lease_s in LEASE_MIN_S..2000 {
        let (renew, rebind) = times(lease_s, None, None);
        assert!(0 < renew && renew < rebind && rebind < lease_s, "{lease_s}");
    }
}

proptest! {
    /// Whatever servers say, the client asks at most as often as it is allowed to.
    #[test]
    fn no_server_makes_it_busy(
        steps in prop::collection::vec((0u8..8, any::<u32>(), any::<bool>()), 1..60),
    ) {
        let mut client = client();
        let (mut now, mut sent) = (0, 0);
        for (kind, seconds, given) in steps {
            now = now.max(client.next_at);
            if now > i64::MAX / 2 {
                // Two leases of 136 years later the clock itself ends (292 years).
                break;
            }
            let before = client.next_at;
            sent += i32::from(client.act(now).1.is_some());
            let given = if given { GIVEN } else { Ipv4Addr::UNSPECIFIED };
            let frame = says(kind, client.xid, given, seconds);
            client.take(&receive(&frame, CLIENT_PORT).unwrap(), now);
            // Only an offer is answered at once.
            let at_once = matches!(client.state, ClientState::Requesting(_));
            prop_assert!(at_once || client.next_at > now, "{before} {:?}", client.state);
        }
        prop_assert!(sent > 0);
    }
}
