//! What an XDP program saves the host by noting classes: frames from a virtual link, by AF_XDP.
//!
//! - `wire-software/RULES`: the host receives each frame and finds its class;
//! - `wire-drop/RULES`: a program drops in front what a firewall of so many rules does not allow,
//!   half of the frames; the host finds the class of the others;
//! - `wire-noted/RULES`: the program also notes the class of the others, and the host reads it.
//!
//! `nat` in place of the rules: a chain that keeps a session for each connection of one of two
//! protocols, and drops nothing of the trace. Only the host's work is in a row's time, divided by
//! all frames, those too that are dropped in front: receiving, notes, classes, sessions. The
//! sender's work and the kernel's, the program among it, are not (rows `xdp` and `xdp-classes` have
//! the program's).

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thruway_flow::SessionDef;
use thruway_flow::chain::Demand;
use thruway_flow::fcb::Fcb;
use thruway_flow::manager::{Input, Manager, Settings};
use thruway_packet::{Batch, Packet};
use thruway_port::af_xdp::{Device, Receiver, Sender, XdpOptions};
use thruway_port::drop_stage::{DropProgram, DropStage, Fate};

use super::kernel::{self, Program};
use crate::case::{Case, SetUp, Subject};
use crate::measure::Meter;
use crate::namespace::Namespace;
use crate::traffic;

/// Packets of the trace.
const PACKETS: usize = 4096;
/// Frames that are sent before the host looks at them; a ring has room for many more.
const BATCH: usize = 128;
/// Longest time that frames may be in flight.
const LIMIT: Duration = Duration::from_secs(5);
/// The classifier among a chain's nodes.
const CLASSIFIER: u32 = 0;

/// Where classes are found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Host,
    /// A program that drops.
    Drops,
    /// A program that drops and notes.
    Notes,
}

/// What is done with frames.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chain {
    Firewall(usize),
    Nat,
}

pub(super) fn cases() -> Vec<Case> {
    let chains = [Chain::Firewall(100), Chain::Firewall(1000), Chain::Firewall(10_000), Chain::Nat];
    let with = |chain: Chain| {
        let name = match chain {
            Chain::Firewall(count) => count.to_string(),
            Chain::Nat => "nat".to_owned(),
        };
        let of = |by: By| {
            let set_up: SetUp = Box::new(move |_| Ok(Box::new(Wire::new(chain, by)?)));
            let what = match by {
                By::Host => "software",
                By::Drops => "drop",
                By::Notes => "noted",
            };
            Case {
                name: format!("wire-{what}/{name}"),
                goal: None,
                baseline: (by != By::Host).then(|| format!("wire-software/{name}")),
                steps: 1,
                payload: None,
                is_long: false,
                set_up,
            }
        };
        match chain {
            // A NAT drops nothing.
            Chain::Nat => vec![of(By::Host), of(By::Notes)],
            Chain::Firewall(_) => vec![of(By::Host), of(By::Drops), of(By::Notes)],
        }
    };
    chains.into_iter().flat_map(with).collect()
}

/// A host at the end of a virtual link, and a sender.
struct Wire {
    by: By,
    sender: Sender,
    receiver: Receiver,
    manager: Manager,
    /// Frames, and whether each comes to the host.
    frames: Vec<(Vec<u8>, bool)>,
    stage: Option<DropStage>,
    // Go last.
    _near: Namespace,
    _far: Namespace,
}

impl Wire {
    fn new(chain: Chain, by: By) -> anyhow::Result<Wire> {
        let (rules, sessions) = match chain {
            Chain::Firewall(count) => (traffic::filter(count, kernel::SEED), None),
            Chain::Nat => {
                let mut rules = traffic::filter(10, kernel::SEED);
                rules.text = "tcp,\nudp".to_owned();
                let session = SessionDef::connection();
                (rules, Some(Demand::of(session, 32, 8)))
            }
        };
        let plan = Arc::new(kernel::plan(&rules.text, sessions)?);
        let (near, far) = kernel::virtual_link()?;
        let options = XdpOptions { promiscuous: true, ..XdpOptions::default() };
        let receiver = far.within(|| Device::open("in0", &options))??.receiver(None)?;
        let sends = XdpOptions { receives: false, ..XdpOptions::default() };
        let sender = near.within(|| Device::open("out0", &sends))??.sender(None)?;
        let mut manager = Manager::new(Arc::clone(&plan), &Settings::default())
            .map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let program = match by {
            By::Host => None,
            By::Drops => Some(Program::Drops),
            By::Notes => Some(Program::Classes),
        };
        let tests = program.map(|program| kernel::tests(&plan, program)).transpose()?;
        let program = tests.as_ref().map(DropProgram::load).transpose()?;
        let frames = traffic::drawn(&rules.flows, PACKETS, kernel::SEED).map(traffic::packet);
        let frames = frames.map(|frame| {
            let fate = program.as_ref().map(|program| program.run(&frame)).transpose()?;
            let comes = fate.is_none_or(|(fate, _)| fate != Fate::Dropped);
            Ok((frame.to_vec(), comes))
        });
        let frames = frames.collect::<anyhow::Result<_>>()?;
        let stage = tests.map(|tests| far.within(|| DropStage::install("in0", &tests)));
        let stage = stage.transpose()?.transpose()?;
        let notes = receiver.notes().filter(|_| by == By::Notes);
        manager.trust_notes(CLASSIFIER, notes.map(|notes| notes.number()));
        Ok(Wire { by, sender, receiver, manager, frames, stage, _near: near, _far: far })
    }

    /// Sends frames from one on; says how many, and how many of them come to the host.
    fn send(&mut self, from: usize) -> anyhow::Result<(usize, usize)> {
        let part = &self.frames[from..self.frames.len().min(from + BATCH)];
        let packets = part.iter().map(|(frame, _)| Packet::new(frame).context("memory"));
        let mut batch: Batch = packets.collect::<anyhow::Result<Vec<_>>>()?.into_iter().collect();
        let comes = part.iter().filter(|(_, comes)| *comes).count();
        let begin = Instant::now();
        loop {
            let sent = self.sender.send(&mut batch);
            if let Some(error) = sent.error {
                return Err(error.into());
            }
            if batch.is_empty() && sent.pending == 0 {
                return Ok((part.len(), comes));
            }
            if begin.elapsed() > LIMIT {
                bail!("the link takes no frames");
            }
        }
    }

    /// Waits for frames.
    fn wait(&self) -> anyhow::Result<()> {
        let limit = Timespec { tv_sec: LIMIT.as_secs() as i64, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.receiver, PollFlags::IN)];
        match poll(&mut fds, Some(&limit))? {
            0 => bail!("frames are lost"),
            _ => Ok(()),
        }
    }

    /// What the host does with frames that came: how many there were.
    fn receive(&mut self, batch: &mut Batch) -> usize {
        let count = self.receiver.receive(BATCH, batch);
        if let Some(notes) = self.receiver.notes().filter(|_| self.by == By::Notes) {
            for packet in batch.iter_mut() {
                if let Some(class) = notes.take(packet) {
                    packet.set_fcb(Fcb::of_note(class, notes.number()).0);
                }
            }
        }
        self.manager.classify((CLASSIFIER, Input::Ethernet), batch, 0, |packet, _| drop(packet));
        batch.drain().for_each(drop);
        count
    }
}

impl Subject for Wire {
    fn run(&mut self, packets: u64, meter: &mut Meter) -> anyhow::Result<u64> {
        let (mut sent, mut all, tagged) = (0, 0_u64, self.manager.tagged());
        let mut batch = Batch::with_room();
        while (sent as u64) < packets {
            let (count, mut missing) = self.send(sent % PACKETS)?;
            (sent, all) = (sent + count, all + missing as u64);
            while missing > 0 {
                self.wait()?;
                missing -= meter.time(|| self.receive(&mut batch)).min(missing);
            }
        }
        let tagged = self.manager.tagged() - tagged;
        let expected = if self.by == By::Notes { all } else { 0 };
        anyhow::ensure!(tagged == expected, "{tagged} of {all} frames had a note");
        let dropped = self.stage.as_ref().map_or(0, DropStage::dropped);
        anyhow::ensure!(all == sent as u64 || dropped > 0, "none is dropped in front");
        Ok(sent as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_measured_with_notes_and_without() {
        if !rustix::process::geteuid().is_root() {
            let must = std::env::var_os("THRUWAY_REQUIRE_PRIVILEGES").is_some();
            assert!(!must, "it needs root");
            let line = b"SKIPPED: frames_are_measured_with_notes_and_without: needs root\n";
            std::io::Write::write_all(&mut std::io::stderr(), line).unwrap();
            return;
        }
        for (chain, by) in [
            (Chain::Firewall(100), By::Host),
            (Chain::Firewall(100), By::Drops),
            (Chain::Firewall(100), By::Notes),
            (Chain::Nat, By::Notes),
        ] {
            // A run sees to it that all frames come, with notes where these are wanted.
            let mut wire = Wire::new(chain, by).unwrap();
            assert_eq!(wire.run(PACKETS as u64, &mut Meter::new()).unwrap(), PACKETS as u64);
        }
    }
}
