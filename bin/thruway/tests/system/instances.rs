//! The control socket that every `thruway run` has, and how tools find it.

use rustix::process::Signal;

use crate::attacks::Instance;
use crate::control::Client;
use crate::process::{LIMIT, Running, run, thruway, wait_for};

fn counter(_: &str) -> String {
    "RatedSource(RATE 100) -> c :: Counter -> Discard".to_owned()
}

#[test]
fn tools_find_what_runs() {
    let instance = Instance::start(counter, &[]);
    instance.ready();
    instance.ctl(&["read", "c.class"]).expect(0).prints(&["Counter"]);
    instance.ctl(&["c.class"]).expect(0).prints(&["Counter"]);
    instance.ctl(&["list"]).expect(0).prints(&["c\n"]);
    instance.ctl(&[]).expect(0).prints(&[".sock", "RatedSource"]);
    instance.ctl(&["nosuch.count"]).expect(1).says(&["No element named 'nosuch'"]);
    let top = ["top", "--once", "--interval", "0.1"];
    run(&mut instance.tool(&top)).expect(0).prints(&["Counter"]);
    let trace = ["trace", "-", "--count", "1"];
    run(&mut instance.tool(&trace)).expect(0).prints(&["Counter"]);

    // A second one: the tools say which there are.
    let mut command = instance.tool(&["run", "--quiet", "-e", "Idle -> Discard"]);
    let second = Running::start(&mut command);
    wait_for("two", || {
        let told = instance.ctl(&["list"]);
        told.stderr.contains("2 instances run").then_some(())
    });
    let told = instance.ctl(&["list"]).expect(1);
    let address = format!("{}/{}.sock", instance.run_dir().display(), second.pid());
    told.says(&[&address, "RatedSource"]);
    instance.ctl(&[&address, "list"]).expect(0);
    second.interrupt().expect(0);
    instance.ctl(&["c.class"]).expect(0);

    let socket = instance.run_dir().join(format!("{}.sock", instance.running.pid()));
    assert!(socket.exists());
    instance.ctl(&["write", "stop"]).expect(0);
    instance.running.wait(LIMIT).expect(0);
    assert!(!socket.exists(), "it goes with its instance");
}

#[test]
fn what_a_dead_instance_left_is_told_and_swept() {
    let named = |dir: &str| format!("ControlSocket(UNIX, {dir}/s); {}", counter(""));
    let instance = Instance::start(named, &[]);
    instance.ready();
    let (path, socket) = (instance.path("s"), instance.run_dir());
    let socket = socket.join(format!("{}.sock", instance.running.pid()));
    // A live one is never replaced.
    let text = format!("ControlSocket(UNIX, {}); Idle -> Discard", path.display());
    run(&mut instance.tool(&["run", "-e", &text])).expect(1).says(&["a process listens there"]);
    instance.ctl(&["c.class"]).expect(0);

    instance.running.signal(Signal::KILL);
    wait_for("its death", || instance.ctl(&["list"]).stderr.contains("1 died").then_some(()));
    assert!(path.exists() && socket.exists());
    let name = path.to_str().expect("plain text");
    instance.ctl(&[name, "list"]).expect(1).says(&["it is stale"]);
    let again = Running::start(&mut instance.tool(&["run", "--quiet", "-e", &text]));
    wait_for("the new one", || {
        assert!(again.stderr().is_empty(), "{}", again.stderr());
        (instance.ctl(&["list"]).code() == 0).then_some(())
    });
    assert_eq!(Client::unix(&path).read("list"), "3\nControlSocket@1\nIdle@2\nDiscard@3\n");
    assert!(!socket.exists(), "the next start sweeps");
    again.interrupt().expect(0);
    assert!(!path.exists());
}

#[test]
fn the_socket_is_where_the_user_wants_it_or_nowhere() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().join("here");
    let named = Instance::start(counter, &["--control", place.to_str().expect("plain text")]);
    assert_eq!(Client::unix(&place).read("c.class"), "Counter");
    named.running.interrupt().expect(0);
    assert!(!place.exists());

    let mut command = thruway();
    command.args([
        "run",
        "--quiet",
        "--control",
        "none",
        "--duration",
        "0.2",
        "-e",
        "Idle -> Discard",
    ]);
    run(command.env("THRUWAY_RUN_DIR", dir.path().join("none"))).expect(0);
    assert!(!dir.path().join("none").exists());

    // Without a run directory it runs all the same.
    let mut command = thruway();
    command.args(["run", "--quiet", "--duration", "0.2", "-e", "Idle -> Discard"]);
    let done = run(command.env("THRUWAY_RUN_DIR", "/nonexistent/run")).expect(0);
    done.says(&["no control socket: /nonexistent/run"]);
    let missing = thruway().args(["ctl", "list"]).env("THRUWAY_RUN_DIR", dir.path()).output();
    let told = String::from_utf8_lossy(&missing.expect("it runs").stderr).into_owned();
    assert!(told.contains("nothing runs that left a socket in"), "{told}");
    let bad = ["run", "--control", "/nonexistent/s", "-e", "Idle -> Discard"];
    run(thruway().args(bad)).expect(1).says(&["--control /nonexistent/s: cannot bind"]);
    let bad = ["run", "--files", "/nonexistent", "-e", "Idle -> Discard"];
    run(thruway().args(bad)).expect(1).says(&["--files /nonexistent"]);
}

#[test]
fn the_socket_goes_on_in_a_hot_swap() {
    let instance = Instance::start(counter, &["-R"]);
    instance.ready();
    let socket = instance.run_dir().join(format!("{}.sock", instance.running.pid()));
    let mut client = Client::unix(&socket);
    assert_eq!(client.read("c.class"), "Counter");
    let next = "RatedSource(RATE 100) -> d :: Counter -> Discard";
    assert_eq!(client.write_data("hotconfig", next).0, 200);
    wait_for("the swap", || (client.ask("CHECKREAD d.count").0 == 200).then_some(()));
    assert_eq!(client.read("d.class"), "Counter");
    let late = "Idle -> FromDump(/nofile) -> Discard";
    let _ = client.write_data("hotconfig", late);
    assert_eq!(client.read("d.class"), "Counter");
    instance.running.interrupt().expect(0);
}
