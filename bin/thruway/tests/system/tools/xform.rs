//! `click-xform`: patterns replaced in configurations.

use std::path::{Path, PathBuf};

use super::named;
use crate::process::{Done, click, run, thruway};

/// A file with a text.
fn file(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).expect("it can be written");
    path
}

/// The configuration `text` after the patterns of `patterns`.
fn xform(options: &[&str], text: &str, patterns: &str) -> Done {
    let dir = tempfile::tempdir().expect("a directory");
    let patterns = file(dir.path(), "test.clickpat", patterns);
    let patterns = patterns.to_str().expect("a path");
    named("click-xform", &[options, &["-e", text, "-p", patterns]].concat())
}

/// The front of a router in one element.
const IP: &str = "
    elementclass Front { input -> Paint($color) -> Strip(14) -> CheckIPHeader($bad)
        -> GetIPAddress(16) -> output }
    elementclass Front_Replacement { input -> IPInputCombo($color, $bad) -> output }";

#[test]
fn the_front_of_a_router_becomes_one_element() {
    // The second packet has a bad checksum.
    let text =
        "InfiniteSource(\\<45000014 00000000 401177d7 01000001 02000002>, LIMIT 3, STOP true)
            -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2)
            -> Paint(7) -> Strip(14) -> CheckIPHeader(18.26.4.255) -> GetIPAddress(16)
            -> good :: Counter -> s :: PaintSwitch; s [7] -> painted :: Counter -> Discard;
        Idle -> s; s [0, 1, 2, 3, 4, 5, 6] => [0, 0, 0, 0, 0, 0, 0] Discard;
        InfiniteSource(\\<45000014 00000000 401177d8 01000001 02000002>, LIMIT 2)
            -> Paint(8) -> Strip(14) -> CheckIPHeader(18.26.4.255) -> GetIPAddress(16) -> good";
    let replaced = "replacing 'Front': Paint@3, Strip@4, CheckIPHeader@5, GetIPAddress@6\n";
    let changed = xform(&["-V"], text, IP).expect(0).says(&[replaced]).stdout;
    assert_eq!(changed.matches(":: IPInputCombo(").count(), 2, "{changed}");
    for line in ["Front@1/IPInputCombo@1 :: IPInputCombo(7, 18.26.4.255);", "IPInputCombo(8, 18.26"]
    {
        assert!(changed.contains(line), "{changed}");
    }
    assert!(!changed.contains("Strip") && !changed.contains("CheckIPHeader"), "{changed}");
    let counted = |text: &str| {
        let args = ["-e", text, "-h", "good.count", "-h", "painted.count"];
        run(&mut click(&args)).expect(0).stdout
    };
    assert_eq!(counted(text), "good.count:\n3\n\npainted.count:\n3\n\n");
    assert_eq!(counted(&changed), counted(text));
    // And back.
    let back = xform(&["--reverse"], &changed, IP).expect(0).stdout;
    assert!(back.contains(":: CheckIPHeader(18.26.4.255);") && !back.contains("IPInputCombo("));
    assert_eq!(counted(&back), counted(text));
}

const QUEUES: &str = "elementclass QueuePattern { input -> Queue -> output }
    elementclass QueuePattern_Replacement { input -> Queue -> Shaper(200) -> output }";

#[test]
fn it_is_called_as_click_calls_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let router = "InfiniteSource(LIMIT $N, STOP true) -> q :: Queue -> Unqueue -> Discard";
    let router = file(dir.path(), "router.click", router);
    let queues = file(dir.path(), "queues.clickpat", QUEUES);
    let [router, queues] = [&router, &queues].map(|path| path.to_str().expect("a path"));
    let out = dir.path().join("out.click");
    let words = ["xform", router, "N=5", queues, "-o", out.to_str().expect("a path")];
    assert_eq!(run(thruway().args(words)).expect(0).stdout, "");
    let written = std::fs::read_to_string(&out).expect("it was written");
    let expected = "q :: Queue;\nQueuePattern@1/Shaper@2 :: Shaper(200);\n\nInfiniteSource@1 -> q\n    \
                    -> QueuePattern@1/Shaper@2\n    -> Unqueue@3\n    -> Discard@4;\n";
    assert!(written.ends_with(expected) && written.contains("LIMIT 5"), "{written}");
    run(thruway().args(["check", "-e", &written])).expect(0).prints(&["no errors"]);
    let options = ["-f", router, "--patterns", queues, "N=5"];
    assert_eq!(named("click-xform", &options).expect(0).stdout, written);
    // Without patterns it flattens.
    let plain = named("click-xform", &["-e", "Idle -> Discard"]).expect(0);
    plain.prints(&["Idle@1 -> Discard@2"]).says(&["warning: no pattern files"]);
    let plain = named("click-xform", &["-e", "Idle -> Discard", "-p", router]).expect(0);
    plain.says(&["router.click has no patterns"]);
    named("click-xform", &["--help"]).expect(0).prints(&["X_Replacement", "--reverse"]);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let (text, replaced) = ("Idle -> Queue -> Discard", "Queue -> Shaper(200)");
    let wrong = |from: &str, to: &str| {
        let done = xform(&[], text, &QUEUES.replace(from, to)).expect(1);
        assert_eq!(done.stdout, "");
        done
    };
    wrong("Shaper", "Sharper").says(&["test.clickpat:2", "Sharper", "nothing was changed"]);
    wrong(replaced, "Shaper($rate)").says(&["test.clickpat:2: variable '$rate' is not in"]);
    wrong("-> Queue -> output", "-> output").says(&["has no elements"]);
    wrong("Shaper(200) -> output", "Shaper(200) -> Discard").says(&["replacement 0"]);
    wrong("input -> Queue -> Shaper", "input -> Queue -> -> Shaper").says(&["test.clickpat:2"]);
    named("click-xform", &["-e", text, "-p", "/nowhere/x"]).expect(1).says(&["No such file"]);
    named("click-xform", &["-e", text, "-f", "x"]).expect(1).says(&["specified twice"]);
    named("click-xform", &["-e", text, "-x"]).expect(1).says(&["unrecognized option '-x'"]);
    named("click-xform", &["-e", "a ->"]).expect(1).says(&["nothing was changed"]);
    let evil = |name: &str| QUEUES.replace("QueuePattern", name).replace("-> Shaper(200)", "");
    let evil = format!("{} {}", evil("Evil1"), evil("Evil2"));
    xform(&[], text, &evil).expect(1).says(&["match again and again", "change the patterns"]);
}
