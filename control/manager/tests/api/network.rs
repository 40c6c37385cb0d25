//! The API on the network: TLS, with curl and with hostile clients.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use thruway_manager::api::{
    NetworkListener, PEER_CONNECTIONS_MAX, REMOTE_CONNECTIONS_MAX, router, serve_network,
};
use thruway_manager::client::{Client, ClientError, Content, Server};
use thruway_manager::tls::{self, Identity};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::{DEADLINE, Served, parts, start};

/// A manager that serves on the network too.
pub struct Network {
    pub served: Served,
    pub address: SocketAddr,
}

/// Starts one.
pub async fn start_network() -> Network {
    let served = start();
    let dir = served.dir.path();
    write_certificates(dir);
    let config = tls::server(&identity(dir, "server")).expect("a certificate");
    let local = "127.0.0.1:0".parse().expect("an address");
    let listener = NetworkListener::bind(local, config).await.expect("a port");
    let address = listener.address().expect("it listens");
    let context = served.context.clone();
    tokio::spawn(serve_network(listener, router(context.clone()), context));
    Network { served, address }
}

/// An authority, a server and clients; one more authority that nobody knows.
fn write_certificates(dir: &Path) {
    let authority = |name: &str| {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        fs::write(dir.join(format!("{name}.pem")), certificate.pem()).expect("written");
        Issuer::new(params, key)
    };
    let (known, _) = (authority("authority"), authority("other"));
    for (name, host) in [("server", "127.0.0.1"), ("ann", "ann"), ("bob", "bob")] {
        let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &known).expect("a certificate");
        fs::write(dir.join(format!("{name}.pem")), certificate.pem()).expect("written");
        write_key(&dir.join(format!("{name}.key")), &key.serialize_pem());
    }
}

fn write_key(path: &Path, text: &str) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, Permissions::from_mode(0o600)).expect("set");
}

fn identity(dir: &Path, name: &str) -> Identity {
    let [certificate, key] = ["pem", "key"].map(|suffix| dir.join(format!("{name}.{suffix}")));
    Identity { certificate, key }
}

impl Network {
    /// Makes a token over the socket.
    pub async fn token(&self, name: &str, role: &str) -> String {
        let body = json!({"name": name, "role": role}).to_string();
        let (status, made) = self.served.post("/v1/tokens", &body).await;
        assert_eq!(status, 201, "{made}");
        made["token"].as_str().expect("a token").to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.served.dir.path().join(name)
    }

    /// A client that trusts an authority.
    pub fn client(&self, authority: &str, who: Option<&str>, token: Option<&str>) -> Client {
        let identity = who.map(|who| identity(self.served.dir.path(), who));
        let config = tls::client(&self.path(authority), identity.as_ref()).expect("TLS");
        let url = format!("https://{}", self.address);
        let token = token.map(str::to_owned);
        Client::of_server(Server::new(&url, config, token).expect("a URL"))
    }

    /// Status and JSON of a call with a token.
    pub async fn call(&self, token: &str, method: Method, target: &str) -> (u16, Value) {
        let client = self.client("authority.pem", None, Some(token));
        let answer = client.call(method, target, Content::default());
        let answer = tokio::time::timeout(DEADLINE, answer).await.expect("in time");
        parts(&answer.expect("an answer"))
    }

    /// What curl prints: the body, a space and the status; or its error.
    pub async fn curl(&self, args: &[&str], target: &str) -> (String, String) {
        let mut curl = Command::new("curl");
        let url = format!("https://{}{target}", self.address);
        curl.args(["-sS", "-m", "30", "-w", " %{http_code}", "--cacert"]);
        curl.arg(self.path("authority.pem")).args(args).arg(url);
        let output = tokio::task::spawn_blocking(move || curl.output());
        let output = output.await.expect("a call").expect("curl");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (text(output.stdout), text(output.stderr))
    }

    /// Bytes sent without TLS, and what comes back until the end.
    async fn plain(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.expect("a connection");
        let _ = stream.write_all(bytes).await;
        read_all(stream).await
    }
}

async fn read_all(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await.expect("in time");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn curl_gets_in_with_a_token_and_not_without() {
    let network = start_network().await;
    let token = network.token("ci", "operate").await;
    let bearer = format!("Authorization: Bearer {token}");
    let body = r#"{"configuration":"a"}"#;
    let put = ["-H", &bearer, "-X", "PUT", "-d", body];
    let (printed, _) = network.curl(&put, "/v1/chains/web").await;
    assert!(printed.ends_with(" 201"), "{printed}");
    let (printed, _) = network.curl(&["-H", &bearer], "/v1/chains/web").await;
    assert!(printed.contains(r#""author":"token ci""#) && printed.ends_with(" 200"), "{printed}");
    let (printed, _) = network.curl(&["-D", "-"], "/v1/chains").await;
    assert!(printed.to_lowercase().contains("www-authenticate: bearer"), "{printed}");
    assert!(printed.contains("problem:unauthorized") && printed.ends_with(" 401"), "{printed}");
    // What does not exist is not told to strangers either.
    let (printed, _) = network.curl(&[], "/nothing").await;
    assert!(printed.ends_with(" 401"), "{printed}");
    let (printed, _) = network.curl(&["-H", &bearer], "/nothing").await;
    assert!(printed.ends_with(" 404"), "{printed}");
}

#[tokio::test]
async fn curl_gets_in_with_a_certificate_that_was_let_in() {
    let network = start_network().await;
    let certificate = fs::read_to_string(network.path("ann.pem")).expect("written");
    let body = json!({"name": "ann", "role": "view", "certificate": certificate}).to_string();
    let (status, made) = network.served.post("/v1/tokens", &body).await;
    assert_eq!((status, &made["token"], &made["kind"]), (201, &Value::Null, &json!("certificate")));
    let paths = ["ann.pem", "ann.key", "bob.pem", "bob.key"];
    let paths = paths.map(|name| network.path(name).display().to_string());
    let ann = ["--cert", &paths[0], "--key", &paths[1]];
    let (printed, _) = network.curl(&ann, "/v1/chains").await;
    assert!(printed.ends_with(" 200"), "{printed}");
    // Of the same authority, but nobody let it in.
    let bob = ["--cert", &paths[2], "--key", &paths[3]];
    let (printed, _) = network.curl(&bob, "/v1/chains").await;
    assert!(printed.contains("certificate is not known") && printed.ends_with(" 401"), "{printed}");
    // Who has another's certificate without its key does not get through the handshake.
    let thief = ["--cert", &paths[0], "--key", &paths[3]];
    let (_, error) = network.curl(&thief, "/v1/chains").await;
    assert!(!error.is_empty());
    let (status, _) = network.served.delete_empty("/v1/tokens/ann").await;
    assert_eq!(status, 204);
    let (printed, _) = network.curl(&ann, "/v1/chains").await;
    assert!(printed.ends_with(" 401"), "{printed}");
}

#[tokio::test]
async fn old_and_wrong_tls_is_refused() {
    let network = start_network().await;
    let token = network.token("ci", "view").await;
    let (printed, error) = network.curl(&["--tls-max", "1.2"], "/v1/chains").await;
    assert!(printed.ends_with(" 000") && !error.is_empty(), "{printed} {error}");
    let client = network.client("other.pem", None, Some(&token));
    let error = client.call(Method::GET, "/v1/chains", Content::default()).await;
    let error = error.expect_err("another authority").to_string();
    assert!(error.contains("UnknownIssuer") && error.contains("--ca"), "{error}");
    let config = tls::client(&network.path("authority.pem"), None).expect("TLS");
    let url = format!("https://localhost:{}", network.address.port());
    let client = Client::of_server(Server::new(&url, config, Some(token)).expect("a URL"));
    let error = client.call(Method::GET, "/v1/chains", Content::default()).await;
    assert!(error.expect_err("another name").to_string().contains("use a name"));
}

#[tokio::test]
async fn plain_http_is_asked_to_use_tls_and_nothing_else() {
    let network = start_network().await;
    let token = network.token("ci", "administer").await;
    let request = format!("GET /v1/chains HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n");
    for bytes in [request.as_str(), "x", "\r\n\r\n", &"GET ".repeat(10_000)] {
        let answer = network.plain(bytes.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        assert!(answer.contains("use https://") && !answer.contains(&token), "{answer}");
    }
    // What begins as TLS does and goes on as something else.
    for bytes in [&b"\x16"[..], b"\x16\x03\x01\xff\xff", &[22; 70_000]] {
        let mut stream = TcpStream::connect(network.address).await.expect("a connection");
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let answer = read_all(stream).await;
        assert!(!answer.contains("HTTP"), "{answer}");
    }
    let (status, _) = network.call(&token, Method::GET, "/v1/chains").await;
    assert_eq!(status, 200);
}

/// The clock of this test jumps to the next timer when nothing else is to be done.
#[tokio::test(start_paused = true)]
async fn a_slow_handshake_is_ended() {
    let network = start_network().await;
    let begun = tokio::time::Instant::now();
    for bytes in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01"] {
        let mut stream = TcpStream::connect(network.address).await.expect("a connection");
        stream.write_all(bytes).await.expect("sent");
        assert_eq!(read_all(stream).await, "");
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_peer_has_so_many_connections_and_leaves_the_socket_to_others() {
    let network = start_network().await;
    let token = network.token("ci", "view").await;
    let mut open = Vec::new();
    for _ in 0..PEER_CONNECTIONS_MAX {
        open.push(TcpStream::connect(network.address).await.expect("a connection"));
    }
    assert!(PEER_CONNECTIONS_MAX as usize * 2 < REMOTE_CONNECTIONS_MAX);
    let client = network.client("authority.pem", None, Some(&token));
    let refused = client.call(Method::GET, "/v1/chains", Content::default()).await;
    assert!(matches!(refused, Err(ClientError::Server { .. })), "{refused:?}");
    assert_eq!(network.served.get("/v1/chains").await.0, 200);
    drop(open);
    let again = async {
        while client.call(Method::GET, "/v1/chains", Content::default()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, again).await.expect("places are free again");
}

#[tokio::test]
async fn a_client_that_calls_too_often_must_wait() {
    let network = start_network().await;
    let token = network.token("ci", "view").await;
    let bearer = format!("Authorization: Bearer {token}");
    // One connection, many requests.
    let range = "/v1/chains?limit=[1-2000]";
    let (printed, _) = network.curl(&["-H", &bearer], range).await;
    assert!(printed.contains(" 200") && printed.contains("calls too often"), "{printed:.300}");
    assert_eq!(network.served.get("/v1/chains").await.0, 200);
}

#[tokio::test]
async fn a_key_that_others_can_read_and_files_that_are_none_are_refused() {
    let network = start_network().await;
    let dir = network.served.dir.path();
    let refused = |identity: &Identity| tls::server(identity).expect_err("refused").to_string();
    let good = identity(dir, "server");
    fs::set_permissions(&good.key, Permissions::from_mode(0o640)).expect("set");
    assert!(refused(&good).contains("chmod 600"));
    fs::set_permissions(&good.key, Permissions::from_mode(0o600)).expect("set");
    let other = Identity { key: dir.join("ann.key"), ..good.clone() };
    assert!(refused(&other).contains("key"), "{}", refused(&other));
    let swapped = Identity { certificate: good.key.clone(), key: good.key.clone() };
    assert!(refused(&swapped).contains("not a certificate"), "{}", refused(&swapped));
    let absent = Identity { certificate: dir.join("no.pem"), ..good };
    assert!(refused(&absent).contains("no.pem"));
}

#[test]
fn a_server_is_named_by_a_url() {
    let dir = tempfile::tempdir().expect("a directory");
    write_certificates(dir.path());
    let config = tls::client(&dir.path().join("authority.pem"), None).expect("TLS");
    let named = |url: &str| Server::new(url, Arc::clone(&config), None).map(drop);
    for place in ["a:1", "a", "192.0.2.1:1/", "[::1]:1"] {
        assert_eq!(named(&format!("https://{place}")), Ok(()), "{place}");
    }
    for place in ["", "t@a:1", "a:1/v1", " a"] {
        assert!(named(&format!("https://{place}")).is_err(), "{place}");
    }
    for url in ["", "a:1", "http://192.0.2.1:1"] {
        assert!(named(url).is_err(), "{url}");
    }
}
