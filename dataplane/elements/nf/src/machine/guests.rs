//! The machines of one element: the one that serves, and one that waits to take its place.

use thruway_element::Cx;
use thruway_nf_host::{State, Status, VmPool, VmSpec};

use super::cards::{Cards, Ports, open};

/// Machines that are alike, each with ports of its own.
pub struct Guests {
    pool: VmPool,
    ports: Vec<Ports>,
    /// The machine whose ports the cards use.
    used: usize,
}

impl Guests {
    /// No machines. One is to serve, or all wait for now.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(is_wanted: bool) -> Result<Guests, String> {
        let pool = VmPool::new(is_wanted).map_err(|error| error.to_string())?;
        Ok(Guests { pool, ports: Vec::new(), used: 0 })
    }

    /// Sees to it that there are so many machines, and waits for the first if one is to serve.
    ///
    /// # Errors
    /// Why the first one is not ready.
    pub fn fill(&mut self, count: usize, spec: &VmSpec) -> Result<(), String> {
        self.pool.keep(count);
        while self.pool.len() < count {
            let mut ports = Ports::new();
            let at = self.pool.add(spec.clone(), |reporter| {
                let (opened, wire) = open(spec.order.cards, &spec.order.label, reporter)?;
                ports = opened;
                Ok(wire)
            })?;
            self.ports.resize_with(self.ports.len().max(at + 1), Ports::new);
            self.ports[at] = ports;
        }
        Ok(())
    }

    /// From now on a machine is to serve. False if none will be ready.
    pub fn serve(&self) -> bool {
        self.pool.serve()
    }

    /// Has the cards use the ports of the machine that serves.
    pub fn attach(&mut self, cards: &mut Cards) {
        self.used = self.pool.serving();
        if let Some(ports) = self.ports.get(self.used) {
            cards.set_ports(ports);
        }
    }

    /// Lets the thread's sleep end when another machine serves.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn watch(&self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.watch(&self.pool).map_err(|error| format!("no descriptor left: {error}"))
    }

    /// Ends that.
    pub fn unwatch(&self, cx: &mut Cx<'_>) {
        cx.unwatch(&self.pool);
    }

    /// Goes over to the machine that serves, if it is another one now.
    #[inline]
    pub fn follow(&mut self, cx: &mut Cx<'_>, cards: &mut Cards) {
        if self.pool.serving() != self.used {
            self.go_over(cx, cards);
        }
    }

    #[cold]
    fn go_over(&mut self, cx: &mut Cx<'_>, cards: &mut Cards) {
        self.pool.silence();
        self.used = self.pool.serving();
        let Some(ports) = self.ports.get(self.used) else { return };
        // The thread then wakes for packets that come in, and for nothing of the guest's.
        if let Err(why) = cards.change_ports(cx, ports) {
            cx.log(&format!("a machine took another one's place: {why}"));
        }
    }

    /// The machine that serves has taken nothing for long.
    pub fn report_hang(&self) {
        if let Some(reporter) = self.pool.reporter() {
            reporter.hang();
        }
    }

    /// What is known of the machine that serves.
    pub fn status(&self) -> Option<Status> {
        self.pool.status()
    }

    /// Starts after the first, of all machines.
    pub fn restarts(&self) -> u64 {
        self.pool.status().into_iter().chain(self.pool.others()).map(|status| status.restarts).sum()
    }

    /// Times that a machine took another one's place.
    pub fn takeovers(&self) -> u64 {
        self.pool.takeovers()
    }

    /// A word about the machine that waits.
    pub fn standby(&self, is_serving: bool) -> &'static str {
        let waiting = if is_serving { self.pool.others().next() } else { self.pool.status() };
        match waiting.map(|status| status.state) {
            None => "none",
            Some(State::Running) => "ready",
            Some(state) => state.name(),
        }
    }
}
