//! The store: generations, preconditions, and what it does with files that are not as it left them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::Connection;
use tempfile::TempDir;
use thruway_manager::access::Role;
use thruway_manager::store::{
    ChangeOptions, Generation, Precondition, Put, SCHEMA_VERSION, Store, StoreError,
};
use thruway_manager::{ChainName, ChainSpec, FunctionName, FunctionSpec, GroupName, GroupSpec};

fn name(text: &str) -> ChainName {
    ChainName::new(text).expect("a name")
}

fn spec(configuration: &str) -> ChainSpec {
    ChainSpec { configuration: configuration.to_owned(), ..ChainSpec::default() }
}

fn by(author: &str) -> ChangeOptions<'_> {
    ChangeOptions { author, ..ChangeOptions::default() }
}

fn only_if(precondition: Precondition) -> ChangeOptions<'static> {
    ChangeOptions { precondition, author: "test", ..ChangeOptions::default() }
}

fn fresh() -> (TempDir, Store) {
    let dir = TempDir::new().expect("a directory");
    let store = Store::open(dir.path()).expect("a store");
    (dir, store)
}

fn changed(generation: u64) -> Put {
    Put { generation, changed: true }
}

fn numbers<S>(page: &[Generation<S>]) -> Vec<u64> {
    page.iter().map(|one| one.number).collect()
}

#[test]
fn an_equal_specification_makes_no_generation() {
    let (_dir, store) = fresh();
    let web = name("web");
    assert_eq!(store.put(&web, &spec("a"), &by("uid 0")).expect("new"), changed(1));
    let again = store.put(&web, &spec("a"), &by("uid 1")).expect("equal");
    assert_eq!(again, Put { generation: 1, changed: false });
    assert_eq!(store.put(&web, &spec("b"), &by("uid 1")).expect("other"), changed(2));
    let now = store.get(&web).expect("there");
    assert_eq!((now.number, now.author.as_str()), (2, "uid 1"));
    assert_eq!(now.spec, Some(spec("b")));
    // It was made already: a repeated request is answered as the first one was.
    let repeated = store.put(&web, &spec("b"), &only_if(Precondition::Generation(1)));
    assert_eq!(repeated.expect("equal"), Put { generation: 2, changed: false });
}

const NEEDED: &str = r#"{"when": "d.flooded", "calm": "3s"}"#;

#[test]
fn what_was_kept_is_there_after_it_is_opened_again() {
    let (dir, store) = fresh();
    let full = ChainSpec {
        configuration: "Idle -> Discard; // ü\n".into(),
        variables: [("LAN".to_owned(), "eth0 \"x\"".to_owned())].into(),
        replicas: [("words".to_owned(), serde_json::from_str(r#"{"count": 2}"#).expect("good"))]
            .into(),
        on_demand: [("words".to_owned(), serde_json::from_str(NEEDED).expect("good"))].into(),
        threads: Some(2),
        cores: Some("2-3".into()),
        stopped: true,
        drain: true,
        managed_by: Some("cluster".to_owned()),
        ..ChainSpec::default()
    };
    store.put(&name("web"), &full, &by("uid 0")).expect("new");
    let before = store.get(&name("web")).expect("there");
    drop(store);
    let store = Store::open(dir.path()).expect("again");
    assert_eq!(store.get(&name("web")).expect("there"), before);
    assert_eq!(before.spec, Some(full));
    let all = store.all().expect("all");
    assert_eq!((all.len(), all[0].name.as_str(), all[0].generation), (1, "web", 1));
}

#[test]
fn a_change_for_another_generation_is_refused() {
    let (_dir, store) = fresh();
    let web = name("web");
    store.put(&web, &spec("a"), &only_if(Precondition::Absent)).expect("new");
    store.put(&web, &spec("b"), &only_if(Precondition::Generation(1))).expect("at 1");
    for wrong in [Precondition::Absent, Precondition::Generation(1), Precondition::Generation(3)] {
        for result in [
            store.put(&web, &spec("c"), &only_if(wrong)),
            store.delete(&web, &only_if(wrong)),
            store.rollback(&web, 1, &only_if(wrong)),
        ] {
            let error = result.expect_err("stale");
            assert!(matches!(error, StoreError::Stale { current: Some(2), .. }), "{error}");
        }
    }
    let error = store.put(&name("new"), &spec("a"), &only_if(Precondition::Generation(1)));
    assert!(matches!(error, Err(StoreError::Stale { current: None, .. })));
    let error = store.put(&name("new"), &spec("a"), &only_if(Precondition::Present));
    assert!(matches!(error, Err(StoreError::Stale { current: None, .. })));
    assert_eq!(store.get(&web).expect("there").spec, Some(spec("b")));
}

#[test]
fn a_deletion_is_a_generation_and_can_be_taken_back() {
    let (_dir, store) = fresh();
    let web = name("web");
    store.put(&web, &spec("a"), &by("x")).expect("new");
    assert_eq!(store.delete(&web, &by("y")).expect("there"), changed(2));
    assert!(matches!(store.get(&web), Err(StoreError::NoResource { .. })));
    assert!(matches!(store.delete(&web, &by("y")), Err(StoreError::NoResource { .. })));
    assert_eq!(store.all().expect("all"), []);
    assert_eq!(store.deleted().expect("names"), ["web"]);
    let history = store.generations(&web, None, 10).expect("kept").items;
    assert_eq!(numbers(&history), [2, 1]);
    assert_eq!((history[0].spec.as_ref(), history[0].author.as_str()), (None, "y"));
    let error = store.rollback(&web, 2, &by("z")).expect_err("a deletion");
    assert!(matches!(error, StoreError::Deletion { generation: 2, .. }), "{error}");
    assert_eq!(store.rollback(&web, 1, &by("z")).expect("back"), changed(3));
    assert!(store.deleted().expect("names").is_empty());
    assert_eq!(store.get(&web).expect("there").spec, Some(spec("a")));
    let error = store.rollback(&web, 9, &by("z")).expect_err("none").to_string();
    assert_eq!(error, "chain 'web' has no generation 9; it has 1 to 3");
    let error = store.rollback(&web, u64::MAX, &by("z"));
    assert!(matches!(error, Err(StoreError::NoGeneration { .. })));
}

#[test]
fn a_chain_that_is_not_there_is_answered_with_those_that_are() {
    let (_dir, store) = fresh();
    let error = store.get(&name("web")).expect_err("none").to_string();
    assert_eq!(error, "there is no chain 'web'; no chain is declared");
    store.put(&name("b"), &spec("a"), &by("x")).expect("new");
    store.put(&name("a"), &spec("a"), &by("x")).expect("new");
    let error = store.get(&name("web")).expect_err("none").to_string();
    assert_eq!(error, "there is no chain 'web'; the chains are: a, b");
    assert!(matches!(store.generations(&name("web"), None, 9), Err(StoreError::NoResource { .. })));
    assert!(matches!(store.diff(&name("web"), None, None), Err(StoreError::NoResource { .. })));
}

#[test]
fn lists_come_in_pages_that_join_without_gap() {
    let (_dir, store) = fresh();
    let all: Vec<String> = (0..23).map(|number| format!("chain-{number:02}")).collect();
    for one in &all {
        store.put(&name(one), &spec(one), &by("x")).expect("new");
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = store.list::<ChainSpec>(after.as_deref(), 5).expect("a page");
        seen.extend(page.items.iter().map(|one| one.name.clone()));
        after = seen.last().cloned();
        if !page.more {
            break;
        }
        assert_eq!(page.items.len(), 5);
    }
    assert_eq!(seen, all);
    let web = name("web");
    for number in 0..7 {
        store.put(&web, &spec(&number.to_string()), &by("x")).expect("new");
    }
    let page = store.generations(&web, None, 3).expect("a page");
    assert_eq!((numbers(&page.items), page.more), (vec![7, 6, 5], true));
    let page = store.generations(&web, Some(3), 3).expect("a page");
    assert_eq!((numbers(&page.items), page.more), (vec![2, 1], false));
}

#[test]
fn a_dry_run_tells_what_would_be_and_changes_nothing() {
    let (_dir, store) = fresh();
    let web = name("web");
    let dry = ChangeOptions { dry_run: true, ..by("x") };
    assert_eq!(store.put(&web, &spec("a"), &dry).expect("would be"), changed(1));
    assert!(store.get(&web).is_err());
    store.put(&web, &spec("a"), &by("x")).expect("new");
    assert_eq!(store.delete(&web, &dry).expect("would be"), changed(2));
    assert_eq!(store.get(&web).expect("there").number, 1);
    let stale = ChangeOptions { precondition: Precondition::Generation(7), ..dry };
    assert!(matches!(store.put(&web, &spec("b"), &stale), Err(StoreError::Stale { .. })));
}

#[test]
fn a_diff_shows_lines() {
    let (_dir, store) = fresh();
    let web = name("web");
    store.put(&web, &spec("Idle\n  -> Discard;\n"), &by("x")).expect("new");
    let second = ChainSpec { threads: Some(2), ..spec("Idle\n  -> Print\n  -> Discard;\n") };
    store.put(&web, &second, &by("x")).expect("changed");
    let expected = "--- generation 1\n+++ generation 2\n@@ -1,3 +1,5 @@\n+threads: 2\n \
                    configuration:\n   Idle\n+    -> Print\n     -> Discard;\n";
    assert_eq!(store.diff(&web, None, None).expect("a diff"), expected);
    assert_eq!(store.diff(&web, Some(1), Some(2)).expect("a diff"), expected);
    assert_eq!(store.diff(&web, Some(2), Some(2)).expect("a diff"), "");
    assert!(store.diff(&web, None, Some(1)).expect("a diff").starts_with("--- generation 0\n"));
    assert!(matches!(store.diff(&web, Some(1), Some(3)), Err(StoreError::NoGeneration { .. })));
}

fn function(name: &str) -> FunctionName {
    FunctionName::new(name).expect("a name")
}

fn executable(path: &str) -> FunctionSpec {
    let (path, sha256) = (path.to_owned(), "0".repeat(64));
    FunctionSpec { path, sha256, ..FunctionSpec::default() }
}

fn group_of(names: &[&str]) -> GroupSpec {
    let functions = names.iter().map(|name| function(name)).collect();
    GroupSpec { functions, managed_by: None }
}

#[test]
fn kinds_have_names_and_generations_of_their_own() {
    let (dir, store) = fresh();
    let (web, group, ids) =
        (name("web"), GroupName::new("web").expect("a name"), function("ids@1"));
    store.put(&web, &spec("a"), &by("x")).expect("new");
    store.put(&web, &spec("b"), &by("x")).expect("changed");
    assert_eq!(store.put(&ids, &executable("/ids"), &by("x")).expect("new"), changed(1));
    assert_eq!(store.put(&group, &group_of(&["ids@1"]), &by("x")).expect("new"), changed(1));
    assert_eq!(store.delete(&web, &by("x")).expect("there"), changed(3));
    assert_eq!(store.deleted().expect("names"), ["web"]);
    drop(store);
    let store = Store::open(dir.path()).expect("again");
    assert_eq!(store.get(&group).expect("there").spec, Some(group_of(&["ids@1"])));
    assert_eq!(store.get(&ids).expect("there").spec, Some(executable("/ids")));
    assert_eq!(store.list::<ChainSpec>(None, 9).expect("a page").items.len(), 0);
    let functions = store.list::<FunctionSpec>(None, 9).expect("a page").items;
    assert_eq!(numbers(&functions), [1]);
    let error = store.get(&function("ids@2")).expect_err("none").to_string();
    assert_eq!(error, "there is no function 'ids@2'; the functions are: ids@1");
    store.put(&ids, &executable("/other"), &by("x")).expect("changed");
    let diff = store.diff(&ids, None, None).expect("a diff");
    assert!(diff.contains("-path: \"/ids\"\n+path: \"/other\"\n"), "{diff}");
    assert_eq!(store.rollback(&ids, 1, &by("x")).expect("back"), changed(3));
    assert_eq!(store.get(&ids).expect("there").spec, Some(executable("/ids")));
}

#[test]
fn what_a_group_names_is_there() {
    let (_dir, store) = fresh();
    let group = GroupName::new("edge").expect("a name");
    let (ids, nat) = (function("ids@1"), function("nat@1"));
    store.put(&ids, &executable("/ids"), &by("x")).expect("new");
    let both = group_of(&["ids@1", "nat@1"]);
    let error = store.put(&group, &both, &by("x")).expect_err("one is missing");
    let StoreError::Unresolved { field, known, .. } = &error else { panic!("{error}") };
    assert_eq!(
        (field.as_str(), known.as_slice()),
        ("functions[1]", ["ids@1".to_owned()].as_slice())
    );
    store.put(&nat, &executable("/nat"), &by("x")).expect("new");
    store.put(&group, &both, &by("x")).expect("all are there");
    for options in [by("x"), ChangeOptions { dry_run: true, ..by("x") }] {
        let error = store.delete(&nat, &options).expect_err("it is named").to_string();
        assert_eq!(error, "function 'nat@1' is named by group edge; change or delete those first");
    }
    store.put(&group, &group_of(&["ids@1"]), &by("x")).expect("changed");
    store.delete(&nat, &by("x")).expect("nobody names it");
    let error = store.rollback(&group, 1, &by("x")).expect_err("one is missing again");
    assert!(matches!(error, StoreError::Unresolved { .. }), "{error}");
    store.delete(&group, &by("x")).expect("there");
    store.delete(&ids, &by("x")).expect("nobody names it");
}

/// Whoever comes first: never is there a group whose function is gone.
#[test]
fn groups_and_deletions_of_their_functions_come_one_after_the_other() {
    let (_dir, store) = fresh();
    let (group, ids) = (GroupName::new("edge").expect("a name"), function("ids@1"));
    for _ in 0..50 {
        store.put(&ids, &executable("/ids"), &by("x")).expect("declared");
        let both = std::thread::scope(|scope| {
            let put = scope.spawn(|| store.put(&group, &group_of(&["ids@1"]), &by("x")).is_ok());
            let delete = scope.spawn(|| store.delete(&ids, &by("x")).is_ok());
            [put, delete].map(|one| one.join().expect("no panic"))
        });
        assert_eq!(both.iter().filter(|done| **done).count(), 1, "one of them alone");
        assert_eq!(store.get(&group).is_ok(), store.get(&ids).is_ok());
        if both[0] {
            store.delete(&group, &by("x")).expect("there");
        }
    }
}

/// What version 2 of the tables had, as a manager of that time wrote it.
const SCHEMA_2: &str = include_str!("schema-2.sql");

/// A directory with a database of version 2.
fn a_store_of_version_2() -> TempDir {
    let dir = TempDir::new().expect("a directory");
    let database = Connection::open(dir.path().join("state.db")).expect("a database");
    database.execute_batch(SCHEMA_2).expect("filled");
    dir
}

#[test]
fn a_database_of_chains_alone_is_taken_over() {
    let dir = a_store_of_version_2();
    // The second time there is nothing left to do.
    for _ in 0..2 {
        let store = Store::open(dir.path()).expect("it is brought up to date");
        let asked: Vec<_> = store.all().expect("all").into_iter().map(|one| one.name).collect();
        assert_eq!(asked, ["dns", "web"]);
        assert_eq!(store.deleted().expect("names"), ["old"]);
        let history = store.generations(&name("web"), None, 9).expect("kept").items;
        assert_eq!(numbers(&history), [2, 1]);
        let values = history.iter().filter_map(|one| one.spec.as_ref()?.variables.get("N"));
        assert_eq!(values.collect::<Vec<_>>(), ["2000", "1000"]);
        assert_eq!(store.generation(&name("old"), 2).expect("kept").spec, None);
        let credentials = store.credentials().expect("all");
        assert_eq!((credentials[0].name.as_str(), credentials[0].role), ("ci", Role::View));
    }
    let store = Store::open(dir.path()).expect("again");
    store.put(&function("ids@1"), &executable("/ids"), &by("x")).expect("new");
    assert_eq!(store.rollback(&name("web"), 1, &by("x")).expect("back"), changed(3));
    drop(store);
    let database = Connection::open(dir.path().join("state.db")).expect("a database");
    let version = database.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    assert_eq!(version.expect("a version"), SCHEMA_VERSION);
    let broken = database.prepare("PRAGMA foreign_key_check").expect("SQL").exists([]);
    assert!(!broken.expect("checked"), "each head has its generation");
}

#[test]
fn a_row_that_changed_its_kind_is_found_by_its_checksum() {
    let (dir, store) = fresh();
    store.put(&function("ids@1"), &executable("/ids"), &by("x")).expect("new");
    let path = store.path().to_owned();
    drop(store);
    let database = Connection::open(path).expect("a database");
    let change = "PRAGMA foreign_keys = OFF; UPDATE generation SET kind = 'chain'; \
                  UPDATE head SET kind = 'chain'";
    database.execute_batch(change).expect("changed");
    drop(database);
    assert!(refused(dir.path()).contains("checksum"));
}

#[test]
fn one_manager_has_the_directory() {
    let (dir, store) = fresh();
    let error = Store::open(dir.path()).err().expect("in use");
    assert!(matches!(error, StoreError::InUse(_)), "{error}");
    drop(store);
    Store::open(dir.path()).expect("free again");
}

/// All files of a directory but the lock, and what readers make: the index of the log, which they
/// rebuild, and an empty log.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("one").path());
    let kept = entries.filter(|path| {
        let name = path.to_string_lossy();
        !name.ends_with("lock") && !name.ends_with("-shm")
    });
    let read = kept.map(|path| (path.clone(), fs::read(&path).expect("a file")));
    let log = |path: &Path| path.to_string_lossy().ends_with("-wal");
    let mut found: Vec<_> = read.filter(|(path, bytes)| !log(path) || !bytes.is_empty()).collect();
    found.sort();
    found
}

/// Opens a store that must be refused, and is as it was afterwards.
fn refused(dir: &Path) -> String {
    let before = contents(dir);
    let error = Store::open(dir).err().expect("refused").to_string();
    assert!(contents(dir) == before, "changed: {error}");
    error
}

fn a_closed_store() -> (TempDir, PathBuf) {
    let (dir, store) = fresh();
    for number in 0..40 {
        let text = format!("chain-{number}");
        store.put(&name(&text), &spec(&text.repeat(40)), &by("x")).expect("new");
    }
    let path = store.path().to_owned();
    (dir, path)
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let (dir, path) = a_closed_store();
    for text in ["", "garbage", &"garbage ".repeat(10_000)] {
        fs::write(&path, text).expect("written");
        let error = refused(dir.path());
        assert!(error.contains("is damaged") && error.contains(".recover"), "{error}");
    }
    fs::remove_file(&path).expect("removed");
    fs::write(path.with_extension("db-wal"), "x").expect("written");
    assert!(refused(dir.path()).contains("its log"));
}

#[test]
fn a_database_of_another_program_is_refused() {
    let dir = TempDir::new().expect("a directory");
    let other = Connection::open(dir.path().join("state.db")).expect("a database");
    other.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").expect("filled");
    drop(other);
    assert!(refused(dir.path()).contains("not a database of Thruway"));
}

#[test]
fn a_newer_schema_is_refused() {
    let (dir, path) = a_closed_store();
    let database = Connection::open(&path).expect("a database");
    database.pragma_update(None, "user_version", 99).expect("set");
    drop(database);
    let error = refused(dir.path());
    assert!(error.contains("schema version 99") && error.contains("Use the version"), "{error}");
}

#[test]
fn a_changed_text_is_found_by_its_checksum() {
    let (dir, path) = a_closed_store();
    let mut bytes = fs::read(&path).expect("read");
    let at = bytes.windows(8).position(|part| part == b"chain-17").expect("the text");
    bytes[at + 7] = b'8';
    fs::write(&path, bytes).expect("written");
    let error = refused(dir.path());
    assert!(error.contains("is damaged"), "{error}");
}

#[test]
fn wherever_a_page_is_damaged_the_store_is_refused_or_right() {
    let (dir, path) = a_closed_store();
    let whole = fs::read(&path).expect("read");
    let expected = Store::open(dir.path()).expect("whole").all().expect("all");
    let mut refusals = 0;
    for at in (0..whole.len()).step_by(whole.len() / 150) {
        let mut bytes = whole.clone();
        bytes[at..(at + 16).min(whole.len())].fill(0xa5);
        fs::write(&path, bytes).expect("written");
        match Store::open(dir.path()) {
            Ok(store) => assert!(store.all().expect("all") == expected, "byte {at}"),
            Err(_) => refusals += 1,
        }
    }
    // The rest is free room in pages.
    assert!(refusals > 50, "{refusals} of 150 are few");
}

#[test]
fn a_full_disk_leaves_the_old_state() {
    let dir = TempDir::new().expect("a directory");
    let program = std::env::current_exe().expect("this program");
    // A file system of its own, in a mount namespace that ends with the command.
    let script = "mount -t tmpfs -o size=512k none \"$0\" && exec \"$1\" --exact --ignored \
                  --nocapture on_a_small_disk";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .args([dir.path(), program.as_path()])
        .env("THRUWAY_SMALL_DISK", dir.path())
        .output()
        .expect("unshare");
    let text = format!("{output:?}");
    if !output.status.success() && text.contains("unshare failed") {
        assert!(std::env::var_os("THRUWAY_REQUIRE_PRIVILEGES").is_none(), "{text}");
        eprintln!("SKIPPED: needs root for a mount namespace");
        return;
    }
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "runs on the file system that a_full_disk_leaves_the_old_state makes"]
fn on_a_small_disk() {
    let dir = PathBuf::from(std::env::var_os("THRUWAY_SMALL_DISK").expect("a directory"));
    let store = Store::open(&dir).expect("a store");
    let (mut kept, mut error) = (Vec::new(), None);
    for number in 0..1000 {
        let one = name(&format!("chain-{number:03}"));
        match store.put(&one, &spec(&"x".repeat(20_000)), &by("x")) {
            Ok(_) => kept.push(one.to_string()),
            Err(why) => {
                error = Some(why);
                break;
            }
        }
    }
    let error = error.expect("it is full some time");
    assert!(matches!(error, StoreError::Full(_)), "{error}");
    assert!(kept.len() > 5, "{kept:?}");
    let names = |store: &Store| -> Vec<String> {
        store.all().expect("all").into_iter().map(|one| one.name).collect()
    };
    assert_eq!(names(&store), kept);
    drop(store);
    assert_eq!(names(&Store::open(&dir).expect("again")), kept);
}
