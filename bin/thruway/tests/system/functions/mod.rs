//! Isolated functions as processes: what goes in comes out, whatever becomes of the function.

mod parts;

use std::path::Path;

use crate::frames::{read_capture, write_capture};
use crate::process::{Done, run, thruway};
use parts::exec;

/// Runs a configuration to the end of its captures.
fn go(text: &str, options: &[&str]) -> Done {
    run(thruway().arg("run").args(options).args(["-e", text]))
}

/// Frames of many lengths, each different.
fn frames(count: usize) -> Vec<Vec<u8>> {
    let frame = |n: usize| {
        let len = 60 + n * 37 % 1400;
        (0..len).map(|at| (n * 7 + at * 13) as u8).chain((n as u32).to_le_bytes()).collect()
    };
    (0..count).map(frame).collect()
}

/// A directory with a capture, and the paths of that and of one to write.
struct Captures {
    dir: tempfile::TempDir,
}

impl Captures {
    fn new(frames: &[Vec<u8>]) -> Captures {
        let captures = Captures { dir: tempfile::tempdir().expect("a directory") };
        write_capture(Path::new(&captures.path("in")), frames);
        captures
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(format!("{name}.pcap")).to_str().expect("plain text").to_owned()
    }

    fn written(&self, name: &str) -> Vec<Vec<u8>> {
        read_capture(Path::new(&self.path(name)))
    }
}

#[test]
fn bytes_and_order_are_kept() {
    let frames = frames(3000);
    let captures = Captures::new(&frames);
    for wait in ["block", "poll", "hybrid"] {
        let text = format!(
            "FromDump({}, STOP true) -> nf :: Nf({}, WAIT {wait}) -> ToDump({})",
            captures.path("in"),
            exec("passes"),
            captures.path(wait)
        );
        go(&text, &[]).expect(0);
        assert!(captures.written(wait) == frames, "{wait}");
    }
}
