//! What a Replicate hands over to the one of another configuration.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;

use thruway_element::{Cx, HotSwap};
use thruway_replication::{Active, Backup, Key, Link};

use super::commit::Commit;
use super::{Replicate, Role, Threads};

/// What both must have alike: with others it is another pair of hosts.
#[derive(PartialEq, Eq)]
struct Identity {
    begins_active: bool,
    other: SocketAddr,
    key: String,
    networks: usize,
    commits: bool,
}

/// The state of a pair's host.
struct Kept {
    identity: Identity,
    role: Role,
    link: Arc<Link>,
    threads: Threads,
    chain: String,
    commit: Option<Commit>,
    held_until: i64,
    has_served: bool,
}

impl HotSwap for Replicate {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        if let Some(foreign) = self.foreign.take() {
            return Some(foreign);
        }
        if matches!(self.threads, Threads::None) {
            return None;
        }
        Some(Box::new(Kept {
            identity: self.identity(),
            // It does nothing any more.
            role: std::mem::replace(&mut self.role, Role::Retired),
            link: Arc::clone(&self.link),
            threads: std::mem::replace(&mut self.threads, Threads::None),
            chain: std::mem::take(&mut self.chain),
            commit: self.commit.take(),
            held_until: self.held_until,
            has_served: self.has_served,
        }))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(kept) = state.downcast::<Kept>() else { return };
        if kept.identity != self.identity() {
            self.foreign = Some(kept);
            return;
        }
        let Kept { role, link, threads, chain, commit, held_until, has_served, .. } = *kept;
        (self.role, self.link, self.threads, self.chain) = (role, link, threads, chain);
        (self.held_until, self.has_served) = (held_until, has_served);
        match (&mut self.commit, commit) {
            (Some(own), Some(before)) => own.take_over(before),
            // The one that gave its own away gets it back.
            (own, before) => *own = before.or(own.take()),
        }
        match &mut self.role {
            Role::Active(sender) => sender.follow(),
            Role::Backup(installer) => {
                self.was_whole = installer.is_whole();
                installer.follow();
            }
            Role::Successor | Role::Retired => {}
        }
    }
}

impl Replicate {
    fn identity(&self) -> Identity {
        Identity {
            begins_active: self.begins_active,
            other: self.other,
            key: self.key.clone(),
            networks: self.announcement.networks(),
            commits: self.commits,
        }
    }

    /// Begins the stream, or goes on with that of the configuration before.
    ///
    /// # Errors
    /// The stream cannot begin, or the configuration before was of another pair.
    pub(super) fn begin_stream(
        &mut self,
        cx: &mut Cx<'_>,
        key: Key,
        chain: String,
    ) -> Result<(), String> {
        if self.foreign.is_some() {
            return Err(
                "TO, LISTEN, KEY, the number of networks and of inputs cannot change while \
                        it runs: stop it and start it so"
                    .into(),
            );
        }
        let goes_on = match self.role {
            Role::Active(_) => self.chain == chain,
            // Else the active host has to send all sessions again: so a new stream.
            Role::Backup(_) => self.chain == chain && self.was_whole,
            Role::Successor | Role::Retired => true,
        };
        if !matches!(self.threads, Threads::None) {
            if goes_on {
                return Ok(());
            }
            self.threads = Threads::None;
            self.link.begin_again();
            if let Role::Backup(installer) = &mut self.role
                && self.chain != chain
            {
                installer.begin_again();
            }
        } else if self.begins_active && self.hold > 0 {
            self.held_until = cx.now().saturating_add(self.hold);
        }
        self.threads = if self.begins_active {
            Threads::Active(Active::begin(&self.link, self.other, key, chain.clone())?)
        } else {
            Threads::Backup(Backup::begin(&self.link, self.other, key, chain.clone())?)
        };
        self.chain = chain;
        Ok(())
    }
}
