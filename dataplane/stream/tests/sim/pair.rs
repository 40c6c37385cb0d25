//! Two hosts with their applications, and the links to them.

use crate::app::{App, AppConfig};
use crate::frame::{Side, Wire};
use crate::host::{Host, HostConfig, MILLISECOND, Stage};
use crate::link::{Link, LinkConfig};
use crate::world::Failure;
use thruway_random::Random;

/// Time after which the other side of an aborted connection gives up too.
const PATIENCE: i64 = 30_000 * MILLISECOND;

/// One connection.
#[derive(Debug, Clone)]
pub struct PairPlan {
    pub wire: Wire,
    pub hosts: [HostConfig; 2],
    pub apps: [AppConfig; 2],
    /// From each side to the middle.
    pub before: [LinkConfig; 2],
    /// From the middle to each side.
    pub behind: [LinkConfig; 2],
    /// When each side calls the other, nanoseconds from the beginning; `None`: it waits.
    pub calls: [Option<i64>; 2],
    /// When A forgets everything and calls anew, nanoseconds from the beginning.
    pub restart: Option<i64>,
}

/// See the module.
pub struct Pair {
    pub plan: PairPlan,
    pub hosts: [Host; 2],
    apps: [App; 2],
    pub before: [Link; 2],
    pub behind: [Link; 2],
    calls: [Option<i64>; 2],
    pub in_flight: usize,
    give_up: Option<i64>,
    restart: Option<i64>,
    /// A has called anew; perhaps B does not know yet.
    has_restarted: bool,
    random: Random,
}

impl Pair {
    pub fn new(plan: PairPlan, now: i64, random: &mut Random) -> Pair {
        let mut host = |side: Side| {
            Host::new(plan.hosts[side.index()].clone(), plan.wire, side, random.fork())
        };
        let mut hosts = Side::BOTH.map(&mut host);
        for (host, call) in hosts.iter_mut().zip(plan.calls) {
            if call.is_none() {
                host.listen();
            }
        }
        let mut app = |side: Side| {
            let start = now + plan.calls[side.index()].unwrap_or(0);
            App::new(plan.apps[side.index()].clone(), start, random.fork())
        };
        let apps = Side::BOTH.map(&mut app);
        let before = plan.before.clone().map(|config| Link::new(config, random.fork()));
        let behind = plan.behind.clone().map(|config| Link::new(config, random.fork()));
        let calls = plan.calls.map(|call| call.map(|after| now + after));
        let restart = plan.restart.map(|after| now + after);
        let random = random.fork();
        let (in_flight, give_up, has_restarted) = (0, None, false);
        Pair {
            plan,
            hosts,
            apps,
            before,
            behind,
            calls,
            in_flight,
            give_up,
            restart,
            has_restarted,
            random,
        }
    }

    /// Puts another host and application in the place of one.
    fn renew(&mut self, side: Side, now: i64) {
        let mut config = self.plan.hosts[side.index()].clone();
        config.iss = self.random.next_u64() as u32;
        let app = self.plan.apps[side.index()].clone();
        self.hosts[side.index()] = Host::new(config, self.plan.wire, side, self.random.fork());
        self.apps[side.index()] = App::new(app, now, self.random.fork());
    }

    /// B has closed the connection that A has forgotten.
    fn must_listen(&self) -> bool {
        self.has_restarted && self.hosts[0].stage == Stage::SynSent && self.hosts[1].is_over()
    }

    /// A crashes and calls anew; B listens again once it knows that the former connection is gone.
    pub fn restart(&mut self, now: i64) {
        if self.restart.is_some_and(|at| at <= now) {
            self.restart = None;
            self.renew(Side::A, now);
            self.hosts[0].connect(now);
            self.has_restarted = true;
        }
        if self.must_listen() {
            self.renew(Side::B, now);
            self.hosts[1].listen();
        }
    }

    pub fn is_over(&self) -> bool {
        let nothing_comes = self.calls == [None, None] && self.restart.is_none();
        nothing_comes && self.hosts.iter().all(Host::is_over) && self.in_flight == 0
    }

    fn was_aborted(&self) -> bool {
        self.hosts.iter().any(|host| host.aborted)
    }

    pub fn next_tick(&self) -> Option<i64> {
        let of = |side: Side| {
            let host = &self.hosts[side.index()];
            [host.next_tick(), self.apps[side.index()].next_tick(host), self.calls[side.index()]]
        };
        let restart = if self.must_listen() { Some(0) } else { self.restart };
        let give_up = self.give_up.filter(|_| !self.hosts.iter().all(Host::is_over));
        Side::BOTH.into_iter().flat_map(of).flatten().chain(give_up).chain(restart).min()
    }

    pub fn tick(&mut self, now: i64, may_break: bool) {
        for (index, host) in self.hosts.iter_mut().enumerate() {
            if self.give_up.is_some_and(|at| at <= now) && !host.is_over() {
                host.abort(now);
            }
            if self.calls[index].is_some_and(|at| at <= now) {
                self.calls[index] = None;
                if host.stage == Stage::Idle {
                    host.connect(now);
                }
            }
            if host.next_tick().is_some_and(|at| at <= now) {
                host.tick(now);
            }
            let app = &mut self.apps[index];
            if app.next_tick(host).is_some_and(|at| at <= now) {
                app.tick(now, host);
            }
        }
        self.restart(now);
        // A reset may be lost: a host that did not get it gives up eventually.
        let is_broken = may_break && self.hosts.iter().any(|host| host.got_reset);
        if self.give_up.is_none() && (is_broken || self.was_aborted()) {
            self.give_up = Some(now + PATIENCE);
        }
    }
}

impl Pair {
    /// Whether each side got what becomes of what the other wrote.
    pub fn judge(
        &self,
        expected: impl Fn(&Wire, Side, &[u8]) -> Vec<u8>,
        may_break: bool,
    ) -> Result<(), Failure> {
        let was_aborted = self.was_aborted() || may_break;
        for from in Side::BOTH {
            let written = &self.apps[from.index()].config.data;
            let receiver = &self.hosts[from.other().index()];
            let got = receiver.rx.in_order();
            let wanted = expected(&self.plan.wire, from, written);
            let is_right = if was_aborted {
                wanted.starts_with(got)
            } else {
                wanted == got && receiver.rx.is_complete()
            };
            if is_right {
                continue;
            }
            if receiver.got_reset && !was_aborted {
                return Err(Failure::Reset(format!("{from:?} to {:?}", from.other())));
            }
            return Err(Failure::Stream(difference(from, &wanted, got)));
        }
        Ok(())
    }
}

fn difference(from: Side, wanted: &[u8], got: &[u8]) -> String {
    let same = wanted.iter().zip(got).take_while(|(wanted, got)| wanted == got).count();
    let around = |bytes: &[u8]| {
        let part = &bytes[same.saturating_sub(8)..(same + 24).min(bytes.len())];
        part.escape_ascii().to_string()
    };
    format!(
        "from {from:?}: {} bytes wanted, {} came, the first {same} are right: ...{} / ...{}",
        wanted.len(),
        got.len(),
        around(wanted),
        around(got),
    )
}
