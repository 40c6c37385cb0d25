//! Functions as processes: what `nf/host` offers, as the element asks for it.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use thruway_element::{HandlerError, Later, Promise};
use thruway_exchange::{Arena, Control, GroupRegion, PeerFault};
use thruway_nf_abi::VERSION;
use thruway_nf_abi::control::Figure;
use thruway_nf_abi::message::Kind;
use thruway_nf_abi::stream_need;
use thruway_nf_host::{
    Function as Process, FunctionSpec, Isolation, Limits, Order, Patience, Program,
};

use super::backend::{Function, HostEnd, Property};
use super::settings::Settings;

/// How long a stop waits for the function's last words.
const DRAIN: Duration = Duration::from_millis(500);

/// Starts the function's process and waits until it has attached. `arena`: scratch of sessions that
/// a predecessor of the same settings in this respect had. `label`: the element's name, for the
/// log.
pub(super) fn start(
    (label, settings): (String, &Settings),
    group: Option<GroupRegion>,
    arena: Option<Arc<Arena>>,
) -> Result<Arc<dyn Function>, String> {
    let spec = FunctionSpec { label, arena, ..spec(settings, group) };
    let function = Process::start(spec).map_err(|error| error.to_string())?;
    Ok(Arc::new(Isolated { function }))
}

fn spec(settings: &Settings, group: Option<GroupRegion>) -> FunctionSpec {
    let program = Program {
        args: settings.arguments.clone(),
        library_dirs: settings.library_dirs.clone(),
        readable: settings.readable.clone(),
        ..Program::new(&settings.program)
    };
    let order = Order {
        machine: settings.machine.clone(),
        limits: Limits {
            memory_bytes: settings.memory_bytes,
            cpus: settings.cpus.clone(),
            cpu_percent: settings.shares.percent,
            cpu_weight: settings.shares.weight,
            ..Limits::default()
        },
        isolation: if settings.strict { Isolation::Strict } else { Isolation::Relaxed },
        ..Order::new(program.clone())
    };
    FunctionSpec {
        order,
        shape: settings.shape,
        group,
        links: settings.threads,
        workers: settings.workers,
        inputs: settings.inputs,
        outputs: settings.outputs,
        roles: settings.roles.clone(),
        wait: settings.wait,
        spin_ns: u32::try_from(settings.spin.as_nanos()).unwrap_or(u32::MAX),
        worker_threshold: settings.worker_threshold,
        sessions: settings.sessions.as_ref().map_or(0, |all| all.entries * settings.threads),
        stream: stream(settings),
        scratch_len_max: settings.sessions.as_ref().map_or(0, |all| all.scratch_len_max),
        configuration: Some(settings.config.clone()).filter(|text| !text.is_empty()),
        patience: Patience {
            attach: settings.attach_timeout,
            hang: Some(settings.hang).filter(|hang| !hang.is_zero()),
            drain: DRAIN,
        },
        standby: settings.standby,
        ..FunctionSpec::new(program)
    }
}

/// What a function of streams may do, as the handshake says it.
fn stream(settings: &Settings) -> u32 {
    settings.stream.as_ref().map_or(0, |to| stream_need::STREAM | to.needs.bits())
}

/// A function that is a process.
struct Isolated {
    function: Arc<Process>,
}

impl Drop for Isolated {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Isolated {
    fn figure(&self, figure: Figure) -> String {
        let controls = self.function.controls();
        controls.iter().map(|control| control.figure(figure)).sum::<u64>().to_string()
    }

    /// A line per counter, in the order in which the first Worker named them; counters of several
    /// Workers with one name are one.
    fn counters(&self) -> String {
        let mut all: Vec<(String, u64)> = Vec::new();
        for (name, value) in self.function.controls().iter().flat_map(Control::counters) {
            match all.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum = sum.wrapping_add(value),
                None => all.push((name, value)),
            }
        }
        all.into_iter().fold(String::new(), |mut text, (name, value)| {
            let _ = writeln!(text, "{name} {value}");
            text
        })
    }

    /// How its last process ended and what it wrote last.
    fn last_error(&self) -> String {
        let status = self.function.status();
        let Some(end) = status.last_end else { return String::new() };
        match status.output.trim() {
            "" => end,
            output => format!("{end}; it said: {output}"),
        }
    }
}

impl Function for Isolated {
    #[inline]
    fn generation(&self) -> u32 {
        self.function.generation()
    }

    fn take_end(&self, replica: u32) -> Option<HostEnd> {
        let link = self.function.take_link(replica as usize)?;
        let generation = link.generation;
        Some(HostEnd { generation, storage: link.link, bell: link.doorbell, wake: link.wakened })
    }

    fn arena(&self) -> Option<Arc<Arena>> {
        self.function.arena()
    }

    fn report_fault(&self, generation: u32, fault: PeerFault) {
        self.function.report_fault(generation, fault);
    }

    fn describe(&self, what: Property) -> String {
        let status = || self.function.status();
        match what {
            Property::State => status().state.name().to_owned(),
            Property::Pid => status().pid.unwrap_or(0).to_string(),
            Property::Interface => {
                format!("version {VERSION}, features: {}", status().features)
            }
            Property::Restarts => status().restarts.to_string(),
            Property::Faults => status().faults.to_string(),
            Property::Hangs => status().hangs.to_string(),
            Property::CpuTime => format!("{:.6}", status().cpu_time.as_secs_f64()),
            Property::Sandbox => {
                status().sandbox.map_or(String::new(), |report| report.to_string())
            }
            Property::LastError => self.last_error(),
            Property::Console => status().output,
            Property::Counters => self.counters(),
            Property::Sleeps => self.figure(Figure::Sleeps),
            Property::AuxFull => self.figure(Figure::AuxFull),
            Property::InjectionFull => self.figure(Figure::InjectionFull),
        }
    }

    fn set_worker_threshold(&self, threshold: u32) {
        for control in self.function.controls() {
            control.set_worker_threshold(threshold);
            // A sleeping Worker need not know: it looks when it wakes.
            control.count_request();
        }
    }

    fn watch(&self) {
        self.function.watch();
    }

    fn report_hang(&self, generation: u32) {
        self.function.report_hang(generation);
    }

    fn ask(&self, write: bool, text: &str) -> Later {
        let kind = if write { Kind::Write } else { Kind::Read };
        let (promise, later) = Promise::new();
        self.function.ask(kind, text, move |answer| {
            promise.keep(answer.map_err(|error| HandlerError::refused(error.to_string())));
        });
        later
    }

    fn stop(&self) {
        self.function.drain();
        self.function.wait_for(|state| state.is_final(), DRAIN);
    }
}
