//! Isolated functions of streams: as processes, between the kernel's own stacks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use thruway_nf::{Batch, Config, Function, Needs, Next, StreamCursor, StreamFunction, Verdict};
use thruway_nf_abi::{StreamHead, stream_flag};

use super::content::{Edit, WORD};
use super::path::{Chain, Faults, Path};
use super::talks::{Talk, hold};
use super::trials::{ALL, MANY, SOME, SWAPS};
use crate::control::Client;
use crate::functions::parts::exec;
use crate::process::privileged;
use crate::trials::undergo;

/// What becomes of [`WORD`]: nothing, less, more.
const WITH: [&str; 3] = ["", "TEA", "MASHED POTATOES"];

/// Arguments of the function.
const HELD: &str = "STREAM resize, SLOTS 4096";

struct Replacer(&'static str);

impl StreamFunction for Replacer {
    type State = [u64; 2];
    const NEEDS: Needs = Needs::RESIZE;

    fn process(&mut self, counts: &mut [u64; 2], data: &mut StreamCursor<'_>) -> Next {
        let (word, mut found) = (WORD.as_bytes(), 0);
        while let Some(byte) = data.next() {
            if byte != word[found] {
                data.back(found);
                found = 0;
            } else if found + 1 == word.len() {
                data.replace_back(word.len(), self.0.as_bytes());
                counts[data.direction()] += 1;
                found = 0;
            } else {
                found += 1;
            }
        }
        data.back(found);
        if found > 0 { Next::NeedMore } else { Next::Continue }
    }
}

/// Holds the last bytes of everything back, and changes nothing.
struct Holder;

impl StreamFunction for Holder {
    type State = ();
    const NEEDS: Needs = Needs::RESIZE;

    fn process(&mut self, _state: &mut (), data: &mut StreamCursor<'_>) -> Next {
        data.skip_all();
        data.back(3);
        Next::NeedMore
    }
}

/// Says of the content of every so manieth packet what cannot be.
struct Liar {
    seen: u64,
    every: u64,
}

impl Function for Liar {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        batch.each(|packet| {
            let Some(bytes) = packet.bytes_mut().first_chunk_mut() else {
                return Verdict::Drop;
            };
            let mut head = StreamHead::from_bytes(*bytes);
            if head.flags & stream_flag::SHOWN == 0 {
                return Verdict::Next(0);
            }
            self.seen += 1;
            if self.seen.is_multiple_of(self.every) {
                head.flags |= stream_flag::CHANGED;
                head.kept = 5000;
                *bytes = head.to_bytes();
                match self.seen / self.every % 3 {
                    0 => {}
                    1 => drop(packet.extend(7)),
                    _ => return Verdict::Drop,
                }
            }
            Verdict::Next(0)
        });
    }
}

/// The process that plays "replaces" by a word of [`WITH`].
pub fn replace(number: u64) -> ExitCode {
    thruway_nf::run_stream("replacer", |_| Ok(Replacer(WITH[number as usize % WITH.len()])))
}

/// The process that plays "holds".
pub fn hold_back() -> ExitCode {
    thruway_nf::run_stream("holder", |_| Ok(Holder))
}

/// The process that plays "lies-of-streams".
pub fn break_protocol(every: u64) -> ExitCode {
    let config = Config::stream::<Replacer>("liar");
    thruway_nf::run(&config, |_| Ok(Liar { seen: 0, every: every.max(1) }))
}

/// A chain with an isolated function in it.
fn chain(part: &str, more: &str) -> String {
    format!(
        "input -> FlowClassifier -> in :: TCPIn; input[1] -> FlowClassifier -> [1]in;
         nf :: Nf({}, {more}); out :: TCPOut;
         in -> nf -> out -> output; in[1] -> [1]nf[1] -> [1]out[1] -> [1]output",
        exec(part)
    )
}

fn replacing(with: usize) -> Vec<Edit> {
    vec![Edit { word: WORD, with: WITH[with] }]
}

#[test]
fn an_isolated_function_replaces_words() {
    if !privileged("an_isolated_function_replaces_words") {
        return;
    }
    for with in 0..WITH.len() {
        let text = chain(&format!("replaces:{with}"), HELD);
        let path = Path::new(&Chain { text: &text, edits: &replacing(with), ..Chain::CABLE });
        undergo(&path, if with == 1 { ALL } else { SOME });
        if with == 2 {
            undergo(&path, SWAPS);
        }
        let mut control = path.control();
        assert_eq!(control.read("chain/nf.streams_lies"), "0");
        assert_eq!(control.read("chain/nf.restarts"), "0");
        assert!(control.number("chain/nf.streams_held") > 0);
    }
}

#[test]
fn an_isolated_function_replaces_words_on_a_rough_path() {
    if !privileged("an_isolated_function_replaces_words_on_a_rough_path") {
        return;
    }
    let text = chain("replaces:2", HELD);
    let edits = replacing(2);
    undergo(
        &Path::new(&Chain { text: &text, edits: &edits, faults: Faults::ROUGH, ..Chain::CABLE }),
        SOME,
    );
}

/// Kills the function again and again: what it has not given back goes on as it is, and what it
/// held back is not lost with it.
#[test]
fn a_function_that_dies_loses_no_byte() {
    if !privileged("a_function_that_dies_loses_no_byte") {
        return;
    }
    let text = chain("holds", &format!("{HELD}, ON_FAILURE open"));
    let path = Path::new(&Chain { text: &text, edits: &[], ..Chain::CABLE });
    let mut control = path.control();
    std::thread::scope(|scope| {
        let talks = scope.spawn(|| {
            for seed in 0..6 {
                hold(&path, vec![Talk::of(seed, 2 << 20), Talk::of(!seed, 2 << 20)], 2);
            }
        });
        let mut kills = 0;
        while !talks.is_finished() {
            let pid = control.read("chain/nf.pid").parse().ok().and_then(Pid::from_raw);
            if let Some(pid) = pid {
                // It may have ended by itself, or be about to begin.
                let _ = kill_process(pid, Signal::KILL);
                kills += 1;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        assert!(kills > 2, "{kills} kills");
        talks.join().expect("every byte arrives");
    });
    assert!(control.number("chain/nf.restarts") > 2);
    assert!(control.number("chain/nf.streams_held") > 10);
    assert_eq!(control.read("chain/nf.streams_closed"), "0");
}

/// Stops the function for a while, again and again, while many connections want it: what finds no
/// room is lost in front of the context, where its sender sends it again.
#[test]
fn a_function_that_is_too_slow_breaks_no_connection() {
    if !privileged("a_function_that_is_too_slow_breaks_no_connection") {
        return;
    }
    let slow = "STREAM resize, SLOTS 256";
    let first = chain("replaces:2", slow);
    // One behind the other; the second one is the slow one, too.
    let two = format!(
        "input -> FlowClassifier -> in :: TCPIn; input[1] -> FlowClassifier -> [1]in;
         other :: Nf({}, {slow}); nf :: Nf({}, {slow}); out :: TCPOut;
         in -> other -> nf -> out -> output;
         in[1] -> [1]other[1] -> [1]nf[1] -> [1]out[1] -> [1]output",
        exec("holds"),
        exec("replaces:2")
    );
    for (text, more) in [(first, SWAPS), (two, &[][..])] {
        // Packets come otherwise than from a device, which lets them wait in the kernel.
        let faults = Faults::JITTER;
        let path = Path::new(&Chain { text: &text, edits: &replacing(2), faults, ..Chain::CABLE });
        let stops = stop_while(&path, || undergo(&path, MANY));
        let mut control = path.control();
        assert!(stops > 5, "{stops} stops");
        assert_eq!(control.read("chain/nf.restarts"), "0");
        assert!(dropped(&mut control, "chain/in", "full") > 0, "it was too slow");
        assert_eq!(dropped(&mut control, "chain/nf", "ring-full"), 0);
        assert_eq!(control.read("chain/nf.streams_closed"), "0");
        assert_eq!(control.read("chain/in.closed"), "0");
        stop_while(&path, || undergo(&path, more));
    }
}

/// Lets `during` happen while the function nf is stopped again and again; says how often.
fn stop_while(path: &Path, during: impl FnOnce() + Send) -> u32 {
    let mut control = path.control();
    let pid = control.read("chain/nf.pid").parse().ok().and_then(Pid::from_raw);
    let pid = pid.expect("it runs");
    std::thread::scope(|scope| {
        let (during, mut stops) = (scope.spawn(during), 0);
        while !during.is_finished() {
            for (signal, ms) in [(Signal::STOP, 150), (Signal::CONT, 250)] {
                kill_process(pid, signal).expect("it still runs");
                std::thread::sleep(Duration::from_millis(ms));
            }
            stops += 1;
        }
        during.join().expect("no connection is reset");
        stops
    })
}

/// What an element has dropped for this reason.
fn dropped(control: &mut Client, element: &str, reason: &str) -> u64 {
    let reasons = control.read(&format!("{element}.drop_reasons"));
    let told = reasons.lines().find_map(|line| line.strip_suffix(reason)?.strip_suffix(' '));
    told.expect("a line for each reason").parse().expect("a number")
}

/// Lies close the connections that they are about; the host goes on.
#[test]
fn a_function_that_lies_harms_its_connections_only() {
    if !privileged("a_function_that_lies_harms_its_connections_only") {
        return;
    }
    let text = chain("lies-of-streams:50", HELD);
    let path = Path::new(&Chain { text: &text, edits: &[], ..Chain::CABLE });
    let mut control = path.control();
    let mut broken = 0;
    for seed in 0..6 {
        let talk = Talk::of(seed, 100_000);
        let held = catch_unwind(AssertUnwindSafe(|| hold(&path, vec![talk], 1)));
        broken += usize::from(held.is_err());
    }
    assert!(broken > 3, "{broken} of 6 were closed");
    assert!(control.number("chain/nf.streams_lies") > 0);
    assert_eq!(control.read("chain/nf.peer_faults"), "0");
    path.stop();
}
