//! What functions get of a CPU, and that none works in vain in front of a slow one.

use std::time::Duration;

use super::parts::exec;
use crate::control::Client;
use crate::process::{Running, click, privileged, wait_for};

fn start(text: &str, dir: &tempfile::TempDir) -> (Running, Client) {
    let socket = dir.path().join("control");
    let name = socket.to_str().expect("plain text");
    let driver = Running::start(&mut click(&["-u", name, "-e", text]));
    (driver, Client::unix(&socket))
}

/// CPU time of functions in the next two seconds.
fn used<const N: usize>(client: &mut Client, names: [&str; N]) -> [f64; N] {
    let time = |client: &mut Client| {
        names.map(|name| client.read(&format!("{name}.cpu_time")).parse::<f64>().expect("seconds"))
    };
    let before = time(client);
    std::thread::sleep(Duration::from_secs(2));
    let after = time(client);
    std::array::from_fn(|at| after[at] - before[at])
}

#[test]
fn functions_on_one_cpu_have_their_weights() {
    if !privileged("weights of functions") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let nf = |name: &str, more: &str| {
        let passes = exec("passes");
        format!(
            "Idle -> {name} :: Nf({passes}, WAIT poll, CPUS 1, STANDBY false, {more}) -> Discard;"
        )
    };
    let text = nf("light", "WEIGHT 100") + &nf("heavy", "WEIGHT 400");
    let (driver, mut client) = start(&text, &dir);
    let [light, heavy] = used(&mut client, ["light", "heavy"]);
    eprintln!("weights of 100 and 400: {light:.3} s and {heavy:.3} s");
    assert!((3.0..5.3).contains(&(heavy / light)), "{light} {heavy}");
    driver.interrupt().expect(0);
}

#[test]
fn a_function_stays_below_its_quota() {
    if !privileged("a quota of a function") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let passes = exec("passes");
    let text = format!("Idle -> nf :: Nf({passes}, WAIT poll, CPU_PERCENT 20) -> Discard");
    let (driver, mut client) = start(&text, &dir);
    let [time] = used(&mut client, ["nf"]);
    eprintln!("20 % of a CPU: {time:.3} s of 2");
    // The one that waits has a quota of its own, and uses nothing.
    assert!(time < 0.5, "{time}");
    driver.interrupt().expect(0);
}

#[test]
fn functions_in_front_of_a_slow_one_do_not_work_in_vain() {
    let dir = tempfile::tempdir().expect("a directory");
    // 2 us for each packet of the first two, ten times that for the third; more comes than that.
    let nf =
        |name: &str, ns: u32| format!("{name} :: Nf({}, SLOTS 256)", exec(&format!("idles:{ns}")));
    let text = format!(
        "s :: RatedSource(RATE 150000) -> {} -> {} -> {} -> d :: Counter -> Discard",
        nf("a", 2_000),
        nf("b", 2_000),
        nf("c", 20_000)
    );
    let (driver, mut client) = start(&text, &dir);
    wait_for("packets", || (client.number("d.count") > 60_000).then_some(()));
    let dropped = |client: &mut Client, name: &str| -> u64 {
        let text = client.read(&format!("{name}.drops"));
        text.lines().filter_map(|line| line.split(' ').next()?.parse::<u64>().ok()).sum()
    };
    let in_front = dropped(&mut client, "a");
    let [in_vain, late] = ["b", "c"].map(|name| dropped(&mut client, name));
    let served = client.number("d.count");
    eprintln!("{served} served, {in_front} dropped first, {in_vain} and {late} after work");
    assert!(in_front > served, "it was overloaded");
    assert!((in_vain + late) * 100 < served, "{in_vain} + {late} of {served}");
    driver.interrupt().expect(0);
}
