//! One point of a figure: its conditions, and measuring it.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use thruway_bench_baseline::{PairMaster, PointerMaster, PointerRing, Variant};
use thruway_exchange::{GroupRegion, LinkError, Mapped, Master, Storage, Tuning};
use thruway_nf_abi::{LinkShape, Token};
use thruway_region::Pages;

use super::drive::{Course, Drive, Outcome, Shape};
use super::duty::{Duty, Transport, Wait, Work};
use super::lane::{CopyOut, Exchange, Lane, Pair, Pointers, ReadShared, Sink};
use super::source::{Source, signature};
use super::workers::{Cores, Report, WorkerSet, pool_shape};
use crate::machine;

/// The choices of section 5 of the paper, thresholds and sizes: what the command line can set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choices {
    pub wait: Wait,
    pub is_process: bool,
    pub slots: u32,
    pub burst: u32,
    pub window: u64,
    pub master_threshold: u32,
    pub worker_threshold: u32,
    /// In rounds, or ticks with `tsc`.
    pub age: u64,
    pub spin_us: u32,
    pub tsc: bool,
    pub publish_each: bool,
    pub shared_indices: bool,
    pub packed_indices: bool,
    pub unaligned_slots: bool,
    pub pages: Pages,
}

/// The conditions of one measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    pub transport: Transport,
    pub work: Work,
    /// Bytes of a packet.
    pub len: usize,
    /// Packets in memory.
    pub memory: u32,
    pub workers: usize,
    pub shape: Shape,
    pub choices: Choices,
}

/// How long to measure.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    pub warm_up: Duration,
    pub time: Duration,
    /// Instead of a time, so many packets.
    pub packets: Option<u64>,
}

/// What came of a cell.
#[derive(Debug, Clone)]
pub struct Result {
    pub outcome: Outcome,
    /// Times that Workers went to sleep.
    pub sleeps: u64,
    /// The pages under the rings.
    pub pages: Pages,
}

impl Cell {
    fn link_shape(&self) -> LinkShape {
        LinkShape {
            slots: self.choices.slots,
            // No Worker of this bench makes packets.
            aux_slots: 1,
            injection_slots: 1,
            packet_len_max: (self.len as u32).max(64),
            headroom: 64,
            token: Token::Inline,
            frame_align: if self.choices.unaligned_slots { 8 } else { 64 },
        }
    }

    fn link(&self) -> std::result::Result<Mapped, LinkError> {
        Mapped::create(&self.link_shape(), None, self.choices.pages)
    }

    fn tuning(&self) -> Tuning {
        Tuning { master_threshold: self.choices.master_threshold, age_threshold: self.choices.age }
    }

    fn duty(&self, core: Option<usize>) -> Duty {
        Duty {
            transport: self.transport,
            wait: self.choices.wait,
            work: self.work,
            threshold: if self.choices.publish_each { 1 } else { self.choices.worker_threshold },
            spin: self.choices.spin_us,
            shared_indices: self.choices.shared_indices,
            packed_indices: self.choices.packed_indices,
            slots: self.choices.slots,
            packet_len: self.len as u32,
            core,
        }
    }

    fn course(&self, span: Span) -> Course {
        // Ring: less than all slots, so that never all rings are full and wait for each other.
        let room = u64::from(self.choices.slots) * self.workers as u64 / 2;
        Course {
            shape: self.shape,
            burst: self.choices.burst.min(self.choices.slots / 2),
            window: match self.shape {
                Shape::Line => u64::MAX,
                Shape::Ring => self.choices.window.min(room),
            },
            publish_each: self.choices.publish_each,
            tsc: self.choices.tsc,
            time: span.time,
            warm_up: span.warm_up,
            packets: span.packets,
        }
    }

    /// Starts the Workers, drives packets through them, and sends them home.
    ///
    /// # Errors
    /// When there is no memory, a Worker does not start, or breaks the protocol.
    pub fn measure(&self, source: &Source, span: Span, cores: &Cores) -> anyhow::Result<Result> {
        if let Some(core) = cores.master() {
            machine::bind(core);
        }
        let mut workers = WorkerSet::default();
        let shared_indices = self.choices.shared_indices;
        match self.transport {
            Transport::Exchange => match (self.choices.packed_indices, shared_indices) {
                (false, false) => self.exchange(|link| link, source, span, cores),
                (false, true) => self.exchange(Variant::<false, true>::new, source, span, cores),
                (true, false) => self.exchange(Variant::<true, false>::new, source, span, cores),
                (true, true) => self.exchange(Variant::<true, true>::new, source, span, cores),
            },
            Transport::Pair => {
                let mut lanes = Vec::new();
                let mut pages = Pages::Normal;
                for nth in 0..self.workers {
                    let links = [self.link()?, self.link()?];
                    pages = links[0].pages();
                    let [down, up] = links;
                    let fds = [down.fd(), up.fd()];
                    let bell = self.start(&mut workers, &fds, (nth, cores))?;
                    let master = PairMaster::new([down, up], self.tuning(), shared_indices);
                    lanes.push(Pair::new(master, bell));
                }
                self.drive((lanes, CopyOut), source, span, (workers, pages))
            }
            Transport::Pointers => {
                let pool = self.pool(source)?;
                let mut lanes = Vec::new();
                for nth in 0..self.workers {
                    let slots = self.choices.slots;
                    let rings = [PointerRing::create(slots)?, PointerRing::create(slots)?];
                    let fds = [rings[0].fd(), rings[1].fd(), pool.fd()];
                    let bell = self.start(&mut workers, &fds, (nth, cores))?;
                    let master =
                        PointerMaster::new(rings, pool.clone(), self.tuning(), shared_indices);
                    lanes.push(Pointers::new(master, bell, nth + 1 == self.workers));
                }
                self.drive((lanes, ReadShared(pool)), source, span, (workers, Pages::Normal))
            }
        }
    }

    /// Measures the exchange over links, each made a storage by `storage_of`.
    fn exchange<S: Storage + 'static>(
        &self,
        storage_of: fn(Mapped) -> S,
        source: &Source,
        span: Span,
        cores: &Cores,
    ) -> anyhow::Result<Result> {
        let mut workers = WorkerSet::default();
        let mut lanes = Vec::new();
        let mut pages = Pages::Normal;
        for nth in 0..self.workers {
            let link = self.link()?;
            pages = link.pages();
            let bell = self.start(&mut workers, &[link.fd()], (nth, cores))?;
            lanes.push(Exchange::new(Master::new(storage_of(link), 1, self.tuning()), bell));
        }
        self.drive((lanes, CopyOut), source, span, (workers, pages))
    }

    /// The memory that all share, with the source's packets in it.
    fn pool(&self, source: &Source) -> anyhow::Result<GroupRegion> {
        let shape = pool_shape(source.len as u32);
        let pool = GroupRegion::create(&shape, source.count, self.choices.pages)?;
        for number in 0..source.count {
            pool.copy_in(number, 0, source.packet(number));
        }
        Ok(pool)
    }

    fn start(
        &self,
        workers: &mut WorkerSet,
        regions: &[BorrowedFd<'_>],
        (nth, cores): (usize, &Cores),
    ) -> anyhow::Result<thruway_exchange::Doorbell> {
        let duty = self.duty(cores.worker(nth, self.workers));
        workers.start(regions, duty, self.choices.is_process)
    }

    fn drive<L: Lane, S: Sink<L>>(
        &self,
        (lanes, sink): (Vec<L>, S),
        source: &Source,
        span: Span,
        (mut workers, pages): (WorkerSet, Pages),
    ) -> anyhow::Result<Result> {
        workers.ready()?;
        let mut drive = Drive::new(lanes, sink, source, self.course(span));
        let outcome = drive.run()?;
        let reports = workers.dismiss()?;
        self.verify(&outcome, &reports, source)?;
        let sleeps = reports.iter().map(|report| report.sleeps).sum();
        Ok(Result { outcome, sleeps, pages })
    }

    /// No packet lost, none out of order, every Worker had as many as it must, and computed what
    /// their bytes give.
    fn verify(&self, outcome: &Outcome, reports: &[Report], source: &Source) -> anyhow::Result<()> {
        anyhow::ensure!(outcome.lost == 0, "{} packets lost", outcome.lost);
        anyhow::ensure!(outcome.disordered == 0, "{} packets out of order", outcome.disordered);
        let hops = match self.shape {
            Shape::Line => self.workers as u64,
            Shape::Ring => 2,
        };
        let packets: u64 = reports.iter().map(|report| report.packets).sum();
        let due = outcome.sent * hops;
        anyhow::ensure!(packets == due, "Workers had {packets} packets, not {due}");
        if self.work == Work::Real {
            let sum: u64 = reports.iter().fold(0, |sum, r| sum.wrapping_add(r.result));
            let due = signatures(source, outcome.sent).wrapping_mul(hops);
            anyhow::ensure!(sum == due, "the Workers' signatures are not those of the packets");
        }
        Ok(())
    }
}

/// Sum of the signatures of the first `sent` packets of a source that is repeated.
fn signatures(source: &Source, sent: u64) -> u64 {
    let count = u64::from(source.count);
    let (rounds, rest) = (sent / count, (sent % count) as u32);
    (0..source.count).fold(0_u64, |sum, number| {
        let times = rounds + u64::from(number < rest);
        sum.wrapping_add(signature(source.packet(number)).wrapping_mul(times))
    })
}
