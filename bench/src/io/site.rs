//! The place of a contestant: between a sender and a receiver, on two cables.
//!
//! ```text
//! sender  out -- wan  [middle]  lan -- far  receiver
//!      10.9.0.2    .1  10.9.0/10.8.0  .1    10.8.0.10 to .13
//! ```
//!
//! On a virtual link, the sender executes reception at the far end, unless the end's NAPI has a
//! thread of its own. Both receiving ends have one here, each on the core of its task: that of
//! `wan` on the forwarding core, that of `far` on the core of the load. The far end polls for
//! frames by a timer, as a network card with moderated interrupts does, so that the forwarder wakes
//! no thread. All measured threads have real-time priority, so other load takes no turns.

use anyhow::{Context as _, bail};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use thruway_port::interface;

use crate::child::wait_for;
use crate::namespace::Namespace;

/// What the bench's namespaces are called while they are made.
const PREFIX: &str = "thruway-bench";
/// Next hops behind `lan`; all are the receiver.
pub const HOPS: [&str; 4] = ["10.8.0.10", "10.8.0.11", "10.8.0.12", "10.8.0.13"];
/// The far end looks for frames so often, nanoseconds: at ten million a second half of an end's
/// room of 256 frames fills in that time.
const LOOK_NS: u32 = 12_500;
/// And falls asleep when it found none so many times.
const LOOKS: u32 = 4_000;
/// Priority of the measuring thread.
pub const MEASURER_PRIORITY: u32 = 30;
/// Priorities on the core of the load: the receiver's NAPI above the generator.
pub const RECEIVER_PRIORITY: u32 = 20;
pub const GENERATOR_PRIORITY: u32 = 10;
/// And between them reception for the middle, where that is not the forwarder's work.
pub const APART_PRIORITY: u32 = 15;
/// Priorities on the core that forwards: reception works when the process has nothing to do, so
/// that it does not receive packets that cannot be processed.
pub const PEER_PRIORITY: u32 = 7;
pub const PROCESS_PRIORITY: u32 = 5;
pub const RECEPTION_PRIORITY: u32 = 1;

/// The core of each task.
#[derive(Debug, Clone, Copy)]
pub struct Cores {
    /// The generator.
    pub load: usize,
    /// Reception at the far end.
    pub receiver: usize,
    /// The contestant.
    pub forwarding: usize,
}

impl Cores {
    /// The load on the first of the cores that may be used, the contestant on the last; with three,
    /// reception between them.
    pub fn choose(allowed: &[usize]) -> anyhow::Result<Cores> {
        match *allowed {
            [load, .., receiver, forwarding] => Ok(Cores { load, receiver, forwarding }),
            [load, forwarding] => Ok(Cores { load, receiver: load, forwarding }),
            _ => bail!("it needs two cores, one for the load and one for the forwarder"),
        }
    }
}

/// See the module.
pub struct Testbed {
    pub sender: Namespace,
    pub middle: Namespace,
    pub receiver: Namespace,
    /// The middle's interfaces.
    pub wan: End,
    pub lan: End,
    /// The receiver's.
    pub far: End,
}

/// An end of a cable.
#[derive(Debug, Clone)]
pub struct End {
    /// No other interface of this machine has that name.
    pub name: String,
    pub mac: [u8; 6],
}

impl End {
    fn of(namespace: &Namespace, name: String) -> anyhow::Result<End> {
        let found = namespace.within(|| interface::find(&name))??;
        let mac = found.mac.with_context(|| format!("{name} has no address"))?;
        Ok(End { name, mac })
    }

    /// As text.
    pub fn mac(&self) -> String {
        self.mac.map(|byte| format!("{byte:02x}")).join(":")
    }
}

impl Testbed {
    /// The sender's end of its cable.
    pub const OUT: &str = "out";

    /// The namespaces and cables of a contestant.
    pub fn new(number: usize) -> anyhow::Result<Testbed> {
        let space = |role| Namespace::new(PREFIX, role);
        let (sender, middle, receiver) = (space("sender")?, space("middle")?, space("receiver")?);
        for space in [&sender, &middle, &receiver] {
            // Nobody says anything of their own accord. It fails where there is no IPv6.
            let _ = space.set("ipv6/conf/all/disable_ipv6", "1");
            let _ = space.set("ipv6/conf/default/disable_ipv6", "1");
        }
        let name = |end: &str| format!("{end}{number}p{}", std::process::id());
        let [wan, lan, far] = ["w", "l", "f"].map(name);
        middle.cable(&wan, (&sender, Testbed::OUT), "")?;
        middle.cable(&lan, (&receiver, &far), "")?;
        sender.ip(&format!("link set {} up", Testbed::OUT))?;
        receiver.ip(&format!("link set {far} up"))?;
        for hop in HOPS {
            receiver.ip(&format!("address add {hop}/24 dev {far}"))?;
        }
        let (wan, lan) = (End::of(&middle, wan)?, End::of(&middle, lan)?);
        let far = End::of(&receiver, far)?;
        Ok(Testbed { sender, middle, receiver, wan, lan, far })
    }

    /// Gives the middle's kernel its addresses and routes.
    pub fn route(&self) -> anyhow::Result<()> {
        self.middle.ip(&format!("address add 10.9.0.1/24 dev {}", self.wan.name))?;
        self.middle.ip(&format!("address add 10.8.0.1/24 dev {}", self.lan.name))?;
        for (network, hop) in HOPS.iter().enumerate() {
            let neighbour = format!("lladdr {} dev {}", self.far.mac(), self.lan.name);
            self.middle.ip(&format!("neighbour add {hop} {neighbour} nud permanent"))?;
            self.middle.ip(&format!("route add 10.{network}.0.0/16 via {hop}"))?;
        }
        self.middle.set("ipv4/ip_forward", "1")
    }

    /// Lets `wan` take frames that are redirected to it, where no XDP program does.
    pub fn take_redirected(&self) -> anyhow::Result<()> {
        let mut command = self.middle.command("ethtool");
        done(command.args(["-K", &self.wan.name, "gro", "on"]))
    }

    /// Puts reception of `wan` on a core, once there is NAPI: its thread.
    pub fn pin_wan(&self, core: usize) -> anyhow::Result<u32> {
        napi_thread(&self.middle, &self.wan.name, core)
    }

    /// Has what `wan` received go on on another core than that of its NAPI (receive packet
    /// steering).
    pub fn steer_wan(&self, core: usize) -> anyhow::Result<()> {
        set(&self.middle, &self.wan.name, "queues/rx-0/rps_cpus", &mask(core))
    }

    /// Frames that the middle's kernel received from `wan` and dropped before its stack: the core
    /// that they were to go on on had too many waiting.
    pub fn not_taken(&self) -> anyhow::Result<u64> {
        /// The fourth column of reception.
        const DROPPED: usize = 3;
        let dropped = column(&self.middle, &self.wan.name, DROPPED)?;
        // A virtual link counts there, too, what its other end could not send.
        Ok(dropped.saturating_sub(self.no_room()?[0]))
    }

    /// Puts reception of the far end on a core, once there is NAPI, before all else.
    pub fn pin_far_at_once(&self, core: usize) -> anyhow::Result<()> {
        let thread = napi_thread(&self.receiver, &self.far.name, core)?;
        first(thread, RECEIVER_PRIORITY)
    }

    /// As [`Testbed::pin_far_at_once`], and by a timer.
    pub fn pin_far(&self, core: usize) -> anyhow::Result<()> {
        let (space, name) = (&self.receiver, &self.far.name);
        self.pin_far_at_once(core)?;
        set(space, name, "gro_flush_timeout", &LOOK_NS.to_string())?;
        set(space, name, "napi_defer_hard_irqs", &LOOKS.to_string())
    }

    /// Frames that the sender and the middle gave to their cables, and for which the other end had
    /// no room. (What an end counts as dropped in reception may have been dropped by its XDP
    /// program, too.)
    pub fn no_room(&self) -> anyhow::Result<[u64; 2]> {
        /// Behind eight columns of reception, the fourth of transmission.
        const DROPPED: usize = 11;
        let of = |space, name| column(space, name, DROPPED);
        Ok([of(&self.sender, Testbed::OUT)?, of(&self.middle, &self.lan.name)?])
    }
}

/// One of the counts of an interface.
fn column(space: &Namespace, name: &str, column: usize) -> anyhow::Result<u64> {
    let text = space.within(|| std::fs::read_to_string("/proc/thread-self/net/dev"))??;
    count_in(&text, name, column).with_context(|| format!("{name} is gone"))
}

/// Of an interface, from `/proc/net/dev`.
fn count_in(text: &str, name: &str, column: usize) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, counts) = lines.find(|(interface, _)| interface.trim() == name)?;
    counts.split_whitespace().nth(column)?.parse().ok()
}

/// A core as the kernel's files want sets of them: 32 in a word, the last words first.
fn mask(core: usize) -> String {
    format!("{:x}{}", 1_u32 << (core % 32), ",00000000".repeat(core / 32))
}

/// Gives an interface's NAPI a thread of its own, on a core.
fn napi_thread(space: &Namespace, name: &str, core: usize) -> anyhow::Result<u32> {
    set(space, name, "threaded", "1")?;
    let prefix = format!("napi/{name}-");
    let mut found = None;
    wait_for(&format!("the thread {prefix}"), || {
        let processes = std::fs::read_dir("/proc")?.flatten();
        let is_it = |entry: &std::fs::DirEntry| {
            let comm = std::fs::read_to_string(entry.path().join("comm"));
            comm.is_ok_and(|comm| comm.starts_with(&prefix))
        };
        let mut numbers = processes.filter(is_it).map(|entry| entry.file_name());
        found = numbers.find_map(|number| number.to_str()?.parse::<u32>().ok());
        Ok(found.is_some())
    })?;
    let thread = found.unwrap_or_default();
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(Pid::from_raw(thread.cast_signed()), &cores)
        .with_context(|| format!("cannot bind {prefix} to core {core}"))?;
    Ok(thread)
}

/// Has the threads of a process, or one of the kernel's, run before those of no priority.
pub fn first(process: u32, priority: u32) -> anyhow::Result<()> {
    let mut command = std::process::Command::new("chrt");
    let [priority, process] = [priority, process].map(|number| number.to_string());
    done(command.args(["--all-tasks", "--fifo", "--pid", &priority, &process]))
}

/// As [`first`], of the calling thread alone.
pub fn first_thread(priority: u32) -> anyhow::Result<()> {
    let mut command = std::process::Command::new("chrt");
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    done(command.args(["--fifo", "--pid", &priority.to_string(), &thread]))
}

/// Sets what an interface has under `/sys/class/net`.
fn set(space: &Namespace, name: &str, file: &str, value: &str) -> anyhow::Result<()> {
    let mut command = space.command("sh");
    let path = format!("/sys/class/net/{name}/{file}");
    done(command.args(["-c", "echo \"$1\" > \"$0\"", &path, value]))
}

/// Runs a command that must succeed.
pub fn done(command: &mut std::process::Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_apart() {
        assert!(Cores::choose(&[3]).is_err());
        let two = Cores::choose(&[1, 3]).expect("enough");
        assert_eq!((two.load, two.receiver, two.forwarding), (1, 1, 3));
        let four = Cores::choose(&[0, 1, 2, 3]).expect("enough");
        assert_eq!((four.load, four.receiver, four.forwarding), (0, 2, 3));
    }

    #[test]
    fn the_kernels_table_is_read() {
        let text = "Inter-|   Receive | Transmit\n face |bytes packets\n    lo: 1 2 3 4 5 6 7 8 9 \
                    10 11 12 13 14 15 16\n  w0p12: 0 1 2 30 4 5 6 7 8 9 10 110 12 13 14 15\n";
        assert_eq!(count_in(text, "w0p12", 11), Some(110));
        assert_eq!(count_in(text, "w0p12", 3), Some(30));
        assert_eq!(count_in(text, "w0", 11), None);
    }

    #[test]
    fn cores_are_written_as_the_kernel_reads_them() {
        assert_eq!([0, 5, 31].map(mask), ["1", "20", "80000000"]);
        assert_eq!(mask(33), "2,00000000");
        assert_eq!(mask(64), "1,00000000,00000000");
    }
}
