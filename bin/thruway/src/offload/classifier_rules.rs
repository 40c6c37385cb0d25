//! The rules of a configuration's classifier.

use std::sync::Arc;

use anyhow::{anyhow, bail};
use thruway_engine::Options;
use thruway_flow::chain::{Chain, Role};
use thruway_flow::plan::Plan;
use thruway_flow::tags::TagKind;
use thruway_offload::{Protocol, Table, Wanted, table};

use super::args::RulesArgs;
use crate::config_args::{libraries, report};
use crate::load;

/// The rules of a classifier.
pub(super) struct ClassifierRules {
    /// Name of the classifier.
    pub name: String,
    pub plan: Arc<Plan>,
    /// Its place among the plan's entries.
    pub entry: usize,
    pub table: Table,
    pub rules_max: usize,
}

impl ClassifierRules {
    /// Reads the configuration, and makes the rules.
    pub(super) fn of(args: &RulesArgs, protocol: Protocol) -> anyhow::Result<ClassifierRules> {
        let (source, variables) = args.config.read()?;
        let name = source.name.clone();
        let (router, warnings) = load::build(source, &variables, &libraries(), &Options::default())
            .map_err(|failure| {
                report(&failure.pretty);
                anyhow!("{name}: errors in the configuration, so no rules were made")
            })?;
        report(&warnings);
        let flows = router.flows();
        let (plan, chain) = (Arc::clone(&flows.plan), &flows.chain);
        let node = classifier(chain, args.element.as_deref())?;
        let entry = plan.entries.iter().position(|entry| entry.node as usize == node);
        let tags = args.tag.kind();
        if tags == TagKind::Metadata && protocol != Protocol::OpenVSwitch {
            bail!("only Open vSwitch has fields for options of Geneve: leave out --protocol");
        }
        let wanted = Wanted { protocol, rules_max: args.rules_max, tags };
        let found = entry.and_then(|entry| Some((entry, table(&plan, entry, &wanted)?)));
        let (entry, table) =
            found.ok_or_else(|| anyhow!("{name}: no packet comes to a FlowClassifier"))?;
        let (name, rules_max) = (chain.nodes[node].name.clone(), args.rules_max);
        Ok(ClassifierRules { name, plan, entry, table, rules_max })
    }

    /// What to do about classes without a tag, if there are any.
    pub(super) fn shortage(&self) -> Option<String> {
        let kind = self.table.tags;
        let (classes, tagged) = (self.plan.leaves.len(), usize::from(kind.classes()));
        (classes > tagged).then(|| {
            format!(
                "{} of {classes} classes have no tag of kind {}, which has {tagged}: the host \
                 classifies their packets; with --tag mpls every class has one",
                classes - tagged,
                kind.name()
            )
        })
    }
}

/// The classifier that is meant.
fn classifier(chain: &Chain, wanted: Option<&str>) -> anyhow::Result<usize> {
    let entries = chain.nodes.iter().enumerate().filter(|(_, node)| node.role == Role::Entry);
    let all: Vec<(usize, &str)> = entries.map(|(at, node)| (at, node.name.as_str())).collect();
    let names = all.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
    match (&all[..], wanted) {
        ([], _) => {
            bail!("the configuration has no FlowClassifier, and nothing else can be offloaded")
        }
        (all, Some(wanted)) => match all.iter().find(|(_, name)| *name == wanted) {
            Some((at, _)) => Ok(*at),
            None => bail!("'{wanted}' is no FlowClassifier; there are: {names}"),
        },
        ([(at, _)], None) => Ok(*at),
        (_, None) => {
            bail!("the configuration has several FlowClassifiers; name one with --element: {names}")
        }
    }
}
