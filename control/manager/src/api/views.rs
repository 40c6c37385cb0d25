//! What the API takes and answers.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::access::{Credential, Proof, Role, hex};
use crate::host::HostStatus;
use crate::kind::Spec;
use crate::prospect::Step;
use crate::reports::Forecast;
use crate::store::Generation;
use crate::{ChainSpec, ChainStatus, Event, ResourceStatus};

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

/// A function or a group: what is asked for, and what is observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceView<S> {
    /// Its name.
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
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub spec: Option<S>,
    /// What is observed, looked at for this answer.
    pub status: ResourceStatus,
}

/// A host. It is read only: nothing of it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostView {
    /// Its name, as the kernel shows it.
    pub name: String,
    /// What is observed.
    pub status: HostStatus,
}

/// A page of chains, by name.
pub type ChainList = List<ChainView>;

/// A page, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct List<V> {
    /// The part of the list.
    pub items: Vec<V>,
    /// Value of `after` for the next page; null at the end.
    pub next: Option<String>,
}

/// An entry of a resource's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GenerationView<S = ChainSpec> {
    /// Number of the specification.
    pub generation: u64,
    /// When it was made (RFC 3339).
    #[serde(with = "crate::timestamp")]
    #[schema(value_type = String, format = DateTime)]
    pub time: SystemTime,
    /// Who made it: `uid 0`.
    pub author: String,
    /// Whether it is the deletion of the resource.
    pub deleted: bool,
    /// What was asked for; not in lists, nor of a deletion.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub spec: Option<S>,
}

/// A page of a resource's history, the last generation first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GenerationList<S = ChainSpec> {
    /// The generations.
    pub items: Vec<GenerationView<S>>,
    /// Value of `before` for the next page; null at the end.
    pub next: Option<u64>,
}

/// What a change did, or would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChangeView {
    /// Name of the resource.
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
    /// In a dry run, what the manager would do to a chain, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<Step>,
    /// What was asked for with `estimate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Forecast>,
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

/// Which packets that did not go on to find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExamplesRequest {
    /// Name of the element that did not let them go on.
    pub element: String,
    /// Why, as the graph of the chain names it.
    pub reason: String,
    /// How many to find, 1 to 20 [default: 3].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u8>,
}

/// The last lines of a chain's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogView {
    /// The lines, without their ends; what is not UTF-8 is replaced.
    pub lines: Vec<String>,
}

/// A line of a chain's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// The line, without its end; what is not UTF-8 is replaced.
    pub line: String,
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

/// A token or client certificate, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenView {
    /// Its name.
    pub name: String,
    /// What its owner may do.
    pub role: Role,
    /// `token` or `certificate`.
    pub kind: String,
    /// When it was made (RFC 3339).
    #[serde(with = "crate::timestamp")]
    #[schema(value_type = String, format = DateTime)]
    pub created: SystemTime,
    /// From when on it is refused (RFC 3339); null if never.
    #[serde(default, with = "crate::timestamp::optional")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires: Option<SystemTime>,
    /// Who made it: `uid 0`.
    pub author: String,
    /// SHA-256 of a certificate (DER), in hexadecimal digits; null for a token.
    pub fingerprint: Option<String>,
}

/// Tokens and client certificates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    /// All of them, by name.
    pub items: Vec<TokenView>,
}

/// A token to make, or a client certificate to let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Its name: a DNS label.
    pub name: String,
    /// What its owner may do.
    pub role: Role,
    /// From when on it is refused (RFC 3339); never if it is missing.
    #[serde(default, with = "crate::timestamp::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires: Option<SystemTime>,
    /// A certificate (PEM) whose owner is let in instead of one who has a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
}

/// What was made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenMade {
    /// What is kept of it.
    #[serde(flatten)]
    pub made: TokenView,
    /// The token, which nobody can ask for again; null for a certificate.
    pub token: Option<String>,
}

/// Which part of a list.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Items behind this name.
    pub after: Option<String>,
    /// Items at most, 1 to 500 [default: 100].
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
    /// With `dry_run`, of a chain: whether to estimate what its packets would cost on this host.
    #[serde(default)]
    pub estimate: bool,
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

/// Which part of a chain's output.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogParams {
    /// Last lines at most, 0 to 10,000 [default: 100].
    pub lines: Option<usize>,
    /// Whether to go on with what is written, as server-sent events.
    #[serde(default)]
    pub follow: bool,
}

/// How the graph of a chain is read.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GraphParams {
    /// Whether to go on with one each second, as server-sent events.
    #[serde(default)]
    pub follow: bool,
}

/// Parameters of requests that take none.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

/// How resources of a kind are shown.
pub trait View: Serialize + Send {
    /// What declares them.
    type Spec: Spec;

    /// Adds the specification.
    #[must_use]
    fn with(self, spec: Option<Self::Spec>) -> Self;
}

impl View for ChainView {
    type Spec = ChainSpec;

    fn with(self, spec: Option<ChainSpec>) -> ChainView {
        ChainView { spec, ..self }
    }
}

impl<S: Spec> View for ResourceView<S> {
    type Spec = S;

    fn with(self, spec: Option<S>) -> ResourceView<S> {
        ResourceView { spec, ..self }
    }
}

impl<S: Spec> ResourceView<S> {
    /// Of the last generation of a resource, without its specification.
    pub(super) fn of(found: &Generation<S>, status: ResourceStatus) -> ResourceView<S> {
        ResourceView {
            name: found.name.clone(),
            generation: found.number,
            time: found.time,
            author: found.author.clone(),
            spec: None,
            status,
        }
    }
}

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

impl<S: Spec> GenerationView<S> {
    /// Without the specification.
    pub(super) fn of(found: &Generation<S>) -> GenerationView<S> {
        GenerationView {
            generation: found.number,
            time: found.time,
            author: found.author.clone(),
            deleted: found.spec.is_none(),
            spec: None,
        }
    }
}

impl TokenView {
    /// Of a credential.
    pub(super) fn of(one: &Credential) -> TokenView {
        TokenView {
            name: one.name.to_string(),
            role: one.role,
            kind: one.proof.kind().to_owned(),
            created: one.created,
            expires: one.expires,
            author: one.author.clone(),
            fingerprint: match &one.proof {
                Proof::Certificate(hash) => Some(hex(hash)),
                Proof::Token(_) => None,
            },
        }
    }
}

/// A specification that is not in the answer.
fn none<S>() -> Option<S> {
    None
}

/// Items of a page; `None` if that many are not given.
pub(super) fn limit(asked: Option<u16>) -> Option<usize> {
    let limit = asked.unwrap_or(LIMIT_DEFAULT);
    (1..=LIMIT_MAX).contains(&limit).then_some(usize::from(limit))
}
