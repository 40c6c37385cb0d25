//! Against a bridge that keeps all it ever saw in a list and makes each frame anew.

use super::*;
use proptest::prelude::*;
use thruway_elements_rig::Rig;
use thruway_table::TICK_NS;

/// VLANs of the ports in the tests with VLANs: (without a tag, all).
const VLANS: [(Option<u16>, &[u16]); 4] =
    [(Some(10), &[10]), (Some(20), &[20]), (None, &[10, 20]), (Some(10), &[10, 20, 30])];
const PORTS: [&str; 4] = [
    "PORT 0 ACCESS 10",
    "PORT 1 ACCESS 20",
    "PORT 2 TRUNK 10 20",
    "PORT 3 TRUNK 10-10 20 30 NATIVE 10",
];

/// A frame: addresses, tag, body.
#[derive(Debug, Clone)]
struct Frame {
    dst: u8,
    src: u8,
    tci: Option<u16>,
}

impl Frame {
    fn bytes(&self, tci: Option<u16>) -> Vec<u8> {
        // Number 9 stands for a group.
        let dst = if self.dst == 9 { [1, 0, 0, 0, 0, 9] } else { [0, 0, 0, 0, 0, self.dst] };
        let mut bytes = [&dst[..], &[0, 0, 0, 0, 0, self.src]].concat();
        if let Some(tci) = tci {
            bytes.extend([0x81, 0]);
            bytes.extend(tci.to_be_bytes());
        }
        bytes.extend(*b"\x08\x00inside");
        bytes
    }
}

fn frame() -> impl Strategy<Value = Frame> {
    let tag = (prop::sample::select(vec![0u16, 10, 20, 30, 40]), 0u16..16)
        .prop_map(|(vlan, high)| vlan | high << 12);
    let dst = prop::sample::select(vec![1u8, 2, 3, 4, 9]);
    (dst, 1u8..5, prop::option::of(tag)).prop_map(|(dst, src, tci)| Frame { dst, src, tci })
}

/// A learnt address: VLAN, source, port, time in ticks.
#[derive(Default)]
struct Bridge(Vec<(u16, u8, usize, i64)>);

impl Bridge {
    /// Each port's frame, `None` where none goes.
    fn take(&mut self, from: usize, frame: &Frame, now: i64) -> Vec<Option<Vec<u8>>> {
        let (untagged, has) = VLANS[from];
        let vlan = match frame.tci.map_or(0, |tci| tci & 0xfff) {
            0 => untagged,
            vlan => Some(vlan),
        };
        let Some(vlan) = vlan.filter(|vlan| has.contains(vlan)) else { return vec![None; 4] };
        self.0.push((vlan, frame.src, from, now));
        let known =
            self.0.iter().rev().find(|(other, src, ..)| (*other, *src) == (vlan, frame.dst));
        let known = known.filter(|(.., at)| now < at + 50).map(|(_, _, port, _)| *port);
        (0..4)
            .map(|port| {
                let (untagged, has) = VLANS[port];
                let goes = port != from && has.contains(&vlan) && known.is_none_or(|at| at == port);
                let tci = frame.tci.unwrap_or(0) & 0xf000 | vlan;
                goes.then(|| frame.bytes((untagged != Some(vlan)).then_some(tci)))
            })
            .collect()
    }
}

proptest! {
    #[test]
    fn as_a_bridge(frames in prop::collection::vec((frame(), 0usize..4, 0i64..20), 1..50),
                   room in 0usize..2) {
        let mut texts = PORTS.to_vec();
        texts.push("CAPACITY 1000");
        let timeout = format!("TIMEOUT {}ns", 50 * TICK_NS);
        texts.push(&timeout);
        let mut switch = Rig::with_inputs(&ENTRY, &texts, 4, 4).unwrap();
        let mut bridge = Bridge::default();
        let mut now = 0;
        for (frame, from, wait) in frames {
            switch.pass(wait * TICK_NS);
            now += wait;
            let mut packet = Packet::new(&frame.bytes(frame.tci)).unwrap();
            // With and without head room for a tag.
            let head = packet.headroom() * room;
            prop_assert!(packet.push(head) && packet.pull(head));
            let out = switch.push_at(from, [packet]);
            let out: Vec<Option<Vec<u8>>> =
                out.iter().map(|packets| Some(packets.first()?.data().to_vec())).collect();
            prop_assert_eq!(out, bridge.take(from, &frame, now));
        }
    }

    /// Without VLANs: a list of all that was ever seen, searched from its end.
    #[test]
    fn without_vlans(frames in prop::collection::vec((1u8..6, 1u8..6, 0usize..3, 0i64..40), 1..60)) {
        let timeout = format!("TIMEOUT {}ns", 50 * TICK_NS);
        let mut switch = Rig::with_inputs(&ENTRY, &[&timeout, "CAPACITY 1000"], 3, 3).unwrap();
        let mut seen: Vec<(u8, usize, i64)> = Vec::new();
        let mut now = 0;
        for (dst, src, port, wait) in frames {
            switch.pass(wait * TICK_NS);
            now += wait;
            seen.push((src, port, now));
            let last = seen.iter().rev().find(|(mac, ..)| *mac == dst);
            let known = last.filter(|(.., at)| now < at + 50).map(|(_, port, _)| *port);
            let bytes = Frame { dst, src, tci: None }.bytes(Some(7));
            let out = switch.push_at(port, [Packet::new(&bytes).unwrap()]);
            for (at, out) in out.iter().enumerate() {
                let goes = at != port && known.is_none_or(|known| known == at);
                prop_assert_eq!(out.len(), usize::from(goes));
                prop_assert!(out.iter().all(|packet| packet.data() == bytes));
            }
        }
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..24), port in 0usize..4, tag: bool) {
        let mut bytes = bytes;
        if tag && bytes.len() >= 14 {
            bytes[12..14].copy_from_slice(&[0x81, 0]);
        }
        let mut switch = Rig::with_inputs(&ENTRY, &[&PORTS[..], &["CAPACITY 1"]].concat(), 4, 4).unwrap();
        let out = switch.push_at(port, [Packet::new(&bytes).unwrap()]);
        let left: usize = out.iter().map(Vec::len).sum();
        prop_assert!(left > 0 || switch.drops().iter().sum::<u64>() == 1);
    }
}

#[test]
fn a_full_table_floods_and_counts() {
    let texts = ["CAPACITY 1"];
    let mut switch = Rig::with_inputs(&ENTRY, &texts, 2, 2).unwrap();
    for src in 1..=9 {
        let bytes = Frame { dst: 9, src, tci: None }.bytes(None);
        switch.push_at(0, [Packet::new(&bytes).unwrap()]);
    }
    // Seven places in the one bucket.
    assert_eq!(switch.read("unlearnt", "").unwrap(), "2");
    assert_eq!(switch.read("table", "").unwrap().lines().count(), 7);
    assert_eq!(switch.read("lookup", "0-0-0-0-0-9").unwrap(), "-1");
    switch.write("flush", "PORT 1").unwrap();
    assert_eq!(switch.read("lookup", "0-0-0-0-0-7").unwrap(), "0");
    switch.write("flush", "").unwrap();
    assert_eq!(switch.read("table", "").unwrap(), "");
}

#[test]
fn wrong_ports_are_refused() {
    let refused = |text: &str| match Rig::with_inputs(&ENTRY, &[text], 2, 2) {
        Err(errors) => errors.to_string(),
        Ok(_) => panic!("{text} was taken"),
    };
    assert!(refused("PORT 2 ACCESS 1").contains("there are 2"));
    assert!(refused("PORT 0 ACCESS 4095").contains("from 1 to 4094"));
    assert!(refused("PORT 0 ACCESS 0").contains("from 1 to 4094"));
    assert!(refused("PORT 0 TRUNK").contains("without VLANs"));
    assert!(refused("PORT 0 TRUNK 9-3").contains("ends before"));
    assert!(refused("PORT 0 TUNK 9").contains("expected PORT"));
    assert!(refused("TIMEUOT 4").contains("unknown 'TIMEUOT'"));
    assert!(refused("PORT").contains("expected PORT"));
}

#[test]
fn frames_allocate_nothing() {
    let mut switch = Rig::with_inputs(&ENTRY, &PORTS, 4, 4).unwrap();
    // A tag put on, one taken off, a flood, and a frame that is known.
    for (dst, tci, port) in [(2, None, 0), (1, Some(10), 2), (9, Some(20), 3), (1, None, 3)] {
        let bytes = Frame { dst, src: port as u8 + 1, tci }.bytes(tci);
        assert_eq!(switch.allocations(port, &bytes), 0);
    }
}
