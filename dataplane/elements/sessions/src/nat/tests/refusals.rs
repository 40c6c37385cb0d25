//! Arguments that make no sense: each error says what to change.

use proptest::prelude::*;

use super::*;

fn refused(texts: &[&str], threads: usize) -> String {
    match nat_of(texts, 2, (0, threads)) {
        Ok(_) => panic!("{texts:?} was taken"),
        Err(errors) => errors.to_string(),
    }
}

#[test]
fn mistakes_are_reported() {
    for (texts, wanted) in [
        (&[][..], "no rule: write SNAT"),
        (&["SNAT 10.0.0.0/8"], "expected SNAT SOURCES -> ADDRESS"),
        (&["MASQUERADE 10.0.0.0/8"], "is no rule; expected SNAT"),
        (&["SNAT 10.0.0.0/8 -> nonsense"], "'nonsense' is not an IP address"),
        (&["SNAT 10.0.0.0/8 -> 192.0.2.9-192.0.2.1"], "is empty: write the lower address first"),
        (&["SNAT 10.0.0.0/8 -> 192.0.2.1:70-60"], "is empty: write the lower port first"),
        (&["SNAT 10.0.0.0/8 -> 192.0.2.1:0-60"], "from 1 to 65535"),
        (&["SNAT 10.0.0.0/8 -> 192.0.2.1:1024-70000"], "from 1 to 65535"),
        (&["SNAT 10.0.0.0/8 -> 224.0.0.1"], "not the address of a host"),
        (&["SNAT 10.0.0.0/8 -> 0.0.0.0"], "not the address of a host"),
        (&["SNAT 10.0.0.0/8 -> 172.16.0.0-172.17.0.0"], "1024 outside addresses at most"),
        (&["SNAT 10.0.0.0/8 -> 192.0.2.70-192.0.2.80"], "is the address of interface 'eth7'"),
        (&[SNAT, "SNAT 10.1.0.0/16 -> 192.0.2.2"], "has all of these addresses already"),
        (&[SNAT, "KEEP 10.1.0.0/16"], "put this one before it"),
        (&[SNAT, "SNAT 11.0.0.0/8 -> 192.0.2.0-192.0.2.3"], "another rule gives out some of these"),
        (&["DNAT gre 192.0.2.1 -> 10.0.0.5"], "must be tcp, udp or icmp"),
        (&["DNAT tcp 192.0.2.1:80 ->"], "expected DNAT"),
        (&["DNAT tcp 192.0.2.1:80 -> 0.0.0.0:80"], "not the address of a host"),
        (&["DNAT tcp 192.0.2.1:80-90 -> 10.0.0.5:80-81"], "11 outside ports and 2 inside ports"),
        (&["DNAT tcp 192.0.2.1:80-90 -> 10.0.0.5:65530"], "beyond 65535"),
        (&["DNAT tcp 192.0.2.1-192.0.2.2:80 -> 10.0.0.5:80"], "one address on each side"),
        (&["DNAT icmp 192.0.2.1:8 -> 10.0.0.5"], "icmp has no ports"),
        (
            &["DNAT tcp 192.0.2.1:80 -> 10.0.0.5:80", "DNAT tcp 192.0.2.1:70-90 -> 10.0.0.6"],
            "another DNAT rule has some of these ports",
        ),
        (&[SNAT, "DNAT tcp 192.0.2.1:80 -> 192.0.2.1:8080"], "is an outside address itself"),
        (&[SNAT, "MAPPING connection", "FILTER endpoint-independent"], "leave FILTER out"),
        (&[SNAT, "FILTER any"], "FILTER: 'any' is not one of endpoint-independent, address"),
        (&[SNAT, "MAPPING none"], "MAPPING: 'none' is not one of"),
        (&[SNAT, "MAPPINGS 0"], "expected 1 to"),
        (&[SNAT, "LOG -"], "give BLOCK too"),
        (&[SNAT, "BLOCK 5000"], "expected 1 to 4096"),
        (&[SNAT, "BLOCK 64", "HOST_BLOCKS 65"], "expected 1 to 64"),
        (&["SNAT 10.0.0.0/8 -> 192.0.2.1:1000-2000", "BLOCK 64"], "begins at 1024 or later"),
        (&["SNAT 10.0.0.0/8 -> 192.0.2.1:2000-2010", "BLOCK 64"], "share of ports 2000-2010 is 11"),
    ] {
        let said = refused(texts, 1);
        assert!(said.contains(wanted), "{texts:?}: {said}");
    }
    let few = refused(&["SNAT 10.0.0.0/8 -> 192.0.2.1:2000-2001"], 3);
    assert!(few.contains("3 threads share these ports"), "{few}");
    let errors = nat_of(&[SNAT, "KEEP x", "DNAT sctp 1.1.1.1 -> 10.0.0.1"], 2, (0, 1));
    let indexes: Vec<_> = errors.err().unwrap().0.iter().map(|error| error.index).collect();
    assert_eq!(indexes, [Some(1), Some(2)]);
}

#[test]
fn what_makes_sense_is_taken() {
    for texts in [
        &[SNAT][..],
        &["SNAT 10.0.0.0/8 -> 192.0.2.77:61000-65535"],
        &["KEEP 10.1.0.0/16", SNAT, "SNAT 11.0.0.0/8 -> 192.0.2.1"],
        &["SNAT 10.0.0.0/8 -> 192.0.2.1:1024-2000", "SNAT 11.0.0.0/8 -> 192.0.2.1:2001-4000"],
        &["DNAT tcp 192.0.2.1:80 -> 10.0.0.5:8080", "DNAT udp 192.0.2.1:80 -> 10.0.0.5:8080"],
        &["DNAT tcp 192.0.2.1:80-90 -> 10.0.0.5:8080", "DNAT icmp 192.0.2.1 -> 10.0.0.5"],
        &["DNAT tcp 192.0.2.1 -> 10.0.0.5"],
        &[SNAT, "BLOCK 64", "HOST_BLOCKS 2", "LOG -"],
    ] {
        if let Err(error) = nat_of(texts, 2, (0, 1)) {
            panic!("{texts:?}: {error}");
        }
    }
}

proptest! {
    /// Whatever is written: an error or a translator, never a panic.
    #[test]
    fn no_rule_is_too_strange(
        words in prop::collection::vec(
            prop_oneof![
                Just("SNAT"), Just("DNAT"), Just("KEEP"), Just("->"), Just("tcp"), Just("icmp"),
                Just("10.0.0.0/8"), Just("0/0"), Just("192.0.2.1"), Just("192.0.2.1-192.0.2.9"),
                Just("0.0.0.1-255.255.255.254"), Just("192.0.2.1:1-65535"), Just("192.0.2.1:65535"),
                Just("192.0.2.1:"), Just(":1"), Just("-"), Just("10.0.0.1:1-65535"), Just("a:b:c"),
            ],
            0..6,
        ),
        text in ".{0,30}", block in 0u32..70, threads in 1usize..5,
    ) {
        let (rule, block) = (words.join(" "), format!("BLOCK {block}"));
        let two = [rule.as_str(), text.as_str(), block.as_str(), "MAPPINGS 10"];
        for texts in [&two[..1], &two[..2], &[two[0], two[2], two[3]]] {
            if let Err(errors) = nat_of(texts, 2, (0, threads)) {
                prop_assert!(!errors.to_string().is_empty());
            }
        }
    }
}
