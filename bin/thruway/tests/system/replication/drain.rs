//! A manager drains the chain of the host that serves: the other one takes over without loss.

use thruway_manager::ChainSpec;

use super::switchover::lost_pings;
use super::*;
use crate::control::Client;
use crate::manager::keeper::{Lab, spec};

#[test]
fn a_chain_that_drains_switches_over_and_ends() {
    if !privileged("a_chain_that_drains_switches_over_and_ends") {
        return;
    }
    let mut pair = Pair::new();
    let mut lab = Lab::new(Some(&pair.middles[0]));
    let text = std::fs::read_to_string(root().join("examples/nat-pair.click")).expect("readable");
    let values = [
        ("LAN", "lan0".to_owned()),
        ("WAN", "wan0".to_owned()),
        ("AFTER", "150ms".to_owned()),
        ("PEER", format!("TO {}", pair.backup())),
        ("KEY", pair.path("a.key")),
    ];
    let variables = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let before = ChainSpec { variables, ..spec(text) };
    lab.set("gateway", before.clone());
    lab.converge();
    lab.is_up("gateway");
    wait_for("the first ping", || {
        (pair.inside.run("ping -n -c 1 -W 1 203.0.113.1").code() == 0).then_some(())
    });
    pair.start_backup();
    let socket = lab.socket("gateway");
    under_load(&mut pair, |pair| {
        wait_for("the backup to have all sessions", || {
            let is = Client::unix(&socket).read("pair.synchronized") == "true"
                && pair.read(1, "pair.synchronized") == "true";
            is.then_some(())
        });
        let lost = lost_pings(pair, || {
            lab.set("gateway", ChainSpec { drain: true, ..before.clone() });
            lab.converge();
            lab.wait_reason("gateway", "Ready", "Drained");
            pair.wait_role(1, "active");
        });
        assert_eq!(lost, 0, "{}", pair.log(1));
        assert!(lab.processes().is_empty());
        assert!(lab.condition("gateway", "Drained").0);
    });
}
