//! An open interface takes the place of other sockets: see [`crate::changeover`].

use std::sync::Arc;

use thruway_element::Cx;
use thruway_packet::Batch;

use super::super::changeover::{Change, Changeover, key};
use super::{DeviceIn, Socket, fill_packet};

impl DeviceIn {
    /// Why it cannot give its place to a group of more or fewer sockets, if so.
    pub(crate) fn cannot_change(&self) -> Option<String> {
        (!matches!(self.socket, Socket::Packet(_))).then(|| {
            format!(
                "interface '{}' is read by AF_XDP, whose queues stay with their threads: METHOD \
                 LINUX lets their number change, or a restart",
                self.interface().name
            )
        })
    }

    /// Threads that share it.
    pub(crate) fn threads(&self) -> usize {
        self.share.1
    }

    /// Takes the place of these sockets.
    pub(crate) fn replace(&mut self, over: &Arc<Changeover>, former: Vec<DeviceIn>) {
        self.change = Some(Box::new(Change::new(Arc::clone(over), former)));
    }

    /// Gives the sockets back whose place it was to take.
    pub(crate) fn former(&mut self) -> Vec<DeviceIn> {
        self.change.take().map_or_else(Vec::new, |mut change| std::mem::take(&mut change.former))
    }

    /// Whether other sockets give their place to it.
    pub(crate) fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// While other sockets give their place to it: whether the last call found anything.
    pub(crate) fn has_more(&self) -> Option<bool> {
        self.change.as_ref().map(|change| change.found)
    }

    pub(crate) fn former_ones(&self) -> impl Iterator<Item = &DeviceIn> {
        self.change.iter().flat_map(|change| &change.former)
    }

    /// Takes up to `max` packets while it takes the place of other sockets.
    #[cold]
    pub(crate) fn fill_changing(&mut self, cx: &mut Cx<'_>, max: usize, batch: &mut Batch) {
        self.take(cx, (max, batch), &mut |_| true);
    }

    /// Takes packets of frames that are to be kept, by their keys, until there are so many.
    /// (Sockets that took the place of others a moment ago may have to give theirs already.)
    fn take(
        &mut self,
        cx: &mut Cx<'_>,
        (max, batch): (usize, &mut Batch),
        is_kept: &mut dyn FnMut(u64) -> bool,
    ) {
        let Some(mut change) = self.change.take() else {
            self.fill_from(cx, (max.saturating_sub(batch.len()), batch), is_kept);
            return;
        };
        change.advance(DeviceIn::is_changing);
        let before = batch.len();
        take_former(&mut change, cx, (max, batch), is_kept);
        if let Some(known) = change.known() {
            let room = max.saturating_sub(batch.len());
            let is_new = &mut |key| !known.contains(&key) && is_kept(key);
            let count = self.fill_from(cx, (room, batch), is_new);
            change.found = count > 0;
            if change.is_done(count, self.is_empty()) {
                return;
            }
        } else {
            let passed = match change.passes_over() {
                true => self.fill_from(cx, (max, batch), &mut |_| false),
                false => 0,
            };
            change.found = passed > 0 || batch.len() > before;
        }
        self.change = Some(change);
    }

    /// Looks at up to `max` frames of its own socket, and makes packets of those that are to be
    /// kept, by their keys; says how many frames there were.
    fn fill_from(
        &mut self,
        cx: &mut Cx<'_>,
        (max, batch): (usize, &mut Batch),
        is_kept: &mut dyn FnMut(u64) -> bool,
    ) -> usize {
        let Socket::Packet(socket) = &mut self.socket else { return 0 };
        fill_packet(socket, cx, (max, batch), |frame| is_kept(key(frame)))
    }

    /// Lets no further frames in.
    fn refuse(&self) -> bool {
        match &self.socket {
            Socket::Packet(socket) => socket.refuse().is_ok(),
            Socket::Xdp(_) | Socket::None(_) => true,
        }
    }

    fn is_empty(&self) -> bool {
        match &self.socket {
            Socket::Packet(socket) => socket.is_empty(),
            Socket::Xdp(_) | Socket::None(_) => true,
        }
    }
}

/// Takes what former sockets have, and notes it; closes those that give nothing more.
fn take_former(
    change: &mut Change<DeviceIn>,
    cx: &mut Cx<'_>,
    (max, batch): (usize, &mut Batch),
    is_kept: &mut dyn FnMut(u64) -> bool,
) {
    let may_shut = change.may_shut();
    for at in (0..change.former.len()).rev() {
        let before = batch.len();
        if before >= max {
            return;
        }
        let (former, noted) = (&mut change.former[at], &mut change.noted);
        let is_shut = may_shut && former.refuse();
        former.take(cx, (max, batch), &mut |key| {
            noted.insert(key);
            is_kept(key)
        });
        // What it gave is with the threads of its sessions before others go on.
        let has_left = batch.len() == before && former.is_empty() && cx.threads().handing() == 0;
        let is_over = is_shut && has_left;
        if is_over && !former.is_changing() {
            let mut former = change.drop_former(at);
            former.count_drops(cx);
            former.unwatch(cx);
        }
    }
}
