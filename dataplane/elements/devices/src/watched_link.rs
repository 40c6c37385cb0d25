//! The link of an interface that FromDevice reads: losses, its MTU, and its other users.

use std::sync::Arc;

use thruway_element::{Args, Cx};
use thruway_port::interface::{self, LinkMark};

use super::losses::say;
use thruway_elements_support::links::Links;

/// See the module.
pub(super) struct WatchedLink {
    links: Arc<Links>,
    /// As of the last look.
    mark: Option<LinkMark>,
}

impl WatchedLink {
    /// That of the element being built.
    pub(super) fn of(args: &Args<'_>) -> WatchedLink {
        WatchedLink { links: Links::of(args), mark: None }
    }

    /// The interface is open.
    pub(super) fn begin(&mut self, name: &str) {
        self.mark = interface::link_mark(name);
    }

    /// Who comes on a lost link again may be another station, and an MTU may change. Whether
    /// either was so.
    pub(super) fn look(&mut self, name: &str) -> bool {
        let mtu = self.links.mtu(name);
        let before = mtu.get();
        mtu.refresh(name);
        let mark = interface::link_mark(name);
        let is_lost = self.mark.is_some() && mark != self.mark;
        if is_lost {
            self.links.lost();
        }
        self.mark = mark;
        is_lost || mtu.get() != before
    }
}

/// An interface that packets are forwarded by belongs to the configuration: the host's own stack
/// sees what comes in, too, and answers it under its own address.
pub(super) fn warn_of_host(cx: &mut Cx<'_>, name: &str) {
    if let Some((address, bits)) = interface::host_address(name) {
        let warning = format!(
            "warning: the host has the address {address}/{bits} on it, so the host's own stack takes \
             part: it answers packets, too, and hosts may send to it instead; remove the address: \
             ip address del {address}/{bits} dev {name}"
        );
        say(cx, name, &warning);
    }
}
