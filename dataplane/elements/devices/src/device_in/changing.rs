//! An open interface takes the place of other sockets: see [`crate::changeover`].

use std::sync::Arc;

use thruway_element::Cx;
use thruway_packet::Batch;

use super::super::changeover::{Change, Changeover, Step};
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
    pub(crate) fn replace(&mut self, over: &Arc<Changeover>, former: Vec<Box<DeviceIn>>) {
        self.change = Some(Box::new(Change::new(Arc::clone(over), former)));
    }

    /// Gives the sockets back whose place it was to take.
    pub(crate) fn former(&mut self) -> Vec<Box<DeviceIn>> {
        self.change.take().map_or_else(Vec::new, |mut change| std::mem::take(&mut change.former))
    }

    /// Whether other sockets give their place to it.
    pub(crate) fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    pub(crate) fn former_ones(&self) -> impl Iterator<Item = &DeviceIn> {
        self.change.iter().flat_map(|change| &change.former).map(|former| &**former)
    }

    /// Takes up to `max` packets while it takes the place of other sockets.
    #[cold]
    pub(crate) fn fill_changing(&mut self, cx: &mut Cx<'_>, max: usize, batch: &mut Batch) {
        self.take(cx, (max, batch), &|_| true);
    }

    /// Takes packets of frames that came at a time to be kept, until there are so many. Says
    /// whether it has none for now, and is not to wait for others. (Sockets that took the place of
    /// others a moment ago may have to give theirs already.)
    fn take(
        &mut self,
        cx: &mut Cx<'_>,
        (max, batch): (usize, &mut Batch),
        is_kept: &dyn Fn(u64) -> bool,
    ) -> bool {
        let Some(mut change) = self.change.take() else {
            return self.fill_from(cx, (max, batch), is_kept) == 0;
        };
        let step = change.step();
        if let Step::Former = step {
            fill_former(&mut change, cx, (max, batch), is_kept);
        }
        if let Step::Former | Step::Copies = step {
            self.pass_copies(&mut change, cx, max);
            self.change = Some(change);
            return false;
        }
        let held = std::mem::take(&mut change.held).drain().collect::<Vec<_>>();
        batch.extend(held.into_iter().filter(|packet| is_kept(packet.timestamp() as u64)));
        let is_new = |time| !change.over.is_former(time) && is_kept(time);
        let count = self.fill_from(cx, (max, batch), is_new);
        if !change.is_done(count) {
            self.change = Some(change);
        }
        count == 0
    }

    /// Takes packets of frames of its own socket that came at a time to be kept; says how many
    /// frames there were.
    fn fill_from(
        &mut self,
        cx: &mut Cx<'_>,
        (max, batch): (usize, &mut Batch),
        is_kept: impl Fn(u64) -> bool,
    ) -> usize {
        let Socket::Packet(socket) = &mut self.socket else { return 0 };
        let room = max.saturating_sub(batch.len());
        fill_packet(socket, cx, (room, batch), is_kept)
    }

    /// Makes room in the rings, until the first frame comes that is to be kept.
    fn pass_copies(&mut self, change: &mut Change, cx: &mut Cx<'_>, max: usize) {
        let mut held = std::mem::take(&mut change.held);
        for _ in 0..max {
            let is_new = |time| !change.over.is_former(time);
            if !held.is_empty() || self.fill_from(cx, (1, &mut held), is_new) == 0 {
                break;
            }
        }
        change.held = held;
    }

    /// Lets no further frames in.
    fn refuse(&self) -> bool {
        match &self.socket {
            Socket::Packet(socket) => socket.refuse().is_ok(),
            Socket::Xdp(_) | Socket::None(_) => true,
        }
    }
}

/// Takes what came to former sockets until the dividing time, and closes them when that is all.
fn fill_former(
    change: &mut Change,
    cx: &mut Cx<'_>,
    (max, batch): (usize, &mut Batch),
    is_kept: &dyn Fn(u64) -> bool,
) {
    let is_cut = change.over.is_cut();
    for at in (0..change.former.len()).rev() {
        if batch.len() >= max {
            return;
        }
        let former = &mut change.former[at];
        // What is refused from now on came after the dividing time.
        let is_shut = is_cut && former.refuse();
        let over = &change.over;
        let is_due = |time| over.is_former(time) && is_kept(time);
        if former.take(cx, (max, batch), &is_due) && is_shut {
            let mut former = change.drop_former(at);
            former.count_drops(cx);
            former.unwatch(cx);
        }
    }
}
