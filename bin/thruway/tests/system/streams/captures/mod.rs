//! Captures through chains that guard, search and change.
//!
//! `THRUWAY_CORPORA=DIR` adds those under DIR. There, `campus/NAME.pcap.gz` has tables beside it:
//! `NAME.flows.tsv.gz` (length and SHA-256 of the streams of each connection), `NAME.words.tsv`
//! (words to look for), `NAME.mods.tsv.gz` (SHA-256 of a stream after each change).

mod balance;
mod coherent;
mod replay;
mod tables;
mod truth;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use coherent::is_coherent;
use replay::{
    CHANGE, GUARD, LOOK, UNCHECKED, account, captures_below, frames_of, replay, replay_asking,
};
use tables::{FlowRow, ModRow, flow_rows, mods, sha256, words};
use truth::{End, Flow, flows};

use crate::frames::write_capture;
use crate::process::{on_all_cores, root, skip};

/// Words looked for in a capture, and changes made to it: all of them take an hour where nothing is
/// optimised. `THRUWAY_LONG=1` takes all.
const SOME: usize = 4;

/// Some of all, evenly.
fn some<T>(all: Vec<T>) -> Vec<T> {
    let step = match std::env::var_os("THRUWAY_LONG") {
        Some(_) => 1,
        None => (all.len() / SOME).max(1),
    };
    all.into_iter().step_by(step).collect()
}

type Key = ([End; 2], usize);

fn keyed(flows: &[Flow]) -> HashMap<Key, &Flow> {
    flows.iter().map(|flow| ((flow.ends, flow.instance), flow)).collect()
}

/// The corpora, if they are there.
fn corpora(test: &str) -> Option<PathBuf> {
    let dir = std::env::var_os("THRUWAY_CORPORA").map(PathBuf::from);
    if dir.is_none() {
        skip(test, "THRUWAY_CORPORA is not set");
    }
    dir
}

/// Lets a capture pass a chain that guards: what could have been said passes whole, of the rest
/// nothing that was not said. How many connections were of the first sort, and of both.
fn judge(file: &Path, chain: &str, wrong: &mut Vec<String>) -> (usize, usize) {
    let came = frames_of(file);
    let left = replay(&came, chain).frames;
    let (before, after) = (flows(&came), flows(&left));
    let after = keyed(&after);
    let mut coherent = 0;
    for flow in &before {
        let empty = [Vec::new(), Vec::new()];
        let passed = after.get(&(flow.ends, flow.instance)).map_or(&empty, |flow| &flow.streams);
        let fits = is_coherent(flow, &came);
        coherent += usize::from(fits);
        let is_right = match fits {
            true => *passed == flow.streams,
            // Where it was not seen to begin, what counts as its begin may be another place.
            false => (0..2)
                .all(|side| !flow.began[side] || flow.streams[side].starts_with(&passed[side])),
        };
        if !is_right {
            let lens = flow.streams.each_ref().map(Vec::len);
            let passed = passed.each_ref().map(Vec::len);
            let (ends, instance) = (flow.ends, flow.instance);
            let sort = if fits { "coherent" } else { "odd" };
            wrong.push(format!(
                "{}: {sort} {ends:?} {instance}: {passed:?} of {lens:?}",
                file.display()
            ));
        }
    }
    (coherent, before.len())
}

/// Each direction of the bundled captures is a file of its own.
#[test]
fn bundled_captures_pass_as_they_are() {
    for name in ["lan.pcap", "wan.pcap"] {
        let came = frames_of(&root().join("examples/captures").join(name));
        let (before, left) = (flows(&came), replay(&came, GUARD));
        let after = flows(&left.frames);
        assert!(before.iter().map(|flow| flow.streams.concat().len()).sum::<usize>() > 10_000);
        let streams = |flows: &[Flow]| {
            let key = |flow: &Flow| (flow.ends, flow.instance, flow.streams.clone());
            let mut all: Vec<_> = flows.iter().map(key).collect();
            all.sort();
            all
        };
        assert!(streams(&before) == streams(&after), "{name}");
    }
}

#[test]
fn campus_captures_pass_as_they_are() {
    let Some(dir) = corpora("campus_captures_pass_as_they_are") else { return };
    let mut wrong = Vec::new();
    for name in ["trex_sfr_open", "campus_open"] {
        let file = dir.join("campus").join(format!("{name}.pcap.gz"));
        let (coherent, all) = judge(&file, GUARD, &mut wrong);
        println!("{name}: {coherent} of {all} connections could have been spoken");
        assert!(coherent * 5 > all * 2, "{name}: {coherent} of {all}");
        let (found, rows) = (flows(&frames_of(&file)), flow_rows(&file));
        compare(name, &found, &rows, &mut wrong);
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// The streams that are compared with are those of the table.
fn compare(name: &str, found: &[Flow], rows: &[FlowRow], wrong: &mut Vec<String>) {
    let found = keyed(found);
    let streams: Vec<&[u8]> = rows
        .iter()
        .flat_map(|row| match found.get(&(row.ends, row.instance)) {
            Some(flow) => flow.streams.each_ref().map(Vec::as_slice),
            None => [&[][..]; 2],
        })
        .collect();
    for ((row, side), (sum, stream)) in rows
        .iter()
        .flat_map(|row| [(row, 0), (row, 1)])
        .zip(sha256(&streams).into_iter().zip(&streams))
    {
        let (len, expected) = &row.streams[side];
        if *len != stream.len() || *len > 0 && *expected != sum {
            wrong.push(format!("{name}: table of {:?}: {len}, not {}", row.ends, stream.len()));
        }
    }
}

#[test]
fn oracles_of_reassembly_pass_as_they_are() {
    let Some(dir) = corpora("oracles_of_reassembly_pass_as_they_are") else { return };
    let folders = ["oracle/reasm", "oracle/flows", "oracle/ips", "oracle/http_evader"];
    let files: Vec<PathBuf> =
        folders.iter().flat_map(|below| captures_below(&dir.join(below))).collect();
    let judged = on_all_cores(&files, |file| {
        let mut wrong = Vec::new();
        (judge(file, UNCHECKED, &mut wrong).0, wrong)
    });
    let coherent: usize = judged.iter().map(|(coherent, _)| coherent).sum();
    let wrong: Vec<String> = judged.into_iter().flat_map(|(_, wrong)| wrong).collect();
    assert!(coherent > 100, "{coherent}");
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// Every word is found as often as a plain search in whole streams finds it.
#[test]
fn words_are_found_as_often_as_they_are_there() {
    let Some(dir) = corpora("words_are_found_as_often_as_they_are_there") else { return };
    for name in ["trex_sfr_open", "campus_open"] {
        let file = dir.join("campus").join(format!("{name}.pcap.gz"));
        let came = frames_of(&file);
        let all = flows(&came);
        let fitting: Vec<&Flow> = all.iter().filter(|flow| is_coherent(flow, &came)).collect();
        let mut numbers: Vec<usize> =
            fitting.iter().flat_map(|flow| flow.frames.concat()).collect();
        numbers.sort_unstable();
        let frames: Vec<Vec<u8>> = numbers.iter().map(|number| came[*number].clone()).collect();
        for some in some(words(&file)).chunks(8) {
            let matchers = some.iter().enumerate().map(|(at, word)| word.matcher(at));
            let chain = format!("TCPIn -> {} -> TCPOut", matchers.collect::<Vec<_>>().join(" -> "));
            let ask: Vec<String> = (0..some.len()).map(|at| format!("m{at}.matches")).collect();
            let sent = replay_asking(&frames, &chain, &ask);
            for (at, word) in some.iter().enumerate() {
                let streams = fitting.iter().flat_map(|flow| &flow.streams);
                let expected: usize = streams.map(|stream| word.count(stream)).sum();
                assert_eq!(sent.answers[at], expected as u64, "{name}: {word:?}");
            }
        }
    }
}

/// Each direction alone, as the other's acknowledgements are of numbers before the change.
#[test]
fn changed_streams_are_those_of_the_table() {
    let Some(dir) = corpora("changed_streams_are_those_of_the_table") else { return };
    let mut changed = 0;
    for name in ["trex_sfr_open", "campus_open"] {
        let file = dir.join("campus").join(format!("{name}.pcap.gz"));
        let came = frames_of(&file);
        let all = flows(&came);
        let known = keyed(&all);
        for change in some(mods(&file)) {
            for side in [0, 1] {
                let fits = |row: &&ModRow| {
                    let flow = known.get(&(row.ends, row.instance));
                    row.side == side && flow.is_some_and(|flow| is_coherent(flow, &came))
                };
                let rows: Vec<_> = change.rows.iter().filter(fits).collect();
                let meant = rows.iter().filter_map(|row| known.get(&(row.ends, row.instance)));
                let mut numbers: Vec<usize> =
                    meant.flat_map(|flow| flow.frames[side].clone()).collect();
                numbers.sort_unstable();
                let frames: Vec<Vec<u8>> = numbers.iter().map(|at| came[*at].clone()).collect();
                let left = replay(&frames, &change.chain()).frames;
                let after = flows(&left);
                let streams: Vec<&[u8]> = rows.iter().map(|row| row.find(&after)).collect();
                for (row, sum) in rows.iter().zip(sha256(&streams)) {
                    assert_eq!(sum, row.sha256, "{name}: {} {:?}", change.chain(), row.ends);
                    changed += 1;
                }
            }
        }
    }
    assert!(changed > 200, "{changed}");
}

/// Whatever a capture has, every packet is accounted for.
#[test]
fn odd_captures_are_survived() {
    let Some(dir) = corpora("odd_captures_are_survived") else { return };
    let mut files = captures_below(&dir.join("robust"));
    assert!(files.len() > 50);
    let scratch = tempfile::tempdir().expect("a directory");
    let all: Vec<Vec<u8>> = files.iter().flat_map(|file| frames_of(file)).collect();
    files.push(scratch.path().join("all.pcap"));
    write_capture(&files[files.len() - 1], &all);
    on_all_cores(&files, |file| {
        for chain in [LOOK, GUARD, CHANGE] {
            let done = account(file, chain);
            let [came, made, left, waits, drops] = done;
            let is_exact = came + made == left + waits + drops;
            assert!(is_exact, "{}: {chain}: {done:?}", file.display());
        }
    });
}
