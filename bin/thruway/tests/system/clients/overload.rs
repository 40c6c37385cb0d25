//! Overload of the firewall and of the translator, as users run them: a connection that is open
//! notices nothing of floods from both sides, each packet a session of its own, and of slow ends.
//! The firewall's ports are AF_XDP's, the translator's are packet sockets.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use thruway_sync::atomic::{AtomicBool, Ordering};

use super::at;
use super::lab::{INSIDE, Lab, OUTSIDE, PUBLIC};
use crate::control::{AWAY_NS, Client};
use crate::network::Namespace;
use crate::process::{Ending, Running, at_length, privileged, resident_kib, wait_for};
use crate::siege::{DOWNLOAD, Download, besiege, requests, serve};

const PORT: u16 = 9000;
/// Packets of a flood a second, which a build without optimisation takes beside other work; where
/// `THRUWAY_LONG=1` asks for it, as many in all as fast as they can be sent.
const RATE: u32 = 2_000;
const FLOOD: u32 = 400_000;
/// Embryonic sessions that a thread keeps at most.
const EMBRYONIC_MAX: u64 = 1 << 18;
/// What the process may take beyond its sessions: the table's index as it grows, a translator's
/// mappings.
const BESIDE_KIB: u64 = 64 << 10;
/// A session's record and its place in the index, at most: see `dataplane/flow/src/table/mod.rs`.
const SESSION_BYTES: u64 = 256;

/// A packet that somebody invents, and where it is sent.
#[derive(Clone, Copy)]
pub struct Flood {
    /// Which protocol: a SYN, or an empty datagram.
    pub data: &'static str,
    /// Networks of its source and destination, of which each packet has any address.
    pub from: &'static str,
    pub to: &'static str,
    /// The destination port, where it is not any.
    pub port: Option<u16>,
    /// The sender's element of the checksum.
    pub checksum: &'static str,
}

pub const SYN: &str = "\\<45000028 00000000 40060000 00000000 00000000 00000000 00000001 00000000 \
                   50022000 00000000>";
const DATAGRAM: &str = "\\<4500001c 00000000 40110000 00000000 00000000 00000000 00080000>";

impl Flood {
    /// A configuration that sends what a source makes, from `eth0` to a station there.
    pub fn text(&self, source: &str, station: &str) -> String {
        let Flood { from, to, checksum, .. } = self;
        let port =
            self.port.map_or(String::new(), |port| format!("-> StoreData(22, \\<{port:04x}>)"));
        format!(
            "{source} -> MarkIPHeader \
             -> SetRandIPAddress({from}) -> StoreIPAddress(12) -> SetRandIPAddress({to}) \
             -> StoreIPAddress(16) -> SetRandIPAddress(0.0.0.0/0) -> StoreIPAddress(20) {port} \
             -> SetIPChecksum -> {checksum} -> EtherEncap(0x0800, 2:0:0:0:0:99, {station}) \
             -> Queue -> ToDevice(eth0, METHOD LINUX)"
        )
    }

    /// Sends all of it from a host's interface to a station there.
    fn send(&self, host: &Namespace, station: &str) -> Running {
        let data = self.data;
        let source = match at_length() {
            true => format!("InfiniteSource(DATA {data}, LIMIT {FLOOD}, BURST 32, STOP true)"),
            false => format!("RatedSource(DATA {data}, RATE {RATE}, LIMIT {FLOOD}, STOP true)"),
        };
        let text = self.text(&source, station);
        // With `THRUWAY_FLOOD_NICE=19` it takes what the router leaves of the processors, as if it
        // were another machine: more of it is read then.
        let nice = std::env::var("THRUWAY_FLOOD_NICE").unwrap_or_else(|_| "0".to_owned());
        let mut command = host.command("nice");
        command.args(["-n", &nice, env!("CARGO_BIN_EXE_thruway")]);
        command.args(["run", "--control", "none"]);
        Running::start(command.args(["-e", &text]))
    }
}

/// The Ethernet address of a host's router.
fn router(host: &Namespace, far: &str) -> String {
    host.run(&format!("ping -n -c 1 -W 1 {far}"));
    let printed = host.succeed("ip neighbour show dev eth0");
    let mut words = printed.split_whitespace().skip_while(|word| *word != "lladdr");
    words.nth(1).unwrap_or_else(|| panic!("no router: {printed}")).to_owned()
}

/// The Ethernet address of a host.
pub fn station(host: &Namespace) -> String {
    let printed = host.succeed("ip -brief link show eth0");
    let mut words = printed.split_whitespace().rev();
    words.find(|word| word.matches(':').count() == 5).expect("an address").to_owned()
}

/// Where floods go to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aim {
    /// Through the middlebox.
    Middlebox,
    /// To hosts beside it, that drop them: the processors and the kernel have as much to do, and
    /// its ports see nothing of it.
    Beside,
}

/// SYNs and datagrams from inside, each a session of its own, and SYNs for the open service.
fn floods(lab: &Lab, service: (&'static str, u16), aim: Aim) -> Vec<Running> {
    let inward = Flood {
        data: SYN,
        from: "192.0.2.0/24",
        to: service.0,
        port: Some(service.1),
        checksum: "SetTCPChecksum",
    };
    let outward = Flood { from: "192.168.1.128/25", to: "192.0.2.0/24", port: None, ..inward };
    let datagrams = Flood { data: DATAGRAM, checksum: "SetUDPChecksum", ..outward };
    let hosts = [&lab.inside[1], &lab.outside[1]];
    let stations = match aim {
        Aim::Middlebox => [router(hosts[0], OUTSIDE[0]), router(hosts[1], PUBLIC)],
        Aim::Beside => [&lab.inside[2], &lab.outside[2]].map(station),
    };
    let [inside, outside] = [0, 1].map(|side| (hosts[side], &stations[side]));
    vec![
        inward.send(outside.0, outside.1),
        outward.send(inside.0, inside.1),
        datagrams.send(inside.0, inside.1),
    ]
}

/// What is reported on sessions. (`from_wan` finds them in the same table.)
fn sessions(socket: &Path) -> [u64; 5] {
    let mut control = Client::unix(socket);
    ["sessions", "embryonic", "evicted", "refused", "created"]
        .map(|name| control.number(&format!("from_lan.{name}")))
}

/// What found the rings of the ports full: all, and of open connections.
fn lost(socket: &Path) -> [u64; 2] {
    let mut control = Client::unix(socket);
    let list = control.read("list");
    let ports = list.lines().filter(|name| name.contains("FromDevice")).map(str::to_owned);
    let ports: Vec<String> = ports.collect();
    assert_eq!(ports.len(), 2, "{list}");
    ["kernel_drops", "preferred_drops"]
        .map(|name| ports.iter().map(|port| control.number(&format!("{port}.{name}"))).sum())
}

/// What came of it.
struct Seen {
    /// Bytes of a download without others, of one while floods go beside the middlebox (at length
    /// only), and of one among them.
    alone: usize,
    beside: usize,
    among: usize,
    /// Packets that the ports' rings had no room for, and those of open connections among them.
    lost: [u64; 2],
    /// Requests that were made in the meantime, and those that were answered in full.
    requests: (usize, usize),
    /// Of sessions, at the end of it: now, embryonic, evicted, refused, created.
    sessions: [u64; 5],
    /// The longest stay of a thread away from its round: nanoseconds, and what is reported on it.
    gap: (u64, String),
    /// Memory that was added, in KiB.
    grown: u64,
}

impl Seen {
    /// What comes of it where a program with this number and control socket is in the middle.
    fn of(lab: &Lab, (pid, socket): (u32, &Path), service: (&'static str, u16)) -> Seen {
        let to = at(OUTSIDE[0], PORT);
        let listener = lab.outside[0].within(|| TcpListener::bind(to)).expect("a free port");
        rustix::net::listen(&listener, 4096).expect("a listener");
        let (to, honest) = (SocketAddr::V4(to), &lab.inside[0]);
        let [over, begun, quiet] = [(); 3].map(|()| AtomicBool::new(false));
        let before = resident_kib(pid);
        std::thread::scope(|scope| {
            let _ending = Ending(&[&over, &quiet]);
            scope.spawn(|| serve(&listener, &over));
            let alone = Download::begin(honest, to).finish();
            scope.spawn(|| lab.inside[2].within(|| besiege(to, &over, &begun)));
            wait_for("the siege", || begun.load(Ordering::SeqCst).then_some(()));
            let beside = if at_length() {
                let open = Download::begin(honest, to);
                let floods = floods(lab, service, Aim::Beside);
                let beside = open.finish();
                drop(floods);
                beside
            } else {
                alone
            };
            let open = Download::begin(honest, to);
            let floods = floods(lab, service, Aim::Middlebox);
            let asked = scope.spawn(|| honest.within(|| requests(to, &quiet)));
            let among = open.finish();
            quiet.store(true, Ordering::SeqCst);
            let requests = asked.join().expect("no panic");
            let grown = resident_kib(pid).saturating_sub(before);
            let (sessions, lost) = (sessions(socket), lost(socket));
            let gap = Client::unix(socket).worst_gap();
            drop(floods);
            Seen { alone, beside, among, lost, requests, sessions, gap, grown }
        })
    }

    fn check(&self) {
        let Seen { alone, beside, among, lost: [lost, _], gap: (away, told), grown, .. } = self;
        let [sessions, embryonic, .., created] = &self.sessions;
        assert!(alone * 100 >= DOWNLOAD * 90, "{alone} bytes alone");
        assert!(among * 100 >= beside * 99, "{among} of {beside} bytes");
        // At length most of them find the rings full.
        let (came, least) = match at_length() {
            true => (created + lost, FLOOD),
            false => (*created, RATE * 9),
        };
        assert!(came > u64::from(least), "the floods came: {came}");
        assert!(*embryonic <= EMBRYONIC_MAX, "{embryonic}");
        // Without optimisation, batches of new sessions take ten times as long.
        let most = if cfg!(debug_assertions) { 4 * AWAY_NS } else { AWAY_NS };
        assert!(*away < most, "{told}");
        let most = sessions * SESSION_BYTES / 1024 + BESIDE_KIB;
        assert!(*grown <= most, "{grown} KiB for {sessions} sessions");
    }
}

fn undergo(lab: Lab, example: &str, service: (&'static str, u16)) {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let mut lab = lab;
    lab.route_inside();
    let control = socket.display().to_string();
    let pid = lab.example(&["run", "--control", &control], example, &[]);
    let seen = Seen::of(&lab, (pid, &socket), service);
    println!("{}", lab.stop().expect(0).stdout);
    let Seen { alone, beside, among, lost, requests: (made, answered), .. } = &seen;
    let Seen { sessions, gap: (_, gap), grown, .. } = &seen;
    let [sessions, embryonic, evicted, refused, created] = sessions;
    println!(
        "{example}: {alone} bytes alone, {beside} beside the floods, {among} among them; {lost:?} \
         packets found rings full; {answered} of {made} requests; {created} sessions begun, \
         {sessions} now, {embryonic} of them embryonic, {evicted} evicted, {refused} refused; \
         {grown} KiB more memory; {gap}"
    );
    seen.check();
}

#[test]
fn an_open_connection_notices_no_overload_of_the_firewall() {
    if privileged("an_open_connection_notices_no_overload_of_the_firewall") {
        undergo(Lab::new().for_af_xdp(), "firewall.click", (INSIDE[1], 80));
    }
}

#[test]
fn an_open_connection_notices_no_overload_of_the_translator() {
    if privileged("an_open_connection_notices_no_overload_of_the_translator") {
        undergo(Lab::new().for_packet_sockets(), "nat.click", (PUBLIC, 8080));
    }
}
