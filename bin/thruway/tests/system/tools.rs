//! The tools that Click's users run, under both of their names.

mod xform;

use std::process::Command;

use crate::process::{Done, click, root, run, thruway};

/// The program under one of Click's names.
fn named(name: &str, args: &[&str]) -> Done {
    let dir = tempfile::tempdir().expect("a directory");
    let link = dir.path().join(name);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_thruway"), &link).expect("a link");
    run(Command::new(&link).args(args))
}

const NESTED: &str =
    "define($N 3); elementclass Twice { input -> Counter -> c :: Counter -> output }
    InfiniteSource(LIMIT $N, STOP true) -> t :: Twice -> Discard";

#[test]
fn a_flat_configuration_does_the_same() {
    let flat = named("click-flatten", &["-e", NESTED]).expect(0).stdout;
    assert!(!flat.contains("elementclass") && flat.contains("t/c :: Counter"), "{flat}");
    assert_eq!(run(thruway().args(["flatten", "-e", NESTED])).expect(0).stdout, flat);
    let counted = |text: &str| run(&mut click(&["-e", text, "-h", "t/c.count"])).expect(0).stdout;
    assert_eq!((counted(NESTED), counted(&flat)), ("3\n".into(), "3\n".into()));
    // Flat stays flat; and a file that others wrote, from which it was read.
    assert_eq!(named("click-flatten", &["-e", &flat]).expect(0).stdout, flat);
    let gateway = root().join("examples/gateway.click");
    let flat = named("click-flatten", &[gateway.to_str().expect("a path")]).expect(0).stdout;
    run(thruway().args(["check", "-e", &flat])).expect(0).prints(&["no errors"]);
}

#[test]
fn lists_are_sorted() {
    let lists = |option: &str| named("click-flatten", &[option, "-e", NESTED]).expect(0).stdout;
    assert_eq!(lists("-c"), "Counter\nDiscard\nInfiniteSource\n");
    assert_eq!(lists("--names"), "Discard@3\nInfiniteSource@1\nt/Counter@1\nt/c\n");
    assert!(lists("-d").contains("\nt/c :: Counter\n"));
}

#[test]
fn what_is_written_and_what_is_wrong() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("flat.click");
    let to = file.to_str().expect("a path");
    let more = NESTED.replace("define($N 3); ", "");
    let done = named("click-flatten", &["-o", to, "--expression", &more, "N=4"]).expect(0);
    assert_eq!(done.stdout, "");
    let written = std::fs::read_to_string(&file).expect("the file");
    assert!(written.contains("InfiniteSource(LIMIT 4, STOP true)"), "{written}");
    named("click-flatten", &["-e", "a ->"]).expect(1);
    named("click-flatten", &["-e", "", "-f", to]).expect(1).says(&["specified twice"]);
    named("click-flatten", &["--nonsense"]).expect(1).says(&["unrecognized option '--nonsense'"]);
    named("click-flatten", &["/nowhere/x"]).expect(1).says(&["No such file"]);
    named("click-flatten", &["--version"]).expect(0).prints(&["click-flatten (Thruway)"]);
}

#[test]
fn tools_without_work_say_so() {
    for name in ["click-align", "click-fastclassifier", "click-devirtualize"] {
        let kept = named(name, &["-e", NESTED]).expect(0).stdout;
        let (remark, text) = kept.split_once('\n').expect("two lines");
        assert!(remark.starts_with(&format!("// {name}: ")) && text == NESTED, "{kept}");
        named(name, &["-e", "a ->"]).expect(1);
    }
    named("click-mkmindriver", &[]).expect(1).says(&["there is no such tool"]);
    named("click-buildtool", &["findelem"]).expect(1).says(&["nothing to build"]);
}

#[test]
fn what_is_provided() {
    for (names, code) in [
        (&["Counter", "RadixIPLookup", "umultithread"][..], 0),
        (&["NoSuchThing|Counter"], 0),
        (&["Counter", "NoSuchThing"], 1),
        (&["linuxmodule"], 1),
        (&[], 0),
    ] {
        named("click-buildtool", &[&["provides"], names].concat()).expect(code);
        named("click-provides", names).expect(code);
        run(thruway().arg("provides").args(names)).expect(code);
    }
    named("click-provides", &["-V", "NoSuchThing"]).expect(1).says(&["'NoSuchThing'"]);
}

/// A configuration without what is dead in it.
fn undead(text: &str) -> String {
    named("click-undead", &["-e", text]).expect(0).stdout
}

#[test]
fn the_dead_are_removed() {
    // Click's own example, but that captures need names of files.
    let text = "Idle -> Counter -> td1 :: ToDump(a.pcap);
        is :: InfiniteSource -> ss :: StaticSwitch(1); ss[0] -> ToDump(c.pcap);
        ss[1] -> q :: Queue -> rr :: RoundRobinSched; Idle -> [1]rr;
        rr -> td2 :: ToDump(b.pcap);";
    let alive = "is :: InfiniteSource;\nq :: Queue;\ntd2 :: ToDump(b.pcap);\n\n\
                 is -> q\n    -> td2;\n";
    assert_eq!(undead(text), alive);
    assert_eq!(undead(alive), alive);
    let told = named("click-undead", &["-V", "-e", text]).expect(0);
    told.says(&["bypassing 'ss :: StaticSwitch'", "removing 'td1 :: ToDump'"]);
}

#[test]
fn what_switches_choose_is_alive() {
    // Switched off, it is as if nothing came; a pull switch keeps the input that it has turned to.
    assert_eq!(undead("InfiniteSource -> StaticSwitch(-1) -> Discard"), "");
    let pull = undead(
        "a :: InfiniteSource -> p :: Queue -> s :: StaticPullSwitch(1) -> u :: Unqueue
        -> d :: Discard; b :: InfiniteSource -> q :: Queue -> [1] s",
    );
    assert!(pull.ends_with("\nb -> q\n    -> u\n    -> d;\n"), "{pull}");
    assert!(!pull.contains("a ::") && !pull.contains("p ::"), "{pull}");
    let wrong = "Idle -> StaticSwitch(x) -> Discard";
    named("click-undead", &["-e", wrong]).expect(1).says(&["write StaticSwitch(N)"]);
    named("click-undead", &["-e", "InfiniteSource -> Queue -> Queue -> Discard"])
        .expect(1)
        .says(&["the configuration has errors"]);
}

#[test]
fn ports_that_lose_their_neighbours_get_an_idle() {
    let text = "i :: InfiniteSource(LIMIT 4, STOP true) -> c :: Classifier(0/00, -);
        c[0] -> Counter -> Idle; c[1] -> n :: Counter -> Discard";
    let alive = undead(text);
    assert!(alive.contains("i -> c\n    -> Idle@7;\n") && !alive.contains("Counter@"), "{alive}");
    let counted = |text: &str| run(&mut click(&["-e", text, "-h", "n.count"])).expect(0).stdout;
    assert_eq!(counted(text), counted(&alive));
    // What a script reads stays, though nothing leads to it.
    let alive = undead("Idle -> c :: Counter -> Discard; Script(print $(c.count), stop)");
    assert!(alive.contains("c :: Counter;") && !alive.contains("Discard"), "{alive}");
    run(&mut click(&["-e", &alive])).expect(0).prints(&["0"]);
}

#[test]
fn schedulers_and_tees_lose_ports() {
    let alive = undead(
        "a :: InfiniteSource -> p :: Queue -> s :: StrideSched(1, 2, 3) -> Unqueue -> t :: Tee(3);
        Idle -> [1] s; b :: InfiniteSource -> q :: Queue -> [2] s;
        t[0] -> Idle; t[1] -> x :: Discard; t[2] -> y :: Discard",
    );
    assert!(alive.contains("s :: StrideSched(1, 3);\n") && alive.contains("t :: Tee(2);\n"));
    assert!(alive.contains("q\n    -> [1] s;\n") && alive.contains("t [1] -> y;\n"), "{alive}");
    run(thruway().args(["check", "-e", &alive])).expect(0).prints(&["no errors"]);
}

#[test]
fn examples_live_on() {
    for file in std::fs::read_dir(root().join("examples")).expect("the examples") {
        let file = file.expect("a file").path();
        if file.extension().is_some_and(|extension| extension == "click") {
            let path = file.to_str().expect("a path");
            let alive = named("click-undead", &[path]).expect(0).stdout;
            assert_eq!(undead(&alive), alive, "{path}");
            // In their folder, where the files are that they name.
            run(thruway().current_dir(root()).args(["check", "-e", &alive])).expect(0);
        }
    }
}

const TOOLS: [&str; 8] = [
    "align",
    "combine",
    "devirtualize",
    "fastclassifier",
    "flatten",
    "provides",
    "uncombine",
    "undead",
];

#[test]
fn every_tool_has_a_help() {
    for tool in TOOLS {
        let text = run(thruway().args(["help", tool])).expect(0).stdout;
        assert!(text.contains(&format!("Usage: thruway {tool} ")), "{text}");
        assert!(text.contains(&format!("\nExample:\n  thruway {tool} ")), "{text}");
        let click = format!("click-{tool}");
        assert_eq!(named(&click, &["--help"]).expect(0).stdout, text);
        // Each names these among its options.
        for option in ["-v", "--version"] {
            named(&click, &[option]).expect(0).prints(&[&format!("{click} (Thruway) ")]);
        }
    }
}

const LEFT: &str = "InfiniteSource(LIMIT 3) -> c :: Counter -> Queue -> y :: ToDevice(eth1);
    Idle -> c";
const RIGHT: &str = "x :: FromDevice(eth0, SNIFFER false) -> c :: Counter -> Discard;
    s :: Script(wait 1s, print $(c.count), stop)";

#[test]
fn configurations_are_combined_and_taken_apart() {
    let args = ["-n", "a", "-e", LEFT, "-n", "b", "-e", RIGHT, "-l", "a.eth1=b.x"];
    let both = named("click-combine", &args).expect(0).stdout;
    let link = "link1 :: RouterLink(a y ToDevice, eth1, b x FromDevice, \"eth0, SNIFFER false\");";
    assert!(both.contains(link) && !both.contains(":: FromDevice"), "{both}");
    run(thruway().args(["check", "-e", &both])).expect(0).prints(&["no errors"]);
    // What one sent the other receives; its script reads its own counter.
    let run_both = run(&mut click(&["--simtime", "-e", &both, "-h", "a/c.count"])).expect(0);
    assert_eq!(run_both.stdout, "3\n3\n");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("both.click");
    std::fs::write(&file, &both).expect("written");
    let file = file.to_str().expect("a path");
    for (part, text) in [("a", LEFT), ("b", RIGHT)] {
        let sorted = |text: &str| {
            let flat = named("click-flatten", &["-d", "-e", text]).expect(0).stdout;
            let connections: usize = unnamed(text).matches("->").count();
            (flat, connections)
        };
        let taken = named("click-uncombine", &[file, part]).expect(0).stdout;
        assert_eq!(sorted(&taken), sorted(text), "{taken}");
    }
    let taken = named("click-uncombine", &["-n", "b", "-f", file]).expect(0).stdout;
    assert!(taken.contains("x :: FromDevice(eth0, SNIFFER false);"), "{taken}");
    let done = named("click-uncombine", &[file, "z"]).expect(1);
    done.says(&["no configuration 'z' in it; there are: a, b"]);
    named("click-uncombine", &[file]).expect(1).says(&["which configuration?"]);
    // Combined once more, and taken apart in one step.
    let args =
        [&format!("n={file}"), "-e", "Idle -> q :: Queue -> ToDevice(e)", "router2.e=router2.q"];
    named("click-combine", &args).expect(1).says(&["is a Queue that is connected otherwise"]);
    let nested = named("click-combine", &[&format!("n={file}"), "-e", "Idle"]).expect(0);
    let nested = nested.says(&["no links between"]);
    assert!(nested.stdout.contains("RouterLink(n/a y ToDevice, eth1, n/b x "));
    std::fs::write(dir.path().join("n.click"), &nested.stdout).expect("written");
    let file = dir.path().join("n.click");
    let part = named("click-uncombine", &[file.to_str().expect("a path"), "n/b"]).expect(0).stdout;
    assert_eq!(part, taken);
}

/// A flat text.
fn unnamed(text: &str) -> String {
    named("click-flatten", &["-e", text]).expect(0).stdout
}

#[test]
fn links_on_one_wire_and_links_that_are_none() {
    let to = "Idle -> Queue -> ToDevice(e)";
    let from = "FromDevice(e) -> Discard";
    let args = ["-n", "a", "-e", to, "-n", "b", "-e", from, "-n", "c", "-e", from];
    let both = |more: &[&str]| named("click-combine", &[&args[..], more].concat());
    let text = both(&["a.e=b.e", "a.e=c.e"]).expect(0).stdout;
    assert!(text.contains("RouterLink(a ToDevice@3 ToDevice, e, "), "{text}");
    assert!(text.contains("link1 [1] -> c/Discard@2;\n"), "{text}");
    for (link, why) in [
        ("a.e", "'a.e' is no link"),
        ("a.e=b", "is no link"),
        ("a.e=z.e", "no configuration named 'z'; there are: a, b, c"),
        ("a.f=b.e", "has no element 'f' and no ToDevice of that device"),
    ] {
        let link = ["-l", link];
        let done = both(&link).expect(1);
        done.says(&[why]);
    }
    named("click-combine", &["-n", "a", "-e", to, "-n", "a", "-e", to])
        .expect(1)
        .says(&["two configurations are named 'a'"]);
    for name in ["1", "a//b", "a-b", ""] {
        let done = named("click-combine", &["-n", name, "-e", to]).expect(1);
        done.says(&["cannot be a name"]);
    }
    named("click-combine", &[]).expect(1).says(&["no configurations; name them as NAME=FILE"]);
    named("click-combine", &["--nonsense"]).expect(1).says(&["unrecognized option"]);
}
