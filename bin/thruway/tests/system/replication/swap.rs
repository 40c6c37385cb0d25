//! Other configurations take over at both hosts while connections go on.

use super::*;

impl Pair {
    /// Replaces what a host runs by what `change` makes of it with one more counter, `extra`.
    fn replace(&self, which: usize, extra: &str, change: impl FnOnce(String) -> String) {
        let file = self.config(which);
        let text = change(std::fs::read_to_string(&file).expect("its configuration"));
        std::fs::write(&file, format!("{text}\nIdle -> {extra} :: Counter -> Discard;\n"))
            .expect("room");
        self.ctl(which, &["write", "reload", ""]).expect(0);
        wait_for(extra, || {
            (self.ctl(which, &["read", &format!("{extra}.count")]).code() == 0).then_some(())
        });
    }

    /// Replaces what a host runs by its configuration with another counter. After a swap of the
    /// active host the backup has all sessions once more; the backup keeps its own in one of its.
    fn swap(&self, which: usize, extra: &str) {
        let before = (which == 0).then(|| self.count(0, "pair.resyncs"));
        self.replace(which, extra, |text| text);
        if let Some(before) = before {
            wait_for("all sessions once more", || {
                (self.count(0, "pair.resyncs") > before).then_some(())
            });
            self.wait_synchronized();
        }
    }
}

#[test]
fn hot_swaps_keep_roles_and_sessions() {
    if !privileged("hot_swaps_keep_roles_and_sessions") {
        return;
    }
    let mut pair = Pair::new();
    pair.start_backup();
    pair.start_active();
    under_load(&mut pair, |pair| {
        pair.wait_synchronized();
        pair.swap(0, "first");
        pair.swap(1, "second");
        let open = pair.count(1, "firewall.open");
        assert!(open > CONNECTIONS as u64, "{open} sessions are at the backup");
        pair.swap(0, "third");
        let streams = pair.log(1).matches("sessions are replicated from it").count();
        assert_eq!(streams, 1, "the stream goes on");
        assert_eq!([0, 1].map(|which| pair.read(which, "pair.role")), ["active", "backup"]);
        assert_eq!(pair.count(0, "pair.overflows"), 0);
        wait_for("the backup to have all", || {
            (pair.count(1, "firewall.open") > CONNECTIONS as u64).then_some(())
        });
        pair.kill_active();
        pair.swap(1, "fourth");
        assert_eq!(pair.read(1, "pair.role"), "active", "it serves on");
    });
}

#[test]
fn another_pair_is_refused_in_a_hot_swap_and_this_one_goes_on() {
    if !privileged("another_pair_is_refused_in_a_hot_swap_and_this_one_goes_on") {
        return;
    }
    let mut pair = Pair::new();
    pair.start_backup();
    pair.start_active();
    pair.wait_synchronized();
    for (which, other) in [(0, "TO 10.9.0.2:7071"), (1, "TO 10.9.0.1:7070")] {
        let file = pair.config(which);
        let text = std::fs::read_to_string(&file).expect("its configuration");
        let changed = text.replace("_MAC, $PEER, KEY", &format!("_MAC, {other}, KEY"));
        assert_ne!(changed, text);
        std::fs::write(&file, changed).expect("room");
        pair.ctl(which, &["write", "reload", ""]);
        pair.wait_log(which, "cannot change while it runs");
        assert!(pair.read(which, "swaps").contains("refused 1"));
        std::fs::write(&file, text).expect("room");
    }
    pair.wait_synchronized();
    assert_eq!([0, 1].map(|which| pair.read(which, "pair.role")), ["active", "backup"]);
    let ping = pair.inside.run("ping -n -c 3 -i 0.2 -W 1 203.0.113.1");
    assert_eq!(ping.code(), 0, "{ping:?}");
    pair.kill_active();
}

#[test]
fn a_backup_of_another_chain_waits_for_the_active_host() {
    if !privileged("a_backup_of_another_chain_waits_for_the_active_host") {
        return;
    }
    let mut pair = Pair::new();
    pair.start_backup();
    pair.start_active();
    pair.wait_synchronized();
    // The chain has its functions by their numbers.
    let nat = "nat :: NAT(SNAT $LAN_NET -> $WAN_IP);";
    let firewall = "firewall :: StatefulFirewall(OUT allow tcp or udp or icmp);";
    let turned = |text: String| {
        let (now, then) = (format!("{nat}\n{firewall}"), format!("{firewall}\n{nat}"));
        assert!(text.contains(&now), "{text}");
        text.replace(&now, &then)
    };
    pair.replace(1, "other", turned);
    pair.wait_log(1, "the chains differ");
    // Longer than its AFTER, and than it waits for a new stream.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!([0, 1].map(|which| pair.read(which, "pair.role")), ["active", "backup"]);
    pair.replace(0, "other", turned);
    pair.wait_synchronized();
    pair.kill_active();
}
