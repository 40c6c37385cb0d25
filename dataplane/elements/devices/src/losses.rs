//! What elements of devices show their user, and why packets that reached one are not emitted.

use thruway_element::{Cx, reasons};

reasons! {
    /// Why a packet that reached the port is not emitted.
    pub(super) enum Lost {
        RingFull = "ring-full": "the kernel dropped it: it came faster than it was read",
        TooLong = "too-long": "longer than any frame has room for",
        Offload = "offload": "its sender left work undone that only hardware does",
        Unwanted = "unwanted-offloaded": "nobody behind sends it anywhere: dropped in front, as OFFLOAD says",
        NotIp = "not-ip": "FORCE_IP, and there is no whole IPv4 header",
        Damaged = "damaged": "the capture is cut off or damaged here",
    }
}

/// Shows the user the method of an interface.
pub(super) fn say(cx: &mut Cx<'_>, interface: &str, mode: &str) {
    complain(cx, &format!("interface '{interface}': {mode}"));
}

/// Shows the user something, with the element's name.
pub(super) fn complain(cx: &mut Cx<'_>, what: &str) {
    let name = cx.name();
    cx.log(&format!("{name}: {what}"));
}
