//! Functions, groups of trust, and the host.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use hyper::Method;
use serde_json::{Value, json};
use thruway_manager::client::Content;

use crate::{Served, field, parts, start};

/// SHA-256 of `one`, and of `two`, as sha256sum prints them.
pub const ONE: &str = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
pub const TWO: &str = "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3";

const IDS: &str = "/v1/functions/ids@1";

/// An executable with this content in the directory of a manager.
pub fn executable(served: &Served, content: &str) -> PathBuf {
    let path = served.dir.path().canonicalize().expect("there").join(content);
    fs::write(&path, content).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    path
}

/// The body that declares a function.
pub fn spec(path: &Path, sha256: &str) -> String {
    json!({"path": path, "sha256": sha256}).to_string()
}

/// Kinds, values and reasons of the conditions of a resource.
async fn conditions(served: &Served, target: &str) -> Value {
    let (status, body) = served.get(target).await;
    assert_eq!(status, 200, "{body}");
    let all = body["status"]["conditions"].as_array().expect("a list");
    let told = all.iter().map(|one| json!([one["kind"], one["holds"], one["reason"]]));
    told.collect()
}

#[tokio::test]
async fn a_function_is_declared_read_changed_and_taken_back() {
    let served = start();
    let path = executable(&served, "one");
    let body = json!({"path": path, "sha256": ONE, "limits": {"memory": "64M", "cpus": "1"}});
    let body = body.to_string();
    let (status, dry) = served.put(&format!("{IDS}?dry_run=true"), &body).await;
    assert_eq!((status, &dry["generation"], &dry["dry_run"]), (200, &json!(1), &json!(true)));
    assert_eq!(served.get(IDS).await.0, 404);
    let (status, made) = served.put(IDS, &body).await;
    assert_eq!((status, &made["generation"], &made["name"]), (201, &json!(1), &json!("ids@1")));
    assert!(made["diff"].as_str().expect("a diff").contains("+  memory: \"64M\""), "{made}");
    let (status, again) = served.put(IDS, &body).await;
    assert_eq!((status, &again["changed"]), (200, &json!(false)));

    let answer = served.call(Method::GET, IDS, Content::default()).await;
    assert_eq!(answer.headers["etag"], "\"1\"");
    let (_, read) = parts(&answer);
    assert_eq!(read["spec"]["limits"], json!({"memory": "64M", "cpus": "1"}));
    assert_eq!(
        (&read["name"], &read["status"]["observed_generation"]),
        (&json!("ids@1"), &json!(1))
    );
    let expected = json!([
        ["Present", true, "Found"],
        ["Verified", true, "HashMatches"],
        ["Kept", true, "Copied"]
    ]);
    assert_eq!(conditions(&served, IDS).await, expected);

    let other = spec(&executable(&served, "two"), TWO);
    let stale = [("if-match", "\"7\"")];
    let (status, problem) = served.put_if(IDS, &other, &stale).await;
    assert_eq!((status, &problem["current_generation"]), (412, &json!(1)));
    let first = [("if-match", "\"1\"")];
    assert_eq!(served.put_if(IDS, &other, &first).await.1["generation"], 2);
    let (_, diff) = served.get(&format!("{IDS}/diff")).await;
    assert!(diff["diff"].as_str().expect("a diff").contains(&format!("-sha256: {ONE}")), "{diff}");
    let (status, back) = served.post(&format!("{IDS}/rollback"), r#"{"to":1}"#).await;
    assert_eq!((status, &back["generation"]), (200, &json!(3)));
    assert_eq!(served.delete(IDS).await.1["generation"], 4);
    let (_, history) = served.get(&format!("{IDS}/generations")).await;
    assert_eq!(field(&history["items"], "generation"), [4, 3, 2, 1]);
    let (_, second) = served.get(&format!("{IDS}/generations/2")).await;
    assert_eq!(second["spec"]["sha256"], TWO);
    assert_eq!(served.post(&format!("{IDS}/rollback"), r#"{"to":2}"#).await.0, 201);
    assert_eq!(served.planes.calls(), 1, "nothing of this is for the data planes");
}

#[tokio::test]
async fn versions_stand_side_by_side() {
    let served = start();
    let (one, two) = (executable(&served, "one"), executable(&served, "two"));
    for (target, body) in
        [("ids@1", spec(&one, ONE)), ("ids@2", spec(&two, TWO)), ("nat@1", spec(&two, TWO))]
    {
        assert_eq!(served.put(&format!("/v1/functions/{target}"), &body).await.0, 201);
    }
    let (_, page) = served.get("/v1/functions?limit=2").await;
    assert_eq!(field(&page["items"], "name"), ["ids@1", "ids@2"]);
    assert_eq!((&page["next"], &page["items"][0]["spec"]), (&json!("ids@2"), &Value::Null));
    assert_eq!(page["items"][1]["status"]["conditions"][1]["holds"], true);
    let (_, page) = served.get("/v1/functions?after=ids%402").await;
    assert_eq!(
        (field(&page["items"], "name"), &page["next"]),
        (vec![&json!("nat@1")], &Value::Null)
    );
    assert_eq!(served.delete("/v1/functions/ids@1").await.0, 200);
    assert_eq!(served.get("/v1/functions/ids@2").await.1["spec"]["sha256"], TWO);
    let (status, problem) = served.get("/v1/functions/ids@1").await;
    assert_eq!((status, &problem["known"]), (404, &json!(["ids@2", "nat@1"])));
}

#[tokio::test]
async fn what_is_wrong_with_a_function_is_refused_by_its_field() {
    let served = start();
    let path = executable(&served, "one");
    let put = async |target: &str, body: Value, wrong: &str, what: &str| {
        let (status, problem) = served.put(target, &body.to_string()).await;
        assert_eq!((status, &problem["field"]), (422, &json!(wrong)), "{body}: {problem}");
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(what), "{detail}");
    };
    let right = json!({"path": path, "sha256": ONE});
    let with = |field: &str, value: Value| {
        let mut body = right.clone();
        body[field] = value;
        body
    };
    put("/v1/functions/ids", right.clone(), "name", "it has no version").await;
    put("/v1/functions/Ids@1", right.clone(), "name", "NAME@VERSION").await;
    put(IDS, json!({"path": path}), "sha256", "missing").await;
    put(IDS, with("path", json!("one")), "path", "not absolute").await;
    put(IDS, with("path", json!(path.with_file_name("none"))), "path", "No such file").await;
    put(IDS, with("path", json!(served.dir.path())), "path", "no regular file").await;
    put(IDS, with("sha256", json!(TWO)), "sha256", ONE).await;
    put(IDS, with("sha256", json!(ONE.to_uppercase())), "sha256", "lower case").await;
    put(IDS, with("limit", json!({})), "limit", "`limits`").await;
    put(IDS, with("limits", json!({"memory": "1"})), "limits.memory", "from 1M on").await;
    put(IDS, with("limits", json!({"memroy": "1M"})), "limits.memroy", "`memory`").await;
    put(IDS, with("limits", json!({"cpus": "1-2"})), "limits.cpus", "CPUs").await;
    put(IDS, with("limits", json!({"hang": "1"})), "limits.hang", "a day").await;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o757)).expect("set");
    put(IDS, right.clone(), "path", "chmod go-w").await;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
    put(IDS, right.clone(), "path", "chmod +x").await;
    assert_eq!(served.get("/v1/functions").await.1["items"], json!([]));
}

#[tokio::test]
async fn a_changed_executable_is_reported_by_conditions() {
    let served = start();
    let path = executable(&served, "one");
    assert_eq!(served.put(IDS, &spec(&path, ONE)).await.0, 201);
    assert_eq!(served.put("/v1/groups/edge", r#"{"functions":["ids@1"]}"#).await.0, 201);
    let group = json!([["Verified", true, "MembersVerified"]]);
    assert_eq!(conditions(&served, "/v1/groups/edge").await, group);
    let found = served.get(IDS).await.1["status"]["conditions"][0]["since"].clone();

    // The copy is as it was.
    let kept = json!(["Kept", true, "Copied"]);
    // Longer, then as long as before: neither is taken for the same.
    for content in ["other", "two"] {
        fs::write(&path, content).expect("written");
        let expected =
            json!([["Present", true, "Found"], ["Verified", false, "HashDiffers"], kept]);
        assert_eq!(conditions(&served, IDS).await, expected);
    }
    let (status, again) = served.put(IDS, &spec(&path, ONE)).await;
    assert_eq!((status, &again["changed"]), (200, &json!(false)), "files are applied again");
    let warning = again["warnings"].as_str().expect("a text");
    assert!(warning.contains(TWO) && warning.contains("the copy that is kept"), "{warning}");
    fs::remove_file(&path).expect("removed");
    let expected = json!([["Present", false, "Missing"], ["Verified", false, "Missing"], kept]);
    assert_eq!(conditions(&served, IDS).await, expected);
    let group = json!([["Verified", false, "MemberNotVerified"]]);
    assert_eq!(conditions(&served, "/v1/groups/edge").await, group);
    let (_, groups) = served.get("/v1/groups").await;
    let message = groups["items"][0]["status"]["conditions"][0]["message"].as_str();
    assert!(message.expect("a message").starts_with("ids@1: "), "{groups}");
    executable(&served, "one");
    let (_, again) = served.get(IDS).await;
    assert_eq!(again["status"]["conditions"][1]["holds"], true);
    assert_ne!(again["status"]["conditions"][0]["since"], found, "it was not there meanwhile");
}

#[tokio::test]
async fn a_group_names_functions_that_stay_for_as_long() {
    let served = start();
    let path = executable(&served, "one");
    assert_eq!(served.put(IDS, &spec(&path, ONE)).await.0, 201);
    let edge = "/v1/groups/edge";
    let (status, problem) = served.put(edge, r#"{"functions":["ids@1","nat@3"]}"#).await;
    assert_eq!((status, &problem["field"]), (422, &json!("functions[1]")));
    assert_eq!(problem["known"], json!(["ids@1"]));
    for (body, wrong) in [
        (r#"{"functions":[]}"#, "functions"),
        (r#"{"functions":["ids@1","ids@1"]}"#, "functions"),
        (r#"{"functions":["ids"]}"#, "functions[0]"),
        (r#"{"function":["ids@1"]}"#, "function"),
    ] {
        let (status, problem) = served.put(edge, body).await;
        assert_eq!((status, &problem["field"]), (422, &json!(wrong)), "{problem}");
    }
    let (status, made) = served.put(edge, r#"{"functions":["ids@1"]}"#).await;
    assert_eq!((status, &made["generation"]), (201, &json!(1)));
    let (_, read) = served.get(edge).await;
    assert_eq!(read["spec"], json!({"functions": ["ids@1"]}));
    for target in [IDS.to_owned(), format!("{IDS}?dry_run=true")] {
        let (status, problem) = served.delete(&target).await;
        assert_eq!((status, &problem["known"]), (409, &json!(["group edge"])));
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.starts_with("function 'ids@1' is named by group edge"), "{detail}");
    }
    assert_eq!(served.delete(edge).await.0, 200);
    assert_eq!(served.delete(IDS).await.0, 200);
    let (status, problem) = served.post(&format!("{edge}/rollback"), r#"{"to":1}"#).await;
    assert_eq!((status, &problem["field"]), (422, &json!("functions[0]")));
}

#[tokio::test]
async fn the_host_is_reported_and_cannot_be_changed() {
    let served = start();
    let kernel = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let name = kernel.trim();
    let (_, list) = served.get("/v1/hosts").await;
    assert_eq!((field(&list["items"], "name"), &list["next"]), (vec![&json!(name)], &Value::Null));
    let target = format!("/v1/hosts/{name}");
    let (status, host) = served.get(&target).await;
    assert_eq!((status, &host["name"]), (200, &json!(name)));
    assert!(host["status"]["processors"]["count"].as_u64().expect("a number") > 0, "{host}");
    assert!(field(&host["status"]["interfaces"], "name").contains(&&json!("lo")));
    let (status, problem) = served.get("/v1/hosts/none.such").await;
    assert_eq!((status, &problem["known"]), (404, &json!([name])));
    assert_eq!(served.put(&target, "{}").await.0, 405);
    assert_eq!(served.get("/v1/hosts?limit=0").await.1["field"], "limit");
    let (_, behind) = served.get(&format!("/v1/hosts?after={name}")).await;
    assert_eq!(behind["items"], json!([]));
}
