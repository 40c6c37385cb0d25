//! Isolated functions in virtual machines: what holds of processes holds of them. The image is made
//! by `scripts/guest-image`; each machine takes seconds to boot where it is emulated, so there are
//! few.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::parts::{HOSTILE, exec};
use super::sessions::Counted;
use super::{Captures, Watched, cpu_ms, frames, go};
use crate::process::{root, skip, wait_for};

/// The image, as an argument; none, and a word about it, where none was made.
fn vm(test: &str) -> Option<String> {
    let image: PathBuf = root().join("target/guest/image");
    if !image.join("kernel").is_file() {
        skip(test, "no image of virtual machines; scripts/guest-image makes one");
        return None;
    }
    Some(format!("VM \"{}\"", image.canonicalize().expect("a path").display()))
}

/// A machine is busy from its start until it stands still, or works.
const STILL: Duration = Duration::from_millis(700);

/// Longest time from the end of a machine until the one that waited has its place.
const REPLACED: Duration = Duration::from_secs(3);

#[test]
fn bytes_and_order_are_kept_and_groups_shared() {
    let Some(vm) = vm("machines that keep bytes and order") else { return };
    let frames = frames(1000);
    let captures = Captures::new(&frames);
    let member = "MODE group, GROUP friends";
    let text = format!(
        "TrustGroup(friends, FRAMES 1024); FromDump({}, STOP true)
         -> Nf({}, {vm}, STANDBY false)
         -> Nf({passes}, {member}) -> Nf({passes}, {member}, {vm}, STANDBY false) -> ToDump({})",
        captures.path("in"),
        exec("tags"),
        captures.path("out"),
        passes = exec("passes"),
    );
    go(&text, &[]).expect(0);
    let tagged: Vec<_> = frames.iter().map(|frame| [b"tag!", &frame[..]].concat()).collect();
    assert!(captures.written("out") == tagged);
}

/// Processes that run QEMU for this driver.
fn machines(driver: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("it is there").flatten();
    let numbers = all.filter_map(|one| one.file_name().to_str()?.parse::<u32>().ok());
    let is_ours = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1));
        stat.contains("(qemu-system") && parent == Some(driver.to_string().as_str())
    };
    numbers.filter(is_ours).collect()
}

/// Waits until a second machine has booted and stands still; the first is `pid`.
fn wait_for_standby(driver: u32, pid: u32) {
    let other =
        wait_for("a second machine", || machines(driver).into_iter().find(|other| *other != pid));
    let mut last = (cpu_ms(other), Instant::now());
    wait_for("it to stand still", || {
        let now = cpu_ms(other);
        if now != last.0 {
            last = (now, Instant::now());
        }
        (now > 0 && last.1.elapsed() > STILL).then_some(())
    });
}

#[test]
fn a_killed_machine_comes_back_with_its_sessions() {
    let Some(vm) = vm("a killed machine") else { return };
    let text = super::sessions::configuration(3, &format!("{vm}, ACCELERATION emulated"));
    let mut counted = Counted::start(&text);
    counted.wait_above("d.count", 1000);
    let sandbox = counted.client.read("nf.sandbox");
    assert!(sandbox.contains("virtual machine, emulated, not accelerated"), "{sandbox}");
    let pid: u32 = counted.client.read("nf.pid").parse().expect("a process");
    wait_for_standby(counted.driver.pid(), pid);
    let before = counted.counter("packets-max ");
    assert!(before > 0);
    kill_process(Pid::from_raw(pid.cast_signed()).expect("a process"), Signal::KILL)
        .expect("it runs");
    let killed = Instant::now();
    wait_for("a restart", || (counted.client.number("nf.restarts") == 1).then_some(()));
    wait_for("its start", || (counted.client.read("nf.state") == "running").then_some(()));
    let took = killed.elapsed();
    eprintln!("the machine that waited took over after {took:?}");
    assert!(took < REPLACED, "{took:?}");
    // It finds its scratch: no session began anew, and each goes on counting where it was.
    wait_for("its sessions", || (counted.counter("packets-max ") > before).then_some(()));
    assert_eq!(counted.counter("begun "), 0);
    assert!(counted.client.read("nf.last_error").contains("signal 9"));
    let pid = counted.driver.pid();
    counted.driver.interrupt().expect(0);
    wait_for("the end of machines", || machines(pid).is_empty().then_some(()));
}

#[test]
fn a_hostile_machine_is_ended_and_its_neighbour_unharmed() {
    let Some(vm) = vm("a hostile machine") else { return };
    let nf = format!("{}, {vm}, STANDBY false", exec(&format!("{HOSTILE}heads")));
    let mut watched = Watched::start(&nf);
    watched.wait_above("nf.peer_faults", 0);
    let neighbour = watched.client.number("nd.count");
    watched.wait_above("nd.count", neighbour + 200);
    wait_for("why it was ended", || {
        watched.client.read("nf.last_error").contains("broke the exchange").then_some(())
    });
    watched.stop_and_count();
}

#[test]
fn machines_that_do_not_begin_are_told_with_their_console() {
    let refuse = |nf: &str, words: &[&str]| {
        let text = format!("Idle -> nf :: Nf({nf}) -> Discard");
        go(&text, &["--duration", "5"]).expect(1).says(&["config:1"]).says(words);
    };
    let Some(vm) = vm("machines that do not begin") else { return };
    let passes = exec("passes");
    let missing = format!("{passes}, VM \"/no/image\"");
    refuse(&missing, &["has no /no/image/kernel", "scripts/guest-image"]);
    refuse(&format!("{passes}, ACCELERATION kvm"), &["ACCELERATION", "give VM"]);
    refuse(&format!("{passes}, {vm}, MEMORY 64M"), &["needs 128 MB"]);
    refuse(&format!("{passes}, {vm}, ATTACH_TIMEOUT 300ms"), &["did not attach within 300ms"]);
    let words = ["the rule file is missing", "the function ended: exit status: 1"];
    refuse(&format!("{}, {vm}", exec("exits")), &words);
}
