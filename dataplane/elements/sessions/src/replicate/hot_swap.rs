//! What a Replicate hands over to the one of another configuration.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;

use thruway_element::{Cx, HotSwap};
use thruway_replication::{Key, Link, Peer, Side, Term};

use super::Replicate;
use super::commit::Commit;
use super::held::Held;
use super::install::Installer;
use super::role::Role;
use super::send::Sender;
use super::tunnel::Tunnel;

/// What both must have alike: with others it is another pair of hosts.
#[derive(PartialEq, Eq)]
struct Identity {
    side: Side,
    other: SocketAddr,
    key: String,
    networks: usize,
    commits: bool,
}

/// The state of a pair's host.
struct Kept {
    identity: Identity,
    role: Role,
    term: Term,
    link: Arc<Link>,
    peer: Option<Peer>,
    sender: Sender,
    installer: Installer,
    tunnel: Tunnel,
    chain: String,
    commit: Option<Commit>,
    commits_now: bool,
    held: Option<Held>,
    held_until: i64,
    leased_until: i64,
    is_new: bool,
    hurry_until: i64,
    has_served: bool,
}

impl HotSwap for Replicate {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        if let Some(foreign) = self.foreign.take() {
            return Some(foreign);
        }
        let peer = self.peer.take()?;
        let link = Arc::clone(&self.link);
        Some(Box::new(Kept {
            identity: self.identity(),
            // It does nothing any more.
            role: std::mem::replace(&mut self.role, Role::Backup),
            term: self.term,
            peer: Some(peer),
            sender: std::mem::replace(&mut self.sender, Sender::new(Arc::clone(&link))),
            installer: std::mem::replace(&mut self.installer, Installer::new(Arc::clone(&link))),
            tunnel: std::mem::replace(&mut self.tunnel, Tunnel::new(Arc::clone(&link))),
            link,
            chain: std::mem::take(&mut self.chain),
            commit: self.commit.take(),
            commits_now: self.commits_now,
            held: self.held.take(),
            held_until: self.held_until,
            leased_until: self.leased_until,
            is_new: self.is_new,
            hurry_until: std::mem::replace(&mut self.hurry_until, i64::MIN),
            has_served: self.has_served,
        }))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(kept) = state.downcast::<Kept>() else { return };
        if kept.identity != self.identity() {
            self.foreign = Some(kept);
            return;
        }
        let kept = *kept;
        (self.role, self.term, self.link, self.peer) = (kept.role, kept.term, kept.link, kept.peer);
        (self.sender, self.installer, self.tunnel) = (kept.sender, kept.installer, kept.tunnel);
        (self.chain, self.commits_now) = (kept.chain, kept.commits_now);
        // A switchover that had begun comes to nothing: they are served with the next tick.
        self.held = kept.held;
        (self.held_until, self.is_new) = (kept.held_until, kept.is_new);
        if self.leasing.is_some() {
            self.leased_until = kept.leased_until;
        }
        (self.hurry_until, self.has_served) = (kept.hurry_until, kept.has_served);
        match (&mut self.commit, kept.commit) {
            (Some(own), Some(before)) => own.take_over(before),
            // The one that gave its own away gets it back.
            (own, before) => *own = before.or(own.take()),
        }
        self.was_whole = self.installer.is_whole();
        self.sender.follow();
        self.installer.follow();
    }
}

impl Replicate {
    fn identity(&self) -> Identity {
        Identity {
            side: self.link.side(),
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
                "TO, LISTEN, KEY, the number of networks and of inputs cannot change while it \
                 runs: stop it and start it so"
                    .into(),
            );
        }
        let is_same = self.chain == chain;
        // Else the active host has to send all sessions again: so a new stream.
        let goes_on = is_same && (self.role != Role::Backup || self.was_whole);
        if self.peer.is_some() {
            if goes_on {
                return Ok(());
            }
            self.peer = None;
            self.link.begin_again();
            if !is_same && self.role == Role::Backup {
                self.installer.begin(false);
            }
        } else if self.role == Role::Active && self.hold > 0 {
            self.held_until = cx.now().saturating_add(self.hold);
        }
        let witness = self.leasing.as_ref().map(|leasing| leasing.witness);
        self.peer = Some(Peer::begin(&self.link, self.other, key, chain.clone(), witness)?);
        self.chain = chain;
        Ok(())
    }
}
