//! A function whose callbacks are Python's.

use std::collections::HashMap;
use std::process::ExitCode;

use pyo3::exceptions::{PySystemExit, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use thruway_nf::{Counter, Function, Timer};

use crate::apply::{Kept, keep_scratch, outcomes, scratch_object, settle_packets};
use crate::batch::{Batch, Came};
use crate::context::{Context, Limits, Session, Start};
use crate::settings::Settings;

/// Settings that `run` takes.
const SETTINGS: &[&str] =
    &["name", "outputs", "scratch_len", "batch_len_max", "counters", "configured"];

/// Runs a function until its host ends it.
///
/// `function` is a callable that takes a Batch, or an object with a method `batch(batch)`. It may
/// have `start(start)`, `timer(context, number)`, `read(handler, parameter)`, `write(handler,
/// value)`, `new_session(session)`, `released_session(session)` and `drain(context)`, too.
/// Settings are keyword arguments, or attributes of the object: `name`; `outputs`, how many it
/// uses (1); `scratch_len`, bytes of scratch per session (0); `batch_len_max`, most packets of a
/// batch (256); `counters`, their names; `configured`, whether it cannot begin without the text
/// of CONFIG.
///
/// An exception of `start` is what the host shows its user. One of `read` or `write` is the
/// answer. Any other one ends the process, and the host acts as it does after a crash.
#[pyfunction]
#[pyo3(signature = (function, **settings))]
pub(crate) fn run(
    function: &Bound<'_, PyAny>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let py = function.py();
    for name in settings.iter().flat_map(|settings| settings.keys()) {
        let name: String = name.extract()?;
        if !SETTINGS.contains(&name.as_str()) {
            let all = SETTINGS.join(", ");
            return Err(PyTypeError::new_err(format!("run() has no setting '{name}': {all}")));
        }
    }
    let settings = Settings::of(function, settings.map(|settings| settings.as_any()))?;
    let callbacks = Callbacks::of(function)?;
    let config = settings.config.clone();
    let code = py.detach(|| {
        thruway_nf::run(&config, |start| PythonFunction::begin(callbacks, settings, start))
    });
    match code == ExitCode::SUCCESS {
        true => Ok(()),
        false => Err(PySystemExit::new_err(1)),
    }
}

/// What of the callbacks there is.
struct Callbacks {
    batch: Py<PyAny>,
    start: Option<Py<PyAny>>,
    timer: Option<Py<PyAny>>,
    read: Option<Py<PyAny>>,
    write: Option<Py<PyAny>>,
    new_session: Option<Py<PyAny>>,
    released_session: Option<Py<PyAny>>,
    drain: Option<Py<PyAny>>,
}

impl Callbacks {
    fn of(function: &Bound<'_, PyAny>) -> PyResult<Callbacks> {
        let find = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            let found = function.getattr_opt(name)?;
            Ok(found.filter(|one| one.is_callable()).map(Bound::unbind))
        };
        let batch = match find("batch")? {
            Some(batch) => batch,
            None if function.is_callable() => function.clone().unbind(),
            None => {
                let why = "run() takes a callable, or an object with a method batch(batch)";
                return Err(PyTypeError::new_err(why));
            }
        };
        Ok(Callbacks {
            batch,
            start: find("start")?,
            timer: find("timer")?,
            read: find("read")?,
            write: find("write")?,
            new_session: find("new_session")?,
            released_session: find("released_session")?,
            drain: find("drain")?,
        })
    }
}

/// A function whose callbacks are Python's.
struct PythonFunction {
    callbacks: Callbacks,
    kept: Kept,
    /// Counts packets that became too long for their slots.
    unfit: Counter,
    counters: Vec<String>,
    outputs: u32,
}

impl PythonFunction {
    fn begin(
        callbacks: Callbacks,
        settings: Settings,
        start: &mut thruway_nf::Start<'_>,
    ) -> Result<PythonFunction, String> {
        let welcome = *start.welcome();
        let mut function = PythonFunction {
            callbacks,
            kept: Kept::default(),
            unfit: start.counter("does-not-fit"),
            outputs: welcome.outputs,
            counters: settings.counters,
        };
        let counters = function.counters.iter().map(|name| start.counter(name));
        function.kept.counters = counters.collect();
        let configuration = settings.is_configured.then(|| start.configuration()).transpose()?;
        if let Some(callback) = &function.callbacks.start {
            let now_ns = start.now_ns();
            let roles = start.roles().map(|(role, output)| (role.to_owned(), output)).collect();
            let orders = Python::attach(|py| -> PyResult<_> {
                let said = Start {
                    inputs: welcome.inputs,
                    outputs: welcome.outputs,
                    roles,
                    sessions: welcome.sessions,
                    restarted: welcome.restarted,
                    configuration,
                };
                let context = function.context(now_ns, Limits::Packets);
                let object = Py::new(py, PyClassInitializer::from(context).add_subclass(said))?;
                callback.call1(py, (&object,))?;
                Ok(std::mem::take(&mut object.bind(py).cast::<Context>()?.borrow_mut().orders))
            });
            let orders = orders.map_err(|error| describe(&error))?;
            function.kept.carry_out(orders, start);
        }
        Ok(function)
    }

    fn context(&self, now_ns: u64, limits: Limits) -> Context {
        Context {
            now_ns,
            orders: Vec::new(),
            counters: self.counters.clone(),
            outputs: self.outputs,
            timers: self.kept.timers_set,
            limits,
        }
    }

    /// Calls back with a context alone and carries out what was asked for.
    fn call_with_context(
        &mut self,
        which: impl Fn(&Callbacks) -> Option<&Py<PyAny>>,
        cx: &mut thruway_nf::Cx<'_>,
        number: Option<u64>,
    ) {
        let now_ns = cx.now_ns();
        let orders = Python::attach(|py| -> PyResult<_> {
            let Some(callback) = which(&self.callbacks) else { return Ok(Vec::new()) };
            let context = Py::new(py, self.context(now_ns, Limits::Nothing))?;
            let args = match number {
                Some(number) => (&context, number).into_pyobject(py)?,
                None => PyTuple::new(py, [&context])?,
            };
            callback.call1(py, args)?;
            Ok(std::mem::take(&mut context.borrow_mut(py).orders))
        });
        let orders = orders.unwrap_or_else(|error| end(&error));
        self.kept.carry_out(orders, cx);
    }

    /// Calls back when a session begins or has ended.
    fn call_with_session(
        &mut self,
        which: impl Fn(&Callbacks) -> Option<&Py<PyAny>>,
        session: &mut thruway_nf::Session<'_>,
    ) {
        let Some(callback) = which(&self.callbacks) else { return };
        let (number, now_ns) = (session.number(), session.now_ns());
        let orders = Python::attach(|py| -> PyResult<_> {
            let scratch = scratch_object(py, session.scratch_bytes(number));
            let said = Session { number, scratch: scratch.as_ref().map(|one| one.clone_ref(py)) };
            let context = self.context(now_ns, Limits::PacketsAndTimers);
            let object = Py::new(py, PyClassInitializer::from(context).add_subclass(said))?;
            callback.call1(py, (&object,))?;
            if let Some(scratch) = &scratch {
                keep_scratch(py, scratch, session.scratch_bytes(number))?;
            }
            Ok(std::mem::take(&mut object.bind(py).cast::<Context>()?.borrow_mut().orders))
        });
        let orders = orders.unwrap_or_else(|error| end(&error));
        self.kept.carry_out(orders, session);
    }

    fn treat(&mut self, py: Python<'_>, batch: &mut thruway_nf::Batch<'_>) -> PyResult<()> {
        let came: Vec<Came> = (0..batch.len()).map_while(|nth| came(batch, nth)).collect();
        let mut scratch = HashMap::new();
        for session in came.iter().filter_map(|came| came.session) {
            if !scratch.contains_key(&session)
                && let Some(object) = scratch_object(py, batch.scratch_bytes(session))
            {
                scratch.insert(session, object);
            }
        }
        let context = self.context(batch.now_ns(), Limits::Nothing);
        let object =
            Py::new(py, PyClassInitializer::from(context).add_subclass(Batch::new(came, scratch)))?;
        self.callbacks.batch.call1(py, (&object,))?;
        let mut treated = object.bind(py).borrow_mut();
        let all = outcomes(py, &mut treated)?;
        for (session, object) in &treated.scratch {
            keep_scratch(py, object, batch.scratch_bytes(*session))?;
        }
        let orders = std::mem::take(&mut treated.as_super().orders);
        self.unfit.add(settle_packets(batch, all));
        self.kept.carry_out(orders, batch);
        Ok(())
    }
}

impl Function for PythonFunction {
    fn batch(&mut self, batch: &mut thruway_nf::Batch<'_>) {
        Python::attach(|py| self.treat(py, batch)).unwrap_or_else(|error| end(&error));
    }

    fn new_session(&mut self, session: &mut thruway_nf::Session<'_>) {
        self.call_with_session(|callbacks| callbacks.new_session.as_ref(), session);
    }

    fn released_session(&mut self, session: &mut thruway_nf::Session<'_>) {
        self.call_with_session(|callbacks| callbacks.released_session.as_ref(), session);
    }

    fn timer(&mut self, cx: &mut thruway_nf::Cx<'_>, timer: Timer) {
        let number = self.kept.went_off(timer);
        self.call_with_context(|callbacks| callbacks.timer.as_ref(), cx, number);
    }

    fn read(&mut self, handler: &str, parameter: &str) -> Result<String, String> {
        let Some(callback) = &self.callbacks.read else {
            return Err(format!("this function has no handler '{handler}' to read"));
        };
        Python::attach(|py| -> PyResult<String> {
            Ok(callback.call1(py, (handler, parameter))?.bind(py).str()?.to_string())
        })
        .map_err(|error| describe(&error))
    }

    fn write(&mut self, handler: &str, value: &str) -> Result<(), String> {
        let Some(callback) = &self.callbacks.write else {
            return Err(format!("this function has no handler '{handler}' to write"));
        };
        Python::attach(|py| callback.call1(py, (handler, value)).map(|_| ()))
            .map_err(|error| describe(&error))
    }

    fn drain(&mut self, cx: &mut thruway_nf::Cx<'_>) {
        self.call_with_context(|callbacks| callbacks.drain.as_ref(), cx, None);
    }
}

/// A packet that waits, as a copy.
fn came(batch: &mut thruway_nf::Batch<'_>, nth: usize) -> Option<Came> {
    let packet = batch.peek(nth)?;
    Some(Came {
        bytes: packet.bytes.to_vec(),
        input: packet.input,
        direction: packet.direction,
        session: packet.session,
        headroom: packet.headroom,
    })
}

/// An exception as one line.
fn describe(error: &PyErr) -> String {
    error.to_string()
}

/// Ends the process: a callback raised an exception. The host keeps the end of what it says.
fn end(error: &PyErr) -> ! {
    Python::attach(|py| error.print(py));
    std::process::exit(1)
}
