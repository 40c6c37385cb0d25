//! `thruway offload apply`: rules that are right for as long as the chain runs.
//!
//! The order keeps each packet's class right at every moment: the chain trusts no tag of rules that
//! the switch has not got, new rules have tags that the chain has not trusted before, and a chain
//! that begins or changes its configuration trusts none. Where the switch has no rules, frames may
//! come with tags from outside: so the chain stops trusting tags before rules are taken out, and
//! first of all where rules were lost. The chain classifies a packet
//! with an untrusted tag.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use thruway_client::{Client, shown};
use thruway_flow::tags::Generation;
use thruway_offload::Protocol;
use thruway_offload::ovs::{Counts, Port};

use super::args::{ApplyArgs, TagArg};
use super::classifier_rules::ClassifierRules;
use crate::reach::{address, reach};
use crate::signals::{end_flag, wait};

/// How often the switch and the chain are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Bytes of a tag.
const TAG_LEN: u32 = 4;

/// Rules that a switch has, and the chain that they are for.
struct Installation<'a> {
    args: &'a ApplyArgs,
    port: Port,
    address: String,
    rules: ClassifierRules,
    /// Of the rules that it got last; none before.
    generation: Option<Generation>,
    /// Packets that the switch dropped by these rules, as far as the chain knows.
    dropped: u64,
}

/// Runs the command.
pub(super) fn apply(args: &ApplyArgs) -> anyhow::Result<ExitCode> {
    let end = end_flag()?;
    let address = address(args.control.as_deref())?;
    let rules = ClassifierRules::of(&args.rules, Protocol::OpenVSwitch)?;
    let port = args.port.port()?;
    let mut installation =
        Installation { args, port, address, rules, generation: None, dropped: 0 };
    if args.rules.tag != TagArg::Geneve {
        warn_of_mtu(&args.port.from, &args.port.to);
    }
    let mut client = reach(&installation.address)?;
    installation.begin(&mut client)?;
    if args.once {
        return Ok(ExitCode::SUCCESS);
    }
    while wait(LOOK, &end, || false) {
        match installation.look() {
            Ok(true) => {}
            Ok(false) => {
                outln!("the chain has ended");
                break;
            }
            Err(error) => errln!("thruway offload: {error:#}"),
        }
    }
    installation.end()
}

/// Says where the longest packets do not pass, if the switch's ports are interfaces that can be
/// looked at from here.
fn warn_of_mtu(from: &str, to: &str) {
    let mtu = |name: &str| {
        let text = std::fs::read_to_string(format!("/sys/class/net/{name}/mtu")).ok()?;
        text.trim().parse::<u32>().ok()
    };
    if let (Some(of_from), Some(of_to)) = (mtu(from), mtu(to))
        && of_to < of_from + TAG_LEN
    {
        errln!(
            "warning: {to} cannot carry the longest packets of {from} with a tag, so the switch drops \
             them; run 'ip link set {to} mtu {}', and the same at the chain's end",
            of_from + TAG_LEN
        );
    }
}

impl Installation<'_> {
    fn handler(&self, name: &str) -> String {
        format!("{}.{name}", self.rules.name)
    }

    /// Gives the switch the rules, and has the chain trust their tags.
    fn begin(&mut self, client: &mut Client) -> anyhow::Result<()> {
        let fingerprint = self.rules.plan.fingerprint();
        let found = client.read(&self.handler("fingerprint"));
        let found = found.with_context(|| format!("the chain has no '{}'", self.rules.name))?;
        if found.trim() != fingerprint.to_string() {
            bail!(
                "the chain at {} has other classes than this configuration: give the file and \
                 variables that it runs",
                shown(&self.address)
            );
        }
        self.check_kind(client)?;
        if let Some(shortage) = self.rules.shortage() {
            errln!("warning: {shortage}");
        }
        let generation = self.next_generation(client)?;
        self.port.apply(&self.rules.table, generation)?;
        (self.generation, self.dropped) = (Some(generation), 0);
        let trusted = format!("{generation} {fingerprint}");
        if let Err(error) = client.write(&self.handler("tags"), &trusted) {
            // Tags of earlier rules may be trusted still. If this fails, too, the chain has ended.
            let _ = self.distrust(client);
            self.port.remove()?;
            return Err(error.context("the rules are out of the switch again"));
        }
        outln!(
            "{}: {} rules for '{}' (tags: {}, generation {generation})",
            self.args.port.bridge,
            self.rules.table.rules.len(),
            self.rules.name,
            self.rules.table.tags.name()
        );
        Ok(())
    }

    /// Whether the chain reads what the switch would write.
    fn check_kind(&self, client: &mut Client) -> anyhow::Result<()> {
        let found = client.read(&self.handler("tag_kind"))?;
        let (found, wanted) = (found.trim(), self.rules.table.tags.name());
        if found != wanted {
            bail!(
                "the chain at {} reads tags of kind {found}, and the switch would give it those of \
                 kind {wanted}: give another --tag, or change INPUT, TAG or TAG_ANNO of '{}'",
                shown(&self.address),
                self.rules.name
            );
        }
        Ok(())
    }

    /// Tags that no packet in flight has: neither those of rules in the switch, also of another
    /// owner, nor those that the chain trusts, nor the last ones from here.
    fn next_generation(&self, client: &mut Client) -> anyhow::Result<Generation> {
        let kind = self.rules.table.tags;
        let trusted = client.read(&self.handler("tags"))?;
        let trusted = Generation::parse(trusted.trim(), kind);
        let used = self.port.generation(kind)?.or(trusted).or(self.generation);
        let Some(used) = used else { return Ok(Generation::default()) };
        let next = used.next(kind);
        // With two generations there is no third one.
        let is_free = Some(next) != trusted || next.next(kind) == used;
        Ok(if is_free { next } else { next.next(kind) })
    }

    /// Has the chain trust no tag.
    fn distrust(&self, client: &mut Client) -> anyhow::Result<()> {
        client.write(&self.handler("tags"), "none")
    }

    /// Reports to the chain how many packets the switch has dropped since the last report, and
    /// gives all that the switch counts.
    fn report_drops(&mut self, client: &mut Client) -> anyhow::Result<Counts> {
        let counts = self.port.counts(&self.rules.table)?;
        let dropped = counts.dropped.saturating_sub(self.dropped).min(u64::from(u32::MAX));
        if dropped > 0 {
            client.write(&self.handler("offloaded"), &dropped.to_string())?;
            self.dropped += dropped;
        }
        Ok(counts)
    }

    /// Reports to the chain what the switch dropped, and mends what has changed. Says whether the
    /// chain runs.
    fn look(&mut self) -> anyhow::Result<bool> {
        let Ok(mut client) = reach(&self.address) else { return Ok(false) };
        let counts = self.report_drops(&mut client)?;
        let trusted = client.read(&self.handler("tags"))?;
        let is_trusted = |generation: Generation| trusted.trim() == generation.to_string();
        if !self.generation.is_some_and(is_trusted) {
            outln!("the chain restarted or reloaded");
            self.rules = ClassifierRules::of(&self.args.rules, Protocol::OpenVSwitch)?;
            self.begin(&mut client)?;
        } else if counts.rules < self.rules.table.rules.len() {
            self.distrust(&mut client)?;
            outln!("the switch has lost rules");
            self.begin(&mut client)?;
        }
        Ok(true)
    }

    /// Has the chain trust no tag, and takes the rules out.
    fn end(&mut self) -> anyhow::Result<ExitCode> {
        let last = self.report_end();
        self.port.remove()?;
        last?;
        Ok(ExitCode::SUCCESS)
    }

    /// Has the chain, if it runs, trust no tag, and reports the last drops to it.
    fn report_end(&mut self) -> anyhow::Result<()> {
        let Ok(mut client) = reach(&self.address) else { return Ok(()) };
        self.distrust(&mut client)?;
        self.report_drops(&mut client).map(drop)
    }
}
