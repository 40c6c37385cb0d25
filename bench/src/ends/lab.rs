//! A client, a server and boxes between them, in network namespaces, all on one core.
//!
//! ```text
//!              .2 eth0 ------------------------- eth0 .2      no box
//! client  10.77.K.2 ethK -- wan0 [box K] lan0 -- ethK 10.78.K.2, .3, .4  server
//!                          .1            .1
//! ```
//!
//! Every box has cables of its own, so that all of them exist at once and none has to learn
//! its neighbours again when its turn comes.

use std::path::Path;

use anyhow::Context as _;

use super::load::LOADS;
use crate::child::{Running, wait_for};
use crate::namespace::Namespace;

/// What the bench's namespaces are called.
const PREFIX: &str = "thruway-bench";
/// Addresses of the server on each cable: each is a server for the balancers.
pub const SERVERS: [u8; 3] = [2, 3, 4];

/// See the module. The fields are in the order of going.
pub struct Lab {
    /// The web server.
    pub web: Running,
    pub client: Namespace,
    pub server: Namespace,
}

/// Where a box stands: its own namespace and the number of its cables.
pub struct Netns {
    pub namespace: Namespace,
    number: u8,
}

impl Netns {
    /// Its address on the client's cable.
    pub fn outside(&self) -> String {
        format!("10.77.{}.1", self.number)
    }

    /// Its address on the server's cable.
    pub fn inside(&self) -> String {
        format!("10.78.{}.1", self.number)
    }

    /// The client's network.
    pub fn outside_net(&self) -> String {
        format!("10.77.{}.0/24", self.number)
    }

    /// The server's network.
    pub fn inside_net(&self) -> String {
        format!("10.78.{}.0/24", self.number)
    }

    /// The server's addresses.
    pub fn servers(&self) -> [String; 3] {
        SERVERS.map(|last| format!("10.78.{}.{last}", self.number))
    }

    /// Gives the kernel of the box its addresses.
    pub fn address(&self) -> anyhow::Result<()> {
        self.namespace.ip(&format!("address add {}/24 dev wan0", self.outside()))?;
        self.namespace.ip(&format!("address add {}/24 dev lan0", self.inside()))
    }
}

impl Lab {
    /// Hosts, a cable between them without a box, and the web server.
    pub fn new(dir: &Path) -> anyhow::Result<Lab> {
        let (client, server) =
            (Namespace::new(PREFIX, "client")?, Namespace::new(PREFIX, "server")?);
        client.cable("eth0", (&server, "eth0"), "")?;
        client.ip("address add 10.77.0.2/24 dev eth0")?;
        server.ip("address add 10.77.0.1/24 dev eth0")?;
        server.ip("link set eth0 up")?;
        // A client that opens a connection per request comes to the end of its ports otherwise.
        client.set("ipv4/ip_local_port_range", "1024 65000")?;
        for load in LOADS {
            let bytes: Vec<u8> = (0..load.len).map(|at| (at * 31 % 251) as u8).collect();
            std::fs::write(dir.join(load.object), bytes)?;
        }
        let web = start_web(&server, dir)?;
        Ok(Lab { web, client, server })
    }

    /// The address of the server without a box.
    pub const DIRECT: &str = "10.77.0.1";

    /// A place for a box, with its two cables.
    pub fn site(&self, number: u8) -> anyhow::Result<Netns> {
        let site = Netns { namespace: Namespace::new(PREFIX, "box")?, number };
        let port = format!("eth{number}");
        site.namespace.cable("wan0", (&self.client, &port), "")?;
        site.namespace.cable("lan0", (&self.server, &port), "")?;
        self.client.ip(&format!("address add 10.77.{number}.2/24 dev {port}"))?;
        for address in site.servers() {
            self.server.ip(&format!("address add {address}/24 dev {port}"))?;
        }
        for host in [&self.client, &self.server] {
            host.ip(&format!("link set {port} up"))?;
        }
        self.client.ip(&format!("route add {} via {}", site.inside_net(), site.outside()))?;
        self.server.ip(&format!("route add {} via {}", site.outside_net(), site.inside()))?;
        Ok(site)
    }

    /// Waits until every object comes from this address, byte for byte.
    pub fn reach(&self, host: &str, dir: &Path) -> anyhow::Result<()> {
        for load in LOADS {
            let url = format!("http://{host}/{}", load.object);
            let wanted = std::fs::read(dir.join(load.object))?;
            let fetched = || -> anyhow::Result<bool> {
                let mut command = self.client.command("curl");
                command.args(["-sS", "--fail", "--max-time", "5", &url]);
                let output = command.output().context("cannot run curl")?;
                Ok(output.stdout == wanted)
            };
            wait_for(&url, fetched)?;
        }
        Ok(())
    }
}

/// Serves the files of a directory.
fn start_web(server: &Namespace, dir: &Path) -> anyhow::Result<Running> {
    let text = format!(
        "daemon off; master_process off; pid {dir}/web.pid; error_log {dir}/web.err;
events {{ worker_connections 4096; }}
http {{
    access_log off; sendfile on; keepalive_requests 100000000; keepalive_timeout 600;
    client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3;
    uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;
    server {{ listen 80 backlog=4096; root {dir}; }}
}}\n",
        dir = dir.display()
    );
    let file = dir.join("web.conf");
    std::fs::write(&file, text)?;
    Running::start(server.command("nginx").arg("-c").arg(file), "web", dir)
}
