//! The systems between client and server.

use std::path::Path;

use super::lab::{Lab, Netns};
use crate::child::Running;

/// What does the box's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No box: the client and the server have a cable.
    Direct,
    /// The kernel routes and balances nothing.
    Kernel,
    /// haproxy in TCP mode, one thread.
    Haproxy,
    /// nginx's stream module, one worker.
    Nginx,
    /// `examples/balancer.click` by packet sockets, TCP packets of up to 64 kB whole.
    Thruway,
    /// The same by AF_XDP.
    ThruwayXdp,
    /// As [`Kind::Thruway`], and masks ten words in both directions.
    ThruwayWords,
}

impl Kind {
    /// Everyone, in the order of the report.
    pub const ALL: [Kind; 7] = [
        Kind::Direct,
        Kind::Kernel,
        Kind::Haproxy,
        Kind::Nginx,
        Kind::Thruway,
        Kind::ThruwayXdp,
        Kind::ThruwayWords,
    ];

    /// How the report calls it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Direct => "direct",
            Kind::Kernel => "kernel",
            Kind::Haproxy => "haproxy",
            Kind::Nginx => "nginx",
            Kind::Thruway => "thruway",
            Kind::ThruwayXdp => "thruway-xdp",
            Kind::ThruwayWords => "thruway-words",
        }
    }

    /// Whether a process does its work.
    pub fn has_process(self) -> bool {
        !matches!(self, Kind::Direct | Kind::Kernel)
    }

    /// Whether it is one of ours.
    pub fn is_thruway(self) -> bool {
        matches!(self, Kind::Thruway | Kind::ThruwayXdp | Kind::ThruwayWords)
    }
}

/// One of them, ready. The fields are in the order of going.
pub struct System {
    pub kind: Kind,
    /// Its process; the kernel has none.
    pub process: Option<Running>,
    /// The address that the client asks.
    pub host: String,
    _site: Option<Netns>,
}

const BALANCER: &str = include_str!("../../../examples/balancer.click");

impl System {
    /// Puts it in its place and waits until it works.
    pub fn start(kind: Kind, lab: &Lab, dir: &Path) -> anyhow::Result<System> {
        if kind == Kind::Direct {
            let host = Lab::DIRECT.to_owned();
            lab.reach(&host, dir)?;
            return Ok(System { kind, process: None, host, _site: None });
        }
        let site = lab.site(kind as u8)?;
        let process = match kind {
            Kind::Direct | Kind::Kernel => {
                site.address()?;
                site.namespace.set("ipv4/ip_forward", "1")?;
                None
            }
            Kind::Haproxy => Some(haproxy(&site, dir)?),
            Kind::Nginx => Some(nginx(&site, dir)?),
            Kind::Thruway | Kind::ThruwayXdp | Kind::ThruwayWords => {
                Some(thruway(kind, &site, dir)?)
            }
        };
        let [server, ..] = site.servers();
        let host = if kind == Kind::Kernel { server } else { site.outside() };
        let mut system = System { kind, process, host, _site: Some(site) };
        let reached = lab.reach(&system.host, dir);
        // Its last output is more informative.
        system.process.as_mut().map_or(Ok(()), Running::check)?;
        reached.map(|()| system)
    }
}

/// The paths through the balancer, as in the example.
const PATHS: &str = "wan -> from_wan -> balancer;\nbalancer[0, 1] -> routes;";
/// The same with TCP's context between it and the clients.
const PATHS_WITH_WORDS: &str = "
tcp :: TCPIn; tcp_out :: TCPOut;
words :: WordMatcher(attack, exploit, password, secret, confidential, overflow, injection, malware,
    payload, shellcode, MODE MASK);
wan -> from_wan -> tcp -> words -> tcp_out -> balancer;
balancer[0] -> routes;
balancer[1] -> [1]tcp; tcp[1] -> [1]words; words[1] -> [1]tcp_out; tcp_out[1] -> routes;
";

/// The example with a filter of words.
fn with_words() -> String {
    BALANCER.replace(PATHS, PATHS_WITH_WORDS)
}

fn haproxy(site: &Netns, dir: &Path) -> anyhow::Result<Running> {
    site.address()?;
    let servers: String = (site.servers().iter().enumerate())
        .map(|(number, address)| format!("  server s{number} {address}:80\n"))
        .collect();
    let text = format!(
        "global\n  nbthread 1\n  maxconn 4000\ndefaults\n  mode tcp\n  timeout connect 5s\n  \
         timeout client 60s\n  timeout server 60s\nlisten balancer\n  bind {}:80\n  \
         balance roundrobin\n{servers}",
        site.outside()
    );
    let file = dir.join("haproxy.cfg");
    std::fs::write(&file, text)?;
    let mut command = site.namespace.command("haproxy");
    Running::start(command.arg("-db").arg("-f").arg(file), "haproxy", dir)
}

/// Where the packages put nginx's module for streams, if it is not built in.
pub const STREAM_MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

fn nginx(site: &Netns, dir: &Path) -> anyhow::Result<Running> {
    site.address()?;
    let module = match Path::new(STREAM_MODULE).exists() {
        true => format!("load_module {STREAM_MODULE};\n"),
        false => String::new(),
    };
    let servers: String =
        site.servers().iter().map(|address| format!("server {address}:80; ")).collect();
    let text = format!(
        "{module}daemon off; master_process off; pid {dir}/stream.pid; error_log {dir}/stream.err;
events {{ worker_connections 4096; }}
stream {{
    upstream servers {{ {servers} }}
    server {{ listen {}:80 backlog=4096; proxy_pass servers; }}
}}\n",
        site.outside(),
        dir = dir.display()
    );
    let file = dir.join("stream.conf");
    std::fs::write(&file, text)?;
    Running::start(site.namespace.command("nginx").arg("-c").arg(file), "nginx", dir)
}

fn thruway(kind: Kind, site: &Netns, dir: &Path) -> anyhow::Result<Running> {
    let file = dir.join(format!("{}.click", kind.name()));
    let text = match kind {
        Kind::ThruwayWords => with_words(),
        Kind::ThruwayXdp => BALANCER.replace("PROMISC true", "PROMISC true, METHOD XDP"),
        _ => BALANCER.to_owned(),
    };
    std::fs::write(&file, text)?;
    let (inside, outside) = (site.inside(), site.outside());
    let mut command = site.namespace.command(&std::env::current_exe()?.display().to_string());
    command.args(["run", "--quiet"]).arg(file).args(["LAN=lan0", "WAN=wan0"]);
    command.args([format!("LAN_IP={inside}"), format!("LAN_NET={}", site.inside_net())]);
    command.args([format!("WAN_IP={outside}"), format!("WAN_NET={}", site.outside_net())]);
    command.args([format!("WAN_GW={}2", outside.trim_end_matches('1'))]);
    command.args([format!("VIP={outside}"), format!("SERVICES={outside}:80/tcp")]);
    let numbered = site.servers().into_iter().zip(1..);
    command.args(numbered.map(|(address, number)| format!("SERVER{number}={address}")));
    Running::start(&mut command, kind.name(), dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_has_the_ways_that_are_replaced() {
        assert_eq!(BALANCER.matches(PATHS).count(), 1);
        assert!(with_words().contains("WordMatcher"));
    }
}
