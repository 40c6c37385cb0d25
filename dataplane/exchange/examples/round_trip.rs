//! Packets of 64 bytes through one Worker and back, for profilers: `round_trip threads 50000000`
//! takes two cores; `round_trip single 1000000` has both ends in one thread, for instruction counts
//! (`valgrind --tool=callgrind`), and `round_trip batches 1000000` puts whole batches there.
//! Measurements for the record are `thruway-bench exchange`.

use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};
use thruway_exchange::{Control, Doorbell, Mapped, Master, SlotTag, Tuning, Worker};
use thruway_nf_abi::LinkShape;
use thruway_region::Pages;

fn bind(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    let _ = sched_setaffinity(None, &set);
}

fn signature(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().unwrap_or_default()));
    words.enumerate().fold(0, |sum, (i, w)| sum.wrapping_add(w.rotate_left(8 * i as u32 + 1)))
}

fn work(worker: &mut Worker<Mapped>, sum: &mut u64) -> u32 {
    let n = worker.waiting().min(WB);
    if n == 0 {
        let _ = worker.flush();
        return 0;
    }
    for nth in 0..n {
        worker.prefetch(nth + Worker::<Mapped>::AHEAD);
        let head = worker.head(nth);
        let (start, len) = (usize::from(head.start), usize::from(head.len));
        if let Some(packet) = worker.frame(nth, &head).get(start..start + len) {
            *sum = sum.wrapping_add(signature(packet));
        }
    }
    worker.advance(n);
    n
}

const WB: u32 = 32;
struct Side {
    burst: u32,
    puts_batches: bool,
    master: Master<Mapped>,
    bell: Doorbell,
    memory: Vec<u8>,
    at: usize,
    done: u64,
    rounds: u64,
    hits: u64,
    full: u64,
    taken: [u8; 64],
}

impl Side {
    fn round(&mut self) {
        let count = self.master.room().min(self.burst);
        let (memory, at) = (&self.memory, &mut self.at);
        let mut packets = (0..count).map(|_| {
            let packet = &memory[*at..*at + 64];
            *at = if *at + 128 > memory.len() { 0 } else { *at + 64 };
            packet
        });
        if self.puts_batches {
            let _ = self.master.put_all(SlotTag::NONE, &mut packets, |_, _| {});
        } else {
            for packet in packets {
                let _ = self.master.put(SlotTag::NONE, packet);
            }
        }
        self.master.publish(&self.bell, 0);
        let taken = &mut self.taken;
        let n = self.master.poll(0, u32::MAX, |token| token.copy_to(taken));
        let n = n.expect("an honest Worker");
        self.rounds += 1;
        self.hits += u64::from(n > 0);
        self.full += u64::from(self.master.room() == 0);
        self.done += u64::from(n);
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number =
        |nth: usize, default: u64| args.get(nth).map_or(default, |a| a.parse().expect("a number"));
    let (packets, slots) = (number(2, 10_000_000), number(3, 1024) as u32);
    let shape = LinkShape {
        slots,
        aux_slots: 1,
        injection_slots: 1,
        packet_len_max: 64,
        headroom: number(6, 64) as u32,
        ..LinkShape::DEFAULT
    };
    let link = Mapped::create(&shape, None, Pages::Normal).expect("a link");
    let mut worker =
        Worker::open(link.fd().try_clone_to_owned().expect("a descriptor"), 32).expect("a Worker");
    let control = Control::create().expect("a control region");
    let mut side = Side {
        master: Master::new(link, 1, Tuning { master_threshold: slots, ..Tuning::DEFAULT }),
        bell: Doorbell::new(control, None),
        memory: vec![7; 64 * number(4, 100_000) as usize],
        at: 0,
        burst: number(5, 64) as u32,
        puts_batches: args.get(1).is_some_and(|mode| mode == "batches"),
        done: 0,
        rounds: 0,
        hits: 0,
        full: 0,
        taken: [0; 64],
    };
    if args.get(1).is_some_and(|mode| mode == "single" || mode == "batches") {
        let mut sum = 0;
        while side.done < packets {
            side.round();
            while work(&mut worker, &mut sum) > 0 {}
        }
        println!("{sum}");
        return;
    }
    let thread = std::thread::spawn(move || {
        bind(1);
        let (mut sum, mut seen) = (0, 0);
        while seen < packets * 9 {
            seen += u64::from(work(&mut worker, &mut sum));
        }
        let _ = worker.flush();
        sum
    });
    bind(0);
    for _ in 0..5 {
        let (begin, before) = (Instant::now(), side.done);
        while side.done < before + packets / 5 {
            side.round();
        }
        print!("{:.1} ", (side.done - before) as f64 / begin.elapsed().as_secs_f64() / 1e6);
    }
    println!("Mpps; rounds {} hits {} full {} of {}", side.rounds, side.hits, side.full, side.done);
    if !thread.is_finished() {
        std::process::exit(0);
    }
}
