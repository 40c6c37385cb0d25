//! Many sockets at once.

use std::time::Duration;

use anyhow::Context as _;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that the bench has besides.
const FILES: u64 = 1000;

/// Allows as many descriptors as one end of so many connections needs.
///
/// # Errors
/// The system does not.
pub fn raise_file_limit(connections: u32) -> anyhow::Result<()> {
    let (now, wanted) = (getrlimit(Resource::Nofile), u64::from(connections) + FILES);
    if now.current.is_some_and(|now| now < wanted) {
        let maximum = now.maximum.map(|maximum| maximum.max(wanted));
        let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
        raised.with_context(|| {
            format!(
                "{wanted} files must be open at once: ulimit -n {wanted}, or fewer --connections"
            )
        })?;
    }
    Ok(())
}

/// Sockets that are waited for, each with its number.
pub struct Watch {
    poll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Watch {
    /// None yet.
    pub fn new() -> anyhow::Result<Watch> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Watch { poll, events: Vec::with_capacity(1024) })
    }

    /// One more.
    pub fn add(&self, socket: impl AsFd, number: usize) -> anyhow::Result<()> {
        let data = epoll::EventData::new_u64(number as u64);
        Ok(epoll::add(&self.poll, socket, data, epoll::EventFlags::IN)?)
    }

    /// Numbers of those that have something, after this time at most.
    pub fn wait(&mut self, time: Duration) -> anyhow::Result<Vec<usize>> {
        let time = Timespec::try_from(time)?;
        self.events.clear();
        let buffer = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.poll, buffer, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.events.iter().map(|event| event.data.u64() as usize).collect())
    }

    /// One that has ended, which else is reported again and again.
    pub fn forget(&self, socket: impl AsFd) {
        // It fails only for one that is not waited for.
        let _ = epoll::delete(&self.poll, socket);
    }
}
