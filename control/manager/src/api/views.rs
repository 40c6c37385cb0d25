//! What the API takes and answers.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::store::Generation;
use crate::{ChainSpec, ChainStatus, Event};

/// Items of a page that are given if not said otherwise.
const LIMIT_DEFAULT: u16 = 100;

/// Most items of a page.
pub const LIMIT_MAX: u16 = 500;

/// A chain: what is asked for, and what is observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChainView {
    /// Name of the chain.
    pub name: String,
    /// Number of the specification.
    pub generation: u64,
    /// When it was declared (RFC 3339).
    #[serde(with = "crate::timestamp")]
    #[schema(value_type = String, format = DateTime)]
    pub time: SystemTime,
    /// Who declared it: `uid 0`.
    pub author: String,
    /// What is asked for; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<ChainSpec>,
    /// Whether the chain is declared but not run.
    pub stopped: bool,
    /// What is observed; null if nobody knows of the chain yet.
    pub status: Option<ChainStatus>,
}

/// A page of chains, by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChainList {
    /// The chains.
    pub items: Vec<ChainView>,
    /// Value of `after` for the next page; null at the end.
    pub next: Option<String>,
}

/// An entry of a chain's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GenerationView {
    /// Number of the specification.
    pub generation: u64,
    /// When it was made (RFC 3339).
    #[serde(with = "crate::timestamp")]
    #[schema(value_type = String, format = DateTime)]
    pub time: SystemTime,
    /// Who made it: `uid 0`.
    pub author: String,
    /// Whether it is the deletion of the chain.
    pub deleted: bool,
    /// What was asked for; not in lists, nor of a deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<ChainSpec>,
}

/// A page of a chain's history, the last generation first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GenerationList {
    /// The generations.
    pub items: Vec<GenerationView>,
    /// Value of `before` for the next page; null at the end.
    pub next: Option<u64>,
}

/// What a change did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangeView {
    /// Name of the chain.
    pub name: String,
    /// Generation afterwards.
    pub generation: u64,
    /// Whether there is a new generation; not if the specification was equal already.
    pub changed: bool,
    /// Whether it was only tried.
    pub dry_run: bool,
    /// What the check warns of; may be empty.
    pub warnings: String,
    /// A unified diff of the specifications; empty if nothing changed.
    pub diff: String,
}

/// Two generations compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffView {
    /// A unified diff; empty if they are equal.
    pub diff: String,
}

/// A generation to go back to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// Its number.
    pub to: u64,
}

/// Value of a handler, read or to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HandlerValue {
    /// The value.
    pub value: String,
}

/// An event with its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventView {
    /// Names the event: a stream is taken up behind it with `Last-Event-ID`.
    pub id: String,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// Which part of the list of chains.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Chains behind this name.
    pub after: Option<String>,
    /// Chains at most, 1 to 500 [default: 100].
    pub limit: Option<u16>,
}

/// Which part of a history.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HistoryParams {
    /// Generations before this one.
    pub before: Option<u64>,
    /// Generations at most, 1 to 500 [default: 100].
    pub limit: Option<u16>,
}

/// How a change is made.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ChangeParams {
    /// Whether only to check, and to tell what would change.
    #[serde(default)]
    pub dry_run: bool,
}

/// Which generations to compare.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DiffParams {
    /// The older one [default: the one before `to`]; 0 is before the first.
    pub from: Option<u64>,
    /// The newer one [default: the last one].
    pub to: Option<u64>,
}

/// Which events.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventParams {
    /// Events of this chain alone.
    pub chain: Option<String>,
    /// Whether the stream goes on with what comes; it ends behind what is kept if not
    /// [default: true].
    pub follow: Option<bool>,
}

/// Parameters of requests that take none.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

impl ChainView {
    /// Of the last generation of a chain, without its specification.
    pub(super) fn of(found: &Generation, status: Option<ChainStatus>) -> ChainView {
        ChainView {
            name: found.name.clone(),
            generation: found.number,
            time: found.time,
            author: found.author.clone(),
            spec: None,
            stopped: found.spec.as_ref().is_some_and(|spec| spec.stopped),
            status,
        }
    }
}

impl GenerationView {
    /// Without the specification.
    pub(super) fn of(found: &Generation) -> GenerationView {
        GenerationView {
            generation: found.number,
            time: found.time,
            author: found.author.clone(),
            deleted: found.spec.is_none(),
            spec: None,
        }
    }
}

/// Items of a page; `None` if that many are not given.
pub(super) fn limit(asked: Option<u16>) -> Option<usize> {
    let limit = asked.unwrap_or(LIMIT_DEFAULT);
    (1..=LIMIT_MAX).contains(&limit).then_some(usize::from(limit))
}
