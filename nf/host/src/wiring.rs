//! What one generation of a function shares with its Masters: fresh regions and descriptors.

use crate::error::HostError;
use crate::function::FunctionSpec;
use crate::line;
use rustix::event::EventfdFlags;
use rustix::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use thruway_exchange::socket::{Socket, head};
use thruway_exchange::{Arena, Control, Doorbell, LinkError, Mapped, Pages, ring};
use thruway_nf_abi::control::DRAIN;
use thruway_nf_abi::message::{Hello, Kind, Wake, Welcome};
use thruway_nf_abi::{LinkShape, Token, arena_stride};

/// Address space that mapping a region may take beyond its length, in bytes: a huge page to round
/// up to and one to align.
const MAPPING_SLACK: u64 = 4 << 20;

/// One Master thread's end of a function's present generation.
#[derive(Debug)]
pub struct HostLink {
    /// Which generation: [`Function::generation`](crate::Function::generation) when it was made.
    pub generation: u32,
    /// The region of the rings.
    pub link: Mapped,
    /// Wakes the Worker.
    pub doorbell: Doorbell,
    /// An eventfd that the Worker writes when the Master said that it waits; not blocking.
    pub wakened: Arc<OwnedFd>,
}

/// The scratch of a function's sessions, which outlives generations, and its length per session.
pub(crate) type Scratch = (Arc<Arena>, u32);

/// All that one generation was handed.
#[derive(Debug)]
pub(crate) struct Wiring {
    pub control: Control,
    doorbell: Doorbell,
    links: Vec<(Mapped, Arc<OwnedFd>)>,
    worker_event: Option<Arc<OwnedFd>>,
}

impl Wiring {
    /// Makes fresh regions for a function that says hello.
    pub fn new(spec: &FunctionSpec, hello: &Hello) -> Result<Wiring, HostError> {
        let control = Control::create().map_err(LinkError::from)?;
        let worker_event = match hello.wake {
            Wake::Futex => None,
            Wake::Eventfd => Some(eventfd()?),
        };
        let make =
            |_| Ok((Mapped::create(&spec.shape, spec.group.clone(), spec.pages)?, eventfd()?));
        let links = (0..spec.links).map(make).collect::<Result<_, HostError>>()?;
        let doorbell = Doorbell::new(control.clone(), worker_event.clone());
        Ok(Wiring { control, doorbell, links, worker_event })
    }

    /// Sends WELCOME with every descriptor in the order of `nf/abi`.
    pub fn welcome(
        &self,
        socket: &Socket,
        spec: &FunctionSpec,
        arena: Option<&Arena>,
        restarted: bool,
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
        };
        let mut fds = vec![self.control.fd()];
        fds.extend(self.worker_event.as_ref().map(|fd| fd.as_fd()));
        if welcome.has_group {
            fds.extend(spec.group.as_ref().map(|group| group.fd()));
        }
        fds.extend(arena.map(Arena::fd));
        for (link, event) in &self.links {
            fds.extend([link.fd(), event.as_fd()]);
        }
        Ok(socket.send(head(Kind::Welcome), &welcome.to_bytes(), &fds)?)
    }

    /// The Masters' ends.
    pub fn host_links(&self, generation: u32) -> Vec<Option<HostLink>> {
        let link = |(link, event): &(Mapped, Arc<OwnedFd>)| HostLink {
            generation,
            link: link.clone(),
            doorbell: self.doorbell.clone(),
            wakened: event.clone(),
        };
        self.links.iter().map(|one| Some(link(one))).collect()
    }

    /// Ends the sleep of every Master that waits for this generation.
    pub fn wake_masters(&self) {
        for (_, event) in &self.links {
            // A full counter is a Master that was woken already.
            let _ = rustix::io::write(&**event, &1_u64.to_ne_bytes());
        }
    }

    /// Tells the function that a question waits at its socket.
    pub fn announce_question(&self) {
        self.control.count_request();
        ring(&self.doorbell);
    }

    /// Asks the function to finish what waits and to end.
    pub fn ask_to_drain(&self) {
        self.control.set_command(DRAIN);
        ring(&self.doorbell);
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
    let fits = |(arena, len): &Scratch| *len == scratch_len && arena.sessions() == spec.sessions;
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
            u64::from(group.frames()) * u64::from(layout.frame_stride()) + MAPPING_SLACK
        }
        (None, Token::Descriptor) => return Err(LinkError::NoGroup.into()),
        (_, Token::Inline) => 0,
    };
    let arena = u64::from(spec.sessions) * arena_stride(spec.scratch_len_max) + MAPPING_SLACK;
    Ok(link * u64::from(spec.links) + group + arena + MAPPING_SLACK)
}

/// The defaults of regions.
pub(crate) const DEFAULT_SHAPE: (LinkShape, Pages) = (LinkShape::DEFAULT, Pages::PreferHuge);

fn eventfd() -> Result<Arc<OwnedFd>, HostError> {
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map(Arc::new)
        .map_err(|error| HostError::system("making an eventfd", error))
}
