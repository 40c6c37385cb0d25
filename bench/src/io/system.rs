//! The contestants.

use std::path::Path;

use anyhow::Context as _;

use super::cases::{Case, Kind, Reception, Work};
use super::site::{
    APART_PRIORITY, Cores, HOPS, PROCESS_PRIORITY, RECEPTION_PRIORITY, Testbed, done, first,
};
use crate::child::{Running, cpu_ns, wait_for};
use thruway::reach;

/// One of them, ready. The fields are in the order of going.
pub struct System {
    /// Its process; the kernel has none.
    pub process: Option<Running>,
    /// The thread that receives for it, if that is its work.
    reception: Option<u32>,
    /// Soft interrupts forward, in nobody's name.
    pub has_nobody: bool,
    /// It has the core for a part of the time only, so that there is always more than it can take.
    pub has_peer: bool,
    /// It looks for packets without end, and is stopped but in its turns.
    is_restless: bool,
    /// Where its process listens.
    socket: String,
    pub site: Testbed,
}

const NAT: &str = include_str!("../../../examples/nat.click");

impl System {
    /// Puts it in its place and waits until it receives.
    pub fn start(case: &Case, number: usize, cores: Cores, dir: &Path) -> anyhow::Result<System> {
        let site = Testbed::new(number)?;
        let socket = dir.join(format!("{number}.sock")).display().to_string();
        let process = match case.kind {
            Kind::Kernel => {
                kernel(case, &site)?;
                None
            }
            Kind::Xdp | Kind::Packet => Some(thruway(case, &site, cores, (dir, &socket))?),
            Kind::TestpmdXdp | Kind::TestpmdPacket => Some(testpmd(case, &site, cores, dir)?),
        };
        if !matches!(case.kind, Kind::Xdp | Kind::TestpmdXdp) {
            site.take_redirected()?;
        }
        let mut system = System {
            has_peer: process.is_some() && case.reception == Reception::Load,
            process,
            reception: None,
            has_nobody: (case.kind, case.reception) == (Kind::Kernel, Reception::Load),
            is_restless: case.kind.is_testpmd(),
            socket,
            site,
        };
        system.wait()?;
        let (core, priority) = match case.reception {
            Reception::Forwarder => (cores.forwarding, RECEPTION_PRIORITY),
            Reception::Load => (cores.receiver, APART_PRIORITY),
        };
        let reception = system.site.pin_wan(core)?;
        first(reception, priority)?;
        system.reception = (case.reception == Reception::Forwarder).then_some(reception);
        if system.has_nobody {
            system.site.steer_wan(cores.forwarding)?;
        }
        if let Some(process) = &system.process {
            if system.is_restless {
                process.stop()?;
            }
            first(process.pid(), PROCESS_PRIORITY)?;
        }
        Ok(system)
    }

    /// Its turn begins or ends.
    pub fn work(&self, works: bool) -> anyhow::Result<()> {
        match &self.process {
            Some(process) if self.is_restless && works => process.go_on(),
            Some(process) if self.is_restless => process.stop(),
            _ => Ok(()),
        }
    }

    /// Waits until a process listens, or says that it forwards: then it receives, too.
    fn wait(&mut self) -> anyhow::Result<()> {
        let Some(process) = &mut self.process else { return Ok(()) };
        if self.is_restless {
            return wait_for("testpmd to start", || {
                process.check().map(|()| process.has_printed("packet forwarding - ports"))
            });
        }
        let socket = &self.socket;
        let listens = || std::os::unix::net::UnixStream::connect(socket).is_ok();
        wait_for("Thruway to start", || process.check().map(|()| listens()))
    }

    /// Nanoseconds of processor time of its process and of the thread that receives for it.
    pub fn used_ns(&self) -> u64 {
        let pids = [self.reception, self.process.as_ref().map(|process| process.pid())];
        pids.iter().flatten().map(|pid| cpu_ns(*pid)).sum()
    }

    /// Packets that its process dropped, and for what reasons.
    pub fn drops(&self) -> anyhow::Result<Vec<(String, u64)>> {
        if self.process.is_none() || self.is_restless {
            return Ok(Vec::new());
        }
        let text = reach(&self.socket)?.read("statistics")?;
        let drop = |line: &str| {
            let words: Vec<&str> = line.split('\t').collect();
            let [_, element, reason, count, ..] = words[..] else { return None };
            line.starts_with("drop\t").then_some(())?;
            Some((format!("{element}: {reason}"), count.parse().ok()?))
        };
        Ok(text.lines().filter_map(drop).collect())
    }
}

fn kernel(case: &Case, site: &Testbed) -> anyhow::Result<()> {
    site.route()?;
    let rules = match case.work {
        Work::Forward | Work::Route => return Ok(()),
        Work::Nat => format!(
            "add table ip nat; add chain ip nat post {{ type nat hook postrouting priority srcnat; \
             }}; add rule ip nat post oifname {} masquerade",
            site.lan.name
        ),
        Work::Filter => {
            let rule = |(net, port)| {
                format!("; add rule ip filter pass ip saddr {net} udp dport {port} drop")
            };
            let rules: String = unwanted().map(rule).collect();
            format!(
                "add table ip filter; add chain ip filter pass {{ type filter hook forward priority \
                 filter; }}{rules}"
            )
        }
    };
    done(site.middle.command("nft").arg(rules))
}

/// What a filter drops: networks and ports. No packet of the load is from there, so each is looked
/// at by all rules; what is not dropped passes, which is the twentieth.
fn unwanted() -> impl Iterator<Item = (String, u16)> {
    (1..20_u16).map(|number| (format!("172.16.{number}.0/24"), 1000 + number))
}

/// The same filter as an element.
fn filter() -> String {
    let rule = |(net, port)| format!("deny src net {net} && udp && dst port {port}, ");
    let rules: String = unwanted().map(rule).collect();
    format!("IPFilter({rules}allow all) -> ")
}

/// The short router of `bench path`, between two interfaces.
fn router(site: &Testbed, method: &str, filter: &str) -> String {
    let (wan, lan) = (&site.wan.name, &site.lan.name);
    let (own, far) = (site.lan.mac(), site.far.mac());
    let networks = [0, 1, 2, 3].map(|number| format!("10.{number}.0.0/16 {number}")).join(", ");
    let latency_table =
        [0, 1, 2, 3].map(|number| format!("rt[{number}] -> Hop({own}, {far}) -> out;\n"));
    format!(
        "rt :: DirectIPLookup({networks}, 0.0.0.0/0 0);
out :: ToDevice({lan}, METHOD {method});
elementclass Hop {{ $src, $dst |
    input -> DecIPTTL -> Unstrip(14) -> EtherRewrite($src, $dst) -> output;
}}
FromDevice({wan}, METHOD {method}, SNIFFER false, PROMISC true) -> Strip(14) -> CheckIPHeader -> {filter}rt;
{}",
        latency_table.concat()
    )
}

/// What a case runs; the variables of a text with variables are given beside it.
fn text(case: &Case, site: &Testbed) -> String {
    let method = if case.kind == Kind::Xdp { "XDP" } else { "LINUX" };
    let (wan, lan) = (&site.wan.name, &site.lan.name);
    match case.work {
        Work::Forward => {
            format!(
                "FromDevice({wan}, METHOD {method}, SNIFFER false) -> ToDevice({lan}, METHOD {method});\n"
            )
        }
        Work::Route => router(site, method, ""),
        Work::Filter => router(site, method, &filter()),
        Work::Nat => NAT
            .replace("PROMISC true", &format!("PROMISC true, METHOD {method}"))
            .replace("ToDevice($port", &format!("ToDevice($port, METHOD {method}")),
    }
}

fn thruway(
    case: &Case,
    site: &Testbed,
    cores: Cores,
    (dir, socket): (&Path, &str),
) -> anyhow::Result<Running> {
    let name = case.name.replace('/', "-");
    let file = dir.join(format!("{name}.click"));
    let text = format!("{}ControlSocket(UNIX, {socket});\n", text(case, site));
    std::fs::write(&file, text).with_context(|| file.display().to_string())?;
    // Of an earlier run that kept its files.
    let _ = std::fs::remove_file(socket);
    let mut command = site.middle.command("taskset");
    command.args(["--cpu-list", &cores.forwarding.to_string()]);
    command.arg(std::env::current_exe()?).args(["run", "--quiet"]).arg(file);
    if case.work == Work::Nat {
        let (wan, lan) = (&site.wan, &site.lan);
        // Its inside is where the load comes from.
        command.args([format!("LAN={}", wan.name), format!("LAN_MAC={}", wan.mac())]);
        command.args(["LAN_IP=10.9.0.1", "LAN_NET=10.9.0.0/24"]);
        command.args([format!("WAN={}", lan.name), format!("WAN_MAC={}", lan.mac())]);
        command.args(["WAN_IP=10.8.0.1", "WAN_NET=10.8.0.0/24"]);
        command.arg(format!("WAN_GW={}", HOPS[0]));
    }
    Running::start(&mut command, &name, dir)
}

/// testpmd, from one interface to the other and back, with a burst as large as ours may be at its
/// best.
fn testpmd(case: &Case, site: &Testbed, cores: Cores, dir: &Path) -> anyhow::Result<Running> {
    let driver = match case.kind {
        Kind::TestpmdXdp => "net_af_xdp",
        _ => "net_af_packet",
    };
    // Otherwise what it says stays with it while its output is a file.
    let mut command = site.middle.command("stdbuf");
    command.args(["-oL", "dpdk-testpmd"]);
    let (load, forwarding) = (cores.load, cores.forwarding);
    command.args(["-l", &format!("{load},{forwarding}"), "--main-lcore", &load.to_string()]);
    command.args(["--no-huge", "--no-shconf", "--no-telemetry", "--no-pci", "-m", "512"]);
    for (number, end) in [&site.wan, &site.lan].into_iter().enumerate() {
        command.arg(format!("--vdev={driver}{number},iface={}", end.name));
    }
    command.args(["--", "--forward-mode=io", "--burst=64", "--total-num-mbufs=16384"]);
    // Else it waits for a key.
    command.args(["--nb-cores=1", "--stats-period=3600"]);
    Running::start(&mut command, &case.name.replace('/', "-"), dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_has_what_is_replaced() {
        assert_eq!(NAT.matches("PROMISC true").count(), 1);
        assert_eq!(NAT.matches("ToDevice($port").count(), 1);
    }
}
