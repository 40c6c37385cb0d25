//! A chain whose specification a command changes.

use anyhow::{anyhow, bail};
use hyper::Method;
use thruway_manager::api::views::{ChainView, ChangeView};
use thruway_manager::client::{Client, Content};
use thruway_manager::replicas::ReplicasStatus;
use thruway_manager::{ChainSpec, Condition};

use crate::change::{ChangeArgs, Done, print_change};
use crate::fetch::{Resource, one};
use crate::target::Target;

/// A chain as returned by the manager.
pub struct Chain {
    pub target: Target,
    pub generation: u64,
    pub spec: ChainSpec,
    pub replicas: Vec<ReplicasStatus>,
    pub conditions: Vec<Condition>,
}

impl Chain {
    /// Reads it.
    pub async fn read(client: &Client, name: &str) -> anyhow::Result<Chain> {
        let target = Target::chain(name);
        let Resource::Chain(ChainView { generation, spec, status, .. }) =
            one(client, &target).await?
        else {
            bail!("{target} is no chain");
        };
        let spec = spec.ok_or_else(|| anyhow!("the manager shows no specification of {target}"))?;
        let status = status.unwrap_or_default();
        let (replicas, conditions) = (status.replicas, status.conditions);
        Ok(Chain { target, generation, spec, replicas, conditions })
    }

    /// Declares another specification, if nobody changed the chain meanwhile.
    pub async fn put(
        &self,
        client: &Client,
        spec: ChainSpec,
        (what, args): (&str, &ChangeArgs),
    ) -> anyhow::Result<()> {
        let path = format!("{}?dry_run={}", self.target.path(), args.dry_run);
        let tag = format!("\"{}\"", self.generation);
        let headers = [("If-Match", tag.as_str())];
        let content = Content { headers: &headers, body: serde_json::to_vec(&spec)? };
        let view: ChangeView = client.json(Method::PUT, &path, content).await?;
        print_change(&Done { target: self.target.clone(), view, what: what.to_owned() }, args)
    }
}
