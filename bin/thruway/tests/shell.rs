//! Completions and manual pages of `thruway`. The same code makes those of `thruway-manager`, which
//! are tested in a shell there.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

use tempfile::TempDir;

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thruway")).args(args).output().expect("run")
}

fn printed(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The commands that the help lists.
fn commands() -> BTreeSet<String> {
    let help = printed(&["--help"]);
    let (_, after) = help.split_once("Commands:\n").expect("commands");
    let lines = after.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn shells_know_each_command() {
    let script = printed(&["completions", "fish"]);
    for name in commands() {
        assert!(script.contains(&format!("-a \"{name}\"")), "{name}");
    }
    assert!(!script.contains("worker"), "nobody is to give it");
    assert_eq!(run(&["completions", "tcsh"]).status.code(), Some(2));
}

#[test]
fn each_command_has_a_page_and_those_of_others_say_where_to_look() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().to_str().expect("text");
    let said = printed(&["man", path]);
    let entries = fs::read_dir(dir.path()).expect("there").map(|entry| entry.expect("an entry"));
    let pages: BTreeSet<String> =
        entries.map(|entry| entry.file_name().into_string().expect("text")).collect();
    assert_eq!(said, format!("{} pages in {path}\n", pages.len()));
    let missing: Vec<String> = commands()
        .into_iter()
        .filter(|name| !pages.contains(&format!("thruway-{name}.1")))
        .collect();
    assert_eq!(missing, [""; 0]);
    assert!(!pages.contains("thruway-worker.1"));
    for name in ["apply", "logs", "click", "flatten"] {
        let page = fs::read_to_string(dir.path().join(format!("thruway-{name}.1")));
        assert!(page.expect("a page").contains(&format!("See `thruway {name} ")), "{name}");
    }
    let own = fs::read_to_string(dir.path().join("thruway-run.1")).expect("a page");
    assert!(own.contains("huge") && !own.contains("See `thruway"), "{own}");
}
