//! A router between a generator and a sink, and packets one at a time beside them.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use thruway_port::generator::{FRAME_LEN_MIN, Generator, Sink, Stream};

use crate::bench::child::{Running, cpu_ns, wait_for};
use crate::bench::io::site::{HOPS, Site};
use crate::bench::latency::Latencies;
use crate::bench::machine;

/// Frames of one call of the generator: a call takes milliseconds to begin and to end, so it is for
/// as much as can be only.
const BURST: u32 = 200_000;
/// Where packets of a paced load go: nobody's address, so that the receiver's kernel drops them.
const NOBODY: &str = "10.8.0.99";
/// Bytes of their payload: with headers, 60 and no check sequence.
const PAYLOAD: [u8; 18] = [0; 18];
/// How long a packet's way may take before it counts as lost.
const LOST: Duration = Duration::from_millis(500);
/// Rests between packets one at a time: from the one on, up to the other more, by turns.
const REST: Duration = Duration::from_micros(700);
const REST_MORE_US: u64 = 600;
/// Until the router's clock has settled, and what is under way has arrived.
const QUIET: Duration = Duration::from_millis(700);
/// Port that packets one at a time go to.
const PORT: u16 = 4_000;

/// Packets a second.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    pub made: f64,
    pub forwarded: f64,
}

/// See the module.
pub struct Lab {
    router: Running,
    generator: Generator,
    sink: Sink,
    sending: UdpSocket,
    pacing: UdpSocket,
    receiving: UdpSocket,
    // In the order of going: the router ends before its interfaces.
    _dir: tempfile::TempDir,
    site: Site,
}

impl Lab {
    /// A router of so many threads, which does `idle` when there is nothing to do: packets go from
    /// its first thread to its last by a Queue.
    pub fn new(idle: &str, threads: u32, cores: &[usize]) -> anyhow::Result<Lab> {
        let site = Site::new(0)?;
        let (wan, lan) = (&site.wan.name, &site.lan.name);
        let text = format!(
            "from :: FromDevice({wan}) -> Queue(4096) -> to :: ToDevice({lan});
             StaticThreadSched(from 0, to {})",
            threads - 1
        );
        let threads = threads.to_string();
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = site.middle.command(&program.to_string_lossy());
        command.args(["run", "-q", "-j", &threads, "--idle", idle, "-e", &text]);
        let dir = tempfile::tempdir()?;
        let sink = site.receiver.within(|| Sink::attach(&site.far.name, 1))??;
        let router = Running::start(&mut command, "router", dir.path())?;
        let generator = site.sender.within(|| Generator::new(Site::OUT, &stream(&site)))??;
        let (sending, receiving) = sockets(&site)?;
        let pacing = site.sender.within(|| UdpSocket::bind(("10.9.0.2", 0)))??;
        pacing.connect((NOBODY, PORT))?;
        // The load is on the last core, a router of one thread not.
        let load = cores.last().copied().filter(|_| cores.len() > 1);
        if let Some(core) = load {
            machine::bind(core);
        }
        let mut lab = Lab { router, generator, sink, sending, pacing, receiving, _dir: dir, site };
        wait_for("the first packet through the router", || {
            lab.router.check()?;
            // An interface that nobody receives by yet takes none.
            let _ = lab.generator.send(1);
            Ok(lab.sink.counts()?.packets > 0)
        })?;
        if let Some(core) = cores.first().filter(|_| load.is_some()) {
            // Reception is work of a thread of its own, where the router's is: not of the load.
            lab.site.place_wan(*core)?;
        }
        std::thread::sleep(QUIET);
        Ok(lab)
    }

    /// Fails if the router ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.router.check()
    }

    /// So many packets a second, or as many as can be, for so long: what came through, and percent of
    /// a processor that the router took.
    pub fn load(&mut self, rate: Option<f64>, time: Duration) -> anyhow::Result<(Rate, f64)> {
        let (made, arrived) = (self.generator.made()?, self.sink.counts()?);
        let (begin, cpu) = (Instant::now(), cpu_ns(self.router.pid()));
        let mut sent = 0;
        while begin.elapsed() < time {
            match rate {
                None => self.generator.send(BURST)?,
                Some(0.0) => std::thread::sleep(time / 20),
                Some(rate) if (begin.elapsed().as_secs_f64() * rate) as u64 > sent => {
                    self.pacing.send(&PAYLOAD)?;
                    sent += 1;
                }
                Some(_) => std::hint::spin_loop(),
            }
        }
        let took = begin.elapsed().as_secs_f64();
        let cpu = cpu_ns(self.router.pid()).saturating_sub(cpu) as f64 / took / 1e7;
        self.router.check()?;
        std::thread::sleep(QUIET);
        let counts = self.sink.counts()?;
        let forwarded = match rate {
            None => counts.packets - arrived.packets,
            // The hosts say nothing of their own accord.
            Some(_) => counts.others - arrived.others,
        };
        let made = self.generator.made()? - made + sent;
        let rate = Rate { made: made as f64 / took, forwarded: forwarded as f64 / took };
        Ok((rate, cpu))
    }

    /// Sends packets one at a time and waits for each, without sleeping: how long they were on their
    /// way.
    pub fn ways(&mut self, packets: u32) -> anyhow::Result<Latencies> {
        let mut times = Vec::new();
        let mut buffer = [0; 64];
        for number in 0..u64::from(packets) {
            let rest = REST + Duration::from_micros(number * 37 % REST_MORE_US);
            std::thread::sleep(rest);
            let begin = Instant::now();
            self.sending.send(&number.to_be_bytes())?;
            while begin.elapsed() < LOST {
                match self.receiving.recv(&mut buffer) {
                    Ok(8) if buffer[..8] == number.to_be_bytes() => {
                        times.push(begin.elapsed().as_nanos() as u64);
                        break;
                    }
                    // A late one, or none yet.
                    _ => std::hint::spin_loop(),
                }
            }
        }
        let lost = packets as usize - times.len();
        anyhow::ensure!(lost * 100 <= times.len(), "{lost} of {packets} packets were lost");
        Ok(Latencies::new(times, 1.0))
    }
}

/// What the generator makes: one flow.
fn stream(site: &Site) -> Stream {
    Stream {
        destination_mac: site.wan.mac,
        source_mac: [2, 0, 0, 0, 0, 2],
        source: [10, 9, 0, 2].into(),
        destination: [10, 0, 0, 1].into(),
        source_port: 1024,
        destination_port: 9,
        flows: 1,
        networks: 1,
        len: FRAME_LEN_MIN.max(60),
    }
}

/// A socket of the sender's, connected to one of the receiver's; the router is a wire to them.
fn sockets(site: &Site) -> anyhow::Result<(UdpSocket, UdpSocket)> {
    let (out, far, hop) = (Site::OUT, &site.far, HOPS[0]);
    site.sender.ip(&format!("address add 10.9.0.2/24 dev {out}"))?;
    site.sender.ip(&format!("route add 10.8.0.0/24 dev {out}"))?;
    let neighbour = format!("lladdr {} dev {out} nud permanent", far.mac());
    for address in [hop, NOBODY] {
        site.sender.ip(&format!("neighbour add {address} {neighbour}"))?;
    }
    site.receiver.ip(&format!("route add 10.9.0.0/24 dev {}", far.name))?;
    let receiving = site.receiver.within(|| UdpSocket::bind((hop, PORT)))??;
    receiving.set_nonblocking(true)?;
    let sending = site.sender.within(|| UdpSocket::bind(("10.9.0.2", PORT)))??;
    sending.connect((hop, PORT))?;
    Ok((sending, receiving))
}
