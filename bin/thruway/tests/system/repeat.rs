//! Two runs of a configuration with seeds do the same.

use std::path::Path;

use crate::process::{click, root, run};

/// Every element of chance, in a row, in simulated time.
fn shake(capture: &Path, out: &Path, seed: u32) -> Vec<u8> {
    let (file, out_file) = (capture.display(), out.display());
    let text = format!(
        "FromDump(\"{file}\", TIMING true, STOP false, END_CALL end.run)
            -> Loss(0.1, BURST 3, SEED {seed}) -> Delay(3ms, JITTER 2ms, SEED {seed})
            -> Repeat(0.1, COPIES 2, SEED {seed}) -> Reorder(0.2, GAP 3, SEED {seed})
            -> Corrupt(0.3, BITS 3, SEED {seed}) -> RandomSample(0.8, SEED {seed})
            -> out :: ToDump(\"{out_file}\");
        end :: Script(TYPE ACTIVE, wait 1s, stop);"
    );
    let done = run(&mut click(&["--simtime", "-e", &text, "-h", "out.count"])).expect(0);
    let count: u64 = done.stdout.trim().parse().expect("a count");
    assert!(count > 1000, "{count} packets got through");
    std::fs::read(out).expect("the capture")
}

#[test]
fn seeds_make_runs_alike() {
    let dir = tempfile::tempdir().expect("a directory");
    let capture = root().join("examples/captures/lan.pcap");
    let shaken = |name: &str, seed| shake(&capture, &dir.path().join(name), seed);
    let (one, two, other) = (shaken("one", 1), shaken("two", 1), shaken("other", 2));
    assert!(one == two, "two runs with one seed differ");
    assert!(one != other, "two seeds give the same");
    assert!(one != std::fs::read(&capture).expect("the capture"), "nothing was changed");
}
