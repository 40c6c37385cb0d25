//! Attribution of a core's time, by samples of its stack: on a virtual link, the sender executes
//! reception at the end of its system call, and the kernel counts it as the sender's time.
//!
//! What the kernel does for the network in a process's name, after its own work, is mostly
//! reception at the other end of the cable: in the box's name, that of the hosts, and in a host's
//! name that of the box. So the box's share of the time is its processes' without that work, and
//! that work in the hosts' names.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

/// The function of the kernel under which reception is done.
const RECEPTION: &str = "net_rx_action";

/// Samples that are being taken.
pub struct Sampling {
    perf: Child,
    file: PathBuf,
}

/// Of each process's samples the part that lay in reception.
#[derive(Debug, Default)]
pub struct Shares(HashMap<u32, (u32, u32)>);

impl Sampling {
    /// Samples a core for so many seconds.
    pub fn start(core: usize, seconds: u32, dir: &Path) -> anyhow::Result<Sampling> {
        let file = dir.join("perf.data");
        let mut command = Command::new("perf");
        command.args(["record", "-q", "-g", "-e", "cpu-clock", "-F", "2000"]);
        command.args(["-C", &core.to_string(), "-o"]).arg(&file);
        command.args(["--", "sleep", &seconds.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let perf = command.spawn().context("cannot run perf")?;
        Ok(Sampling { perf, file })
    }

    /// Waits for the end.
    pub fn finish(mut self) -> anyhow::Result<Shares> {
        self.perf.wait()?;
        let mut command = Command::new("perf");
        command.args(["script", "-F", "pid,ip,sym", "--no-demangle", "-i"]).arg(&self.file);
        let output = command.stdin(Stdio::null()).output().context("cannot run perf")?;
        Ok(Shares::read(&String::from_utf8_lossy(&output.stdout)))
    }
}

impl Shares {
    /// From what `perf script` prints: a line with the process's number, its stack, an empty line.
    fn read(text: &str) -> Shares {
        let mut shares = Shares::default();
        for sample in text.split("\n\n") {
            let mut lines = sample.trim().lines();
            let Some(pid) = lines.next().and_then(|line| line.trim().parse().ok()) else {
                continue;
            };
            let receives = lines.any(|line| line.contains(RECEPTION));
            let count = shares.0.entry(pid).or_default();
            count.0 += u32::from(receives);
            count.1 += 1;
        }
        shares
    }

    /// The part of a process's time.
    pub fn of(&self, pid: u32) -> f64 {
        match self.0.get(&pid) {
            Some(&(some, all)) => f64::from(some) / f64::from(all.max(1)),
            None => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_read() {
        let text = "  12 \n\t ffff veth_xmit\n\t 1 main\n\n  12 \n\t ffff tcp_v4_rcv\n\t ffff \
                    net_rx_action\n\n  7 \n\t ffff net_rx_action\n\n";
        let shares = Shares::read(text);
        assert_eq!((shares.of(12), shares.of(7), shares.of(9)), (0.5, 1.0, 0.0));
        assert_eq!(Shares::read("").of(1), 0.0);
    }
}
