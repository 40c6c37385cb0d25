//! A third host, the witness, has at most one host of a pair serve.

use super::switchover::lost_pings;
use super::*;

/// Where it listens.
const WITNESS: &str = "10.8.0.3:7071";
/// Longer than a lease and AFTER together.
const LONG: Duration = Duration::from_secs(1);

/// The example, of hosts that ask it for leases.
pub fn with_witness(text: &str) -> String {
    let changed = text.replace("AFTER $AFTER", &format!("AFTER $AFTER, WITNESS {WITNESS}"));
    assert_ne!(changed, text);
    changed
}

/// A pair with its witness, which the hosts reach by interfaces `wit0`.
struct Watched {
    pair: Pair,
    witness: Option<Running>,
    host: Namespace,
}

impl Watched {
    fn new() -> Watched {
        let mut pair = Pair::new();
        pair.has_witness = true;
        let host = Namespace::new("witness");
        host.ip("link add br0 type bridge");
        host.ip("address add 10.8.0.3/24 dev br0");
        host.ip("link set br0 up");
        for ((middle, port), last) in pair.middles.iter().zip(["hosta", "hostb"]).zip(1..) {
            middle.cable("wit0", (&host, port), "");
            host.ip(&format!("link set {port} master br0 up"));
            middle.ip(&format!("address add 10.8.0.{last}/24 dev wit0"));
            middle.ip("link set wit0 up");
        }
        let mut watched = Watched { pair, witness: None, host };
        watched.start_witness();
        watched.pair.start_backup();
        watched.pair.start_active();
        watched.pair.wait_synchronized();
        watched
    }

    fn start_witness(&mut self) {
        let text = format!("Witness(LISTEN {WITNESS}, KEY {})", self.pair.path("a.key"));
        let mut command = self.host.thruway();
        command.args(["click", "-e", &text]).stdin(std::process::Stdio::null());
        self.witness = Some(Running::start(&mut command));
    }

    fn roles(&self) -> [String; 2] {
        [0, 1].map(|which| self.pair.read(which, "pair.role"))
    }

    /// Watches for a while that host a alone serves.
    fn stays(&self) {
        let begun = Instant::now();
        while begun.elapsed() < LONG {
            assert_eq!(self.roles(), ["active", "backup"], "{}", self.pair.log(1));
            assert_eq!(self.pair.read(0, "pair.leased"), "true");
        }
    }
}

impl Between for Watched {
    fn ends(&self) -> Ends<'_> {
        self.pair.ends()
    }
}

#[test]
fn hosts_that_are_cut_off_from_each_other_never_both_serve() {
    if !privileged("hosts_that_are_cut_off_from_each_other_never_both_serve") {
        return;
    }
    under_load(&mut Watched::new(), |watched| {
        let [a, _] = &watched.pair.middles;
        // The cable between them alone: the one that serves renews its lease.
        a.ip("link set pair0 down");
        watched.stays();
        assert!(watched.pair.log(1).contains("the witness is reached"));
        a.ip("link set pair0 up");
        watched.pair.wait_synchronized();

        // From everybody: it has no lease before the other one serves.
        a.ip("link set wit0 down");
        a.ip("link set pair0 down");
        wait_for("the end of the lease", || {
            let taken_over = watched.pair.read(1, "pair.role") == "active";
            let leased = watched.pair.read(0, "pair.leased") == "true";
            assert!(!(taken_over && leased), "both may serve");
            taken_over.then_some(())
        });
        assert_eq!(watched.roles(), ["active", "active"], "it does not know of the other one");
        assert_eq!(watched.pair.read(0, "pair.leased"), "false");
        // The witness alone tells it.
        a.ip("link set wit0 up");
        watched.pair.wait_role(0, "backup");
        a.ip("link set pair0 up");
        watched.pair.wait_synchronized_at(0);
        assert_eq!([0, 1].map(|which| watched.pair.read(which, "pair.term")), ["1", "1"]);
    });
}

#[test]
fn a_lost_witness_costs_nothing_while_the_hosts_reach_each_other() {
    if !privileged("a_lost_witness_costs_nothing_while_the_hosts_reach_each_other") {
        return;
    }
    let mut watched = Watched::new();
    let witness = watched.witness.take().expect("it runs");
    let lost = lost_pings(&watched.pair, || {
        witness.signal(Signal::KILL);
        witness.wait(Duration::from_secs(5));
        watched.stays();
        // Roles change without it, too.
        watched.pair.ctl(0, &["write", "pair.switchover", "now"]).expect(0);
        watched.pair.wait_role(1, "active");
        watched.pair.wait_role(0, "backup");
        std::thread::sleep(LONG);
        watched.pair.ctl(1, &["write", "pair.switchover", "now"]).expect(0);
        watched.pair.wait_role(0, "active");
    });
    assert_eq!(lost, 0, "{}{}", watched.pair.log(0), watched.pair.log(1));
    // Without both, nobody takes over.
    watched.pair.kill(0);
    std::thread::sleep(LONG);
    assert_eq!(watched.pair.read(1, "pair.role"), "backup");
    watched.start_witness();
    watched.pair.wait_role(1, "active");
    let refused = watched.pair.ctl(1, &["write", "pair.takeover", "now"]);
    assert!(refused.stderr.contains("only a backup takes over"), "{refused:?}");
}
