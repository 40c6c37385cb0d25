//! Limits of inspection by functions of TCP's payload, and impossible contexts.

use thruway_element::{Exception, Fails, StreamPlan};
use thruway_stream::tcp::{AtBound, Settings, Urgent};

/// Data that functions cannot inspect, and its treatment.
pub(super) fn exceptions(
    settings: &Settings,
    guards: bool,
    refuses_unseen: bool,
) -> Vec<Exception> {
    let row = |what, (done, open), argument| {
        let fails = Fails::open_if(open);
        Exception { what, done, fails, argument }
    };
    let picked = if settings.pick_up { ("show the rest", true) } else { ("refuse", false) };
    let bound = match settings.at_bound {
        AtBound::Drop => ("drop", false),
        AtBound::Pass => ("pass", true),
        AtBound::Reset => ("reset", false),
    };
    let again = if guards { ("send what was shown", false) } else { ("pass", true) };
    let mut rows = vec![
        Exception::unseen(refuses_unseen),
        Exception::OTHERS,
        row("connections that were not seen to open", picked, "PICK_UP"),
        row("more than BUFFER or TOTAL to keep", bound, "AT_BOUND"),
        row("more than CONNECTIONS_MAX connections", ("drop", false), "CONNECTIONS_MAX"),
        row("bytes sent again, or otherwise", again, "GUARD"),
    ];
    if guards {
        let urgent = match settings.urgent {
            Urgent::Clear => ("make it part of the stream", false),
            Urgent::Pass => ("pass", true),
            Urgent::Drop => ("drop", false),
        };
        let sums = if settings.verify { ("drop", false) } else { ("show", true) };
        rows.push(row("urgent data", urgent, "URGENT"));
        rows.push(row("wrong checksums", sums, "CHECKSUM"));
    }
    rows
}

/// The change that would make a context possible.
pub(super) fn one_of_each(plan: &StreamPlan) -> Option<String> {
    let (ins, outs) = (plan.enters.len(), plan.leaves.len());
    (ins > 1 || outs > 1).then(|| {
        format!(
            "{ins} TCPIn and {outs} TCPOut belong together, but a context has one of each: give \
             them several inputs and outputs instead"
        )
    })
}
