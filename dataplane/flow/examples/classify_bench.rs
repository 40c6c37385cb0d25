//! Nanoseconds per classification on random rules and traffic, half of which matches a rule.
//!
//! `cargo run --release -p thruway-flow --example classify_bench`
//!
//! Recorded 2026-11-21 (about 3 GHz, baseline x86-64, two cores shared with other builds; "single"
//! and "batch" include reading the key from 16,384 packets on the heap):
//!
//! | rules | single | batch | key known |
//! |---|---|---|---|
//! | 20 | 7.7 ns | 6.3 ns | 4.5 ns |
//! | 1,000 | 18.1 ns | 11.7 ns | 10.0 ns |
//! | 1,000, ranges, no ports | 14.6 ns | 11.5 ns | 9.8 ns |
//! | 10,000 | 32.4 ns | 24.8 ns | 19.0 ns |
//! | Classifier, 4 patterns | 4.0 ns | | |
use std::hint::black_box;
use std::time::Instant;
use thruway_flow::program::BATCH_MAX;
use thruway_flow::{IpProgram, Key, NoNames, PacketView, PatternProgram, parse_filter_rules};

const PACKETS: usize = 16_384;
const ROUNDS: usize = 40;

/// A seed gives the same rules and packets everywhere.
struct Random(thruway_random::Random);

impl Random {
    fn from_seed(seed: u64) -> Random {
        Random(thruway_random::Random::from_seed(seed))
    }

    fn next(&mut self) -> u32 {
        self.0.next_u64() as u32
    }

    fn below(&mut self, n: u32) -> u32 {
        self.0.below(n.into()) as u32
    }
}

/// How the rules of a case are drawn.
#[derive(Clone, Copy)]
struct Shape {
    rules: usize,
    /// Number of different ports (0: any).
    ports: u32,
    /// Whether a third of the rules have port ranges and a third name no port.
    mixed: bool,
}

struct Drawn {
    src: (u32, u32),
    dst: (u32, u32),
    port: u32,
    text: String,
}

fn dotted(a: u32) -> String {
    std::net::Ipv4Addr::from(a).to_string()
}

fn draw_rule(r: &mut Random, shape: Shape) -> Drawn {
    let mut prefix = || {
        let len = 8 + r.below(25);
        (r.next() & (u32::MAX << (32 - len)), len)
    };
    let (src, dst) = (prefix(), prefix());
    let port = if shape.ports == 0 { r.below(65_536) } else { 1 + 37 * r.below(shape.ports) };
    let tail = match r.below(3) {
        0 if shape.mixed => format!("dst port {port}-{}", (port + 1 + r.below(2000)).min(65_535)),
        1 if shape.mixed => String::new(),
        _ => format!("dst port {port}"),
    };
    let (s, d) = (dotted(src.0), dotted(dst.0));
    let text = format!("allow src net {s}/{} && dst net {d}/{} && udp {tail}", src.1, dst.1);
    Drawn { src, dst, port, text }
}

fn draw_packet(r: &mut Random, rules: &[Drawn]) -> Vec<u8> {
    let mut p = vec![0_u8; 64];
    p[0] = 0x45;
    p[8] = 64;
    p[9] = 17;
    let rule = &rules[r.below(rules.len() as u32) as usize];
    let hit = r.below(2) == 0;
    let mut inside = |(net, len): (u32, u32)| {
        let noise = r.next();
        if hit { net | noise.checked_shr(len).unwrap_or(0) } else { noise }
    };
    let (src, dst) = (inside(rule.src), inside(rule.dst));
    let port = if hit || r.below(2) == 0 { rule.port } else { r.below(65_536) };
    p[12..16].copy_from_slice(&src.to_be_bytes());
    p[16..20].copy_from_slice(&dst.to_be_bytes());
    p[20..22].copy_from_slice(&(r.next() as u16).to_be_bytes());
    p[22..24].copy_from_slice(&(port as u16).to_be_bytes());
    p
}

/// Best time of a few rounds over all packets, in nanoseconds per packet.
fn time(mut round: impl FnMut() -> u64) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        black_box(round());
        best = best.min(start.elapsed().as_nanos() as f64 / PACKETS as f64);
    }
    best
}

fn bench_ip(name: &str, shape: Shape) {
    let mut r = Random::from_seed(7 + shape.rules as u64);
    let drawn: Vec<Drawn> = (0..shape.rules).map(|_| draw_rule(&mut r, shape)).collect();
    let mut texts: Vec<&str> = drawn.iter().map(|d| d.text.as_str()).collect();
    texts.push("1 all");
    let start = Instant::now();
    let rules = parse_filter_rules(&texts, 2, &NoNames).expect("rules parse");
    let program = IpProgram::compile(&rules).expect("rules compile");
    let compile_ms = start.elapsed().as_secs_f64() * 1e3;
    let packets: Vec<Vec<u8>> = (0..PACKETS).map(|_| draw_packet(&mut r, &drawn)).collect();
    let hits = packets.iter().filter(|p| program.classify(&PacketView::from_ip(p)) == 0).count();
    let single =
        time(|| packets.iter().map(|p| u64::from(program.classify(&PacketView::from_ip(p)))).sum());
    let batched = time(|| bench_batch(&program, &packets));
    let keys: Vec<Key> = packets.iter().map(|p| Key::from_ip(p)).collect();
    let lookup = time(|| {
        let view = PacketView::default();
        keys.iter().map(|k| u64::from(program.classify_key(k, &view))).sum()
    });
    println!(
        "{name:28} single {single:5.1} ns  batch {batched:5.1} ns  key known {lookup:5.1} ns  \
         hits {:2}%  compile {compile_ms:6.1} ms  {:6} KiB",
        hits * 100 / PACKETS,
        program.memory_bytes() / 1024
    );
}

fn bench_batch(program: &IpProgram, packets: &[Vec<u8>]) -> u64 {
    let mut keys = [Key::default(); BATCH_MAX];
    let mut verdicts = [0; BATCH_MAX];
    let mut sum = 0;
    for batch in packets.chunks(BATCH_MAX) {
        for (key, p) in keys.iter_mut().zip(batch) {
            *key = Key::from_ip(p);
        }
        let out = &mut verdicts[..batch.len()];
        program.classify_batch(&keys, |i| PacketView::from_ip(&batch[i]), out);
        sum += out.iter().map(|v| u64::from(*v)).sum::<u64>();
    }
    sum
}

fn bench_patterns() {
    let texts = ["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"];
    let rules = PatternProgram::parse(&texts).expect("patterns parse");
    let program = PatternProgram::compile(&rules).expect("patterns compile");
    let mut r = Random::from_seed(5);
    let kind = [[8, 0], [8, 0], [8, 6], [0x86, 0xdd]];
    let frames: Vec<Vec<u8>> = (0..PACKETS)
        .map(|_| {
            let mut f = vec![0; 64];
            f[12..14].copy_from_slice(&kind[r.below(4) as usize]);
            f[21] = 1 + (r.next() & 1) as u8;
            f
        })
        .collect();
    let ns = time(|| frames.iter().map(|f| u64::from(program.classify(f))).sum());
    println!("Classifier ARP/ARP/IP/-      single {ns:5.1} ns");
}

fn main() {
    let shape = |rules, ports, mixed| Shape { rules, ports, mixed };
    bench_ip("20 rules", shape(20, 0, false));
    bench_ip("20 rules, 4 ports", shape(20, 4, false));
    bench_ip("20 rules, ranges, no ports", shape(20, 0, true));
    bench_ip("1000 rules", shape(1000, 0, false));
    bench_ip("1000 rules, 20 ports", shape(1000, 20, false));
    bench_ip("1000 rules, one port", shape(1000, 1, false));
    bench_ip("1000 rules, ranges, no ports", shape(1000, 0, true));
    bench_ip("10000 rules", shape(10_000, 0, false));
    bench_ip("10000 rules, ranges", shape(10_000, 0, true));
    bench_ip("100000 rules, ranges", shape(100_000, 0, true));
    bench_patterns();
}
