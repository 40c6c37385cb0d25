//! Roles: which of the two hosts serves, and how that changes.
//!
//! The element follows the term: where a later one is known it takes the role that this has for it.
//! So a host takes over by beginning the next term, and the other one retires when it learns of it.

use std::time::Duration;

use thruway_element::{Cx, HandlerError};
use thruway_packet::Batch as PacketBatch;
use thruway_replication::{Batch, Content, Packets, Term};

use super::Replicate;
use super::announce::emit_frame;
use super::idle::Idle;
use super::role::Role;

/// How long packets are passed on that still come after a switchover, and looked for often.
const PASS_ON_NS: i64 = 3_000_000_000;
/// How long a switchover may wait until all changes are sent, and for the backup's word.
const SWITCHOVER_NS: i64 = 1_000_000_000;
/// Several times as long as a living host is silent: there is no switchover to one that is longer.
const SILENT: Duration = Duration::from_millis(100);

impl Replicate {
    /// Whether this host serves, or has had all sessions of the one that does.
    pub(super) fn has_sessions(&self) -> bool {
        match self.role {
            Role::Active => !self.is_new,
            Role::SwitchingOver { .. } => true,
            Role::Backup => self.installer.is_synchronized(),
        }
    }

    /// Takes the role that a term has for this host, if it is a later one.
    pub(super) fn follow(&mut self, cx: &mut Cx<'_>, term: Term) {
        if term <= self.term {
            return;
        }
        let serves = term.server() == self.link.side();
        match self.role {
            Role::Backup if serves => {
                self.serve(cx, term, false, "the other host has no sessions");
            }
            Role::Active if !serves => self.retire(cx, false),
            Role::SwitchingOver { .. } if !serves => self.retire(cx, true),
            Role::SwitchingOver { .. } => self.resume(cx.now()),
            Role::Active | Role::Backup => {}
        }
        self.term = term;
    }

    /// Serves the traffic from now on, in this term; `has_all`: whether the other host has all
    /// sessions.
    fn serve(&mut self, cx: &mut Cx<'_>, term: Term, has_all: bool, why: &str) {
        self.term = term;
        self.link.advance(term);
        (self.role, self.held_until, self.is_new) = (Role::Active, 0, false);
        self.has_resumed = false;
        self.commits_now = has_all && !cx.transfers().has_connections();
        self.hurry_until = cx.now().saturating_add(PASS_ON_NS);
        self.sender.begin(cx, term, has_all);
        cx.log(&format!("Replicate: this host serves the traffic now: {why}"));
        self.announcement.begin(cx.now());
        self.announce(cx);
        cx.transfers().set_serving(true);
        self.call(cx);
    }

    /// The other host serves from now on: this one is its backup, which has all sessions if it
    /// switched over.
    fn retire(&mut self, cx: &mut Cx<'_>, has_all: bool) {
        (self.role, self.held_until, self.switchover_until) = (Role::Backup, 0, None);
        self.hurry_until = cx.now().saturating_add(PASS_ON_NS);
        self.drop_held(cx, Idle::Fenced);
        if let Some(commit) = &mut self.commit {
            if has_all { commit.finish(cx) } else { commit.abandon(cx) }
        }
        if !has_all {
            // They have gone another way at the other host.
            self.installer.end_all(cx);
        }
        if !has_all && std::mem::take(&mut self.has_resumed) {
            // That believes that they are all here.
            self.link.renew();
        }
        cx.transfers().set_serving(false);
        self.installer.begin(has_all);
        cx.log("Replicate: the other host serves the traffic now, and this one is its backup");
        self.call(cx);
    }

    /// Serves the traffic of a host that is dead, or that is to stop.
    pub(super) fn take_over(&mut self, cx: &mut Cx<'_>, why: &str) {
        self.receive(cx, usize::MAX);
        self.follow(cx, self.link.term());
        if self.role == Role::Backup {
            self.serve(cx, self.term.next(), false, why);
        }
    }

    pub(super) fn write_takeover(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        if self.role != Role::Backup {
            return Err(HandlerError::refused("only a backup takes over: see the handler role"));
        }
        if self.leasing.is_some() && self.link.stream().is_some() {
            return Err(HandlerError::refused(
                "the other host is reached: write its handler switchover",
            ));
        }
        if self.leasing.is_some() {
            // When it has a lease.
            self.is_takeover_requested = true;
            return Ok(());
        }
        self.take_over(cx, "by its handler takeover");
        Ok(())
    }

    pub(super) fn write_switchover(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let refused = |why| Err(HandlerError::refused(why));
        if self.role != Role::Active {
            return refused("only the active host switches over: see the handler role");
        }
        if self.link.stream().is_none() {
            return refused("there is no backup to switch over to: see the handler connected");
        }
        if self.link.silence() > SILENT {
            return refused("the backup is silent: write it again when it is heard");
        }
        if self.sender.complete_stream().is_none() {
            return refused("the backup does not have all sessions yet: write it again later");
        }
        self.switchover_until = Some(cx.now().saturating_add(SWITCHOVER_NS));
        self.try_switchover(cx);
        Ok(())
    }

    /// Switches over, if that is asked for: as soon as the functions have given their packets back,
    /// and all changes are on their way.
    pub(super) fn try_switchover(&mut self, cx: &mut Cx<'_>) {
        let Some(until) = self.switchover_until else { return self.serve_held(cx) };
        let stream = self.sender.complete_stream();
        if stream.is_none() {
            // None that they could go by.
            self.serve_held(cx);
        }
        if let Some(stream) = stream
            && self.is_drained(cx)
            && self.sender.send_last_states(cx)
            && self.has_room_for_held()
            && self.sender.switch_over(cx)
        {
            let until = cx.now().saturating_add(SWITCHOVER_NS);
            self.role = Role::SwitchingOver { stream, until };
            self.switchover_until = None;
            self.pass_held_on(cx, stream);
        } else if cx.now() > until {
            self.switchover_until = None;
            self.serve_held(cx);
            cx.log(
                "Replicate: this host did not switch over: its backup takes sessions too slowly, or \
                 is gone, or a function keeps its packets",
            );
        }
    }

    /// Serves on where the backup does not begin.
    pub(super) fn watch_switchover(&mut self, cx: &mut Cx<'_>) {
        let Role::SwitchingOver { stream, until } = self.role else { return };
        let is_lost = self.link.stream() != Some(stream);
        if is_lost || cx.now() > until {
            // It may have begun all the same, and says so when it is reached.
            let hold = if is_lost { self.hold } else { 0 };
            self.held_until = if hold > 0 { cx.now().saturating_add(hold) } else { 0 };
            self.resume(cx.now());
            cx.log("Replicate: the backup did not take over: this host serves on");
        }
    }

    /// Serves on after a switchover that came to nothing.
    fn resume(&mut self, now: i64) {
        (self.role, self.has_resumed) = (Role::Active, true);
        self.hurry_until = now.saturating_add(PASS_ON_NS);
        self.sender.follow();
    }

    /// Takes what came from the other host, so many batches at most.
    pub(super) fn receive(&mut self, cx: &mut Cx<'_>, count_max: usize) {
        for _ in 0..count_max {
            let Some(batch) = self.link.incoming.take() else { return };
            self.follow(cx, batch.term);
            match batch.content {
                Content::Records => self.take_records(cx, &batch),
                Content::Packets => self.take_packets(cx, &batch),
            }
            self.link.incoming.recycle(batch.bytes);
        }
    }

    /// Installs records, if they are of the host that serves.
    fn take_records(&mut self, cx: &mut Cx<'_>, batch: &Batch) {
        if self.role == Role::Backup
            && batch.term == self.term
            && let Some(term) = self.installer.install(cx, batch)
        {
            self.serve(cx, term, true, "the other host switched over to it");
        }
        self.link.add_done(batch.count);
    }

    /// Packets that the other host no longer serves.
    fn take_packets(&mut self, cx: &mut Cx<'_>, batch: &Batch) {
        let networks = self.announcement.networks();
        for (network, frame) in Packets::new(&batch.bytes) {
            if self.role != Role::Active || network >= networks {
                cx.count_drops(Idle::Standby, 1);
                continue;
            }
            emit_frame(cx, network, frame);
        }
    }

    /// Packets that came while this host does not serve: dropped, or passed on to the other host
    /// while neighbours may not have learned yet that it serves.
    pub(super) fn pass_on(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut PacketBatch) {
        let is_fresh = cx.now() < self.hurry_until;
        match (self.role, self.link.stream()) {
            (Role::SwitchingOver { stream, .. }, Some(now)) if stream == now => {
                self.tunnel.offer(cx, (stream, port), batch, |_| true);
            }
            (Role::SwitchingOver { .. }, _) => cx.drop_all(Idle::Held, batch),
            // The other host has what is for many of its own.
            (_, Some(stream)) if is_fresh => {
                let is_addressed = |packet: &_| self.announcement.is_addressed(port, packet);
                self.tunnel.offer(cx, (stream, port), batch, is_addressed);
            }
            _ => cx.drop_all(Idle::Standby, batch),
        }
    }
}
