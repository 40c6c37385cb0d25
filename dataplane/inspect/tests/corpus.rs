//! Rules of others, where the folder of corpora is given (`THRUWAY_CORPORA`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::process::Command;

use thruway_inspect::rules::{Reason, RuleError, RuleSet, Variables};

/// The folder with the rules of Emerging Threats of 2017, unpacked.
fn emerging_threats(into: &tempfile::TempDir) -> Option<PathBuf> {
    let Some(corpora) = std::env::var_os("THRUWAY_CORPORA") else {
        println!("SKIPPED: THRUWAY_CORPORA names no folder of corpora");
        return None;
    };
    let archive = PathBuf::from(corpora).join("rules/et_open_2017.tar.gz");
    let status = Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(into.path()).status();
    assert!(status.unwrap().success(), "{}", archive.display());
    Some(into.path().join("et_open_2017"))
}

/// All rules of a folder in one file, sorted by its name.
fn all_rules(folder: &PathBuf) -> Vec<u8> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "rules"))
        .collect();
    files.sort();
    files.iter().flat_map(|path| std::fs::read(path).unwrap()).collect()
}

/// Nearly all rules load, and what is refused is refused by a name. The fast patterns are mostly
/// those that others choose.
#[test]
fn emerging_threats_load() {
    let temporary = tempfile::tempdir().unwrap();
    let Some(folder) = emerging_threats(&temporary) else { return };
    let mut variables = Variables::usual();
    let classes = std::fs::read_to_string(folder.join("classification.config")).unwrap();
    assert_eq!(variables.read_classes(&classes), Vec::<usize>::new());
    let begin = std::time::Instant::now();
    let loaded = RuleSet::load_lenient(&all_rules(&folder), &variables);
    let took = begin.elapsed();

    let good = loaded.set.rules().len();
    let mut counts = BTreeMap::<String, usize>::new();
    let mut wrong = 0;
    let is_unsupported = |error: &&RuleError| matches!(error.reason, Reason::Unsupported { .. });
    let unsupported: HashSet<usize> =
        loaded.errors.iter().filter(is_unsupported).map(|error| error.line).collect();
    for error in &loaded.errors {
        match &error.reason {
            Reason::Unsupported { what, .. } => *counts.entry(what.clone()).or_default() += 1,
            _ if unsupported.contains(&error.line) => {}
            _ => {
                wrong += 1;
                println!("{error}");
            }
        }
    }
    println!("{good} rules loaded, {} refused, {took:?}; by name:", loaded.refused);
    for (what, count) in &counts {
        println!("  {count:5} {what}");
    }
    let fast = loaded.set.fast_patterns();
    println!("{} fast patterns, {} rules without", fast.len(), loaded.set.without_pattern().len());
    let share = good as f64 / (good + loaded.refused) as f64;
    assert!(share > 0.96, "{share}");
    assert!(wrong < 20, "{wrong}");

    let mut chosen = HashMap::new();
    for pattern in fast {
        for rule in &pattern.rules {
            chosen.insert(loaded.set.rules()[*rule as usize].about.sid, &pattern.bytes);
        }
    }
    let (mut same, mut others) = (0, 0);
    for line in std::fs::read_to_string(folder.join("patterns.tsv")).unwrap().lines().skip(1) {
        let mut words = line.split('\t');
        let sid: u32 = words.next().unwrap().parse().unwrap();
        let wanted = words.nth(1).unwrap();
        let Some(bytes) = chosen.get(&sid) else { continue };
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        if hex.eq_ignore_ascii_case(wanted) { same += 1 } else { others += 1 }
    }
    println!("fast patterns as in patterns.tsv: {same}, others: {others}");
    assert!(same > 2 * others, "{same} {others}");
}
