//! What one generation of a function shares with its Masters: fresh regions and descriptors.

use crate::error::HostError;
use crate::line;
use crate::spec::FunctionSpec;
use std::sync::Arc;
use thruway_exchange::socket::Socket;
use thruway_exchange::{Arena, Control, Doorbell, LinkError, Mapped, Storage as _, WakeLine, ring};
use thruway_nf_abi::control::DRAIN;
use thruway_nf_abi::features::Features;
use thruway_nf_abi::message::{Hello, Wake, Welcome, worker_of};
use thruway_nf_abi::{Token, arena_stride};

/// Address space that mapping a region may take beyond its length, in bytes: a huge page to round
/// up to and one to align.
const MAPPING_SLACK: u64 = 4 << 20;

/// Address space that a Worker beyond the first takes as a thread, in bytes: a stack of 2 MB with
/// its guard, and the heap that the C library reserves for each thread that allocates, of which it
/// maps twice as much first (glibc, malloc/arena.c, HEAP_MAX_SIZE).
const WORKER_SPACE: u64 = 132 << 20;

/// One Master thread's end of a function's present generation.
#[derive(Debug)]
pub struct HostLink {
    /// Which generation: [`Function::generation`](crate::Function::generation) when it was made.
    pub generation: u32,
    /// The region of the rings.
    pub link: Mapped,
    /// Wakes the Worker.
    pub doorbell: Doorbell,
    /// Readable when the Worker has something for the Master that said that it waits.
    pub wakened: Arc<WakeLine>,
}

/// The scratch of a function's sessions, which outlives generations, and its length per session.
pub(crate) type Scratch = (Arc<Arena>, u32);

/// All that one generation was handed.
#[derive(Debug)]
pub(crate) struct Wiring {
    /// One for each Worker.
    pub controls: Vec<Control>,
    doorbells: Vec<Doorbell>,
    links: Vec<(Mapped, Arc<WakeLine>)>,
    worker_line: Option<Arc<WakeLine>>,
}

impl Wiring {
    /// Makes fresh regions for a function that says hello.
    pub fn new(spec: &FunctionSpec, hello: &Hello) -> Result<Wiring, HostError> {
        let controls = (0..spec.workers.max(1)).map(|_| Control::create());
        let controls: Vec<Control> = controls.collect::<Result<_, _>>().map_err(LinkError::from)?;
        let worker_line = match hello.wake {
            Wake::Futex => None,
            Wake::Eventfd => Some(wake_line()?),
        };
        let make = |_| {
            let group = spec.group.clone();
            let link = match spec.order.machine {
                None => Mapped::create(&spec.shape, group, spec.pages)?,
                Some(_) => Mapped::create_padded(&spec.shape, group)?,
            };
            Ok((link, wake_line()?))
        };
        let links = (0..spec.links).map(make).collect::<Result<_, HostError>>()?;
        let bell = |control: &Control| Doorbell::new(control.clone(), worker_line.clone());
        let doorbells = controls.iter().map(bell).collect();
        Ok(Wiring { controls, doorbells, links, worker_line })
    }

    /// Sends WELCOME with every descriptor in the order of `nf/abi`: with the features in force,
    /// and whether the function begins again.
    pub fn welcome(
        &self,
        socket: &Socket,
        spec: &FunctionSpec,
        arena: Option<&Arena>,
        (features, restarted): (Features, bool),
    ) -> Result<(), HostError> {
        let welcome = Welcome {
            links: spec.links,
            inputs: spec.inputs,
            outputs: spec.outputs,
            wait: spec.wait,
            spin_ns: spec.spin_ns,
            worker_threshold: spec.worker_threshold.max(1),
            sessions: if arena.is_some() { spec.sessions } else { 0 },
            has_group: spec.shape.token == Token::Descriptor,
            restarted,
            features,
            workers: self.controls.len() as u32, // at most as many as links
        };
        let mut fds: Vec<_> = self.controls.iter().map(Control::fd).collect();
        fds.extend(self.worker_line.as_ref().map(|line| line.worker_end()));
        if welcome.has_group {
            fds.extend(spec.group.as_ref().map(|group| group.fd()));
        }
        fds.extend(arena.map(Arena::fd));
        for (link, line) in &self.links {
            fds.extend([link.fd(), line.worker_end()]);
        }
        let body = [&welcome.to_bytes()[..], spec.roles.join("\n").as_bytes()].concat();
        Ok(socket.try_send_fds(welcome.head(), &body, &fds)?)
    }

    /// The Masters' ends.
    pub fn host_links(&self, generation: u32) -> Vec<Option<HostLink>> {
        let [links, workers] = [self.links.len(), self.controls.len()].map(|len| len as u32);
        let link = |(nth, (link, line)): (u32, &(Mapped, Arc<WakeLine>))| HostLink {
            generation,
            link: link.clone(),
            doorbell: self.doorbells[worker_of(nth, links, workers) as usize].clone(),
            wakened: line.clone(),
        };
        (0..).zip(&self.links).map(|one| Some(link(one))).collect()
    }

    /// Whether memory that it shares with the function was lost.
    pub fn is_damaged(&self) -> bool {
        self.controls.iter().any(|control| control.region().is_damaged())
            || self.links.iter().any(|(link, _)| link.is_damaged())
    }

    /// Ends the sleep of every Master that waits for this generation.
    pub fn wake_masters(&self) {
        for (_, line) in &self.links {
            line.wake_host();
        }
    }

    /// Shows the function that a question waits at its socket, which its first Worker reads.
    pub fn announce_request(&self) {
        let first = self.controls.iter().zip(&self.doorbells).take(1);
        first.for_each(|(control, bell)| {
            control.count_request();
            ring(bell);
        });
    }

    /// Asks the function to finish what waits and to end.
    pub fn ask_to_drain(&self) {
        for (control, bell) in self.controls.iter().zip(&self.doorbells) {
            control.set_command(DRAIN);
            ring(bell);
        }
    }
}

/// Memory for the scratch of all sessions; the one there is, if it fits.
pub(crate) fn scratch(
    spec: &FunctionSpec,
    hello: &Hello,
    before: Option<Scratch>,
) -> Result<Option<Scratch>, HostError> {
    let scratch_len = hello.scratch_len;
    if scratch_len == 0 || spec.sessions == 0 {
        return Ok(None);
    }
    if scratch_len > spec.scratch_len_max {
        let why = format!(
            "it wants {scratch_len} bytes of scratch per session, and may have {}: raise SCRATCH",
            spec.scratch_len_max
        );
        return Err(HostError::Misfit { name: line::plain(hello.name().as_bytes()), why });
    }
    let fits = |(arena, len): &Scratch| {
        *len == scratch_len && arena.sessions() == spec.sessions && !arena.is_damaged()
    };
    if let Some(before) = before.filter(fits) {
        return Ok(Some(before));
    }
    let arena = Arena::create(scratch_len, spec.sessions).map_err(LinkError::from)?;
    Ok(Some((Arc::new(arena), scratch_len)))
}

/// Address space that a function needs for what it is handed, in bytes.
pub(crate) fn regions_bytes(spec: &FunctionSpec) -> Result<u64, HostError> {
    let layout = spec.shape.layout().map_err(LinkError::from)?;
    let link = layout.len() + MAPPING_SLACK;
    let group = match (&spec.group, spec.shape.token) {
        (Some(group), Token::Descriptor) => {
            let len = u64::from(group.frames()) * u64::from(layout.frame_stride());
            len.next_power_of_two() + MAPPING_SLACK
        }
        (None, Token::Descriptor) => return Err(LinkError::NoGroup.into()),
        (_, Token::Inline) => 0,
    };
    let arena = u64::from(spec.sessions) * arena_stride(spec.scratch_len_max);
    let arena = arena.next_power_of_two() + MAPPING_SLACK;
    let workers = u64::from(spec.workers.saturating_sub(1)) * (WORKER_SPACE + MAPPING_SLACK);
    Ok(link * u64::from(spec.links) + group + arena + workers + MAPPING_SLACK)
}

fn wake_line() -> Result<Arc<WakeLine>, HostError> {
    WakeLine::new()
        .map(Arc::new)
        .map_err(|error| HostError::system("making a pair of sockets", error))
}
