//! `scale` and `rollout`: replicas of a chain's functions, and versions that replace one another.
//!
//! Both change the chain's specification: what is asked for can be seen, compared and taken back as
//! any other change.

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand};
use thruway::{out, outln};
use thruway_client::shown;
use thruway_manager::client::Client;
use thruway_manager::replicas::{ReplicasStatus, ScalingSpec};
use thruway_manager::{ChainSpec, Condition, ConditionKind, FunctionName, FunctionUse};

use crate::chain::Chain;
use crate::change::ChangeArgs;
use crate::output::OutputArgs;
use crate::page::of_replicas;

/// Arguments of `scale`.
#[derive(Args)]
pub struct ScaleArgs {
    /// Name of the chain
    chain: String,
    /// Function, by its variable in `functions`, and its number of replicas: `words=3`; or bounds
    /// for scaling by load: `words=1..4`
    #[arg(value_name = "FUNCTION=COUNT|MIN..MAX", required = true)]
    counts: Vec<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Commands for versions.
#[derive(Subcommand)]
pub enum Rollout {
    /// Declare other versions: with a canary they begin with a share of the new sessions
    Start {
        /// Name of the chain
        chain: String,
        /// Function, by its variable in `functions`, and its version: `words=words@1.1`; without
        /// arguments it keeps the old ones
        #[arg(value_name = "FUNCTION=VERSION", required = true)]
        versions: Vec<String>,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Show replicas, their versions, and the progress of a new version
    Status {
        /// Name of the chain
        chain: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Declare the previous versions again: unfinished rollouts are reverted at once
    Abort {
        /// Name of the chain
        chain: String,
        #[command(flatten)]
        change: ChangeArgs,
    },
}

/// Runs `scale`.
pub async fn scale(client: &Client, args: &ScaleArgs) -> anyhow::Result<()> {
    let chain = Chain::read(client, &args.chain).await?;
    let mut spec = chain.spec.clone();
    for text in &args.counts {
        set_count(&mut spec, text)?;
    }
    chain.put(client, spec, ("scaled", &args.change)).await
}

/// Runs `rollout`.
pub async fn roll_out(client: &Client, command: &Rollout) -> anyhow::Result<()> {
    match command {
        Rollout::Start { chain, versions, change } => {
            let chain = Chain::read(client, chain).await?;
            let mut spec = chain.spec.clone();
            for text in versions {
                set_version(&mut spec, text)?;
            }
            chain.put(client, spec, ("changed", change)).await
        }
        Rollout::Status { chain, output } => {
            let chain = Chain::read(client, chain).await?;
            chain.show(*output)
        }
        Rollout::Abort { chain, change } => {
            let chain = Chain::read(client, chain).await?;
            let spec = before(chain.spec.clone(), &chain.replicas)?;
            chain.put(client, spec, ("taken back", change)).await
        }
    }
}

impl Chain {
    fn show(&self, output: OutputArgs) -> anyhow::Result<()> {
        if let Some(data) = output.data() {
            return data.print(&self.replicas);
        }
        if self.spec.replicas.is_empty() {
            outln!("{} declares no replicas; see `replicas` of its specification", self.target);
            return Ok(());
        }
        out!("{}", shown(&of_replicas(&self.replicas)));
        let is_it =
            |one: &&Condition| matches!(one.kind, ConditionKind::RolledOut | ConditionKind::Scaled);
        for one in self.conditions.iter().filter(is_it) {
            outln!("{:?}: {}: {}", one.kind, one.reason, shown(&one.message));
        }
        Ok(())
    }
}

/// The two sides of `NAME=VALUE`.
fn pair(text: &str) -> anyhow::Result<(&str, &str)> {
    text.split_once('=').ok_or_else(|| anyhow!("'{text}' is not FUNCTION=...: words=3"))
}

/// The use of a function by its variable.
fn function<'a>(spec: &'a mut ChainSpec, name: &str) -> anyhow::Result<&'a mut FunctionUse> {
    let known: Vec<String> = spec.functions.keys().cloned().collect();
    spec.functions.get_mut(name).ok_or_else(|| {
        anyhow!("'{name}' is no function of the chain; those are: {}", known.join(", "))
    })
}

fn set_count(spec: &mut ChainSpec, text: &str) -> anyhow::Result<()> {
    let (name, value) = pair(text)?;
    function(spec, name)?;
    let number = |word: &str| {
        word.parse::<u16>().with_context(|| format!("'{value}' is neither COUNT nor MIN..MAX"))
    };
    let replicas = spec.replicas.entry(name.to_owned()).or_default();
    match value.split_once("..") {
        Some((min, max)) => {
            let (min, max) = (number(min)?, number(max)?);
            replicas.scaling = Some(match replicas.scaling.take() {
                Some(before) => ScalingSpec { min, max, ..before },
                None => ScalingSpec { min, max, waiting: None, calm: None, ahead: None },
            });
            replicas.count = None;
        }
        None => {
            replicas.count = Some(number(value)?);
            replicas.scaling = None;
        }
    }
    Ok(())
}

fn set_version(spec: &mut ChainSpec, text: &str) -> anyhow::Result<()> {
    let (name, value) = pair(text)?;
    let used = function(spec, name)?;
    *used = match value.contains(' ') {
        true => FunctionUse::parse(value)?,
        false => used.of_version(FunctionName::new(value)?),
    };
    Ok(())
}

/// The specification with the running versions instead of those being rolled out or reverted.
fn before(mut spec: ChainSpec, all: &[ReplicasStatus]) -> anyhow::Result<ChainSpec> {
    let asked = spec.functions.clone();
    for of in all {
        let up = || of.replicas.iter().find(|one| one.state == "up");
        let from = of.rollout.as_ref().map(|rollout| rollout.from.clone());
        let Some(version) = from.or_else(|| up().map(|one| one.version.clone())) else { continue };
        spec.functions.insert(of.function.clone(), FunctionUse::parse(&version)?);
    }
    if spec.functions == asked {
        bail!("no rollout is in progress or reverted: there is nothing to abort");
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ChainSpec {
        let used = FunctionUse::parse("words@1.0 attack hug").expect("a use");
        ChainSpec { functions: [("words".to_owned(), used)].into(), ..ChainSpec::default() }
    }

    #[test]
    fn counts_and_bounds_replace_one_another() {
        let mut one = spec();
        let json = |one: &ChainSpec| serde_json::to_string(&one.replicas["words"]).expect("text");
        set_count(&mut one, "words=3").expect("good");
        assert_eq!(json(&one), r#"{"count":3}"#);
        set_count(&mut one, "words=1..4").expect("good");
        assert_eq!(json(&one), r#"{"scaling":{"min":1,"max":4}}"#);
        for text in ["words", "word=1", "words=x", "words=1..x", "words=-1"] {
            assert!(set_count(&mut one, text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_version_keeps_its_arguments_and_is_taken_back() {
        let mut one = spec();
        set_version(&mut one, "words=words@1.1").expect("good");
        assert_eq!(one.functions["words"].to_string(), "words@1.1 attack hug");
        let runs = |version: &str| {
            let json = format!(
                r#"[{{"function": "words", "element": "nf", "wanted": 1, "rollout": null,
                "replicas": [{{"number": 0, "version": "{version}", "state": "up", "weight": 1,
                "sessions": 0, "waiting": 0, "packets": 0, "lost": 0, "failures": 0}}]}}]"#
            );
            serde_json::from_str::<Vec<ReplicasStatus>>(&json).expect("of that form")
        };
        let back = before(one.clone(), &runs("words@1.0 attack hug")).expect("good");
        assert_eq!(back, spec());
        assert!(before(one, &runs("words@1.1 attack hug")).is_err());
        let mut one = spec();
        set_version(&mut one, "words=words@2 x").expect("good");
        assert_eq!(one.functions["words"].to_string(), "words@2 x");
        assert!(set_version(&mut one, "words=nothing").is_err());
    }
}
