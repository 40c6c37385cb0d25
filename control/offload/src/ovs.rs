//! The rules of one port of Open vSwitch.
//!
//! They are put there, changed and taken away by `ovs-ofctl`, each time in one bundle (OpenFlow
//! 1.4, section 6.9): the switch has all of it or nothing. A cookie says whose they are: rules of
//! others stay as they are, and whoever comes later finds what an earlier process left.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use tempfile::NamedTempFile;
use thruway_flow::tags::Generation;

use crate::actions::actions;
use crate::table::{Table, Verdict};

/// The highest priority of a rule.
const PRIORITY_MAX: usize = 60_000;
/// Most rules: each has a priority of its own.
pub const RULES_MAX: usize = 50_000;
/// Upper half of the cookies of all rules: "thrw".
const COOKIE: u64 = 0x7468_7277 << 32;
/// Exit status of `ovs-ofctl diff-flows` where there are differences.
const DIFFERS: i32 = 2;
/// Bit of a VLAN number that says that there is a tag.
const VLAN_PRESENT: u16 = 0x1000;
/// How long the switch may take to answer, in seconds.
const TIMEOUT_S: u32 = 10;

/// Why rules are not as wanted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name that would mean something else in a rule.
    #[error("'{0}' is no name of a bridge or port: letters, digits, '.', '_', '-', ':' and '/'")]
    Name(String),
    /// The program is missing.
    #[error("ovs-ofctl cannot be run ({0}): install Open vSwitch (Debian: openvswitch-switch)")]
    Program(std::io::Error),
    /// The rules cannot be written for `ovs-ofctl`.
    #[error("a temporary file cannot be written: {0}")]
    File(std::io::Error),
    /// The switch refused, or is not there.
    #[error("{bridge}: {message}")]
    Switch {
        /// Its name.
        bridge: String,
        /// What `ovs-ofctl` said.
        message: String,
    },
    /// The switch has other rules.
    #[error("the switch has other rules:\n{0}")]
    Differs(String),
    /// More rules than priorities.
    #[error("{count} rules: Open vSwitch gets at most {RULES_MAX} of a port; give a lower limit")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// Rules of others come first.
    #[error(
        "{bridge}: {count} rules of others for packets of '{port}' come first (the first: {first}): \
         give them priorities below {lowest}, or take them away"
    )]
    Foreign {
        /// The switch.
        bridge: String,
        /// The port.
        port: String,
        /// How many.
        count: usize,
        /// One of them.
        first: String,
        /// The lowest priority of these rules.
        lowest: usize,
    },
}

/// A port of a switch whose packets go to a chain.
#[derive(Clone, Debug)]
pub struct Port {
    bridge: String,
    from: String,
    host: String,
}

/// The packets and bytes that a rule met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rules that the switch has.
    pub rules: usize,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Packets whose class was found.
    pub tagged: u64,
    /// Packets that were left to the host.
    pub left: u64,
}

fn checked(name: &str) -> Result<String, Error> {
    let usual = |c: char| c.is_ascii_alphanumeric() || ".-_:/".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
    match begins && name.chars().all(usual) {
        true => Ok(name.to_owned()),
        false => Err(Error::Name(name.to_owned())),
    }
}

impl Port {
    /// Packets that come to `bridge` (a name, or a path of its management socket) by the port
    /// `from` go to the port `host`, where the chain is.
    ///
    /// # Errors
    /// A name that is none.
    pub fn new(bridge: &str, from: &str, host: &str) -> Result<Port, Error> {
        let bridge = checked(bridge)?;
        // As a path alone ovs-ofctl would take it for a file with rules.
        let bridge = if bridge.starts_with('/') { format!("unix:{bridge}") } else { bridge };
        Ok(Port { bridge, from: checked(from)?, host: checked(host)? })
    }

    /// What says whose rules they are. It holds for the port, so that there are no two owners.
    fn cookie(&self) -> u64 {
        // FNV-1a, 32 bits: to distinguish a few ports.
        let hash = self
            .from
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        COOKIE | u64::from(hash)
    }

    /// The text of a bundle that replaces the rules of this port.
    ///
    /// # Errors
    /// More rules than the switch takes.
    pub fn bundle(&self, table: &Table, generation: Generation) -> Result<String, Error> {
        let count = table.rules.len();
        if count > RULES_MAX {
            return Err(Error::TooMany { count });
        }
        Ok(self.deletion() + &self.additions(table, generation, (&self.from, &self.host)))
    }

    /// The rules, with ports by these names or numbers.
    fn additions(
        &self,
        table: &Table,
        generation: Generation,
        (from, host): (&str, &str),
    ) -> String {
        let cookie = self.cookie();
        let rules = table.rules.iter().enumerate().map(|(at, rule)| {
            let matches = rule.matches.to_string();
            let separator = if matches.is_empty() { "" } else { "," };
            let actions = actions(rule.verdict, generation, host);
            format!(
                "add priority={},cookie={cookie:#x},in_port={from}{separator}{matches},\
                 actions={actions}\n",
                PRIORITY_MAX - at
            )
        });
        rules.collect()
    }

    fn deletion(&self) -> String {
        format!("delete cookie={:#x}/-1\n", self.cookie())
    }

    /// Replaces the rules of this port, at once.
    ///
    /// # Errors
    /// The switch is not there or refuses; rules of others would come first. It then has the rules
    /// that it had.
    pub fn apply(&self, table: &Table, generation: Generation) -> Result<(), Error> {
        let bundle = self.bundle(table, generation)?;
        self.check_foreign(table)?;
        self.send(&bundle)
    }

    /// Takes the rules of this port away.
    ///
    /// # Errors
    /// The switch is not there or refuses.
    pub fn remove(&self) -> Result<(), Error> {
        self.send(&self.deletion())
    }

    fn send(&self, bundle: &str) -> Result<(), Error> {
        self.ofctl(&["--bundle", "add-flows", &self.bridge, "-"], bundle).map(drop)
    }

    /// What the rules of a table, applied before, have met.
    ///
    /// # Errors
    /// The switch is not there.
    pub fn counts(&self, table: &Table) -> Result<Counts, Error> {
        let dump = self.own_rules()?;
        let mut counts = Counts::default();
        for flow in dump.lines().filter_map(Flow::read) {
            let at = PRIORITY_MAX.checked_sub(flow.priority);
            let Some(rule) = at.and_then(|at| table.rules.get(at)) else { continue };
            counts.rules += 1;
            *match rule.verdict {
                Verdict::Drop(_) => &mut counts.dropped,
                Verdict::Class(_) => &mut counts.tagged,
                Verdict::Software(_) => &mut counts.left,
            } += flow.packets;
        }
        Ok(counts)
    }

    /// Whose tags the rules that the switch has for this port put before packets; `None` if it has
    /// none that do.
    ///
    /// # Errors
    /// The switch is not there.
    pub fn generation(&self) -> Result<Option<Generation>, Error> {
        let dump = self.own_rules()?;
        let vlans = dump.split("set_field:").filter_map(|rest| rest.split_once("->vlan_vid"));
        let tags = vlans.filter_map(|(vlan, _)| Some(vlan.parse::<u16>().ok()? & !VLAN_PRESENT));
        let of = |tag| {
            [Generation::Even, Generation::Odd].into_iter().find(|one| one.class(tag).is_some())
        };
        Ok(tags.filter_map(of).next())
    }

    fn own_rules(&self) -> Result<String, Error> {
        let filter = format!("cookie={:#x}/-1", self.cookie());
        self.ofctl(&["dump-flows", &self.bridge, &filter], "")
    }

    /// How the rules that the switch has differ from a table's, a line each as `ovs-ofctl
    /// diff-flows` writes them; none if only the tags are of another generation.
    ///
    /// # Errors
    /// The switch is not there.
    pub fn differences(&self, table: &Table) -> Result<Vec<String>, Error> {
        let mut fewest: Option<Vec<String>> = None;
        for generation in [Generation::Even, Generation::Odd] {
            let lines = self.diff(table, generation)?;
            if fewest.as_ref().is_none_or(|fewest| lines.len() < fewest.len()) {
                fewest = Some(lines);
            }
        }
        Ok(fewest.unwrap_or_default())
    }

    /// The switch's number of a port.
    fn number(&self, name: &str) -> Result<String, Error> {
        let ports = self.ofctl(&["dump-ports-desc", &self.bridge], "")?;
        let end = format!("({name}):");
        let line = ports.lines().find_map(|line| line.trim().split_once(&end));
        let message = format!("it has no port '{name}'");
        line.map(|(number, _)| number.to_owned())
            .ok_or(Error::Switch { bridge: self.bridge.clone(), message })
    }

    fn diff(&self, table: &Table, generation: Generation) -> Result<Vec<String>, Error> {
        // In a file for this ports have numbers, and rules no verb.
        let (from, host) = (self.number(&self.from)?, self.number(&self.host)?);
        let rules = self.additions(table, generation, (&from, &host));
        let wanted = rules.replace("\nadd ", "\n");
        let wanted = wanted.trim_start_matches("add ");
        let lowest = PRIORITY_MAX + 1 - table.rules.len();
        let mut file = NamedTempFile::new().map_err(Error::File)?;
        file.write_all(wanted.as_bytes()).map_err(Error::File)?;
        // Its exit status says whether there is a difference, of others' rules as well.
        let diff =
            match self.ofctl(&["diff-flows", &self.bridge, &file.path().to_string_lossy()], "") {
                Err(Error::Differs(diff)) => diff,
                other => other?,
            };
        let own = |line: &&str| {
            let rule = line.trim_start_matches(['+', '-']);
            let priority = Flow::read(rule).map(|flow| flow.priority);
            priority.is_some_and(|priority| (lowest..=PRIORITY_MAX).contains(&priority))
        };
        // ovs-ofctl 3.1 finds rules about fragments different from themselves.
        let lines: BTreeSet<&str> = diff.lines().filter(own).collect();
        let is_same = |line: &&&str| {
            let other = if line.starts_with('+') { '-' } else { '+' };
            lines.contains(format!("{other}{}", &line[1..]).as_str())
        };
        Ok(lines.iter().filter(|line| !is_same(line)).map(|line| (*line).to_owned()).collect())
    }

    /// Rules of others that would meet packets before these.
    fn check_foreign(&self, table: &Table) -> Result<(), Error> {
        let lowest = PRIORITY_MAX + 1 - table.rules.len();
        let dump = self.ofctl(&["--names", "--no-stats", "dump-flows", &self.bridge], "")?;
        let own = format!("cookie={:#x}", self.cookie());
        let first: Vec<&str> = dump
            .lines()
            .filter(|line| !line.contains(&own))
            .filter(|line| Flow::read(line).is_some_and(|flow| flow.priority >= lowest))
            .filter(|line| of_port(line, &self.from))
            .collect();
        match first.first() {
            None => Ok(()),
            Some(line) => Err(Error::Foreign {
                bridge: self.bridge.clone(),
                port: self.from.clone(),
                count: first.len(),
                first: line.trim().to_owned(),
                lowest,
            }),
        }
    }

    /// Runs `ovs-ofctl` and gives it this text.
    fn ofctl(&self, args: &[&str], input: &str) -> Result<String, Error> {
        let timeout = format!("--timeout={TIMEOUT_S}");
        let mut child = Command::new("ovs-ofctl")
            .args(["-O", "OpenFlow15", &timeout])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Error::Program)?;
        // A program that ends without reading has said why, which is read below.
        let _ = child.stdin.take().map(|mut to| to.write_all(input.as_bytes()));
        let Output { status, stdout, stderr } = child.wait_with_output().map_err(Error::Program)?;
        let answer = String::from_utf8_lossy(&stdout).into_owned();
        if status.success() {
            return Ok(answer);
        }
        if status.code() == Some(DIFFERS) {
            return Err(Error::Differs(answer));
        }
        let said = String::from_utf8_lossy(&stderr);
        let message = said.lines().last().unwrap_or("ovs-ofctl failed").trim();
        let message = message.trim_start_matches("ovs-ofctl: ").to_owned();
        Err(Error::Switch { bridge: self.bridge.clone(), message })
    }
}

/// A line of `ovs-ofctl dump-flows`.
struct Flow {
    priority: usize,
    packets: u64,
}

/// What a rule has that says nothing of its priority (OpenFlow 1.5.1, section 7.3.4.2).
const PRIORITY_DEFAULT: usize = 32_768;

impl Flow {
    fn read(line: &str) -> Option<Flow> {
        let (matches, _) = line.split_once("actions=")?;
        let of = |key: &str| {
            matches.split([',', ' ']).find_map(|word| word.trim().strip_prefix(key)?.parse().ok())
        };
        let priority = of("priority=").map_or(PRIORITY_DEFAULT, |priority: u64| priority as usize);
        Some(Flow { priority, packets: of("n_packets=").unwrap_or(0) })
    }
}

/// Whether a rule is for packets of a port, or of any.
fn of_port(line: &str, port: &str) -> bool {
    let matches = line.split_once("actions=").map_or(line, |(matches, _)| matches);
    let mut words =
        matches.split([',', ' ']).filter_map(|word| word.trim().strip_prefix("in_port="));
    words.next().is_none_or(|found| found.trim_matches('"') == port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_dump_are_read() {
        let line = " cookie=0x1, duration=0.010s, table=0, n_packets=7, n_bytes=0, idle_age=0, \
                    priority=80,tcp,in_port=\"pa\",tp_dst=80 actions=output:2";
        let flow = Flow::read(line).unwrap();
        assert_eq!((flow.priority, flow.packets), (80, 7));
        assert!(of_port(line, "pa") && !of_port(line, "pb"));
        let line = " cookie=0x0, table=0, n_packets=3, actions=NORMAL";
        let flow = Flow::read(line).unwrap();
        assert_eq!((flow.priority, flow.packets), (PRIORITY_DEFAULT, 3));
        assert!(of_port(line, "pa"));
        assert!(Flow::read("OFPST_FLOW reply (OF1.5) (xid=0x2):").is_none());
    }

    #[test]
    fn names_are_names() {
        for name in ["br0", "/run/openvswitch/br0.mgmt", "veth-1.7"] {
            assert!(Port::new(name, "a", "b").is_ok(), "{name}");
        }
        for name in ["", "-O", "a,actions=drop", "a b", "a\n", "tcp;x"] {
            for port in
                [Port::new(name, "a", "b"), Port::new("a", name, "b"), Port::new("a", "b", name)]
            {
                assert!(matches!(port, Err(Error::Name(_))), "{name:?}");
            }
        }
    }
}
