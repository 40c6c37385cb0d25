//! Every packet is accounted for: what came and was made has left or was dropped for a reason, in
//! the whole configuration and in each element, whatever is in a capture.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::replay::{CHANGE, GUARD, LOOK, captures_below};
use super::{corpora, some};
use crate::frames::{handmade, mutate, write_capture};
use crate::hostile::{answers, total};
use crate::process::{Running, click, root};
use crate::sessions::captures::plain;

/// Longest time that a capture may take.
const LIMIT: Duration = Duration::from_secs(300);

/// Heads are held, bodies changed, messages framed anew.
const HTTP: &str = "in :: TCPIn -> http :: HTTPIn(IDENTITY true) \
    -> rewriter :: HTTPRewriter(set response X y, body replace e eee) -> framed :: HTTPOut \
    -> out :: TCPOut";
/// In front of each of them.
const CHAINS: [&str; 4] = [LOOK, GUARD, CHANGE, HTTP];

/// What elements tell at the end of a run.
struct Handlers<'a>(HashMap<&'a str, &'a str>);

impl Handlers<'_> {
    fn number(&self, element: &str, handler: &str) -> u64 {
        self.0.get(format!("{element}.{handler}").as_str()).map_or(0, |text| total(text))
    }

    /// Of all elements.
    fn sum(&self, handler: &str) -> u64 {
        let ends = format!(".{handler}");
        self.0.iter().filter(|(name, _)| name.ends_with(&ends)).map(|(_, text)| total(text)).sum()
    }
}

/// Runs a capture through a chain, and reports what does not add up.
fn balance(file: &Path, chain: &str) -> Result<(), String> {
    let text = format!(
        "s :: FromDump(\"{}\", STOP true) -> MarkIPHeader(14) -> Strip(14) \
         -> r :: IPReassembler -> behind :: Null -> fc :: FlowClassifier(INPUT ip) ~> {chain} \
         -> c :: Counter -> Discard;",
        file.display()
    );
    let asked = ["*.packets", "*.made", "*.drop_reasons", "in.delayed", "s.count", "c.count"];
    let handlers = asked.iter().flat_map(|call| ["-h", call]);
    let args: Vec<&str> = ["--simtime", "-e", &text].into_iter().chain(handlers).collect();
    let done = Running::start(&mut click(&args)).wait(LIMIT);
    if done.code() > 1 || done.stderr.contains("panicked") {
        return Err(format!("{done:#?}"));
    }
    let answers = Handlers(answers(&done.stdout));
    let came = answers.number("s", "count");
    let (made, drops) = (answers.sum("made"), answers.sum("drop_reasons"));
    let (left, waits) = (answers.number("c", "count"), answers.number("in", "delayed"));
    let mut wrong = String::new();
    if came + made != left + drops + waits || waits > 0 {
        wrong += &format!("{came} + {made} made, {left} left, {drops} dropped, {waits} wait\n");
    }
    for (one, next) in [("r", "behind"), ("http", "rewriter"), ("rewriter", "framed")] {
        let [packets, made] = ["packets", "made"].map(|name| answers.number(one, name));
        let (drops, went) = (answers.number(one, "drop_reasons"), answers.number(next, "packets"));
        if chain == HTTP && packets + made != went + drops {
            wrong += &format!("{one}: {packets} + {made} made, {went} went, {drops} dropped\n");
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("{} {chain}: {wrong}", file.display())) }
}

fn all_balance(files: &[PathBuf]) {
    let wrong: Vec<String> = files
        .iter()
        .flat_map(|file| CHAINS.map(|chain| balance(file, chain).err()))
        .flatten()
        .collect();
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn bundled_and_damaged_captures_balance() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut files = vec![];
    for name in ["lan.pcap", "wan.pcap"] {
        files.push(root().join("examples/captures").join(name));
    }
    for seed in 1..=3 {
        let file = dir.path().join(format!("damaged-{seed}.pcap"));
        write_capture(&file, &mutate(&handmade(&root()), seed, 1500));
        files.push(file);
    }
    all_balance(&files);
}

#[test]
fn other_captures_balance() {
    let Some(corpora) = corpora("other_captures_balance") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let mut files = Vec::new();
    for folder in ["http", "robust", "oracle"] {
        files.extend(some(captures_below(&corpora.join(folder))));
    }
    assert!(!files.is_empty(), "there are captures");
    let files: Vec<_> = files.iter().map(|file| plain(file, dir.path())).collect();
    all_balance(&files);
}
