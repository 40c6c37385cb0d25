//! The socket, and the description of the API.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use hyper::Method;
use tempfile::TempDir;
use thruway_manager::api::{Listener, SocketError, openapi_text, operations};
use thruway_manager::client::Content;

use crate::functions::{ONE, executable, spec};
use crate::{start, target};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

fn refused(path: &Path) -> SocketError {
    Listener::bind(path).expect_err("refused")
}

#[tokio::test]
async fn a_socket_is_this_users_alone() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("a/b/api.sock");
    let listener = Listener::bind(&path).expect("a socket");
    assert_eq!((mode(&path), mode(path.parent().expect("one"))), (0o600, 0o700));
    assert!(matches!(refused(&path), SocketError::Live(_)));
    drop(listener);
    assert!(!path.exists());
    let open = dir.path().join("open");
    fs::create_dir(&open).expect("made");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).expect("set");
    let error = refused(&open.join("api.sock"));
    assert!(error.to_string().contains("mode 0700"), "{error}");
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_nothing_else_is() {
    let dir = TempDir::new().expect("a directory");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).expect("set");
    let path = dir.path().join("api.sock");
    drop(UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists(), "its file stays");
    drop(Listener::bind(&path).expect("stale"));
    let other = UnixListener::bind(&path).expect("a socket");
    assert!(matches!(refused(&path), SocketError::Live(_)), "another program's");
    drop(other);
    fs::remove_file(&path).expect("removed");
    fs::write(&path, "precious").expect("written");
    assert!(matches!(refused(&path), SocketError::NotASocket(_)));
    assert_eq!(fs::read(&path).expect("read"), b"precious");
}

#[tokio::test]
async fn another_user_is_refused_even_where_the_files_let_it_in() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("THRUWAY_REQUIRE_PRIVILEGES").is_none(), "needs root");
        eprintln!("SKIPPED: needs root to be another user");
        return;
    }
    let served = start();
    let path = served.dir.path().join("run/api.sock");
    for (file, mode) in
        [(served.dir.path(), 0o755), (&served.dir.path().join("run"), 0o755), (&path, 0o666)]
    {
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("set");
    }
    let call = |user: u32| {
        let path = path.clone();
        tokio::task::spawn_blocking(move || {
            let mut curl = Command::new("curl");
            curl.args(["-s", "-o", "-", "-w", " %{http_code}", "--unix-socket"]);
            let output = curl.arg(path).arg("http://-/v1/chains").uid(user).gid(user).output();
            String::from_utf8(output.expect("curl").stdout).expect("text")
        })
    };
    let refused = call(65534).await.expect("a call");
    assert!(refused.contains("user 65534 may not use") && refused.ends_with(" 403"), "{refused}");
    let served = call(0).await.expect("a call");
    assert!(served.ends_with(" 200"), "{served}");
}

/// What the API promises is a file of the repository, so that a change of it is seen in review.
/// `THRUWAY_OPENAPI=write cargo test -p thruway-manager --test api` renews it.
#[test]
fn the_description_is_the_recorded_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    if std::env::var("THRUWAY_OPENAPI").is_ok_and(|value| value == "write") {
        fs::write(&path, openapi_text()).expect("written");
    }
    let recorded = fs::read_to_string(&path).expect("recorded");
    assert!(
        recorded == openapi_text(),
        "the API is not as {} says; if that is wanted: \
         THRUWAY_OPENAPI=write cargo test -p thruway-manager --test api",
        path.display()
    );
}

#[tokio::test]
async fn everything_that_is_described_is_there() {
    let served = start();
    let all = operations();
    assert!(all.len() >= 12, "{all:?}");
    let function = spec(&executable(&served, "one"), ONE);
    let (_, host) = served.get("/v1/hosts").await;
    for operation in all {
        // Some of the operations delete them.
        served.put("/v1/functions/name@1", &function).await;
        served.put("/v1/groups/name", r#"{"functions":["name@1"]}"#).await;
        served.put("/v1/chains/name", r#"{"configuration":"a"}"#).await;
        served.post("/v1/tokens", r#"{"name":"name","role":"view"}"#).await;
        let (method, path) = operation.split_once(' ').expect("a method");
        let target = match target(path).as_str() {
            other if other.starts_with("/v1/hosts/name") => {
                let name = host["items"][0]["name"].as_str().expect("a name");
                other.replacen("name", name, 1)
            }
            other => other.to_owned(),
        };
        let method: Method = method.parse().expect("a method");
        let answer = served.client.open(method, &target, Content::default()).await;
        let status = answer.expect("an answer").status().as_u16();
        assert!(![404, 405, 500].contains(&status), "{operation}: {status}");
    }
    let (_, described) = served.get("/openapi.json").await;
    assert!(described["openapi"].as_str().expect("a version").starts_with("3.1"));
}

/// All values of `$ref` in a document.
fn references<'a>(value: &'a serde_json::Value, found: &mut Vec<&'a str>) {
    match value {
        serde_json::Value::Object(map) => {
            found.extend(map.get("$ref").and_then(|one| one.as_str()));
            map.values().for_each(|one| references(one, found));
        }
        serde_json::Value::Array(all) => all.iter().for_each(|one| references(one, found)),
        _ => {}
    }
}

#[tokio::test]
async fn the_description_names_only_types_that_it_has() {
    let described: serde_json::Value = serde_json::from_str(&openapi_text()).expect("JSON");
    let mut found = Vec::new();
    references(&described, &mut found);
    for one in &found {
        let pointer = one.strip_prefix('#').expect("a reference of this document");
        assert!(described.pointer(pointer).is_some(), "{one}");
    }
    let put = |kind: &str| {
        let path = &described["paths"][format!("/v1/{kind}s/{{name}}")]["put"];
        path["requestBody"]["content"]["application/json"]["schema"]["$ref"].clone()
    };
    assert_eq!(put("function"), "#/components/schemas/FunctionSpec");
    assert_eq!(put("group"), "#/components/schemas/GroupSpec");
}
