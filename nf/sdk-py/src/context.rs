//! What a callback may ask for, and what it hears when the function begins or a session does.

use std::collections::HashMap;
use std::time::Duration;

use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

/// Something that is to be done once the callback has returned.
#[derive(Debug)]
pub(crate) enum Order {
    /// Send a packet of its own out of an output.
    Inject { output: u8, bytes: Vec<u8> },
    /// Set a timer; `is_periodic`: again and again.
    Timer { after: Duration, is_periodic: bool },
    /// Unset the timer of this number.
    Cancel(u64),
    /// Add to the counter of this index.
    Count { index: usize, n: u64 },
    /// Set it.
    Level { index: usize, value: u64 },
}

/// The function's surroundings, for one callback.
///
/// What is asked for here is done when the callback returns. A packet that finds the ring to the
/// host full then is lost, and counted by the host.
#[pyclass(subclass, module = "thruway_nf")]
#[derive(Default)]
pub(crate) struct Context {
    /// Nanoseconds of the system's monotonic clock, the same for all of the callback.
    #[pyo3(get)]
    pub now_ns: u64,
    pub orders: Vec<Order>,
    /// Names of the counters, in their order.
    pub counters: Vec<String>,
    /// Outputs of the element.
    pub outputs: u32,
    /// Timers that were set before.
    pub timers: u64,
    pub limits: Limits,
}

/// What cannot be asked for in a callback.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Limits {
    #[default]
    Nothing,
    /// Before the function has begun: no packets.
    Packets,
    /// When a session begins or has ended: no packets and no timers.
    PacketsAndTimers,
}

impl Context {
    fn counter(&self, name: &str) -> PyResult<usize> {
        self.counters.iter().position(|one| one == name).ok_or_else(|| {
            PyKeyError::new_err(format!("counter '{name}' is not among those given to run()"))
        })
    }

    fn timer(&mut self, seconds: f64, is_periodic: bool) -> PyResult<u64> {
        if self.limits == Limits::PacketsAndTimers {
            return Err(PyRuntimeError::new_err("a session's callback sets no timers"));
        }
        let after = duration(seconds)?;
        self.orders.push(Order::Timer { after, is_periodic });
        self.timers += 1;
        Ok(self.timers - 1)
    }
}

/// The number of an output, if the element has it.
pub(crate) fn checked_output(output: i64, outputs: u32) -> PyResult<u8> {
    let is_there = |output: &u8| u32::from(*output) < outputs;
    u8::try_from(output).ok().filter(is_there).ok_or_else(|| {
        PyValueError::new_err(format!("output {output}: the element has {outputs}, from 0 on"))
    })
}

/// A packet of the function's own making: an output that there is, and at least one byte.
pub(crate) fn checked_packet(output: i64, outputs: u32, data: &[u8]) -> PyResult<u8> {
    let output = checked_output(output, outputs)?;
    match data.is_empty() {
        true => Err(PyValueError::new_err("a packet has at least one byte")),
        false => Ok(output),
    }
}

/// A time in seconds.
pub(crate) fn duration(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|why| PyValueError::new_err(format!("{seconds} seconds: {why}")))
}

#[pymethods]
impl Context {
    /// Sends a packet of its own out of an output.
    fn inject(&mut self, output: i64, data: Vec<u8>) -> PyResult<()> {
        if self.limits != Limits::Nothing {
            let why = "packets are sent from the callbacks batch, timer and drain";
            return Err(PyRuntimeError::new_err(why));
        }
        let output = checked_packet(output, self.outputs, &data)?;
        self.orders.push(Order::Inject { output, bytes: data });
        Ok(())
    }

    /// Sets a timer that goes off once, after so many seconds; gives its number.
    fn after(&mut self, seconds: f64) -> PyResult<u64> {
        self.timer(seconds, false)
    }

    /// Sets a timer that goes off every so many seconds; gives its number.
    fn every(&mut self, seconds: f64) -> PyResult<u64> {
        if seconds <= 0.0 {
            return Err(PyValueError::new_err("a period must be more than 0"));
        }
        self.timer(seconds, true)
    }

    /// Unsets a timer by its number.
    fn cancel(&mut self, timer: u64) {
        self.orders.push(Order::Cancel(timer));
    }

    /// Adds to a counter that was given to run().
    #[pyo3(signature = (name, n = 1))]
    fn count(&mut self, name: &str, n: u64) -> PyResult<()> {
        let index = self.counter(name)?;
        self.orders.push(Order::Count { index, n });
        Ok(())
    }

    /// Sets a counter that is a level.
    fn level(&mut self, name: &str, value: u64) -> PyResult<()> {
        let index = self.counter(name)?;
        self.orders.push(Order::Level { index, value });
        Ok(())
    }
}

/// What the host said of the element, when the function begins.
#[pyclass(extends = Context, frozen, get_all, module = "thruway_nf")]
pub(crate) struct Start {
    /// Inputs of the element.
    pub inputs: u32,
    /// Outputs of the element.
    pub outputs: u32,
    /// Roles that outputs lead to, each with its output.
    pub roles: HashMap<String, u8>,
    /// Sessions that there is scratch for.
    pub sessions: u32,
    /// Whether it begins again after a failure: scratch holds what it held.
    pub restarted: bool,
    /// The text that the element's CONFIG gives, where `configured` asks for it.
    pub configuration: Option<String>,
}

/// A session that begins or has ended.
#[pyclass(extends = Context, frozen, get_all, module = "thruway_nf")]
pub(crate) struct Session {
    /// Its number: that of Packet.session.
    pub number: u32,
    /// Its scratch; changes of one that begins are kept.
    pub scratch: Option<Py<PyByteArray>>,
}
