//! Chains that use declared functions.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::functions::{ONE, TWO, executable, spec};
use crate::{Served, start};

const IDS: &str = "/v1/functions/ids@1";
const WEB: &str = "/v1/chains/web";

/// A chain that uses `ids@1` as `$ids`.
fn chain(used: &str) -> String {
    json!({"configuration": "Idle -> Nf($ids) -> Discard;", "functions": {"ids": used}}).to_string()
}

/// What the data planes were asked to run last, by the path `/PROGRAM`.
fn variables(served: &Served) -> Value {
    let asked = served.planes.asked.lock();
    let last = &asked.last().expect("a call").last().expect("a chain").run;
    json!(last.variables(|function| format!("/{}", &function.sha256[..4]).into()))
}

#[tokio::test]
async fn a_chain_uses_a_version_with_its_limits_and_follows_it() {
    let served = start();
    let (one, two) = (executable(&served, "one"), executable(&served, "two"));
    let limits = json!({"path": one, "sha256": ONE, "limits": {"memory": "64M", "cpus": "0 1"}});
    assert_eq!(served.put(IDS, &limits.to_string()).await.0, 201);
    assert_eq!(served.put(WEB, &chain("ids@1 -v \"a b\"")).await.0, 201);
    let text = r#"EXEC "\"/7692\" -v \"a b\"", MEMORY 64M, CPUS 0 1"#;
    assert_eq!(variables(&served), json!({"ids": text}));
    let (_, shown) = served.get(WEB).await;
    assert_eq!(shown["spec"]["functions"], json!({"ids": "ids@1 -v \"a b\""}));
    let (_, diff) = served.get(&format!("{WEB}/diff")).await;
    let diff = diff["diff"].as_str().expect("a diff").to_owned();
    assert!(diff.contains("+functions:\n+  ids: \"ids@1 -v"), "{diff}");

    // Another executable of this version; then another version, and back.
    let calls = served.planes.calls();
    assert_eq!(served.put(IDS, &spec(&two, TWO)).await.1["generation"], 2);
    assert_eq!(served.planes.calls(), calls + 1);
    assert_eq!(variables(&served)["ids"], r#"EXEC "\"/3fc4\" -v \"a b\"""#);
    assert_eq!(served.put("/v1/functions/ids@2", &spec(&one, ONE)).await.0, 201);
    assert_eq!(served.planes.calls(), calls + 1, "no chain uses it");
    assert_eq!(served.put(WEB, &chain("ids@2")).await.1["generation"], 2);
    assert_eq!(variables(&served)["ids"], r#"EXEC "\"/7692\"""#);
    assert_eq!(served.post(&format!("{WEB}/rollback"), r#"{"to":1}"#).await.1["generation"], 3);
    assert_eq!(variables(&served)["ids"], r#"EXEC "\"/3fc4\" -v \"a b\"""#);
}

#[tokio::test]
async fn what_is_wrong_with_the_functions_of_a_chain_is_refused_by_its_field() {
    let served = start();
    let path = executable(&served, "one");
    assert_eq!(served.put(IDS, &spec(&path, ONE)).await.0, 201);
    let refused = async |body: Value, wrong: &str, what: &str| {
        for target in [format!("{WEB}?dry_run=true"), WEB.to_owned()] {
            let (status, problem) = served.put(&target, &body.to_string()).await;
            assert_eq!((status, &problem["field"]), (422, &json!(wrong)), "{body}: {problem}");
            let detail = problem["detail"].as_str().expect("a detail");
            assert!(detail.contains(what), "{detail}");
        }
    };
    let with = |functions: Value| json!({"configuration": "Idle;", "functions": functions});
    refused(with(json!({"ids": "ids@2"})), "functions.ids", "the functions are: ids@1").await;
    refused(with(json!({"ids": "ids"})), "functions.ids", "it has no version").await;
    refused(with(json!({"ids": "ids@1 a\nb"})), "functions.ids", "control characters").await;
    refused(with(json!({"ids": 1})), "functions.ids", "expected a string").await;
    refused(with(json!({"i-d": "ids@1"})), "functions.i-d", "letters, digits and _").await;
    refused(with(json!({"": "ids@1"})), "functions.", "letters, digits and _").await;
    let mut both = with(json!({"ids": "ids@1"}));
    both["variables"] = json!({"ids": "x"});
    refused(both, "functions.ids", "rename one").await;
    let many = |count: usize| {
        let all = (0..count).map(|number| (format!("f{number}"), json!("ids@1")));
        with(all.collect::<serde_json::Map<_, _>>().into())
    };
    refused(many(65), "functions", "at most 64").await;
    assert_eq!(served.put(WEB, &many(64).to_string()).await.0, 201);
}

#[tokio::test]
async fn a_function_that_a_chain_uses_stays() {
    let served = start();
    let path = executable(&served, "one");
    assert_eq!(served.put(IDS, &spec(&path, ONE)).await.0, 201);
    assert_eq!(served.put(WEB, &chain("ids@1")).await.0, 201);
    assert_eq!(served.put("/v1/groups/edge", r#"{"functions":["ids@1"]}"#).await.0, 201);
    let (status, problem) = served.delete(IDS).await;
    assert_eq!((status, &problem["known"]), (409, &json!(["chain web", "group edge"])));
    let detail = problem["detail"].as_str().expect("a detail");
    assert!(detail.contains("is named by chain web, group edge; change or delete"), "{detail}");
    assert_eq!(served.delete(WEB).await.0, 200);
    assert_eq!(served.delete("/v1/groups/edge").await.0, 200);
    assert_eq!(served.delete(IDS).await.0, 200);
    let (status, problem) = served.post(&format!("{WEB}/rollback"), r#"{"to":1}"#).await;
    assert_eq!((status, &problem["field"]), (422, &json!("functions.ids")));
}

const EDGE: &str = "/v1/groups/edge";

#[tokio::test]
async fn functions_of_a_chain_run_in_its_groups_that_name_them() {
    let served = start();
    let (one, two) = (executable(&served, "one"), executable(&served, "two"));
    assert_eq!(served.put(IDS, &spec(&one, ONE)).await.0, 201);
    assert_eq!(served.put("/v1/functions/log@1", &spec(&two, TWO)).await.0, 201);
    let mut chain = json!({
        "configuration": "Idle -> Nf($ids) -> Nf($log) -> Discard;",
        "functions": {"ids": "ids@1", "log": "log@1"},
        "groups": ["edge"],
    });
    let refused = async |body: &Value, field: &str, what: &str| {
        let (status, problem) = served.put(WEB, &body.to_string()).await;
        assert_eq!((status, &problem["field"]), (422, &json!(field)), "{body}: {problem}");
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(what), "{detail}");
    };
    refused(&chain, "groups[0]", "there is no group 'edge'").await;
    assert_eq!(served.put("/v1/functions/nat@1", &spec(&two, TWO)).await.0, 201);
    assert_eq!(served.put(EDGE, r#"{"functions":["nat@1"]}"#).await.0, 201);
    refused(&chain, "groups[0]", "its functions are nat@1").await;
    let both = r#"{"functions":["nat@1","ids@1","log@1"]}"#;
    assert_eq!(served.put(EDGE, both).await.0, 200);
    chain["groups"] = json!(["edge", "edge"]);
    refused(&chain, "groups[1]", "listed twice").await;
    chain["groups"] = json!(["-"]);
    refused(&chain, "groups[0]", "is no name").await;
    chain["groups"] = json!(["edge"]);
    let mut own = chain.clone();
    own["configuration"] = json!("Idle -> Nf($ids, MODE group, GROUP edge) -> Nf($log) -> Discard");
    refused(&own, "configuration", "leave GROUP and MODE out").await;

    assert_eq!(served.put(WEB, &chain.to_string()).await.0, 201);
    let member = |program: &str| format!(r#"EXEC "\"/{program}\"", MODE group, GROUP edge"#);
    assert_eq!(variables(&served), json!({"ids": member("7692"), "log": member("3fc4")}));
    let (_, shown) = served.get(WEB).await;
    assert_eq!(shown["spec"]["groups"], json!(["edge"]));
    let (_, diff) = served.get(&format!("{WEB}/diff")).await;
    assert!(diff["diff"].as_str().expect("a diff").contains("+groups:\n+- edge\n"), "{diff}");

    // The chain follows its group, which stays for as long as it names it.
    assert_eq!(served.put(EDGE, r#"{"functions":["ids@1"]}"#).await.0, 200);
    assert_eq!(variables(&served)["log"], r#"EXEC "\"/3fc4\"""#);
    assert_eq!(variables(&served)["ids"], json!(member("7692")));
    let calls = served.planes.calls();
    assert_eq!(served.put("/v1/groups/other", both).await.0, 201);
    assert_eq!(served.planes.calls(), calls, "no chain names it");
    let (status, problem) = served.delete(EDGE).await;
    assert_eq!((status, &problem["known"]), (409, &json!(["chain web"])));
    assert_eq!(served.delete(WEB).await.0, 200);
    assert_eq!(served.delete(EDGE).await.0, 200);
}

fn copies(served: &Served) -> Vec<String> {
    let entries = fs::read_dir(served.dir.path().join("functions")).expect("there").flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn copies_are_of_what_is_declared() {
    let served = start();
    let (one, two) = (executable(&served, "one"), executable(&served, "two"));
    assert_eq!(served.put(&format!("{IDS}?dry_run=true"), &spec(&one, ONE)).await.0, 200);
    assert_eq!(copies(&served), [""; 0]);
    assert_eq!(served.put(IDS, &spec(&one, ONE)).await.0, 201);
    assert_eq!(copies(&served), [ONE]);
    assert_eq!(served.put("/v1/functions/ids@2", &spec(&two, TWO)).await.0, 201);
    assert_eq!(copies(&served), [TWO, ONE]);
    assert_eq!(served.put(IDS, &spec(&two, TWO)).await.0, 200);
    assert_eq!(copies(&served), [TWO]);
    assert_eq!(served.post(&format!("{IDS}/rollback"), r#"{"to":1}"#).await.0, 200);
    assert_eq!(served.delete("/v1/functions/ids@2").await.0, 200);
    assert_eq!(copies(&served), [ONE]);
    // What was taken away by hand is reported, and made again.
    fs::remove_file(served.dir.path().join("functions").join(ONE)).expect("removed");
    let (_, shown) = served.get(IDS).await;
    let kept = &shown["status"]["conditions"][2];
    assert_eq!((&kept["kind"], &kept["reason"]), (&json!("Kept"), &json!("Missing")));
    assert!(kept["message"].as_str().expect("text").contains("when a chain starts"), "{kept}");
    assert_eq!(served.put(IDS, &spec(&one, ONE)).await.1["changed"], false);
    assert_eq!(copies(&served), [ONE]);
}

#[tokio::test]
async fn a_copy_goes_when_nothing_runs_it_any_more() {
    let served = start();
    let (one, two) = (executable(&served, "one"), executable(&served, "two"));
    let runs = |hashes: &[&str]| {
        let hashes = hashes.iter().map(|hash| (*hash).to_owned());
        *served.planes.runs.lock() = hashes.collect();
    };
    let observed = |reason| served.context.manager.observed(crate::event("web", reason));
    assert_eq!(served.put(IDS, &spec(&one, ONE)).await.0, 201);
    // Another executable of the version: until it took over, the old one may be started again.
    runs(&[ONE]);
    assert_eq!(served.put(IDS, &spec(&two, TWO)).await.0, 200);
    assert_eq!(copies(&served), [TWO, ONE]);
    observed("Exited");
    assert_eq!(copies(&served), [TWO, ONE]);
    runs(&[TWO]);
    observed("Swapped");
    assert_eq!(copies(&served), [TWO]);
    // The chain's data plane ends after the function was deleted.
    assert_eq!(served.delete(IDS).await.0, 200);
    assert_eq!(copies(&served), [TWO]);
    runs(&[]);
    observed("Deleted");
    assert_eq!(copies(&served), [""; 0]);
    let all = served.events.following(served.events.beginning()).events;
    assert_eq!(all.last().expect("events").1.reason, "Deleted", "it is told, too");
}

#[tokio::test]
async fn a_state_that_cannot_have_copies_is_reported() {
    let served = start();
    let path = executable(&served, "one");
    let dir = served.dir.path().join("functions");
    // A directory stands where the copy would be.
    fs::create_dir(dir.join(ONE)).expect("made");
    let (status, problem) = served.put(IDS, &spec(&path, ONE)).await;
    assert_eq!((status, &problem["field"]), (422, &json!("path")));
    let detail = problem["detail"].as_str().expect("a detail");
    assert!(detail.starts_with("no copy of ") && detail.contains("functions/new-"), "{detail}");
    assert_eq!(served.get(IDS).await.0, 404);
    let mode = fs::metadata(Path::new(&dir)).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}
