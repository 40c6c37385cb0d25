//! Floods, slow ends and deaf ones beside an honest connection: it gets what it gets without them.

mod holders;

use std::net::TcpListener;

use thruway_sync::atomic::{AtomicBool, Ordering};

use super::chains::LONGER;
use super::path::{Path, SERVERS};
use crate::process::{Ending, Running, at_length, privileged, wait_for};
use crate::siege::{DOWNLOAD, Download, besiege, serve};

/// SYNs from random addresses: as many, and a second; where `THRUWAY_LONG=1` asks for it, more of
/// them as fast as they can be sent.
const SYNS: u32 = 60_000;
const SYN_RATE: u32 = 10_000;
const SYNS_AT_LENGTH: u32 = 2_000_000;
const SYN: &str = "\\<45000028 00000000 40060000 0a010001 0a000002 \
                   03e80051 00000001 00000000 50022000 00000000>";
/// TOTAL of TCPIn at its default, in whole frames, with half of a batch beyond.
const KEPT_MAX: u64 = (64 << 20) + (1 << 20);

/// A listener of the server, which many connect to at once.
fn listen(path: &Path) -> TcpListener {
    let bind = || TcpListener::bind((SERVERS[0], 0));
    let listener = path.server().within(bind).expect("a free port");
    rustix::net::listen(&listener, 4096).expect("a listener");
    listener
}

/// The flood of SYNs, from the client's interface.
fn flood(path: &Path) -> Running {
    let source = match at_length() {
        true => format!("InfiniteSource(DATA {SYN}, LIMIT {SYNS_AT_LENGTH}, BURST 32, STOP true)"),
        false => format!("RatedSource(DATA {SYN}, RATE {SYN_RATE}, LIMIT {SYNS}, STOP true)"),
    };
    let text = format!(
        "{source} -> MarkIPHeader -> SetRandIPAddress(10.64.0.0/10) -> StoreIPAddress(12) \
         -> SetIPChecksum -> SetTCPChecksum -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:8) -> Queue \
         -> ToDevice(eth0, METHOD LINUX)"
    );
    Running::start(path.client().thruway().args(["click", "-e", &text]))
}

#[test]
fn an_honest_connection_notices_no_flood() {
    if !privileged("an_honest_connection_notices_no_flood") {
        return;
    }
    LONGER.with(|chain| {
        let path = Path::new(chain);
        let listener = listen(&path);
        let to = listener.local_addr().expect("it is bound");
        let [over, begun] = [(); 2].map(|()| AtomicBool::new(false));
        std::thread::scope(|scope| {
            let _ending = Ending(&[&over]);
            scope.spawn(|| serve(&listener, &over));
            let alone = Download::begin(path.client(), to).finish();
            scope.spawn(|| path.client().within(|| besiege(to, &over, &begun)));
            wait_for("the siege", || begun.load(Ordering::SeqCst).then_some(()));
            let flood = flood(&path);
            let among = Download::begin(path.client(), to).finish();
            drop(flood);
            println!("{alone} bytes alone, {among} among the others");
            assert!(alone * 100 >= DOWNLOAD * 90, "{alone} bytes alone");
            assert!(among * 100 >= alone * 99, "{among} of {alone} bytes");
        });
        let mut control = path.control();
        assert!(control.number("chain/tcp.opened") > 10_000, "the flood came");
        let kept = control.number("chain/tcp.memory");
        assert!(kept <= KEPT_MAX, "{kept} bytes are kept");
        path.stop();
    });
}
