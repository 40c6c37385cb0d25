//! Mutated rules and traffic: fuzzing that needs no fuzzer and no luck, as the seed is fixed.

use thruway_random::Random;

mod rule_file;

const RUNS: usize = 4_000;

const SEEDS: [&[u8]; 6] = [
    b"alert tcp any any -> any any (msg:\"a\\;b\"; content:\"ab|0a|\"; nocase; offset:1; depth:9; sid:1;)\xff@ab\nab\n\x40AB\nabab",
    b"drop http $HOME_NET any <> [1.2.3.0/24,!::1] 80: (content:\"/x\"; http_uri; file_data; content:\"b\"; distance:1; within:4; sid:2;)\xff\xa0GET /x HTTP/1.1\r\n\r\n\x22abab",
    b"alert tcp any any -> any any (pcre:\"/a[^b]{2,3}c$/smiR\"; flowbits:set,a; flowbits:isset,b|c; sid:3;)\nalert tcp any any -> any any (content:!\"a\"; isdataat:!2,relative; sid:4;)\xff\x44aaxxc\x44",
    b"alert ip any any -> any any (content:\"a\"; byte_jump:1,0,relative,align,post_offset -2; byte_test:2,!&,0x10,-1,relative,string,hex; sid:5;)\xff\x44a\x01\x02\x03\x04\x05\x06a",
    b"reject udp !any any -> any any (dsize:3<>5; ttl:>3; flags:SA,12; threshold: type both, track by_src, count 2, seconds 3; sid:6;) \\\n \n#\nx\xff",
    b"pass tcp any any -> any any (content:\"ab\"; fast_pattern:0,1; content:\"c\"; fast_pattern; sid:7;)\nalert tcp any any -> any any (content:\"c\"; detection_filter:track by_dst, count 1, seconds 9; sid:7;)\xff\x1dabc\x1eabc",
];

#[test]
fn fuzz_smoke() {
    let mut random = Random::from_seed(0x9e37_79b9_7f4a_7c15);
    for seed in SEEDS {
        rule_file::rule_file(seed);
    }
    for run in 0..RUNS {
        let mut bytes = SEEDS[run % SEEDS.len()].to_vec();
        for _ in 0..=random.index(6) {
            let other = SEEDS[random.index(SEEDS.len())];
            let at = random.index(bytes.len().max(1));
            let from = random.index(other.len());
            let len = (random.index(12)).min(other.len() - from);
            match random.index(5) {
                0 => bytes.truncate(at),
                1 => bytes[at..].fill_with(|| b"\\\"|;:!,$()[]*+?{}\0\xff"[random.index(19)]),
                2 => drop(bytes.splice(at..at, other[from..from + len].iter().copied())),
                3 => drop(bytes.splice(
                    at..(at + len).min(bytes.len()),
                    other[from..from + len].iter().copied(),
                )),
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = random.next_u64() as u8;
                    }
                }
            }
        }
        rule_file::rule_file(&bytes);
    }
}
