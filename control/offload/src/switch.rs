//! A bridge of Open vSwitch, by `ovs-ofctl`.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use crate::error::Error;

/// Exit status of `ovs-ofctl diff-flows` where there are differences.
const DIFFERS: i32 = 2;
/// How long the switch may take to answer, in seconds.
const TIMEOUT_S: u32 = 10;

/// A bridge.
#[derive(Clone, Debug)]
pub(crate) struct Switch {
    /// Its name, or where it is managed, as `ovs-ofctl` takes it.
    pub bridge: String,
}

/// A name that means nothing else in a rule.
pub(crate) fn checked(name: &str) -> Result<String, Error> {
    let usual = |c: char| c.is_ascii_alphanumeric() || ".-_:/".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
    match begins && name.chars().all(usual) {
        true => Ok(name.to_owned()),
        false => Err(Error::Name(name.to_owned())),
    }
}

impl Switch {
    /// The bridge of this name, or with its management socket at this path.
    pub(crate) fn new(bridge: &str) -> Result<Switch, Error> {
        let bridge = checked(bridge)?;
        // As a path alone ovs-ofctl would take it for a file with rules.
        let bridge = if bridge.starts_with('/') { format!("unix:{bridge}") } else { bridge };
        Ok(Switch { bridge })
    }

    /// Installs or removes rules: all or none.
    pub(crate) fn send(&self, bundle: &str) -> Result<(), Error> {
        self.ofctl(&["--bundle", "add-flows", &self.bridge, "-"], bundle).map(drop)
    }

    /// The switch's number of a port.
    pub(crate) fn number(&self, name: &str) -> Result<String, Error> {
        let ports = self.ofctl(&["dump-ports-desc", &self.bridge], "")?;
        let end = format!("({name}):");
        let line = ports.lines().find_map(|line| line.trim().split_once(&end));
        let message = format!("it has no port '{name}'");
        line.map(|(number, _)| number.to_owned())
            .ok_or(Error::Switch { bridge: self.bridge.clone(), message })
    }

    /// Runs `ovs-ofctl` and gives it this text.
    pub(crate) fn ofctl(&self, args: &[&str], input: &str) -> Result<String, Error> {
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
        // The switch's own refusal comes before the message that it is about.
        let refusal = said.lines().find(|line| line.contains("OFPT_ERROR"));
        let message = refusal.or(said.lines().last()).unwrap_or("ovs-ofctl failed").trim();
        let message = message.trim_start_matches("ovs-ofctl: ").to_owned();
        Err(Error::Switch { bridge: self.bridge.clone(), message })
    }
}
