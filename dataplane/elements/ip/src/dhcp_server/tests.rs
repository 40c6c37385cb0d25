use super::*;
use proptest::prelude::*;

const HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const HOUR: i64 = 3_600_000_000_000;

fn ip(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, n)
}

fn server() -> DhcpServer {
    let announced = Announced {
        ip: SERVER,
        mask: [255, 255, 255, 0].into(),
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        router: SERVER,
        dns: vec![SERVER; DNS_MAX],
        domain: "a".repeat(DOMAIN_MAX),
        lease_s: 3600,
    };
    DhcpServer { announced, leases: Leases::new(ip(10), ip(11)), names: Names::default() }
}

/// What a client sends: type, its address, the one that it wants, the server that it means.
fn asks(
    mac: MacAddr,
    kind: u8,
    ciaddr: Ipv4Addr,
    wants: Option<Ipv4Addr>,
    server: Option<Ipv4Addr>,
) -> Vec<u8> {
    let mut header = DhcpHeader::new(BOOTREQUEST, mac, 77);
    header.set_ciaddr(ciaddr.to_bits());
    let path = Path {
        ethers: (mac, MacAddr::BROADCAST),
        addresses: (ciaddr, Ipv4Addr::BROADCAST),
        ports: (CLIENT_PORT, SERVER_PORT),
    };
    let frame = Frame::new(&path, &header, kind, |writer| {
        writer.put_addresses(option::REQUESTED_ADDRESS, wants.as_slice());
        writer.put_addresses(option::SERVER_ID, server.as_slice());
    });
    frame.unwrap().bytes().to_vec()
}

const NONE: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

/// Type and address of the answer, and where its frame goes.
fn answer(
    server: &mut DhcpServer,
    frame: &[u8],
    now: i64,
) -> Result<(u8, Ipv4Addr, MacAddr), Other> {
    let reply = server.reply(frame, now)?;
    let mac: [u8; 6] = reply.bytes()[..6].try_into().unwrap();
    let received = receive(reply.bytes(), CLIENT_PORT).unwrap();
    let message = received.message;
    assert_eq!((message.header().xid(), message.header().mac()), (77, Some(HOST)));
    assert_eq!(message.address(option::SERVER_ID), Some(SERVER));
    let given = Ipv4Addr::from_bits(message.header().yiaddr());
    Ok((message.message_type().unwrap(), given, MacAddr(mac)))
}

#[test]
fn a_client_gets_an_address_and_gives_it_back() {
    let mut server = server();
    let discover = asks(HOST, message_type::DISCOVER, NONE, None, None);
    let offered = answer(&mut server, &discover, 0).unwrap();
    assert_eq!(offered, (message_type::OFFER, ip(10), HOST));
    let request = asks(HOST, message_type::REQUEST, NONE, Some(ip(10)), Some(SERVER));
    assert_eq!(answer(&mut server, &request, 1), Ok((message_type::ACK, ip(10), HOST)));
    let renew = asks(HOST, message_type::REQUEST, ip(10), None, None);
    assert_eq!(answer(&mut server, &renew, HOUR / 2), Ok((message_type::ACK, ip(10), HOST)));
    assert_eq!(server.leases.count(HOUR + 1), 1, "renewed");
    let release = asks(HOST, message_type::RELEASE, ip(10), None, Some(SERVER));
    assert_eq!(answer(&mut server, &release, HOUR), Err(Other::Ended));
    assert_eq!(server.leases.count(HOUR + 1), 0);
}

#[test]
fn refusals_and_their_destinations() {
    let mut server = server();
    let foreign = asks(HOST, message_type::REQUEST, NONE, Some([192, 168, 0, 9].into()), None);
    let refused = answer(&mut server, &foreign, 0);
    assert_eq!(refused, Ok((message_type::NAK, NONE, MacAddr::BROADCAST)));
    let unknown = asks(HOST, message_type::REQUEST, NONE, Some(ip(11)), None);
    assert_eq!(answer(&mut server, &unknown, 0), Ok((message_type::ACK, ip(11), HOST)));
    let chosen = asks(HOST, message_type::REQUEST, NONE, Some(ip(11)), Some(ip(2)));
    assert_eq!(answer(&mut server, &chosen, 0), Err(Other::Foreign));
    assert_eq!(server.leases.count(1), 0, "the client has another server's address");
    for n in 0..2 {
        let other = asks(MacAddr([2, 0, 0, 0, 1, n]), message_type::DISCOVER, NONE, None, None);
        assert!(server.reply(&other, 0).is_ok());
    }
    let late = asks(HOST, message_type::DISCOVER, NONE, None, None);
    assert_eq!(answer(&mut server, &late, 0), Err(Other::NoAddress));
    let nothing = asks(HOST, message_type::REQUEST, NONE, None, Some(SERVER));
    assert_eq!(answer(&mut server, &nothing, 0), Err(Other::NotDhcp));
}

#[test]
fn a_host_with_an_address_gets_the_rest() {
    let inform = asks(HOST, message_type::INFORM, ip(77), None, None);
    let reply = server().reply(&inform, 0).unwrap();
    let message = receive(reply.bytes(), CLIENT_PORT).unwrap().message;
    assert_eq!(message.message_type(), Some(message_type::ACK));
    assert_eq!((message.header().yiaddr(), message.seconds(option::LEASE_TIME)), (0, None));
    assert_eq!(message.address(option::ROUTER), Some(SERVER));
}

#[test]
fn relays_are_not_served() {
    let mut frame = asks(HOST, message_type::DISCOVER, NONE, None, None);
    frame[42 + 24] = 10;
    // No UDP checksum, so that the change is not what is noticed.
    frame[40..42].fill(0);
    assert_eq!(server().reply(&frame, 0).err(), Some(Other::Relayed));
}

proptest! {
    /// A message with anything in it is answered or refused, and the frame is a valid one.
    #[test]
    fn any_message(
        fixed in prop::collection::vec(any::<u8>(), 28),
        options in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..9)), 0..6),
        kind in 0u8..10,
    ) {
        let path = Path {
            ethers: (HOST, MacAddr::BROADCAST),
            addresses: (NONE, Ipv4Addr::BROADCAST),
            ports: (CLIENT_PORT, SERVER_PORT),
        };
        let header = DhcpHeader::new(BOOTREQUEST, HOST, 77);
        let frame = Frame::new(&path, &header, kind, |writer| {
            options.iter().for_each(|(code, data)| writer.put(*code, data));
        });
        let mut bytes = frame.unwrap().bytes().to_vec();
        bytes[42 + 4..42 + 24].copy_from_slice(&fixed[..20]);
        bytes[40..42].fill(0);
        let mut server = server();
        if let Ok(reply) = server.reply(&bytes, 0) {
            prop_assert!(receive(reply.bytes(), CLIENT_PORT).is_some());
        }
    }
}
