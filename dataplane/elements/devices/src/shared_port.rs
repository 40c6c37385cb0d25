//! The threads that share an interface: what is open for them, until each takes its own.

use parking_lot::Mutex;
use thruway_port::af_packet::PacketOptions;

use super::changeover::Changeover;
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
    /// Of the configuration that this one replaces, by rank: several of each, where that had more
    /// threads.
    inherited: Vec<Vec<DeviceIn>>,
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
        let inherited = (0..count).map(|_| Vec::new()).collect();
        let open = (0..count).map(|_| None).collect();
        let state = SharedState { inherited, open, ..SharedState::default() };
        SharedPort { count, state: Mutex::new(state) }
    }

    /// Notes what a replica's predecessor had.
    pub(super) fn inherit(&self, rank: usize, live: Box<DeviceIn>) {
        self.state.lock().inherited[rank].push(*live);
    }

    /// What a replica's predecessor had and this one has no use for.
    pub(super) fn give_back(&self, rank: usize) -> Option<Box<DeviceIn>> {
        self.state.lock().inherited[rank].pop().map(Box::new)
    }

    /// The same of its further predecessors: those behind the first.
    pub(super) fn give_rest_back(&self, rank: usize) -> Vec<DeviceIn> {
        let inherited = &mut self.state.lock().inherited[rank];
        inherited.split_off(inherited.len().min(1))
    }

    /// The new configuration runs: nothing will be given back.
    pub(super) fn forget(&self, rank: usize) {
        self.state.lock().inherited[rank].clear();
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
            state
                .fill(DeviceIn::open(how.name, how.request, how.options, (self.count, None)).ok()?);
        }
        state.open[rank].take()
    }
}

impl SharedState {
    fn begin(&mut self, how: &How<'_>, count: usize) {
        let fits = |(rank, own): (usize, &Vec<DeviceIn>)| match &own[..] {
            [live] => live.fits(how.name, how.request, how.options, (rank, count)),
            _ => false,
        };
        if self.inherited.iter().enumerate().all(fits) {
            self.open = self.inherited.iter_mut().map(|own| own.pop().map(Box::new)).collect();
            self.note();
            return;
        }
        if self.is_resized(how, count) {
            if let Err(error) = self.resize(how, count) {
                self.error = Some(error);
            }
            return;
        }
        // Those that do not suit are kept for the case that this configuration fails, but where
        // they are in the way.
        for own in &mut self.inherited {
            own.retain(|live| !live.is_exclusive());
        }
        match DeviceIn::open(how.name, how.request, how.options, (count, None)) {
            Ok(all) => self.fill(all),
            Err(error) => self.error = Some(error),
        }
    }

    /// Whether nothing changes but the number of threads.
    fn is_resized(&self, how: &How<'_>, count: usize) -> bool {
        let mut all = self.inherited.iter().flatten().peekable();
        let is_it = |live: &DeviceIn| {
            live.threads() != count && live.is_of(how.name, how.request, how.options)
        };
        all.peek().is_some() && all.all(is_it)
    }

    /// Opens as many sockets as there are threads now, which take the place of the former ones.
    fn resize(&mut self, how: &How<'_>, count: usize) -> Result<(), String> {
        if let Some(why) = self.inherited.iter().flatten().find_map(|live| live.cannot_change()) {
            return Err(why);
        }
        let former = self.inherited.iter().flatten().next();
        let mut all = DeviceIn::open(how.name, how.request, how.options, (count, former))?;
        let readers = self.inherited.iter().filter(|own| !own.is_empty()).count();
        let over = Changeover::begin(how.name, (count, readers))?;
        for (live, former) in all.iter_mut().zip(&mut self.inherited) {
            live.replace(&over, std::mem::take(former));
        }
        self.fill(all);
        Ok(())
    }

    fn fill(&mut self, all: Vec<DeviceIn>) {
        self.open = all.into_iter().map(|live| Some(Box::new(live))).collect();
        self.note();
    }

    fn note(&mut self) {
        self.index = self.open.iter().flatten().next().map(|live| live.interface().index);
    }
}
