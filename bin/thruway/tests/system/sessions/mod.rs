//! Sessions, as `thruway ctl` shows them: counts over captures, filters and pages, hot swaps, the
//! order of each flow's packets.

pub mod captures;
mod listing;
mod order;
mod swap;

use std::path::{Path, PathBuf};

use crate::process::{Done, Running, click, run, thruway, wait_for};

/// A running configuration that is asked through `thruway ctl`.
struct Asked {
    driver: Running,
    dir: tempfile::TempDir,
}

impl Asked {
    /// Starts `thruway click` with these arguments and a control socket, and waits until it
    /// answers.
    fn start(args: &[&str]) -> Asked {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("control");
        let socket = socket.to_str().expect("plain text");
        let driver = Running::start(&mut click(&[&["-w", "-u", socket], args].concat()));
        let asked = Asked { driver, dir };
        wait_for("the control socket", || asked.socket().exists().then_some(()));
        asked
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("control")
    }

    /// Runs `thruway ctl` to its end.
    fn ctl(&self, words: &[&str]) -> Done {
        ctl(&self.socket(), words)
    }

    /// What it prints when it succeeds.
    #[track_caller]
    fn output(&self, words: &[&str]) -> String {
        self.ctl(words).expect(0).stdout
    }

    /// A handler's number.
    #[track_caller]
    fn number(&self, handler: &str) -> u64 {
        let said = self.output(&["read", handler]);
        said.trim().parse().unwrap_or_else(|_| panic!("{handler}: no number: {said}"))
    }

    /// Waits until a handler gives this number.
    #[track_caller]
    fn wait(&self, handler: &str, number: u64) {
        wait_for(handler, || (self.number(handler) == number).then_some(()));
    }
}

fn ctl(socket: &Path, words: &[&str]) -> Done {
    run(thruway().arg("ctl").arg(socket).args(words))
}

/// The value of `name=` in a line of a listing.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let begins = |word: &'a str| word.strip_prefix(name)?.strip_prefix('=');
    line.split_whitespace().find_map(begins)
}
