//! A router with nothing to do leaves the processor to others, and is there when a packet comes.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::network::{HostConfig, Network};
use crate::process::{need, privileged};

const LAN: HostConfig = HostConfig { addresses: &["10.5.0.1/24"], routers: &[] };
const WAN: HostConfig = HostConfig { addresses: &["10.5.0.2/24"], routers: &[] };

/// A wire whose packets change threads in its queues, if there are two threads.
const WIRE: &str = "from_lan :: FromDevice(lan0) -> Queue -> to_wan :: ToDevice(wan0);
    from_wan :: FromDevice(wan0) -> Queue -> to_lan :: ToDevice(lan0);
    StaticThreadSched(from_lan 0, to_wan 1, from_wan 1, to_lan 0);";

/// What an idle router may take of a processor, thrice what it takes on a machine that is busy.
const IDLE_MAX: f64 = 0.03;
/// Over which that is measured.
const WINDOW: Duration = Duration::from_secs(2);
/// How often: neighbours that ask who is there are no rest.
const WINDOWS: usize = 5;
/// Two sleepers are on a packet's way there, and two on its way back. One that slept on would sleep
/// for 100 ms; what a busy machine takes until each has the processor is less.
const WAKE_MAX_MS: f64 = 60.0;

/// Ticks of processor time that all threads of a process have had.
fn ticks(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let of = |task: &Path| -> Option<u64> {
        let text = std::fs::read_to_string(task.join("stat")).ok()?;
        // Behind the name, which may hold anything: fields 14 and 15 of proc(5).
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
    };
    tasks.flatten().filter_map(|task| of(&task.path())).sum()
}

/// The part of a processor that a process takes, in the first window of those that does; of the
/// last one if none does.
fn usage(pid: u32, does: impl Fn(f64) -> bool) -> f64 {
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    let mut took = 0.0;
    for _ in 0..WINDOWS {
        let (begin, before) = (Instant::now(), ticks(pid));
        std::thread::sleep(WINDOW);
        took = (ticks(pid) - before) as f64 / per_second / begin.elapsed().as_secs_f64();
        if does(took) {
            break;
        }
    }
    took
}

/// The median of round trips, one at a time with rests between them, milliseconds.
fn round_trip(network: &Network) -> f64 {
    let pings = network.lan.succeed("ping -n -c 15 -i 0.15 -W 20 10.5.0.2");
    assert!(pings.contains("15 received"), "{pings}");
    let times = pings.lines().filter_map(|line| line.split_once("time=")?.1.split_once(' '));
    let mut times: Vec<f64> = times.map(|(ms, _)| ms.parse().expect("a time")).collect();
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The network, with the wire in it.
fn wired(options: &[&str]) -> (Network, u32) {
    need("ping", "iputils-ping");
    let mut network = Network::new(&LAN, &WAN);
    let mut command = network.middle.thruway();
    command.args(["run", "-q"]).args(options).args(["-e", WIRE]);
    let pid = network.route(&mut command, "10.5.0.2");
    (network, pid)
}

#[test]
fn an_idle_router_sleeps_and_a_packet_wakes_it() {
    if !privileged("an_idle_router_sleeps_and_a_packet_wakes_it") {
        return;
    }
    for options in [&["-j", "1"][..], &["-j", "2"], &["-j", "2", "--idle", "sleep"]] {
        let (mut network, pid) = wired(options);
        let took = usage(pid, |took| took < IDLE_MAX);
        assert!(took < IDLE_MAX, "{options:?}: {:.1} % of a processor", took * 100.0);
        let median = round_trip(&network);
        assert!(median < WAKE_MAX_MS, "{options:?}: {median} ms");
        println!("{options:?}: {:.2} % of a processor, {median} ms", took * 100.0);
        network.stop().expect(0);
    }
}

#[test]
fn a_router_that_polls_does_not_sleep() {
    if !privileged("a_router_that_polls_does_not_sleep") {
        return;
    }
    let (mut network, pid) = wired(&["--idle", "poll"]);
    // Others may want the processor, too.
    let took = usage(pid, |took| took > 2.0 * IDLE_MAX);
    assert!(took > 2.0 * IDLE_MAX, "{:.1} % of a processor", took * 100.0);
    network.stop().expect(0);
}
