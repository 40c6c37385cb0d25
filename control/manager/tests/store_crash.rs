//! A process that writes is killed at random moments; what it acknowledged is there, whole.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use tempfile::TempDir;
use thruway_manager::store::{ChangeOptions, Store};
use thruway_manager::{ChainName, ChainSpec};
use thruway_random::Random;

const KILLS: u32 = 100;
const CHAINS: u64 = 5;
const DIRECTORY: &str = "THRUWAY_CRASH_DIRECTORY";
const SEED: &str = "THRUWAY_CRASH_SEED";

/// A specification that can be told from its number, some of many pages.
fn spec(number: u64) -> ChainSpec {
    let text = format!("{number};").repeat(1 + usize::try_from(number % 17).expect("small") * 100);
    ChainSpec { configuration: text, ..ChainSpec::default() }
}

#[test]
#[ignore = "writes until it is killed, as a child of the other test"]
fn writer() {
    let dir = PathBuf::from(std::env::var_os(DIRECTORY).expect("a directory"));
    let seed = std::env::var(SEED).expect("a seed").parse().expect("a number");
    let mut random = Random::from_seed(seed);
    let store = Store::open(&dir).expect("a store");
    let options = ChangeOptions { author: "child", ..ChangeOptions::default() };
    println!("\nopened");
    loop {
        let name = ChainName::new(&format!("c{}", random.next_u64() % CHAINS)).expect("a name");
        let number = random.next_u64() >> 32;
        let (put, what) = match number % 8 {
            0 if store.get(&name).is_ok() => (store.delete(&name, &options), None),
            _ => (store.put(&name, &spec(number), &options), Some(number)),
        };
        let put = put.expect("written");
        let what = what.map_or("-".to_owned(), |number| number.to_string());
        let mut out = std::io::stdout().lock();
        writeln!(out, "{name} {} {what}", put.generation).expect("told");
        out.flush().expect("told");
    }
}

/// What was acknowledged: the number of each specification, `None` for a deletion.
type Acknowledged = BTreeMap<(String, u64), Option<u64>>;

/// An acknowledgement of the writer.
fn parse(line: &str) -> Option<((String, u64), Option<u64>)> {
    // What comes before the first one is the test program's; the last one may be half.
    let words: Vec<&str> = line.split(' ').collect();
    let [name, generation, what] = words[..] else { return None };
    let number = if what == "-" { None } else { Some(what.parse().ok()?) };
    Some(((ChainName::new(name).ok()?.to_string(), generation.parse().ok()?), number))
}

/// Lets a writer write until it acknowledged `changes`, if that is given, and a while longer; kills
/// it.
fn kill_a_writer(
    (dir, seed): (&Path, u64),
    changes: Option<u64>,
    after: Duration,
    acknowledged: &mut Acknowledged,
) {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "--ignored", "--nocapture", "writer"])
        .env(DIRECTORY, dir)
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    if let Some(changes) = changes {
        let opened = lines.by_ref().map_while(Result::ok).any(|line| line == "opened");
        assert!(opened, "the writer could not open the store: {:?}", child.wait());
        for _ in 0..changes {
            let line = lines.next().expect("it writes on").expect("a line");
            acknowledged.extend(parse(&line));
        }
    }
    std::thread::sleep(after);
    child.kill().expect("killed");
    child.wait().expect("ended");
    acknowledged.extend(lines.map_while(Result::ok).filter_map(|line| parse(&line)));
}

/// Everything that was acknowledged is in the store, and every generation is whole.
fn verify(dir: &Path, acknowledged: &Acknowledged) -> usize {
    let store = Store::open(dir).expect("it opens after a crash");
    let mut found = 0;
    for number in 0..CHAINS {
        let name = ChainName::new(&format!("c{number}")).expect("a name");
        let Ok(page) = store.generations(&name, None, usize::MAX - 1) else { continue };
        let last = page.items.first().map_or(0, |one| one.number);
        assert_eq!(page.items.len() as u64, last, "generations without gap");
        for one in &page.items {
            found += 1;
            if let Some(kept) = &one.spec {
                let told = kept.configuration.split(';').next().and_then(|text| text.parse().ok());
                assert_eq!(*kept, spec(told.expect("a number")), "a whole specification");
            }
        }
    }
    for ((name, generation), number) in acknowledged {
        let name = ChainName::new(name).expect("a name");
        let one = store.generation(&name, *generation).expect("it was acknowledged");
        assert_eq!(one.spec, number.map(spec), "{name} {generation}");
    }
    found
}

#[test]
fn what_was_acknowledged_survives_kills_at_random_moments() {
    let dir = TempDir::new().expect("a directory");
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time");
    let seed = since.as_secs() ^ u64::from(since.subsec_nanos());
    println!("seed {seed}");
    let mut random = Random::from_seed(seed);
    let mut acknowledged = Acknowledged::new();
    for kill in 0..KILLS {
        // Some are killed while they open the store.
        let changes = random.next_u64().checked_rem(5).filter(|changes| *changes < 4);
        let after = Duration::from_micros(random.next_u64() % 15_000);
        let seed = random.next_u64();
        kill_a_writer((dir.path(), seed), changes, after, &mut acknowledged);
        if kill % 10 == 9 {
            verify(dir.path(), &acknowledged);
        }
    }
    let found = verify(dir.path(), &acknowledged);
    println!("{} acknowledged, {found} found", acknowledged.len());
    assert!(acknowledged.len() > 50 && found >= acknowledged.len(), "too few to show it");
}

/// Rows of the chain `web`, which only a database of an earlier version has; under whatever name
/// the version that is there has its column. Empty if there is no database.
fn old_chains(dir: &Path) -> Vec<(i64, String)> {
    let path = dir.join("state.db");
    if !path.exists() {
        return Vec::new();
    }
    let database = Connection::open(path).expect("a database");
    let rows = |column: &str| -> rusqlite::Result<Vec<(i64, String)>> {
        let sql =
            format!("SELECT number, spec FROM generation WHERE {column} = 'web' ORDER BY number");
        let mut statement = database.prepare(&sql)?;
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    };
    rows("name").or_else(|_| rows("chain")).expect("rows")
}

/// System calls by which SQLite and the store change files.
const CHANGES: &[&str] =
    &["pwrite64", "fdatasync", "fsync", "ftruncate", "rename", "unlink", "fchmod", "chmod"];

#[test]
#[ignore = "a few changes, as a child of the other test"]
fn short_writer() {
    let dir = PathBuf::from(std::env::var_os(DIRECTORY).expect("a directory"));
    let store = Store::open(&dir).expect("a store");
    let options = ChangeOptions { author: "child", ..ChangeOptions::default() };
    let name = ChainName::new("c0").expect("a name");
    println!();
    for number in [1, 33] {
        let put = store.put(&name, &spec(number), &options).expect("written");
        println!("{name} {} {number}", put.generation);
    }
    let put = store.delete(&name, &options).expect("written");
    println!("{name} {} -", put.generation);
}

/// Runs the short writer under strace, which kills it as it enters the call `at` of this name;
/// reports what was acknowledged, and whether it came to its end.
fn kill_at(dir: &Path, call: &str, at: u32) -> (Acknowledged, bool) {
    let output = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")])
        .args(["-e", &format!("inject={call}:signal=KILL:when={at}")])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "--ignored", "--nocapture", "--test-threads=1", "short_writer"])
        .env(DIRECTORY, dir)
        .output()
        .expect("strace");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text.lines().filter_map(parse).collect(), output.status.success())
}

#[test]
fn a_kill_at_any_write_leaves_the_old_or_the_new() {
    let is_there = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    if !is_there.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("THRUWAY_REQUIRE_PRIVILEGES").is_none(), "needs strace");
        eprintln!("SKIPPED: needs strace, and the right to trace");
        return;
    }
    let new = kill_at_each(|_| {});
    // The same while a database of an earlier version is brought up to date.
    let old = kill_at_each(|dir| {
        let database = Connection::open(dir.join("state.db")).expect("a database");
        database.execute_batch(include_str!("schema-2.sql")).expect("filled");
    });
    println!("{new} and {old} kills");
    assert!(new.min(old) > 20, "these are few: are these the calls that SQLite uses?");
}

/// Kills the short writer at each call that changes files, each time in a directory that `prepare`
/// filled; how often.
fn kill_at_each(prepare: impl Fn(&Path)) -> u32 {
    let mut kills = 0;
    for call in CHANGES {
        for at in 1.. {
            let dir = TempDir::new().expect("a directory");
            prepare(dir.path());
            let before = old_chains(dir.path());
            let (acknowledged, finished) = kill_at(dir.path(), call, at);
            let found = verify(dir.path(), &acknowledged);
            // One change at most was under way.
            assert!(found <= acknowledged.len() + 1, "{call} {at}: {found}");
            assert_eq!(old_chains(dir.path()), before, "{call} {at}");
            if finished {
                assert_eq!(acknowledged.len(), 3, "{call} {at}");
                break;
            }
            kills += 1;
        }
    }
    kills
}
