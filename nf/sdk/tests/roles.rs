//! Functions that send packets to roles.

use thruway_nf::trial::{Features, Setup};
use thruway_nf::{Batch, Config, Start, Verdict};

const SETUP: Setup = Setup { outputs: 3, roles: "- scrubber log", ..Setup::DEFAULT };

/// Sends all packets to the role.
fn suspects(start: &mut Start<'_>) -> Result<impl FnMut(&mut Batch<'_>) + use<>, String> {
    let scrubber = start.role("scrubber");
    Ok(move |batch: &mut Batch<'_>| batch.each(|_| Verdict::Next(scrubber)))
}

#[test]
fn a_role_is_the_output_that_the_element_names() {
    let mut trial = SETUP.thread(Config::DEFAULT, suspects).unwrap();
    let given = trial.exchange(&[&[1; 60], &[2; 60]]).unwrap();
    assert!(given.iter().all(|one| one.output == 1), "{given:?}");
    trial.finish().unwrap();
    let found = |start: &mut Start<'_>| {
        let found = ["log", "", "-", "none"].map(|name| start.find_role(name));
        assert_eq!(found, [Some(2), None, None, None]);
        Ok(|_: &mut Batch<'_>| {})
    };
    SETUP.thread(Config::DEFAULT, found).unwrap().finish().unwrap();
}

#[test]
fn a_function_does_not_start_without_its_role() {
    for (roles, known) in [("- log", "log"), ("", "none")] {
        let setup = Setup { roles, ..SETUP };
        let why = setup.thread(Config::DEFAULT, suspects).err().unwrap().to_string();
        assert!(why.contains("'scrubber'") && why.contains(&format!("(it has: {known})")), "{why}");
    }
    let earlier = Setup { roles: "", features: Features::NONE, ..SETUP };
    let why = earlier.thread(Config::DEFAULT, suspects).err().unwrap().to_string();
    assert!(why.contains("knows no roles: run it with"), "{why}");
    // Between the first roles and the first features hosts sent roles, and no features.
    let between = Setup { features: Features::NONE, ..SETUP };
    between.thread(Config::DEFAULT, suspects).unwrap().finish().unwrap();
}
