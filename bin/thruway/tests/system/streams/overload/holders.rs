//! Clients that stop acknowledging, with a window under way each: together more than may be kept.

use thruway_sync::atomic::{AtomicBool, Ordering};

use super::super::chains::{Functions, LONGER, ORDER};
use super::super::path::{Chain, Path, SERVERS};
use super::{KEPT_MAX, listen};
use crate::process::{Ending, Running, need, privileged, wait_for};
use crate::siege::{DOWNLOAD, Download, requests, serve};
use crate::traffic::listening;

/// Those who hold at once; they come again.
const HOLDERS: usize = 600;
const PORT: &str = "9999";
/// What the process may take beyond what is kept: what is known of sessions and of packets.
const BESIDE_KIB: u64 = 16 << 10;

/// Runs holders.py in a host.
fn python(host: &crate::network::Namespace, words: &[&str]) -> Running {
    need("python3", "python3");
    let mut command = host.command("python3");
    let script =
        crate::process::root().join("bin/thruway/tests/system/streams/overload/holders.py");
    Running::start(command.arg(script).args(words))
}

/// What a download gets among them.
fn among_holders(functions: &Functions, guard: &str) {
    let text = functions.chain().replace("TCPIn", &format!("TCPIn({guard})"));
    let path = Path::new(&Chain { text: &text, edits: functions.edits, ..Chain::CABLE });
    let listener = listen(&path);
    let to = listener.local_addr().expect("it is bound");
    let _server = python(path.server(), &["serve", SERVERS[0], PORT]);
    listening(path.server(), PORT);
    let [over, quiet] = [(); 2].map(|()| AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _ending = Ending(&[&over, &quiet]);
        scope.spawn(|| serve(&listener, &over));
        let alone = Download::begin(path.client(), to).finish();
        let before = path.resident_kib();
        let holders = python(path.client(), &["hold", SERVERS[0], PORT, &HOLDERS.to_string()]);
        let asked = scope.spawn(|| path.client().within(|| requests(to, &quiet)));
        let said = wait_for("holders", || Some(holders.stdout()).filter(|said| !said.is_empty()));
        let among = Download::begin(path.client(), to).finish();
        quiet.store(true, Ordering::SeqCst);
        let (made, answered) = asked.join().expect("no panic");
        let mut control = path.control();
        let [kept, pruned, packets, connections] = ["memory", "pruned", "kept", "connections"]
            .map(|name| control.number(&format!("chain/tcp.{name}")));
        let grown = path.resident_kib().saturating_sub(before);
        println!(
            "{alone} bytes alone, {among} among {}; {answered} of {made} requests; {kept} bytes \
             in {packets} packets of {connections} connections kept, {pruned} gave way; \
             {grown} KiB more memory",
            said.trim()
        );
        assert!(alone * 100 >= DOWNLOAD * 90, "{alone} bytes alone");
        assert!(among * 100 >= alone * 99, "{among} of {alone} bytes");
        assert!(made > 20 && made == answered, "{answered} of {made} requests");
        assert!(pruned > 0, "memory was short");
        assert!(kept <= KEPT_MAX, "{kept} bytes are kept");
        assert!(grown <= (KEPT_MAX >> 10) + BESIDE_KIB, "{grown} KiB");
        drop(holders);
    });
    path.stop();
}

#[test]
fn who_stops_acknowledging_starves_nobody() {
    if !privileged("who_stops_acknowledging_starves_nobody") {
        return;
    }
    among_holders(&LONGER, "");
    among_holders(&ORDER, "GUARD true");
}
