//! A real kube-apiserver and etcd, on free ports of the loopback, with certificates of their own.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::process::{Process, wait_for};

/// Starts that may fail, as another process may take a port that was free.
const STARTS_MAX: usize = 3;

/// The API server and what it keeps.
pub struct Server {
    // First: they end before their files go.
    api: Option<Process>,
    etcd: Option<Process>,
    pub runtime: Arc<Runtime>,
    authority: Issuer<'static, KeyPair>,
    ports: Ports,
    pub dir: TempDir,
}

#[derive(Clone, Copy)]
struct Ports {
    etcd: u16,
    peers: u16,
    api: u16,
}

impl Ports {
    fn free() -> Ports {
        // All at once: so they differ.
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
        let port = |at: usize| listeners[at].local_addr().expect("an address").port();
        Ports { etcd: port(0), peers: port(1), api: port(2) }
    }
}

/// A program that scripts/cluster-tools builds.
pub fn tool(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools").join(name);
    assert!(program.exists(), "there is no {}: run scripts/cluster-tools", program.display());
    program
}

impl Server {
    /// Starts both, and waits until they answer.
    pub fn start() -> Server {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let dir = TempDir::new().expect("a directory");
        let authority = authority(dir.path());
        let runtime = Arc::new(runtime);
        let ports = Ports::free();
        let mut server = Server { dir, runtime, authority, ports, etcd: None, api: None };
        server.write_identity("server", "kube-apiserver", &[]);
        server.write_identity("admin", "admin", &["system:masters"]);
        let key = KeyPair::generate().expect("a key");
        for (name, text) in [("key", key.serialize_pem()), ("pub", key.public_key_pem())] {
            let path = server.dir.path().join(format!("accounts.{name}"));
            std::fs::write(path, text).expect("written");
        }
        for _ in 0..STARTS_MAX {
            server.ports = Ports::free();
            let etcd = server.start_etcd();
            server.etcd = Some(etcd);
            server.start_api();
            if server.answers() {
                return server;
            }
        }
        panic!("no API server in {STARTS_MAX} attempts");
    }

    fn start_etcd(&self) -> Process {
        let Ports { etcd, peers, .. } = self.ports;
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(self.dir.path().join(format!("etcd-{etcd}")));
        for (option, port) in [
            ("--listen-client-urls", etcd),
            ("--advertise-client-urls", etcd),
            ("--listen-peer-urls", peers),
            ("--initial-advertise-peer-urls", peers),
        ] {
            command.arg(option).arg(url(port));
        }
        command.arg("--initial-cluster").arg(format!("default={}", url(peers)));
        // A test that ends with the machine is no test any more.
        command.arg("--unsafe-no-fsync");
        Process::start(&mut command, self.dir.path(), "etcd")
    }

    /// Starts the API server.
    pub fn start_api(&mut self) {
        let Ports { etcd, api, .. } = self.ports;
        let file = |name: &str| self.dir.path().join(name).display().to_string();
        let mut command = Command::new(tool("kube-apiserver"));
        command.args([
            format!("--etcd-servers=http://127.0.0.1:{etcd}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--secure-port={api}"),
            format!("--tls-cert-file={}", file("server.pem")),
            format!("--tls-private-key-file={}", file("server.key")),
            format!("--client-ca-file={}", file("authority.pem")),
            format!("--cert-dir={}", file("made")),
            "--authorization-mode=RBAC".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--service-account-issuer=thruway".to_owned(),
            format!("--service-account-key-file={}", file("accounts.pub")),
            format!("--service-account-signing-key-file={}", file("accounts.key")),
            "--service-cluster-ip-range=198.51.100.0/24".to_owned(),
            "--profiling=false".to_owned(),
        ]);
        self.api = Some(Process::start(&mut command, self.dir.path(), "kube-apiserver"));
    }

    /// The API server's port.
    pub fn port(&self) -> u16 {
        self.ports.api
    }

    /// Its processes.
    pub fn pids(&self) -> Vec<(String, u32)> {
        let named = [("kube-apiserver", &self.api), ("etcd", &self.etcd)].into_iter();
        named.filter_map(|(name, one)| Some((name.to_owned(), one.as_ref()?.pid()))).collect()
    }

    /// Kills the API server, as `kill -9` does.
    pub fn kill_api(&mut self) {
        self.api = None;
    }

    /// Whether the API server is ready in time; not if it or etcd ended.
    fn answers(&mut self) -> bool {
        wait_for("an API server", || {
            let parts = [&mut self.etcd, &mut self.api];
            if parts.into_iter().flatten().any(Process::has_ended) {
                return Some(false);
            }
            self.is_ready().then_some(true)
        })
    }

    /// Whether it is ready now.
    pub fn is_ready(&self) -> bool {
        let client = self.client("admin");
        let request = hyper::Request::get("/readyz").body(Vec::new()).expect("a request");
        self.runtime.block_on(client.request_text(request)).is_ok_and(|text| text == "ok")
    }

    /// Writes a certificate for a user, with its key, and a file that names both and the server.
    pub fn write_identity(&self, file: &str, user: &str, groups: &[&str]) -> PathBuf {
        let mut params = CertificateParams::new(vec!["127.0.0.1".into()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, user);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.authority).expect("a certificate");
        let dir = self.dir.path();
        std::fs::write(dir.join(format!("{file}.pem")), certificate.pem()).expect("written");
        std::fs::write(dir.join(format!("{file}.key")), key.serialize_pem()).expect("written");
        self.write_config(file)
    }

    fn write_config(&self, file: &str) -> PathBuf {
        let dir = self.dir.path();
        let path = |name: String| dir.join(name).display().to_string();
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": format!("https://127.0.0.1:{}", self.ports.api),
                "certificate-authority": path("authority.pem".into()),
            }}],
            "users": [{"name": "test", "user": {
                "client-certificate": path(format!("{file}.pem")),
                "client-key": path(format!("{file}.key")),
            }}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        let written = dir.join(format!("{file}.kubeconfig"));
        std::fs::write(&written, config.to_string()).expect("written");
        written
    }

    /// A client with an identity that was written.
    pub fn client(&self, file: &str) -> Client {
        let path = self.write_config(file);
        self.runtime.block_on(async {
            let read = Kubeconfig::read_from(path).expect("a file");
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(read, &options).await.expect("a config");
            Client::try_from(config).expect("a client")
        })
    }
}

fn authority(dir: &Path) -> Issuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name.push(DnType::CommonName, "authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    std::fs::write(dir.join("authority.pem"), certificate.pem()).expect("written");
    Issuer::new(params, key)
}
