//! Resources as the manager shows them.

use std::time::Duration;

use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thruway_manager::api::views::{ChainView, HostView, List, ResourceView};
use thruway_manager::client::{Client, ClientError, Content, escape};
use thruway_manager::{FunctionSpec, GroupSpec};

use crate::target::{Kind, Target};

/// Attempts per resource when the manager limits calls: each waits a second.
const TRIES_MAX: u32 = 60;

/// A resource of any kind.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Resource {
    Chain(ChainView),
    Function(ResourceView<FunctionSpec>),
    Group(ResourceView<GroupSpec>),
    Host(HostView),
}

impl Resource {
    fn name(&self) -> &str {
        match self {
            Resource::Chain(chain) => &chain.name,
            Resource::Function(function) => &function.name,
            Resource::Group(group) => &group.name,
            Resource::Host(host) => &host.name,
        }
    }
}

/// Fetches a resource with its specification; waits if the manager limits calls of this address.
pub async fn one(client: &Client, target: &Target) -> Result<Resource, ClientError> {
    let path = target.path();
    Ok(match target.kind {
        Kind::Chain => Resource::Chain(patient(client, &path).await?),
        Kind::Function => Resource::Function(patient(client, &path).await?),
        Kind::Group => Resource::Group(patient(client, &path).await?),
        Kind::Host => Resource::Host(patient(client, &path).await?),
    })
}

async fn patient<V: DeserializeOwned>(client: &Client, path: &str) -> Result<V, ClientError> {
    let mut tries = 1;
    loop {
        match client.json(Method::GET, path, Content::default()).await {
            Err(ClientError::Refused(problem)) if problem.status == 429 && tries < TRIES_MAX => {
                tries += 1;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            found => return found,
        }
    }
}

/// Fetches named resources.
pub async fn named(client: &Client, targets: &[Target]) -> Result<Vec<Resource>, ClientError> {
    let mut found = Vec::new();
    for target in targets {
        found.push(one(client, target).await?);
    }
    Ok(found)
}

/// All resources of a kind, without their specifications.
pub async fn all(client: &Client, kind: Kind) -> Result<Vec<Resource>, ClientError> {
    Ok(match kind {
        Kind::Chain => wrapped(pages(client, kind).await?, Resource::Chain),
        Kind::Function => wrapped(pages(client, kind).await?, Resource::Function),
        Kind::Group => wrapped(pages(client, kind).await?, Resource::Group),
        Kind::Host => wrapped(pages(client, kind).await?, Resource::Host),
    })
}

fn wrapped<V>(views: Vec<V>, wrap: fn(V) -> Resource) -> Vec<Resource> {
    views.into_iter().map(wrap).collect()
}

/// A list, page by page.
async fn pages<V: DeserializeOwned>(client: &Client, kind: Kind) -> Result<Vec<V>, ClientError> {
    let (mut views, mut after) = (Vec::new(), String::new());
    loop {
        let target = format!("{}?limit=500&after={}", kind.path(), escape(&after));
        let page: List<V> = client.json(Method::GET, &target, Content::default()).await?;
        views.extend(page.items);
        match page.next {
            Some(next) => after = next,
            None => return Ok(views),
        }
    }
}

/// All resources of a kind with their specifications.
pub async fn all_whole(client: &Client, kind: Kind) -> Result<Vec<Resource>, ClientError> {
    let mut found = Vec::new();
    for listed in all(client, kind).await? {
        match one(client, &Target { kind, name: listed.name().to_owned() }).await {
            // It was deleted meanwhile.
            Err(ClientError::Refused(problem)) if problem.status == 404 => {}
            whole => found.push(whole?),
        }
    }
    Ok(found)
}
