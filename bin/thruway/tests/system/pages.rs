//! What README.md and docs/*.md show a reader: every configuration is checked and every command is
//! run. What cannot be run here stands below, with the reason; its options are checked all the
//! same.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Done, root, run, thruway};

/// Commands that are not run: how they begin, and why. Options of this program's are checked all
/// the same, by asking for `--help` behind them.
const NOT_RUN: &[(&str, &str)] = &[
    ("./quickstart", "CI runs it as a step of its own; it installs packages and builds"),
    ("./check", "it runs this test"),
    ("scripts/guest-image", "downloads packages; ./check runs it as a step of its own"),
    ("cargo ", "builds: the test nf_new builds and runs such projects"),
    ("export ", "of the reader's shell"),
    ("cd ", "of the reader's shell"),
    ("cc ", "needs the library of a release build; the test nf_new compiles such a function"),
    (
        "thruway run examples/",
        "needs interfaces: tests of this example have them; its variables \
                               are checked by `thruway check`",
    ),
    ("thruway run -j 4 router.click", "the reader's own configuration"),
    ("thruway run hello.click", "in nf-authors.md a function that nf_new builds"),
    ("thruway click hello.click", "the function that nf_new builds"),
    ("thruway nf new", "the test nf_new runs it"),
    ("thruway ctl ", "needs a running instance: sessions::listing has one"),
    ("thruway trace 'icmp", "needs a running instance: the tests of trace have one"),
    ("thruway trace /tmp/thruway.sock", "needs a running instance: the tests of trace have one"),
    ("thruway calibrate", "measures for a minute; tests/calibrate.rs runs a short one"),
    ("thruway estimate --verify", "needs a calibrated host and measures"),
    ("thruway estimate --live", "needs a calibrated host and an instance: estimate has both"),
    ("thruway estimate nat.click", "needs a calibrated host and the reader's configuration"),
    ("thruway estimate --forget", "needs a calibrated host: the tests of estimate have one"),
    ("thruway estimate examples/nat.click", "needs a calibrated host and the reader's capture"),
    ("qemu-system-x86_64 ...", "the reader's own machine"),
    ("thruway offload apply", "needs a switch: the tests of offload have one"),
    ("ovs-vsctl", "needs a switch: the tests of offload have one"),
    ("thruway estimate --paper mine.toml", "the reader's own models"),
    ("thruway plan examples/plan/plan.toml --host", "the reader's own host"),
    ("thruway plan examples/plan/plan.toml --add-host", "the reader's own host"),
];

/// Texts of configurations that stand for what a reader has: a program that is there instead.
const STAND_INS: &[(&str, &str)] = &[
    ("\"target/release/hello 1000\"", "\"/bin/true 1000\""),
    (", VM \"target/guest/image\"", ""),
    ("\"flowcount\"", "\"/bin/true\""),
    ("\"word_replacer attack hug\"", "\"/bin/true attack hug\""),
    ("\"/opt/hello/env/bin/python /opt/hello/hello.py\"", "/bin/true"),
    ("\"/opt/hello /usr", "\"/usr"),
];

/// A fenced block of a page.
struct Block {
    page: String,
    line: usize,
    kind: String,
    text: String,
}

/// README.md and the pages in docs.
fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(root().join("docs")).expect("docs");
    let paths = docs.map(|entry| entry.expect("an entry").path());
    let mut pages: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "md")).collect();
    pages.push(root().join("README.md"));
    pages.sort();
    pages
}

fn blocks() -> Vec<Block> {
    let mut all = Vec::new();
    for path in pages() {
        let text = std::fs::read_to_string(&path).expect("a page");
        let page = path.file_name().expect("a name").to_string_lossy().into_owned();
        let mut open: Option<Block> = None;
        for (at, line) in text.lines().enumerate() {
            match (line.strip_prefix("```"), &mut open) {
                (Some(_), Some(_)) => all.extend(open.take()),
                (Some(kind), None) => {
                    let (page, kind) = (page.clone(), kind.to_owned());
                    open = Some(Block { page, line: at + 1, kind, text: String::new() });
                }
                (None, Some(block)) => block.text += &format!("{line}\n"),
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{page}: a block without an end");
    }
    all
}

#[test]
fn configurations_of_pages_are_correct() {
    let dir = tempfile::tempdir().expect("a directory");
    // What a machine's image has, as far as it is looked at before it starts.
    for name in ["kernel", "initramfs"] {
        std::fs::write(dir.path().join(name), "").expect("a file");
    }
    let image = dir.path().to_str().expect("plain text");
    let (mut problems, mut count) = (Vec::new(), 0);
    for block in blocks().into_iter().filter(|block| block.kind == "click") {
        let text =
            STAND_INS.iter().fold(block.text, |text, (shown, there)| text.replace(shown, there));
        let text = text.replace("target/guest/standard", image);
        let file = dir.path().join("block.click");
        std::fs::write(&file, text).expect("a file");
        let done = run(thruway().arg("check").arg(&file));
        count += 1;
        if done.code() != 0 {
            problems.push(format!("{}:{}\n{}", block.page, block.line, done.stderr));
        }
    }
    assert!(count > 8, "{count} configurations: are pages found?");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// A directory like a checkout, where commands may write.
fn checkout() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let examples = root().join("examples").canonicalize().expect("examples");
    std::os::unix::fs::symlink(examples, dir.path().join("examples")).expect("a link");
    dir
}

/// A shell's command with this program as `thruway`.
fn shell(dir: &Path, command: &str) -> Done {
    let program = Path::new(env!("CARGO_BIN_EXE_thruway")).parent().expect("a directory");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    run(Command::new("bash").args(["-ec", command]).current_dir(dir).env("PATH", path))
}

/// The commands of a block: a line each, with those that go on behind `\` or have a text behind
/// `<<`.
fn commands(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut command = line.to_owned();
        while command.ends_with('\\') {
            command += &format!("\n{}", lines.next().expect("a line that goes on"));
        }
        if command.contains("<<'END'") {
            for line in lines.by_ref() {
                command += &format!("\n{line}");
                if line == "END" {
                    break;
                }
            }
        }
        if !command.trim().is_empty() {
            all.push(command);
        }
    }
    all
}

/// Runs a command, or as much of it as can be run here. What is wrong with it.
fn try_out(dir: &Path, command: &str) -> Option<String> {
    let why = NOT_RUN.iter().find(|(begin, _)| command.starts_with(begin)).map(|(_, why)| why);
    let is_there = command.split_whitespace().any(|word| dir.join(word).is_file());
    let done = match why {
        // Written by a command before.
        Some(_) if command.starts_with("thruway run hello.click") && is_there => {
            shell(dir, command)
        }
        None => shell(dir, command),
        Some(_) if command.starts_with("thruway run examples/") => {
            shell(dir, &command.replacen("thruway run", "thruway check", 1))
        }
        Some(_) if command.starts_with("thruway ") => {
            let (command, _) = command.split_once("  #").unwrap_or((command, ""));
            shell(dir, &format!("{} --help", command.trim()))
        }
        Some(_) => return None,
    };
    let is_good = done.code() == 0 || command.starts_with("thruway doctor") && done.code() == 1;
    (!is_good).then(|| format!("{command}\n{}", done.stderr))
}

#[test]
fn commands_of_pages_run() {
    let (mut problems, mut used) = (Vec::new(), Vec::new());
    // bin/manager/tests/page.rs runs manager.md, with a manager.
    let runs_here = |block: &Block| block.kind == "sh" && block.page != "manager.md";
    for block in blocks().into_iter().filter(runs_here) {
        let dir = checkout();
        for command in commands(&block.text) {
            used.extend(NOT_RUN.iter().filter(|(begin, _)| command.starts_with(begin)));
            if let Some(problem) = try_out(dir.path(), &command) {
                problems.push(format!("{}:{}: {problem}", block.page, block.line));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    for one in NOT_RUN {
        assert!(used.contains(one), "no page has '{}' any more: take it off NOT_RUN", one.0);
    }
}

#[test]
fn blocks_are_of_known_kinds() {
    // Blocks in Rust are tests of their crates; toml and c are read by programs that have tests of
    // their own; yaml is given to an API server by bin/operator/tests/cluster; text is what a
    // program printed.
    let known =
        ["", "click", "sh", "rust", "rust,no_run", "toml", "c", "text", "json", "yaml", "python"];
    for block in blocks() {
        assert!(known.contains(&block.kind.as_str()), "{}:{}", block.page, block.line);
    }
}
