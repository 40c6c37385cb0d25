//! Carrying out what a callback asked for.

use std::collections::HashMap;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use thruway_nf::{Counter, Timer, Verdict};

use crate::batch::{Batch, Came, first_bytes};
use crate::context::Order;

/// What a callback's surroundings can do. Those that cannot are not asked: `Limits` of the context.
pub(crate) trait Surroundings {
    /// Sends a packet; the host counts one that finds no room.
    fn inject(&mut self, _output: u8, _bytes: &[u8]) {}
    /// Sets a timer.
    fn timer(&mut self, _after: Duration, _is_periodic: bool) -> Option<Timer> {
        None
    }
    /// Unsets one.
    fn cancel(&mut self, _timer: Timer) {}
}

macro_rules! timers {
    () => {
        fn timer(&mut self, after: Duration, is_periodic: bool) -> Option<Timer> {
            Some(if is_periodic { self.every(after) } else { self.after(after) })
        }
        fn cancel(&mut self, timer: Timer) {
            self.cancel(timer);
        }
    };
}

impl Surroundings for thruway_nf::Batch<'_> {
    fn inject(&mut self, output: u8, bytes: &[u8]) {
        // The host has counted it.
        let _ = self.inject(output, bytes);
    }
    timers!();
}

impl Surroundings for thruway_nf::Cx<'_> {
    fn inject(&mut self, output: u8, bytes: &[u8]) {
        // The host has counted it.
        let _ = self.inject(output, bytes);
    }
    timers!();
}

impl Surroundings for thruway_nf::Start<'_> {
    timers!();
}

impl Surroundings for thruway_nf::Session<'_> {}

/// What a function keeps between callbacks.
#[derive(Default)]
pub(crate) struct Kept {
    pub counters: Vec<Counter>,
    /// Timers that are set, and whether they go off again, by their numbers.
    pub timers: HashMap<u64, (Timer, bool)>,
    /// Timers that were set in all.
    pub timers_set: u64,
}

impl Kept {
    /// Carries out what was asked for, in its order.
    pub fn carry_out(&mut self, orders: Vec<Order>, around: &mut impl Surroundings) {
        for order in orders {
            match order {
                Order::Inject { output, bytes } => around.inject(output, &bytes),
                Order::Timer { after, is_periodic } => {
                    if let Some(timer) = around.timer(after, is_periodic) {
                        self.timers.insert(self.timers_set, (timer, is_periodic));
                    }
                    self.timers_set += 1;
                }
                Order::Cancel(number) => {
                    if let Some((timer, _)) = self.timers.remove(&number) {
                        around.cancel(timer);
                    }
                }
                Order::Count { index, n } => self.counter(index, |counter| counter.add(n)),
                Order::Level { index, value } => self.counter(index, |counter| counter.set(value)),
            }
        }
    }

    fn counter(&self, index: usize, change: impl FnOnce(&Counter)) {
        if let Some(counter) = self.counters.get(index) {
            change(counter);
        }
    }

    /// The number of a timer that went off.
    pub fn went_off(&mut self, timer: Timer) -> Option<u64> {
        let found = self.timers.iter().find(|(_, (one, _))| *one == timer);
        let (number, is_periodic) =
            found.map(|(number, (_, is_periodic))| (*number, *is_periodic))?;
        if !is_periodic {
            self.timers.remove(&number);
        }
        Some(number)
    }
}

/// What becomes of a packet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Where it leaves; none when it is dropped.
    pub output: Option<u8>,
    /// Its bytes, if they are others, and by how many bytes it begins later.
    pub changed: Option<(Vec<u8>, i64)>,
    /// Packets in consequence of it.
    pub emitted: Vec<(u8, Vec<u8>)>,
}

impl Outcome {
    const UNTOUCHED: Outcome = Outcome { output: Some(0), changed: None, emitted: Vec::new() };
}

/// What became of each packet of a batch.
///
/// # Errors
/// A packet has no bytes left.
pub(crate) fn outcomes(py: Python<'_>, batch: &mut Batch) -> PyResult<Vec<Outcome>> {
    let mut all: Vec<Outcome> = batch.came.iter().map(|_| Outcome::UNTOUCHED).collect();
    if let Some(sent) = batch.sent.take() {
        all.iter_mut().zip(sent).for_each(|(outcome, output)| outcome.output = output);
    }
    if let Some((n, rows)) = batch.heads.take() {
        let (before, rows) = (first_bytes(&batch.came, n), rows.bind(py).to_vec());
        if rows.len() == before.len() {
            let rows = rows.chunks(n).zip(before.chunks(n));
            for (outcome, (came, (row, before))) in all.iter_mut().zip(batch.came.iter().zip(rows))
            {
                outcome.changed = (row != before).then(|| (with_head(came, row), 0));
            }
        }
    }
    for (outcome, (packet, came)) in all.iter_mut().zip(batch.packets.iter().zip(&batch.came)) {
        let Some(packet) = packet else { continue };
        let mut packet = packet.borrow_mut(py);
        let bytes = packet.data.bind(py).to_vec();
        if bytes.is_empty() && packet.output.is_some() {
            return Err(PyValueError::new_err("a packet has at least one byte: drop it instead"));
        }
        let is_changed = bytes != came.bytes || packet.moved != 0;
        *outcome = Outcome {
            output: packet.output,
            changed: (is_changed && packet.output.is_some()).then_some((bytes, packet.moved)),
            emitted: std::mem::take(&mut packet.emitted),
        };
    }
    Ok(all)
}

fn with_head(came: &Came, row: &[u8]) -> Vec<u8> {
    let mut bytes = came.bytes.clone();
    let len = row.len().min(bytes.len());
    bytes[..len].copy_from_slice(&row[..len]);
    bytes
}

/// Carries out what became of the packets. Gives how many did not fit their slots.
pub(crate) fn settle_packets(batch: &mut thruway_nf::Batch<'_>, all: Vec<Outcome>) -> u64 {
    let mut unfit = 0;
    for outcome in all {
        let Some(mut packet) = batch.open() else { break };
        let mut output = outcome.output;
        if let Some((bytes, moved)) = &outcome.changed
            && !write(&mut packet, bytes, *moved)
        {
            unfit += 1;
            output = None;
        }
        packet.judge(output.map_or(Verdict::Drop, Verdict::Next));
        for (output, bytes) in &outcome.emitted {
            // The host has counted one that finds no room.
            let _ = batch.emit(*output, [bytes, &[]]);
        }
        batch.close();
    }
    unfit
}

/// Writes a packet's new bytes into its slot. False, and nothing done, if they do not fit.
fn write(packet: &mut thruway_nf::Packet<'_>, bytes: &[u8], moved: i64) -> bool {
    let start = i64::try_from(packet.start()).unwrap_or(0).saturating_add(moved);
    let Ok(start) = usize::try_from(start) else { return false };
    if !packet.set_span(start, bytes.len()) {
        return false;
    }
    packet.bytes_mut().copy_from_slice(bytes);
    true
}

/// Scratch as an object of Python's.
pub(crate) fn scratch_object(py: Python<'_>, bytes: Option<&mut [u8]>) -> Option<Py<PyByteArray>> {
    bytes.map(|bytes| PyByteArray::new(py, bytes).unbind())
}

/// Writes scratch back.
///
/// # Errors
/// It has another length.
pub(crate) fn keep_scratch(
    py: Python<'_>,
    from: &Py<PyByteArray>,
    to: Option<&mut [u8]>,
) -> PyResult<()> {
    let Some(to) = to else { return Ok(()) };
    let bytes = from.bind(py).to_vec();
    if bytes.len() != to.len() {
        let (len, given) = (to.len(), bytes.len());
        let why = format!("scratch has {len} bytes; the function made them {given}");
        return Err(PyValueError::new_err(why));
    }
    to.copy_from_slice(&bytes);
    Ok(())
}
