//! `thruway doctor` on the host of the tests.

use crate::process::{run, thruway};

#[test]
fn doctor_tells_how_this_host_is() {
    let told = run(thruway().arg("doctor")).expect(0);
    told.prints(&["processors", "huge pages", "kernel", "AF_XDP", "\nOK\n"]);
    let json = run(thruway().args(["doctor", "--json"])).expect(0).stdout;
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let found = value["findings"].as_array().expect("a list");
    let order = ["missing", "better", "unknown", "good"];
    let place = |finding: &serde_json::Value| {
        let state = finding["state"].as_str().expect("a state");
        order.iter().position(|one| *one == state).expect("a known state")
    };
    assert!(found.is_sorted_by_key(place), "{json}");
    for finding in found {
        let (what, found) = (&finding["what"], &finding["found"]);
        assert!(what.as_str().is_some_and(|what| !what.is_empty()), "{finding}");
        assert!(found.as_str().is_some_and(|found| !found.is_empty()), "{finding}");
        assert_eq!(finding["remedy"].is_string(), place(finding) < 2, "{finding}");
    }
    let wrong = run(thruway().args(["doctor", "--root", "/nonexistent"])).expect(1);
    wrong.says(&["/nonexistent: no directory"]);
}
