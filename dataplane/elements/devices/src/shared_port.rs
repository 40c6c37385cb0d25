//! The threads that share an interface: what is open for them, until each takes its own.

use parking_lot::Mutex;
use thruway_port::af_packet::PacketOptions;

use super::device_in::DeviceIn;
use super::mode::PortRequest;

/// What the replicas of a FromDevice share. Its lock is taken when devices are opened, never for
/// packets.
pub(super) struct SharedPort {
    /// Replicas.
    count: usize,
    state: Mutex<SharedState>,
}

#[derive(Default)]
struct SharedState {
    /// Of the configuration that this one replaces, by rank.
    inherited: Vec<Option<Box<DeviceIn>>>,
    /// What is open and not taken, by rank.
    open: Vec<Option<Box<DeviceIn>>>,
    /// The kernel's number of the interface that is or was there.
    index: Option<u32>,
    /// Why it could not be opened.
    error: Option<String>,
}

/// How to open an interface.
pub(super) struct How<'a> {
    pub(super) name: &'a str,
    pub(super) request: &'a PortRequest,
    pub(super) options: &'a PacketOptions,
}

impl SharedPort {
    pub(super) fn new(count: usize) -> SharedPort {
        let none = || (0..count).map(|_| None).collect();
        let state = SharedState { inherited: none(), open: none(), ..SharedState::default() };
        SharedPort { count, state: Mutex::new(state) }
    }

    /// Notes what a replica's predecessor had.
    pub(super) fn inherit(&self, rank: usize, live: Box<DeviceIn>) {
        self.state.lock().inherited[rank] = Some(live);
    }

    /// What a replica's predecessor had and this one has no use for.
    pub(super) fn give_back(&self, rank: usize) -> Option<Box<DeviceIn>> {
        self.state.lock().inherited[rank].take()
    }

    /// The new configuration runs: nothing will be given back.
    pub(super) fn forget(&self, rank: usize) {
        self.state.lock().inherited[rank] = None;
    }

    /// A replica's part of the interface, which the first that asks opens for all.
    pub(super) fn take(&self, rank: usize, how: &How<'_>) -> Result<Box<DeviceIn>, String> {
        let state = &mut *self.state.lock();
        if state.index.is_none() && state.error.is_none() {
            state.begin(how, self.count);
        }
        match &state.error {
            Some(error) => Err(error.clone()),
            None => state.open[rank].take().ok_or_else(|| "opened twice".to_owned()),
        }
    }

    /// A replica's part of the interface that has this number now; `None` where it cannot be opened
    /// yet.
    pub(super) fn follow(&self, rank: usize, index: u32, how: &How<'_>) -> Option<Box<DeviceIn>> {
        let state = &mut *self.state.lock();
        if state.index != Some(index) {
            // It may not be up yet: then again at the next call.
            state.fill(DeviceIn::open(how.name, how.request, how.options, self.count).ok()?);
        }
        state.open[rank].take()
    }
}

impl SharedState {
    fn begin(&mut self, how: &How<'_>, count: usize) {
        let fits = |(rank, live): (usize, &Option<Box<DeviceIn>>)| {
            let live = live.as_ref();
            live.is_some_and(|live| live.fits(how.name, how.request, how.options, (rank, count)))
        };
        if self.inherited.iter().enumerate().all(fits) {
            std::mem::swap(&mut self.inherited, &mut self.open);
            self.note();
            return;
        }
        // Those that do not suit are kept for the case that this configuration fails, but where
        // they are in the way.
        for live in &mut self.inherited {
            let _ = live.take_if(|live| live.is_exclusive());
        }
        match DeviceIn::open(how.name, how.request, how.options, count) {
            Ok(all) => self.fill(all),
            Err(error) => self.error = Some(error),
        }
    }

    fn fill(&mut self, all: Vec<DeviceIn>) {
        self.open = all.into_iter().map(|live| Some(Box::new(live))).collect();
        self.note();
    }

    fn note(&mut self) {
        self.index = self.open.iter().flatten().next().map(|live| live.interface().index);
    }
}
