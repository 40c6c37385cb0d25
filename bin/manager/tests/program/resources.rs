//! Functions, groups and hosts by the command line.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{Manager, fresh, json};

/// An executable, and its hash.
pub fn executable(dir: &Path, content: &str) -> (PathBuf, String) {
    let path = dir.canonicalize().expect("there").join(content);
    fs::write(&path, content).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    let printed = Command::new("sha256sum").arg(&path).output().expect("sha256sum").stdout;
    (path, String::from_utf8_lossy(&printed[..64]).into_owned())
}

/// A file of two versions, a group and a chain that uses one.
fn write(dir: &Path, version: &str) {
    let (one, two) = (executable(dir, "one"), executable(dir, "two"));
    let text = format!(
        "functions:\n  words@1.0: {{path: {}, sha256: {}}}\n  words@1.1:\n    path: {}\n    sha256: \
         {}\n    limits: {{memory: 64M}}\ngroups:\n  edge: {{functions: [words@1.0, \
         words@1.1]}}\nchains:\n  web:\n    configuration: Idle -> Nf($words) -> Discard;\n    \
         functions: {{words: {version}}}\n",
        one.0.display(),
        one.1,
        two.0.display(),
        two.1
    );
    fs::write(dir.join("all.yaml"), text).expect("written");
}

#[test]
fn functions_groups_and_chains_of_one_file_are_declared_in_their_order() {
    let dir = fresh();
    let manager = Manager::start(dir.path());
    assert!(manager.run(&["get", "functions"]).contains("no function is declared"));
    write(dir.path(), "words@1.0");
    let dry = manager.run(&["apply", "--dry-run", "all.yaml"]);
    assert!(dry.contains("function/words@1.0 created, generation 1 (dry run)"), "{dry}");
    assert!(manager.run(&["get", "functions"]).contains("no function is declared"));
    let applied = manager.run(&["apply", "all.yaml"]);
    let lines = ["function/words@1.0", "function/words@1.1", "group/edge", "chain/web"];
    let expected = lines.map(|one| format!("{one} created, generation 1\n")).concat();
    assert_eq!(applied, expected);
    assert_eq!(manager.run(&["apply", "all.yaml"]), expected.replace("created", "unchanged"));
    write(dir.path(), "words@1.1 -v");
    assert!(manager.run(&["apply", "all.yaml"]).contains("chain/web changed, generation 2\n"));
    let diff = manager.run(&["diff", "web"]);
    assert!(diff.contains("-  words: \"words@1.0\"\n+  words: \"words@1.1 -v\""), "{diff}");
    assert!(manager.run(&["rollback", "chain/web"]).contains("chain/web rolled back"));
}

#[test]
fn a_file_whose_chain_does_not_check_declares_no_chain() {
    let dir = fresh();
    let manager = Manager::start(dir.path());
    write(dir.path(), "words@1.2");
    let error = manager.fail(&["apply", "all.yaml"]);
    assert!(
        error.contains("chain/web (functions.words): there is no function 'words@1.2'"),
        "{error}"
    );
    assert!(error.ends_with("nothing was changed\n"), "{error}");
    assert!(manager.run(&["get", "functions"]).contains("no function is declared"));
    write(dir.path(), "words@1.0");
    let all = dir.path().join("all.yaml");
    let text = fs::read_to_string(&all).expect("there");
    fs::write(&all, text.replace("-> Discard", "-> Discrad")).expect("written");
    let error = manager.fail(&["apply", "all.yaml"]);
    assert!(error.contains("chain/web (configuration): ") && error.contains("Discard"), "{error}");
    assert!(error.ends_with("the functions were declared, and nothing else\n"), "{error}");
    assert!(manager.run(&["get", "groups"]).contains("no group is declared"));
    // The functions are there now, so that all is checked first.
    assert!(manager.fail(&["apply", "all.yaml"]).ends_with("nothing was changed\n"));
    fs::write(&all, text.replace("words: words", "Words: words")).expect("written");
    assert!(manager.fail(&["apply", "all.yaml"]).contains("did you mean"));
    let both = "words: words@1.0}\n    variables: {words: x}\n";
    fs::write(&all, text.replace("words: words@1.0}\n", both)).expect("written");
    assert!(manager.fail(&["apply", "all.yaml"]).contains("functions.words: 'words' is one of"));
    fs::write(&all, "{}").expect("written");
    assert!(manager.fail(&["apply", "all.yaml"]).contains("it declares nothing"));
}

#[test]
fn every_command_takes_every_kind() {
    let dir = fresh();
    let manager = Manager::start(dir.path());
    write(dir.path(), "words@1.0");
    manager.run(&["apply", "all.yaml"]);
    let table = manager.run(&["get", "functions"]);
    let row = table.lines().find(|line| line.contains("words@1.1")).expect("a row");
    let row: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(row[..6], ["words@1.1", "1", "yes", "yes", "yes", "Copied"], "{table}");
    assert!(manager.run(&["get", "group", "-o", "wide"]).contains("uid "));
    let mixed = manager.run(&["get", "group/edge", "web", "function/words@1.0"]);
    for part in ["MembersVerified", "NotSupported", "Copied"] {
        assert!(mixed.contains(part), "{part}: {mixed}");
    }
    let host = json(&manager, &["get", "hosts"])[0]["name"].as_str().expect("a name").to_owned();
    let table = manager.run(&["get", "hosts", "-o", "wide"]);
    assert!(table.contains(&host) && table.contains(" MiB"), "{table}");
    let page = manager.run(&["describe", "host", &host]);
    assert!(page.contains("interfaces\n") && page.contains(" lo "), "{page}");
    let page = manager.run(&["describe", "function/words@1.1"]);
    for part in ["memory: \"64M\"", "Kept: yes, Copied", "history", "declared at"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(manager.run(&["describe", "group", "edge"]).contains("- words@1.1"));

    let group = json(&manager, &["describe", "group", "edge"]);
    assert_eq!(group["spec"], json!({"functions": ["words@1.0", "words@1.1"]}));
    // What is printed is applied again.
    for words in [&["functions"][..], &["groups"], &["function", "words@1.0"], &["group/edge"]] {
        let printed = manager.run(&[&["get", "-o", "yaml"], words].concat());
        fs::write(dir.path().join("printed.yaml"), printed).expect("written");
        let applied = manager.run(&["apply", "printed.yaml"]);
        assert!(applied.lines().all(|line| line.contains("unchanged")), "{words:?}: {applied}");
    }
    let mut function = json(&manager, &["get", "function/words@1.0"]);
    function["spec"]["limits"] = json!({"hang": "1s"});
    fs::write(dir.path().join("one.json"), function.to_string()).expect("written");
    assert_eq!(json(&manager, &["apply", "one.json"])[0]["generation"], 2);
    let diff = manager.run(&["diff", "function", "words@1.0"]);
    assert!(diff.contains("+  hang: \"1s\""), "{diff}");
    let back = manager.run(&["rollback", "function", "words@1.0", "--to", "1", "-o", "wide"]);
    assert!(back.contains("function  words@1.0"), "{back}");

    let error = manager.fail(&["delete", "function", "words@1.0", "words@1.1"]);
    assert!(error.contains("is named by chain web, group edge"), "{error}");
    let gone = ["delete", "function/words@1.0", "group/edge", "web", "function/words@1.1"];
    let gone = json(&manager, &gone);
    let names = gone.as_array().expect("a list").iter().map(|one| &one["name"]);
    assert_eq!(names.collect::<Vec<_>>(), ["web", "edge", "words@1.0", "words@1.1"]);
    let error = manager.fail(&["describe", "function/words@1.0"]);
    assert!(error.contains("there is no function 'words@1.0'"), "{error}");
    assert!(manager.run(&["rollback", "function/words@1.1"]).contains("generation 1"));
    assert!(manager.fail(&["rollback", "group/none"]).contains("there is no group 'none'"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = fresh();
    let manager = Manager::start(dir.path());
    let host = json(&manager, &["get", "hosts"])[0].clone();
    let name = format!("host/{}", host["name"].as_str().expect("a name"));
    for command in ["diff", "delete", "rollback"] {
        assert!(manager.fail(&[command, &name]).contains("a host is observed"), "{command}");
    }
    fs::write(dir.path().join("host.json"), host.to_string()).expect("written");
    assert!(manager.fail(&["apply", "host.json"]).contains("it is a host, which is observed"));
    for (words, what) in [
        (&["describe", "words@1.0"][..], "write function/words@1.0"),
        (&["get", "chian/web"], "the kinds are: chain, function, group, host"),
        (&["delete", "functions"], "is a kind; give a name, too"),
        (&["diff", "web", "dns"], "are several resources; give one"),
        (&["get", "function", "words"], "it has no version"),
        (&["get", "host", "none.such"], "there is no host 'none.such'"),
    ] {
        let error = manager.fail(words);
        assert!(error.contains(what), "{words:?}: {error}");
    }
    let mixed = json!([
        {"name": "a@1", "spec": {"path": "/a", "sha256": "0"}},
        {"name": "web", "spec": {"configuration": "Idle -> Discard;"}}
    ]);
    fs::write(dir.path().join("mixed.json"), mixed.to_string()).expect("written");
    let error = manager.fail(&["apply", "mixed.json"]);
    assert!(error.contains("a list of a function and a chain"), "{error}");
    for (file, text, what) in [
        ("a.yaml", "functions: {words: {path: /a, sha256: b}}", "it has no version"),
        ("b.yaml", "functions: {a@1: {path: /a, sha256: b, limit: 1}}", "limit"),
        ("c.yaml", "groups: {edge: {functions: [a]}}", "it has no version"),
        ("d.yaml", "groups: {edge: {function: [a@1]}}", "function"),
        ("e.yaml", "hosts: {h: {}}", "hosts"),
        ("f.yaml", "- name: a@1\n  spec: {path: /a}\n", "sha256"),
        ("g.yaml", "functions: {a@1: {path: a, sha256: b}}", "function/a@1 (path): the path is"),
    ] {
        fs::write(dir.path().join(file), text).expect("written");
        let error = manager.fail(&["apply", file]);
        assert!(error.contains(what), "{text}: {error}");
    }
    assert_eq!(json(&manager, &["get", "functions"]), Value::Array(Vec::new()));
}
