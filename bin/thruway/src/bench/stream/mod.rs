//! `bench stream`: what TCP in the middle costs, and what is done to its payload.
//!
//! The real engine and the real elements, between a source of TCP connections and a server, both
//! from memory. A client sends to a server of its own, four segments at a time and connection after
//! connection, with right checksums; the server checks their order and acknowledges every second
//! segment. A "packet" is a segment with payload: its time has its half of an acknowledgement in
//! it, and steps are over the same without the function.

mod elements;
mod subject;
mod words;

pub use elements::ELEMENTS;

use super::case::{Case, Goal, Place, SetUp, Suite};
use subject::{Connections, Setting};

/// `thruway bench stream`.
pub const SUITE: Suite = Suite {
    name: "stream",
    about: "TCP in the middle: state, order, guarding, inspection, replacing",
    cases,
    reports: &[],
};

/// How cases begin that look for words which the user gave.
pub const GIVEN: &str = "inspect/given";

/// Bytes of payload in a segment: what a link of 1,500 bytes carries, with room for growth.
const FULL: u32 = 1_400;
/// As short as a packet of 64 bytes; an even number, as checksums here want it.
const SHORT: u32 = 10;
/// One of so many runs of four segments comes in another order, where they do at all.
const DISORDER: u32 = 64;

/// A chain that segments go through; `words` is a file for `FILE`.
fn chain(payload: u32, disorder: u32, middle: fn(&Place) -> anyhow::Result<String>) -> SetUp {
    Box::new(move |place| {
        let setting = Setting { middle: middle(place)?, payload, disorder };
        Ok(Box::new(Connections::new(&setting)?))
    })
}

fn plain(name: &str, payload: u32, middle: fn(&Place) -> anyhow::Result<String>) -> Case {
    let payload_told = (payload == FULL).then_some(payload);
    Case {
        name: name.to_owned(),
        goal: None,
        baseline: None,
        steps: 1,
        payload: payload_told,
        is_long: false,
        set_up: chain(payload, 0, middle),
    }
}

fn over(baseline: &str, case: Case) -> Case {
    Case { baseline: Some(baseline.to_owned()), ..case }
}

const NAT: &str = "NAT(SNAT 10.0.0.0/8 -> 203.0.113.0-203.0.113.63, MAPPINGS 1000)";

/// TCP's context around a function.
fn within(function: &str) -> String {
    format!("TCPIn {function} TCPOut")
}

fn matcher(count: usize, place: &Place, mode: &str) -> anyhow::Result<String> {
    let file = words::write(&place.dir, count)?;
    Ok(within(&format!("WordMatcher(FILE {}, MODE {mode})", file.display())))
}

fn cases() -> Vec<Case> {
    let mut all = vec![
        plain("pass/short", SHORT, |_| Ok("SessionPass".to_owned())),
        over("pass/short", plain("nat", SHORT, |_| Ok(NAT.to_owned()))),
        Case {
            goal: Some(Goal::StepNs(30.0)),
            ..over("nat", plain("nat-tcp", SHORT, |_| Ok(format!("TCPIn TCPOut {NAT}"))))
        },
        plain("pass", FULL, |_| Ok("SessionPass".to_owned())),
        over("pass", plain("follow", FULL, |_| Ok(within("")))),
        over("pass", plain("count", FULL, |_| Ok(within("PayloadStats")))),
        over("pass", plain("order", FULL, |_| Ok(within("StreamPass(ORDER)")))),
    ];
    let out_of_order = chain(FULL, DISORDER, |_| Ok(within("StreamPass(ORDER)")));
    let disorder = plain("order/disorder", FULL, |_| Ok(String::new()));
    all.push(over("order", Case { set_up: out_of_order, ..disorder }));
    all.extend([
        over("pass", plain("guard", FULL, |_| Ok(within("StreamPass(GUARD)")))),
        over("pass", plain("change", FULL, |_| Ok(within("StreamPass(RESIZE)")))),
        over("order", plain("inspect/1", FULL, |place| matcher(1, place, "ALERT"))),
        over("order", plain("inspect/2000", FULL, |place| matcher(2_000, place, "ALERT"))),
        over("order", plain("inspect/20000", FULL, |place| matcher(20_000, place, "ALERT"))),
        over("guard", plain("prevent/2000", FULL, |place| matcher(2_000, place, "CLOSE"))),
        over("order", plain(GIVEN, FULL, given)),
        over("change", plain("replace", FULL, |_| {
            let word = words::PLANTED;
            Ok(within(&format!("WordMatcher({word}, MODE REPLACE, WITH \"{word} or more\")")))
        })),
    ]);
    all
}

/// A matcher of the words that the user gave.
fn given(place: &Place) -> anyhow::Result<String> {
    let Some(file) = &place.words else { anyhow::bail!("give the words: --words FILE") };
    Ok(within(&format!("WordMatcher(FILE {}, MODE ALERT)", file.canonicalize()?.display())))
}
