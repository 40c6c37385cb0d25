//! `bench stream`: what TCP in the middle costs, and what is done to its payload.
//!
//! The real engine and the real elements, between a source of TCP connections and a server, both
//! from memory. A client sends to a server of its own, four segments at a time and connection after
//! connection, with right checksums; the server checks their order and acknowledges every second
//! segment. So two of three packets have payload.

mod elements;
mod segment;
mod subject;
mod words;

pub use elements::ELEMENTS;

use super::case::{Case, Goal, SetUp, Suite, Workspace};
use subject::{Connections, Setting};

/// `thruway-bench stream`.
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

/// Makes the blocks of a chain, see [`Setting`].
type Chain = fn(&Workspace) -> anyhow::Result<Vec<Vec<String>>>;

/// A case without a baseline.
fn case(name: &str, (payload, disorder): (u32, u32), chain: Chain) -> Case {
    let alike = name.ends_with("/alike");
    let set_up: SetUp = Box::new(move |workspace| {
        let setting = Setting { blocks: chain(workspace)?, payload, disorder, alike };
        Ok(Box::new(Connections::new(&setting)?))
    });
    Case {
        name: name.to_owned(),
        goal: None,
        baseline: None,
        steps: 1,
        payload: (payload == FULL).then_some(f64::from(FULL) * 2.0 / 3.0),
        is_long: false,
        set_up,
    }
}

fn over(baseline: &str, name: &str, chain: Chain) -> Case {
    Case { baseline: Some(baseline.to_owned()), ..case(name, (FULL, 0), chain) }
}

fn nat() -> Vec<String> {
    vec!["NAT(SNAT 10.0.0.0/8 -> 203.0.113.0-203.0.113.63, MAPPINGS 1000)".to_owned()]
}

/// TCP's context around functions.
fn tcp(functions: &[&str]) -> Vec<String> {
    let all = [&["TCPIn"], functions, &["TCPOut"]].concat();
    all.into_iter().map(str::to_owned).collect()
}

/// The same around a matcher of so many words.
fn matcher(count: usize, workspace: &Workspace, mode: &str) -> anyhow::Result<Vec<Vec<String>>> {
    let file = words::write(&workspace.dir, count)?;
    Ok(vec![tcp(&[&format!("WordMatcher(FILE {}, MODE {mode})", file.display())])])
}

fn cases() -> Vec<Case> {
    let short = (SHORT, 0);
    let nat_over = |baseline: &str, name: &str, chain: Chain| Case {
        baseline: Some(baseline.to_owned()),
        ..case(name, short, chain)
    };
    vec![
        case("short", short, |_| Ok(vec![session_only()])),
        nat_over("short", "nat", |_| Ok(vec![nat()])),
        Case {
            goal: Some(Goal::StepNs(30.0)),
            ..nat_over("nat", "nat-tcp", |_| Ok(vec![tcp(&[]), nat()]))
        },
        case("full", (FULL, 0), |_| Ok(vec![session_only()])),
        over("full", "follow", |_| Ok(vec![tcp(&[])])),
        over("full", "count", |_| Ok(vec![tcp(&["PayloadStats"])])),
        over("full", "order", |_| Ok(vec![tcp(&["StreamPass(ORDER)"])])),
        Case {
            baseline: Some("order".to_owned()),
            ..case("order/disorder", (FULL, DISORDER), |_| Ok(vec![tcp(&["StreamPass(ORDER)"])]))
        },
        over("full", "guard", |_| Ok(vec![tcp(&["StreamPass(GUARD)"])])),
        over("full", "resize", |_| Ok(vec![tcp(&["StreamPass(RESIZE)"])])),
        over("order", "inspect/1", |workspace| matcher(1, workspace, "ALERT")),
        over("order", "inspect/2000", |workspace| matcher(2_000, workspace, "ALERT")),
        over("order", "inspect/20000", |workspace| matcher(20_000, workspace, "ALERT")),
        over("order", "inspect/2000/alike", |workspace| matcher(2_000, workspace, "ALERT")),
        over("order", GIVEN, given),
        over("guard", "mask/2000", |workspace| matcher(2_000, workspace, "MASK")),
        over("resize", "replace", |_| {
            let word = words::PLANTED;
            let with = format!("WordMatcher({word}, MODE REPLACE, WITH \"{word}, longer\")");
            Ok(vec![tcp(&[&with])])
        }),
    ]
}

fn session_only() -> Vec<String> {
    vec!["StreamSession".to_owned()]
}

/// A matcher of the words that the user gave.
fn given(workspace: &Workspace) -> anyhow::Result<Vec<Vec<String>>> {
    let Some(file) = &workspace.words else { anyhow::bail!("give the words: --words FILE") };
    let file = file.canonicalize()?;
    Ok(vec![tcp(&[&format!("WordMatcher(FILE {}, MODE ALERT)", file.display())])])
}
