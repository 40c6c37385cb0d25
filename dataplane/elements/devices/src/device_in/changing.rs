//! An open interface takes the place of other sockets: see [`crate::changeover`].

use std::sync::Arc;

use thruway_element::Cx;
use thruway_packet::Batch;

use super::super::changeover::{Change, Changeover, Step};
use super::{DeviceIn, Socket, fill_packet};

impl DeviceIn {
    /// Why it cannot give its place to a group of more or fewer sockets, if so.
    pub(super) fn cannot_change(&self) -> Option<String> {
        let name = &self.interface().name;
        if !matches!(self.socket, Socket::Packet(_)) {
            return Some(format!(
                "interface '{name}' is read by AF_XDP, whose queues stay with their threads: \
                 METHOD LINUX lets their number change, or a restart"
            ));
        }
        self.change.is_some().then(|| {
            format!("interface '{name}' still goes to other threads: try again in a second")
        })
    }

    /// Threads that share it.
    pub(super) fn threads(&self) -> usize {
        self.share.1
    }

    /// Takes the place of these sockets.
    pub(super) fn replace(&mut self, over: &Arc<Changeover>, former: Vec<Box<DeviceIn>>) {
        self.change = Some(Box::new(Change::new(Arc::clone(over), former)));
    }

    /// Gives the sockets back whose place it was to take.
    pub(super) fn former(&mut self) -> Vec<Box<DeviceIn>> {
        self.change.take().map_or_else(Vec::new, |mut change| std::mem::take(&mut change.former))
    }

    /// Whether other sockets give their place to it.
    pub(super) fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    pub(super) fn former_ones(&self) -> impl Iterator<Item = &DeviceIn> {
        self.change.iter().flat_map(|change| &change.former).map(|former| &**former)
    }

    /// The same while it takes the place of other sockets.
    #[cold]
    pub(super) fn fill_changing(&mut self, cx: &mut Cx<'_>, max: usize, batch: &mut Batch) {
        let Some(mut change) = self.change.take() else { return };
        match change.step() {
            Step::Former => fill_former(&mut change, cx, max, batch),
            Step::Copies => self.pass_copies(&mut change, cx, max),
            Step::New => {
                batch.append(&mut change.held);
                let count = self.fill_new(&change, cx, max, batch);
                if change.is_done(count) {
                    return;
                }
            }
        }
        self.change = Some(change);
    }

    /// Takes what came after the dividing time; says how many frames there were.
    fn fill_new(
        &mut self,
        change: &Change,
        cx: &mut Cx<'_>,
        max: usize,
        batch: &mut Batch,
    ) -> usize {
        let Socket::Packet(socket) = &mut self.socket else { return 0 };
        let max = max.saturating_sub(batch.len());
        fill_packet(socket, cx, (max, batch), |time| !change.over.is_former(time))
    }

    /// Makes room in the rings, until the first frame comes that is to be kept.
    fn pass_copies(&mut self, change: &mut Change, cx: &mut Cx<'_>, max: usize) {
        let mut held = std::mem::take(&mut change.held);
        for _ in 0..max {
            if !held.is_empty() || self.fill_new(change, cx, 1, &mut held) == 0 {
                break;
            }
        }
        change.held = held;
    }
}

/// Takes what came to former sockets until the dividing time, and closes them when that is all.
fn fill_former(change: &mut Change, cx: &mut Cx<'_>, max: usize, batch: &mut Batch) {
    let is_cut = change.over.is_cut();
    for at in (0..change.former.len()).rev() {
        let room = max.saturating_sub(batch.len());
        let Socket::Packet(socket) = &mut change.former[at].socket else { continue };
        if room == 0 {
            return;
        }
        // What is refused from now on came after the dividing time.
        let is_shut = is_cut && socket.refuse().is_ok();
        let over = &change.over;
        let count = fill_packet(socket, cx, (room, batch), |time| over.is_former(time));
        if is_shut && count == 0 {
            let mut former = change.drop_former(at);
            former.count_drops(cx);
            former.unwatch(cx);
        }
    }
}
