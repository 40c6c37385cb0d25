//! Completions complete in a shell, and each command has its manual page.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_thruway-manager");

fn run(args: &[&str]) -> Output {
    Command::new(PROGRAM).args(args).output().expect("run")
}

fn printed(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Commands that the help of a command lists.
fn listed(args: &[&str]) -> Vec<String> {
    let help = printed(&[args, &["--help"]].concat());
    let Some((_, after)) = help.split_once("Commands:\n") else { return Vec::new() };
    let lines = after.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// What bash offers for the last of these words.
fn offered(script: &str, words: &[&str]) -> BTreeSet<String> {
    let last = words.last().expect("a word");
    let before = words[words.len() - 2];
    let ask = format!(
        "{script}\nset -- $(complete -p thruway-manager)\nwhile [ \"$1\" != -F ]; do shift; done\n\
         COMP_WORDS=({}); COMP_CWORD={}; $2 thruway-manager {last} {before}\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.join(" "),
        words.len() - 1
    );
    let output = Command::new("bash").args(["--norc", "-c", &ask]).output().expect("bash");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let script = printed(&["completions", "bash"]);
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    let offer = |words: &[&str]| offered(&script, &[&["thruway-manager"], words].concat());
    assert_eq!(offer(&["ro"]), names(&["rollback", "rollout"]));
    assert_eq!(offer(&["get", "--out"]), names(&["--output"]));
    assert_eq!(offer(&["get", "--output", "y"]), names(&["yaml"]));
    assert_eq!(offer(&["token", "re"]), names(&["revoke"]));
    let commands = listed(&[]);
    assert!(commands.len() >= 12, "{commands:?}");
    let all = offer(&["''"]);
    assert!(commands.iter().all(|name| all.contains(name)), "{all:?}");
}

#[test]
fn the_other_shells_have_every_command_and_no_other_is_taken() {
    let commands = listed(&[]);
    let [zsh, fish] = ["zsh", "fish"].map(|shell| printed(&["completions", shell]));
    assert!(zsh.starts_with("#compdef thruway-manager\n"), "{zsh:.100}");
    for name in &commands {
        assert!(zsh.contains(&format!("\n'{name}:")), "{name}");
        let offer = format!("-a \"{name}\"");
        assert!(fish.contains(&offer), "{name}");
    }
    let output = run(&["completions", "tcsh"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("[possible values: bash, zsh, fish]"), "{error}");
}

#[test]
fn each_command_has_a_manual_page() {
    let dir = TempDir::new().expect("a directory");
    let pages = dir.path().join("man/man1");
    let path = pages.to_str().expect("text");
    let mut expected = BTreeSet::from(["thruway-manager.1".to_owned()]);
    for name in listed(&[]) {
        for below in listed(&[&name]) {
            expected.insert(format!("thruway-manager-{name}-{below}.1"));
        }
        expected.insert(format!("thruway-manager-{name}.1"));
    }
    assert_eq!(printed(&["man", path]), format!("{} pages in {path}\n", expected.len()));
    let entries = fs::read_dir(&pages).expect("made").map(|entry| entry.expect("an entry"));
    let found: BTreeSet<String> =
        entries.map(|entry| entry.file_name().into_string().expect("text")).collect();
    assert_eq!(found, expected);
    let page = fs::read_to_string(pages.join("thruway-manager-token-create.1")).expect("a page");
    for part in [".TH thruway-manager-token-create 1", "\\fB\\-\\-role\\fR", "Create a token"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // A file stands in the way.
    let file = dir.path().join("file");
    fs::write(&file, "").expect("written");
    let output = run(&["man", file.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.starts_with("thruway-manager: ") && error.contains("/file: "), "{error}");
}
