//! Functions of chains: nothing runs that is not as declared.

use std::path::Path;

use super::*;
use crate::FunctionUse;
use crate::access::{hex, sha256};

const CONTENT: &str = "one";

/// Writes the executable of a version.
fn write(path: &Path, content: &str) {
    std::fs::write(path, content).expect("room");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("ours");
}

/// A chain that uses `ids@1`, whose file is at `path`.
fn uses(path: &Path) -> Asked {
    let used = FunctionUse::parse("ids@1").expect("a use");
    let spec = ChainSpec {
        configuration: "Nf($ids)".to_owned(),
        functions: [("ids".to_owned(), used.clone())].into(),
        ..ChainSpec::default()
    };
    let (path, sha256) =
        (path.to_str().expect("text").to_owned(), hex(&sha256(CONTENT.as_bytes())));
    let function = FunctionSpec { path, sha256, ..FunctionSpec::default() };
    let run = Run { spec, functions: [(used.name, function)].into(), ..Run::default() };
    Asked { name: "web".to_owned(), generation: 1, run }
}

#[track_caller]
fn becomes(lab: &Lab, kind: ConditionKind, reason: &str) {
    wait_for(reason, || (lab.reason("web", kind) == reason).then_some(()));
}

#[test]
fn a_chain_starts_with_verified_copies_and_with_nothing_else() {
    let mut lab = Lab::new(LIVES);
    let file = lab.dir.path().canonicalize().expect("there").join("ids");
    write(&file, "two");
    let asked = uses(&file);
    lab.supervisor().converge(vec![asked.clone()]);
    becomes(&lab, ConditionKind::Ready, "FunctionNotVerified");
    let message = lab.hears("FunctionNotVerified").message;
    assert!(
        message.contains("function ids@1: ") && message.contains("put the declared"),
        "{message}"
    );
    assert_eq!(lab.pid("web"), None);

    write(&file, CONTENT);
    let pid = lab.runs("web");
    let hash = hex(&sha256(CONTENT.as_bytes()));
    let copy = lab.dir.path().canonicalize().expect("there").join("state/functions").join(&hash);
    assert_eq!(std::fs::read_to_string(&copy).expect("a copy"), CONTENT);
    let variables = std::fs::read_to_string(lab.path("web").join("variables.json")).expect("ours");
    let variables: BTreeMap<String, String> = serde_json::from_str(&variables).expect("texts");
    assert_eq!(variables["ids"], format!("EXEC \"\\\"{}\\\"\"", copy.display()));
    assert_eq!(lab.supervisor().hashes().expect("known"), BTreeSet::from([hash]));

    // The file is another one by now; the copy is what runs again.
    write(&file, "two");
    kill(pid, Signal::KILL);
    let again = wait_for("another process", || lab.pid("web").filter(|now| *now != pid));
    // The next manager adopts it, and starts it again where it can.
    lab.start();
    lab.supervisor().converge(vec![asked.clone()]);
    assert_eq!(lab.runs("web"), again);
    std::fs::remove_file(&copy).expect("ours");
    write(&copy, "two");
    kill(again, Signal::KILL);
    becomes(&lab, ConditionKind::Ready, "FunctionNotVerified");
    write(&file, CONTENT);
    wait_for("a third process", || lab.pid("web").filter(|now| ![pid, again].contains(now)));
    assert_eq!(std::fs::read_to_string(&copy).expect("a copy"), CONTENT);
}

#[test]
fn a_record_without_functions_is_of_an_earlier_version_and_a_damaged_one_is_not_known() {
    let lab = Lab::new(LIVES);
    lab.ask(&["web=x"]);
    lab.runs("web");
    let record = lab.path("web").join("record.json");
    wait_for("the record", || std::fs::read_to_string(&record).ok());
    let text = std::fs::read_to_string(&record).expect("ours");
    assert!(!text.contains("functions"), "as before there were any: {text}");
    assert_eq!(lab.supervisor().hashes().expect("known"), BTreeSet::new());
    std::fs::write(&record, "{").expect("ours");
    assert!(lab.supervisor().hashes().is_err(), "what it ran may be started again");
}
