//! Against frames that are made byte by byte.

use std::cell::RefCell;

use super::*;
use proptest::prelude::*;
use thruway_elements_rig::Rig;
use thruway_wire::checksum;

const ACCESS_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const CORE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const HOST: [u8; 6] = [2, 0, 0, 0, 0, 7];
const US: [u8; 4] = [192, 0, 2, 1];
const PEER: [u8; 4] = [192, 0, 2, 9];
const OTHER_PEER: [u8; 4] = [192, 0, 2, 10];
/// Two ports to subscribers, one to the core; packets that are not forwarded leave by the fourth.
const CONFIG: [&str; 16] = [
    "ACCESS_MAC 2:0:0:0:0:1",
    "CORE_MAC 2:0:0:0:0:2",
    "IP 192.0.2.1",
    "GATEWAY 10.0.0.1",
    "ACCESS 2",
    "PUNT 3",
    "MTU 1500",
    "TIMEOUT 100",
    "CAPACITY 8",
    "TUNNEL 0 192.0.2.9 2:0:0:0:0:9 2 1000",
    "TUNNEL 5 192.0.2.10 2:0:0:0:0:a 2",
    "ROUTE 0.0.0.0/0 0",
    "ROUTE 20.0.0.0/8 5",
    "SUBSCRIBER 100 7 42 10.0.0.7",
    "SUBSCRIBER 100 8 43 10.1.0.0/24",
    "SUBSCRIBER 101 7 4294967295 10.0.0.9 2:0:0:0:0:99 1",
];

thread_local! {
    /// With and without checksums. Their tables take some time to make: one for each test does.
    static GATEWAYS: RefCell<[Rig; 2]> = RefCell::new([rig(true), rig(false)]);
}

fn rig(checksum: bool) -> Rig {
    let mut texts = CONFIG.map(str::to_owned).to_vec();
    texts.push(format!("CHECKSUM {checksum}"));
    Rig::with_inputs(&ENTRY, &texts, 3, 4).unwrap()
}

/// An IP packet with this body.
fn ip(src: [u8; 4], dst: [u8; 4], ttl: u8, tos: u8, body: &[u8]) -> Vec<u8> {
    ip_of(17, src, dst, [ttl, tos, 0x40], body)
}

fn ip_of(protocol: u8, src: [u8; 4], dst: [u8; 4], more: [u8; 3], body: &[u8]) -> Vec<u8> {
    let [ttl, tos, flags] = more;
    let len = (20 + body.len() as u16).to_be_bytes();
    let mut bytes = vec![0x45, tos, len[0], len[1], 0, 0, flags, 0, ttl, protocol, 0, 0];
    bytes.extend(src);
    bytes.extend(dst);
    let sum = checksum::checksum(&bytes).to_be_bytes();
    bytes[10..12].copy_from_slice(&sum);
    bytes.extend(body);
    bytes
}

fn access_frame(dst: [u8; 6], src: [u8; 6], line: (u16, u16), inside: &[u8]) -> Vec<u8> {
    tagged(dst, src, line, [8, 0], inside)
}

fn tagged(dst: [u8; 6], src: [u8; 6], line: (u16, u16), kind: [u8; 2], inside: &[u8]) -> Vec<u8> {
    let (outer, inner) = (line.0.to_be_bytes(), line.1.to_be_bytes());
    [&dst[..], &src, &[0x88, 0xa8], &outer, &[0x81, 0], &inner, &kind, inside].concat()
}

fn gre(key: u32, with_checksum: bool, inside: &[u8]) -> Vec<u8> {
    let mut bytes = vec![if with_checksum { 0xa0 } else { 0x20 }, 0, 8, 0];
    bytes.extend(if with_checksum { &[0; 4][..] } else { &[] });
    bytes.extend(key.to_be_bytes());
    bytes.extend(inside);
    if with_checksum {
        let sum = checksum::checksum(&bytes).to_be_bytes();
        bytes[4..6].copy_from_slice(&sum);
    }
    bytes
}

/// A label of traffic class 0 to 7 at the bottom of its stack.
fn label(label: u32, class: u8, ttl: u8) -> [u8; 4] {
    (label << 12 | u32::from(class) << 9 | 0x100 | u32::from(ttl)).to_be_bytes()
}

fn core_frame(label: Option<[u8; 4]>, dst: [u8; 6], src: [u8; 6], inside: &[u8]) -> Vec<u8> {
    let kind = if label.is_some() { [0x88, 0x47] } else { [8, 0] };
    let label = label.map_or(vec![], |label| label.to_vec());
    [&dst[..], &src, &kind, &label, inside].concat()
}

/// Sends one frame; the output that it left by, and the frame.
fn send(rig: &mut Rig, port: usize, bytes: &[u8]) -> (usize, Vec<u8>) {
    let out = rig.push_at(port, [Packet::new(bytes).unwrap()]);
    let mut left =
        out.iter().enumerate().flat_map(|(port, packets)| packets.iter().map(move |p| (port, p)));
    let (port, packet) = left.next().expect("PUNT takes what goes nowhere else");
    assert!(left.next().is_none());
    (port, packet.data().to_vec())
}

/// Sends one frame that is not forwarded; why.
fn refused(rig: &mut Rig, port: usize, bytes: &[u8]) -> &'static str {
    let before = rig.drops();
    assert_eq!(send(rig, port, bytes), (3, bytes.to_vec()), "unchanged by PUNT");
    let after = rig.drops();
    let mut why = (0..BngDrop::DROPS.len()).filter(|at| after[*at] != before[*at]);
    let name = BngDrop::DROPS[why.next().expect("it was counted")].name;
    assert!(why.next().is_none());
    name
}

proptest! {
    /// Out to the core and back, with all fields that matter at random.
    #[test]
    fn there_and_back(body in prop::collection::vec(any::<u8>(), 0..200), ttl in 2u8.., tos: u8,
                      near: bool, many: bool, with_checksum: bool, padding in 0usize..30,
                      port in 0usize..2) {
        GATEWAYS.with_borrow_mut(|gateways| {
            let gateway = &mut gateways[usize::from(!with_checksum)];
            let far = if near { [20, 1, 2, 3] } else { [8, 8, 8, 8] };
            let (line, key, host) =
                if many { ((100, 8), 43, [10, 1, 0, 200]) } else { ((100, 7), 42, [10, 0, 0, 7]) };
            let mut frame =
                access_frame(ACCESS_MAC, HOST, line, &ip(host, far, ttl, tos, &body));
            // Padding of the link, which must not travel on.
            frame.extend(vec![0xee; padding]);
            let inside = gre(key, with_checksum, &ip(host, far, ttl - 1, tos, &body));
            let peer = if near { OTHER_PEER } else { PEER };
            let mut outer = ip_of(47, US, peer, [64, tos & !3, 0x40], &inside);
            let (hop, label_out) = if near {
                ([2, 0, 0, 0, 0, 10], None)
            } else {
                ([2, 0, 0, 0, 0, 9], Some(label(1000, tos >> 5, 64)))
            };
            let (to, got) = send(gateway, port, &frame);
            // Identifications count on, which the checksum follows.
            let at = got.len() - outer.len();
            outer[4..6].copy_from_slice(&got[at + 4..at + 6]);
            outer[10..12].fill(0);
            let sum = checksum::checksum(&outer[..20]).to_be_bytes();
            outer[10..12].copy_from_slice(&sum);
            let wanted = core_frame(label_out, hop, CORE_MAC, &outer);
            prop_assert_eq!((to, got), (2, wanted));

            let inside = gre(key, with_checksum, &ip(far, host, ttl, tos, &body));
            let mut frame = core_frame(
                (!near).then(|| label(77, 0, 1)),
                CORE_MAC,
                hop,
                &ip_of(47, peer, US, [1, 0, 0], &inside),
            );
            frame.extend(vec![0xee; padding]);
            let wanted = access_frame(HOST, ACCESS_MAC, line, &ip(far, host, ttl - 1, tos, &body));
            prop_assert_eq!(send(gateway, 2, &frame), (port, wanted));
            prop_assert_eq!(gateway.drops().iter().sum::<u64>(), 0);
            Ok(())
        })?;
    }

    /// Good frames with a few bytes changed: each is forwarded or counted, once.
    #[test]
    fn any_change(at in prop::collection::vec((0usize..100, any::<u8>()), 0..4), cut in 0usize..120,
                  core: bool) {
        let inside = ip([10, 0, 0, 9], [8, 8, 8, 8], 9, 0, b"0123456789");
        let back = ip([8, 8, 8, 8], [10, 0, 0, 9], 9, 0, b"0123456789");
        let mut frame = match core {
            false => access_frame(ACCESS_MAC, HOST, (101, 7), &inside),
            true => {
                let outer = ip_of(47, PEER, US, [9, 0, 0], &gre(u32::MAX, true, &back));
                core_frame(Some(label(77, 0, 9)), CORE_MAC, HOST, &outer)
            }
        };
        for (at, byte) in at {
            if let Some(slot) = frame.get_mut(at) {
                *slot = byte;
            }
        }
        frame.truncate(cut);
        GATEWAYS.with_borrow_mut(|[gateway, _]| {
            let before: u64 = gateway.drops().iter().sum();
            let (port, _) = send(gateway, if core { 2 } else { 1 }, &frame);
            let dropped = gateway.drops().iter().sum::<u64>() - before;
            prop_assert_eq!(dropped, u64::from(port == 3));
            Ok(())
        })?;
    }
}

#[test]
fn what_subscribers_may_not_send() {
    let gateway = &mut rig(true);
    let good = ip([10, 0, 0, 7], [8, 8, 8, 8], 9, 0, b"x");
    let frame = |inside: &[u8]| access_frame(ACCESS_MAC, HOST, (100, 7), inside);
    assert_eq!(refused(gateway, 0, &frame(&good)[..21]), "not-tagged");
    let mut other = frame(&good);
    other[12] = 0x81;
    assert_eq!(refused(gateway, 0, &other), "not-tagged");
    let other = access_frame(ACCESS_MAC, HOST, (100, 9), &good);
    assert_eq!(refused(gateway, 0, &other), "unknown-line");
    // The line of another subscriber.
    let other = access_frame(ACCESS_MAC, HOST, (100, 8), &good);
    assert_eq!(refused(gateway, 0, &other), "spoofed-source");
    let other = access_frame(HOST, HOST, (100, 7), &good);
    assert_eq!(refused(gateway, 0, &other), "other-host");
    let other = access_frame([0xff; 6], HOST, (100, 7), &good);
    assert_eq!(refused(gateway, 0, &other), "not-unicast");
    let to = |dst: [u8; 4], ttl| frame(&ip([10, 0, 0, 7], dst, ttl, 0, b"x"));
    assert_eq!(refused(gateway, 0, &to([224, 0, 0, 5], 9)), "not-unicast");
    assert_eq!(refused(gateway, 0, &to([10, 0, 0, 1], 9)), "for-gateway");
    let long = ip_of(17, [10, 0, 0, 7], [8, 8, 8, 8], [9, 0, 0], &[0; 1481]);
    assert_eq!(refused(gateway, 0, &frame(&long)), "too-long");
    let mut wrong = frame(&good);
    wrong[32] ^= 1;
    assert_eq!(refused(gateway, 0, &wrong), "bad-checksum");
    assert_eq!(refused(gateway, 0, &frame(&good)[..42]), "bad-header");
    let six = tagged(ACCESS_MAC, HOST, (100, 7), [0x86, 0xdd], &[0x60; 40]);
    assert_eq!(refused(gateway, 0, &six), "not-ip");
    // The gateway learnt no location from these.
    assert_eq!(gateway.read("places", "").unwrap().lines().count(), 1);
}

#[test]
fn what_the_core_may_not_send() {
    let gateway = &mut rig(true);
    let inside = ip([8, 8, 8, 8], [10, 0, 0, 9], 9, 0, b"x");
    let outer = |src, dst, more: [u8; 3], gre: &[u8]| {
        core_frame(Some(label(77, 0, 9)), CORE_MAC, HOST, &ip_of(47, src, dst, more, gre))
    };
    let frame = |gre: &[u8]| outer(PEER, US, [9, 0, 0], gre);
    let good = gre(u32::MAX, true, &inside);
    let (port, _) = send(gateway, 2, &frame(&good));
    assert_eq!(port, 1);
    assert_eq!(refused(gateway, 2, &outer([1, 1, 1, 1], US, [9, 0, 0], &good)), "unknown-peer");
    assert_eq!(refused(gateway, 2, &outer(PEER, PEER, [9, 0, 0], &good)), "other-host");
    assert_eq!(refused(gateway, 2, &outer(PEER, US, [9, 0, 0x20], &good)), "fragment");
    let udp = core_frame(None, CORE_MAC, HOST, &ip_of(17, PEER, US, [9, 0, 0], &good));
    assert_eq!(refused(gateway, 2, &udp), "not-tunnel");
    assert_eq!(refused(gateway, 2, &core_frame(None, HOST, HOST, &good)), "other-host");
    let mut wrong = good.clone();
    wrong[30] ^= 1;
    assert_eq!(refused(gateway, 2, &frame(&wrong)), "bad-checksum");
    // Another subscriber's key, and an unknown one.
    assert_eq!(refused(gateway, 2, &frame(&gre(42, true, &inside))), "unknown-place");
    assert_eq!(refused(gateway, 2, &frame(&gre(44, false, &inside))), "unknown-place");
    let mut keyless = vec![0, 0, 8, 0];
    keyless.extend(&inside);
    assert_eq!(refused(gateway, 2, &frame(&keyless)), "not-tunnel");
    let old = ip([8, 8, 8, 8], [10, 0, 0, 9], 1, 0, b"x");
    assert_eq!(refused(gateway, 2, &frame(&gre(u32::MAX, true, &old))), "expired");
    let mut six = good.clone();
    six[2..4].copy_from_slice(&[0x86, 0xdd]);
    six[4..6].fill(0);
    let sum = checksum::checksum(&six).to_be_bytes();
    six[4..6].copy_from_slice(&sum);
    assert_eq!(refused(gateway, 2, &frame(&six)), "not-ip");
    assert_eq!(refused(gateway, 2, &frame(&gre(u32::MAX, true, &inside[..18]))), "bad-header");
}

/// An ARP message of a subscriber.
fn arp(operation: u8, sender: [u8; 4], target: [u8; 4], line: (u16, u16)) -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4, 0, operation];
    let body = [&head[..], &HOST, &sender, &[0; 6], &target].concat();
    tagged([0xff; 6], HOST, line, [8, 6], &body)
}

#[test]
fn arp_queries_are_answered() {
    let gateway = &mut rig(true);
    let answer = |sender: [u8; 4], target: [u8; 4], line| {
        let head = [0, 1, 8, 0, 6, 4, 0, 2];
        let body = [&head[..], &ACCESS_MAC, &target, &HOST, &sender].concat();
        tagged(HOST, ACCESS_MAC, line, [8, 6], &body)
    };
    let (host, gw) = ([10, 0, 0, 7], [10, 0, 0, 1]);
    let got = send(gateway, 1, &arp(1, host, gw, (100, 7)));
    assert_eq!(got, (1, answer(host, gw, (100, 7))));
    let locations = "100 7 42 10.0.0.7 02-00-00-00-00-07 1\n";
    assert!(gateway.read("places", "").unwrap().starts_with(locations));
    // Another subscriber, which cannot answer itself.
    let got = send(gateway, 1, &arp(1, host, [10, 0, 0, 9], (100, 7)));
    assert_eq!(got, (1, answer(host, [10, 0, 0, 9], (100, 7))));
    // Within a subscriber's own network he answers himself.
    let own = arp(1, [10, 1, 0, 5], [10, 1, 0, 6], (100, 8));
    assert_eq!(refused(gateway, 0, &own), "not-ip");
    assert_eq!(refused(gateway, 0, &arp(1, host, host, (100, 7))), "not-ip");
    assert_eq!(refused(gateway, 0, &arp(2, host, gw, (100, 7))), "not-ip");
    assert_eq!(refused(gateway, 0, &arp(1, [0; 4], gw, (100, 7))), "spoofed-source");
    assert_eq!(refused(gateway, 0, &arp(1, host, gw, (100, 8))), "spoofed-source");
    assert_eq!(refused(gateway, 0, &arp(1, host, gw, (1, 1))), "unknown-line");
}

#[test]
fn entries_change_while_it_runs() {
    let gateway = &mut rig(false);
    let up = access_frame(ACCESS_MAC, HOST, (100, 7), &ip([10, 0, 0, 7], [8, 8, 8, 8], 9, 0, b"x"));
    let down = |key| {
        let inside = gre(key, false, &ip([8, 8, 8, 8], [10, 0, 0, 7], 9, 0, b"x"));
        core_frame(None, CORE_MAC, HOST, &ip_of(47, PEER, US, [9, 0, 0], &inside))
    };
    assert_eq!(send(gateway, 0, &up).0, 2);
    assert_eq!(send(gateway, 2, &down(42)).0, 0);
    // Learnt bindings hold for a while.
    gateway.pass(90_000_000_000);
    assert_eq!(send(gateway, 2, &down(42)).0, 0);
    gateway.pass(11_000_000_000);
    assert_eq!(refused(gateway, 2, &down(42)), "unknown-place");
    assert_eq!(send(gateway, 0, &up).0, 2);
    // Another key on the line: the old one is free.
    let refusal = gateway.write("add", "SUBSCRIBER 100 7 50 10.0.0.7").unwrap_err().to_string();
    assert_eq!(refusal, "add: there is an entry SUBSCRIBER 100 7 already");
    let refusal = gateway.write("set", "SUBSCRIBER 100 7 43 10.0.0.7").unwrap_err().to_string();
    assert_eq!(refusal, "set: key 43 is that of SUBSCRIBER 100 8");
    gateway.write("set", "SUBSCRIBER 100 7 50 10.0.0.7").unwrap();
    assert_eq!(refused(gateway, 2, &down(42)), "unknown-place");
    assert_eq!(refused(gateway, 2, &down(50)), "unknown-place");
    assert_eq!(send(gateway, 0, &up).0, 2);
    assert_eq!(send(gateway, 2, &down(50)).0, 0);
    gateway.write("remove", "SUBSCRIBER 100 7").unwrap();
    assert_eq!(refused(gateway, 0, &up), "unknown-line");
    assert_eq!(refused(gateway, 2, &down(50)), "unknown-place");
    // A wider prefix is not searched, yet its places count no more.
    gateway.write("add", "SUBSCRIBER 100 7 60 10.0.0.0/16").unwrap();
    assert_eq!(send(gateway, 0, &up).0, 2);
    assert_eq!(send(gateway, 2, &down(60)).0, 0);
    gateway.write("set", "SUBSCRIBER 100 7 60 10.1.0.0/16").unwrap();
    assert_eq!(refused(gateway, 2, &down(60)), "unknown-place");
    // Tunnels go when no route leads there, and their ends with them.
    assert!(
        gateway.write("remove", "TUNNEL 0").unwrap_err().to_string().contains("ROUTE 0.0.0.0/0")
    );
    gateway.write("set", "ROUTE 0.0.0.0/0 5").unwrap();
    gateway.write("remove", "TUNNEL 0").unwrap();
    assert_eq!(refused(gateway, 2, &down(60)), "unknown-peer");
    assert!(gateway.write("add", "ROUTE 30.0.0.0/8 0").is_err());
}

#[test]
fn packets_allocate_nothing() {
    let mut gateway = rig(true);
    let up = ip([10, 0, 0, 9], [8, 8, 8, 8], 9, 0, b"x");
    let down = gre(u32::MAX, true, &ip([8, 8, 8, 8], [10, 0, 0, 9], 9, 0, b"x"));
    let down =
        core_frame(Some(label(77, 0, 9)), CORE_MAC, HOST, &ip_of(47, PEER, US, [9, 0, 0], &down));
    let query = arp(1, [10, 0, 0, 7], [10, 0, 0, 1], (100, 7));
    for (port, bytes) in [(1, access_frame(ACCESS_MAC, HOST, (101, 7), &up)), (2, down), (0, query)]
    {
        assert_eq!(gateway.allocations(port, &bytes), 0, "port {port}");
    }
    assert_eq!(gateway.drops().iter().sum::<u64>(), 0);
}

#[test]
fn the_gateway_answers_and_reports() {
    let gateway = &mut rig(true);
    let (host, gw, far) = ([10, 0, 0, 7], [10, 0, 0, 1], [8, 8, 8, 8]);
    let icmp = |head: [u8; 4], rest: &[u8]| {
        let mut bytes = [&head[..], rest].concat();
        let sum = checksum::checksum(&bytes).to_be_bytes();
        bytes[2..4].copy_from_slice(&sum);
        bytes
    };
    let frame = |inside: &[u8]| access_frame(ACCESS_MAC, HOST, (100, 7), inside);
    let answer = |inside: &[u8]| access_frame(HOST, ACCESS_MAC, (100, 7), inside);
    let ping = ip_of(1, host, gw, [9, 0, 0], &icmp([8, 0, 0, 0], b"abcdefgh"));
    let pong = ip_of(1, gw, host, [255, 0, 0], &icmp([0; 4], b"abcdefgh"));
    assert_eq!(send(gateway, 1, &frame(&ping)), (1, answer(&pong)));
    assert_eq!(gateway.drops().iter().sum::<u64>(), 0);

    let short = ip(host, far, 1, 0, b"x");
    let long = ip(host, far, 9, 0, &[5; 1481]);
    let lost = ip(host, [30, 0, 0, 1], 9, 0, b"x");
    gateway.write("remove", "ROUTE 0.0.0.0/0").unwrap();
    gateway.write("add", "ROUTE 8.0.0.0/8 0").unwrap();
    let reasons = [(&short, [11, 0], 0, 9), (&long, [3, 4], 1500, 11), (&lost, [3, 0], 0, 10)];
    for (number, (packet, kind, mtu, reason)) in reasons.into_iter().enumerate() {
        // As much of the packet as makes 576 bytes.
        let rest = [&u32::to_be_bytes(mtu)[..], &packet[..packet.len().min(548)]].concat();
        let mut reported = ip_of(1, gw, host, [200, 0, 0], &icmp([kind[0], kind[1], 0, 0], &rest));
        reported[5] = number as u8 + 1;
        reported[10..12].fill(0);
        let sum = checksum::checksum(&reported[..20]).to_be_bytes();
        reported[10..12].copy_from_slice(&sum);
        assert_eq!(send(gateway, 0, &frame(packet)), (0, answer(&reported)), "{kind:?}");
        assert_eq!(gateway.drops()[reason], 1, "{kind:?}");
    }
    // No error answers an error, nor a sender that pretends to be another.
    let error = ip_of(1, host, far, [1, 0, 0], &icmp([11, 0, 0, 0], &[0; 12]));
    assert_eq!(refused(gateway, 0, &frame(&error)), "expired");
    let other = ip([10, 0, 0, 8], far, 1, 0, b"x");
    assert_eq!(refused(gateway, 0, &frame(&other)), "spoofed-source");
}
