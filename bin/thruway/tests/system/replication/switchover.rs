//! Roles change and change back while connections go on: by switchovers, and after the loss of
//! either host.

use super::*;
use crate::control::Client;

/// A ping every 2 ms.
const PINGS: usize = 3000;

impl Pair {
    /// Has the host that serves switch over to the other one.
    pub fn switch_over(&self, from: usize) {
        let begun = Instant::now();
        self.ctl(from, &["write", "pair.switchover", "now"]).expect(0);
        self.wait_role(from, "backup");
        self.wait_role(1 - from, "active");
        println!("switched over at most {:.0?} later", begun.elapsed());
    }

    /// Why a host does not switch over.
    fn refusal(&self, which: usize) -> String {
        let done = self.ctl(which, &["write", "pair.switchover", "now"]);
        assert_ne!(done.code(), 0, "{done:?}");
        done.stderr
    }

    fn start_host(&mut self, which: usize) {
        if which == 0 {
            self.a = Some(self.start(0, &format!("TO {}", self.backup())));
        } else {
            self.start_backup();
        }
    }
}

/// Runs `meanwhile` while pings pass through the host that serves; how many were lost.
pub fn lost_pings(pair: &Pair, meanwhile: impl FnOnce()) -> usize {
    let server = pair.ends().address.ip();
    std::thread::scope(|scope| {
        let ping = format!("ping -n -q -i 0.002 -c {PINGS} -W 2 {server}");
        let pings = scope.spawn(move || pair.inside.run(&ping));
        std::thread::sleep(Duration::from_millis(300));
        meanwhile();
        let done = pings.join().expect("no panic");
        let (_, rest) = done.stdout.split_once(" packets transmitted, ").expect("a summary");
        let came = rest.split(' ').next().and_then(|count| count.parse::<usize>().ok());
        PINGS - came.unwrap_or_else(|| panic!("{}", done.stdout))
    })
}

fn switch_over_and_back(mut pair: Pair) {
    pair.start_backup();
    pair.start_active();
    under_load(&mut pair, |pair| {
        pair.wait_synchronized();
        let lost = lost_pings(pair, || {
            for round in 0..4 {
                pair.switch_over(round % 2);
                pair.wait_synchronized_at(round % 2);
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        let drops = [0, 1].map(|which| pair.read(which, "pair.drops"));
        assert_eq!(lost, 0, "{}{}{drops:#?}", pair.log(0), pair.log(1));
        let passed_on = [0, 1].map(|which| pair.count(which, "pair.passed_on"));
        println!("passed on: {passed_on:?} packets");
        assert!(passed_on.iter().sum::<u64>() > 0, "packets came to a host that had switched over");
        assert_eq!([0, 1].map(|which| pair.read(which, "pair.term")), ["4", "4"]);
        assert_eq!([0, 1].map(|which| pair.count(which, "pair.unusable")), [0, 0]);
        let streams = pair.log(1).matches("sessions are replicated").count();
        assert_eq!(streams, 1, "the stream goes on");
        // Each has what is needed to go on alone.
        pair.kill_active();
    });
}

#[test]
fn roles_change_without_loss() {
    if privileged("roles_change_without_loss") {
        switch_over_and_back(Pair::new());
    }
}

/// Packets that wait for the backup at a switchover leave: the other host has everything.
#[test]
fn roles_change_without_loss_with_output_commit() {
    if !privileged("roles_change_without_loss_with_output_commit") {
        return;
    }
    let mut pair = Pair::new();
    pair.commits = Some("PASS");
    switch_over_and_back(pair);
}

/// A lost host comes back as the backup, and takes over when the other one is lost.
#[test]
fn sessions_survive_the_loss_of_one_host_after_the_other() {
    if !privileged("sessions_survive_the_loss_of_one_host_after_the_other") {
        return;
    }
    let mut pair = Pair::new();
    pair.start_backup();
    pair.start_active();
    under_load(&mut pair, |pair| {
        pair.wait_synchronized();
        for round in 0..3 {
            let lost = round % 2;
            pair.kill(lost);
            pair.wait_role(1 - lost, "active");
            pair.start_host(lost);
            pair.wait_synchronized_at(lost);
            assert!(pair.count(lost, "firewall.open") > CONNECTIONS as u64);
        }
    });
}

/// A host that comes back sooner than it is missed, or that nobody misses (AFTER 0), has no
/// sessions: the backup, which has them, takes over.
#[test]
fn a_restarted_host_leaves_its_sessions_to_the_backup() {
    if !privileged("a_restarted_host_leaves_its_sessions_to_the_backup") {
        return;
    }
    let mut pair = Pair::new();
    pair.after = "0";
    pair.start_backup();
    pair.start_active();
    under_load(&mut pair, |pair| {
        pair.wait_synchronized();
        pair.kill(0);
        assert_eq!(pair.read(1, "pair.role"), "backup");
        pair.start_host(0);
        pair.wait_role(1, "active");
        pair.wait_log(1, "the other host has no sessions");
        pair.wait_synchronized_at(0);
    });
}

#[test]
fn a_switchover_that_cannot_be_is_refused_or_comes_to_nothing() {
    if !privileged("a_switchover_that_cannot_be_is_refused_or_comes_to_nothing") {
        return;
    }
    let mut pair = Pair::new();
    pair.start_active();
    assert!(pair.refusal(0).contains("there is no backup"), "{}", pair.refusal(0));
    pair.start_backup();
    pair.wait_synchronized();
    assert!(pair.refusal(1).contains("only the active host"), "{}", pair.refusal(1));
    under_load(&mut pair, |pair| {
        pair.wait_synchronized();
        let backup = pair.b.as_ref().expect("it runs");
        let mut client = Client::unix(pair.path("a.sock").as_ref());
        backup.signal(Signal::STOP);
        // Before its silence is noticed.
        assert_eq!(client.ask("WRITE pair.switchover now").0, 200);
        pair.wait_log(0, "the backup did not take over");
        assert_eq!(pair.read(0, "pair.role"), "active");
        assert!(pair.refusal(0).contains("the backup is silent"), "{}", pair.refusal(0));
        // It hears of the switchover now, begins, and the other one makes way.
        backup.signal(Signal::CONT);
        pair.wait_role(1, "active");
        pair.wait_role(0, "backup");
        pair.wait_synchronized_at(0);
    });
}
