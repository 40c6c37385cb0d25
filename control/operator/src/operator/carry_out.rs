//! Carries out what was decided.

use std::collections::BTreeSet;
use std::time::Instant;

use futures_util::StreamExt as _;
use kube::api::{DeleteParams, Patch, Preconditions};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::decide::{Action, Held};
use super::overlay::Overlay;
use super::world::World;
use crate::calls::{Version, applying, explain, release};
use crate::manifests;
use crate::names::{Key, host_namespace};
use crate::resource::{
    AGENT_FINALIZER, ChainHost, ChainPlacement, ChainPlacementSpec, Condition, MANAGED_BY,
    NetworkFunction, OPERATOR, OPERATOR_FINALIZER, ServiceChain, TrustGroup,
};
use crate::watching::Log;

/// Calls at a time.
const CALLS_MAX: usize = 16;

/// Longest note of an event, in bytes.
const NOTE_LEN_MAX: usize = 1000;

/// Carries out actions.
pub struct Hands {
    client: Client,
    recorder: Recorder,
    log: Log,
    /// What was written.
    pub overlay: Mutex<Overlay>,
    /// Hosts whose namespace and rights were made.
    pub admitted: Mutex<BTreeSet<String>>,
}

impl Hands {
    /// That of a client, under the name of this operator.
    pub fn new(client: Client, me: &str, log: &Log) -> Hands {
        let reporter = Reporter { controller: OPERATOR.into(), instance: Some(me.into()) };
        let recorder = Recorder::new(client.clone(), reporter);
        let (overlay, admitted) = (Mutex::default(), Mutex::default());
        Hands { client, recorder, log: log.clone(), overlay, admitted }
    }

    /// Carries out actions; how many came to nothing. Where something changed meanwhile, nothing is
    /// done: what is observed next decides anew.
    pub async fn carry_out(&self, actions: &[Action], world: &World) -> usize {
        // Rights of a host before what is put into its namespace; placements before reports.
        let (first, others): (Vec<&Action>, Vec<&Action>) =
            actions.iter().partition(|one| matches!(one, Action::Admit(..)));
        let (placing, reports): (Vec<&Action>, Vec<&Action>) =
            others.into_iter().partition(|one| !is_report(one));
        let mut failed = 0;
        for part in [first, placing, reports] {
            let mut calls = Vec::with_capacity(part.len());
            for action in part {
                calls.push(self.attempt(action, world));
            }
            let results = futures_util::stream::iter(calls).buffer_unordered(CALLS_MAX);
            failed += results.filter(|done| std::future::ready(!done)).count().await;
        }
        failed
    }

    async fn attempt(&self, action: &Action, world: &World) -> bool {
        match self.act(action, world).await {
            Ok(()) => true,
            Err(kube::Error::Api(status)) if status.code == 404 => true,
            Err(kube::Error::Api(status)) if status.code == 409 => false,
            Err(error) => {
                (self.log)(&format!("{}: {}; tries again", about(action), explain(&error)));
                false
            }
        }
    }

    async fn act(&self, action: &Action, world: &World) -> Result<(), kube::Error> {
        match action {
            Action::Admit(host, version) => self.admit(host, version).await,
            Action::Assign(host, spec) => self.assign(host, spec).await,
            Action::Withdraw(key, version) => self.withdraw(key, version).await,
            Action::Sweep(key, version, chain) => {
                // Asked of the API server itself: copies of two kinds are not of one moment.
                let api: Api<ServiceChain> = self.of(chain);
                match api.get_metadata_opt(&chain.name).await? {
                    Some(_) => Ok(()),
                    None => self.withdraw(key, version).await,
                }
            }
            Action::Abandon(key, version) => {
                let api: Api<ChainPlacement> = self.of(key);
                release(&api, &key.name, AGENT_FINALIZER, version).await
            }
            Action::ReportChain(key, status) => {
                self.report::<ServiceChain>(key, status).await?;
                let Some(chain) = world.chains.get(key) else { return Ok(()) };
                let before = chain.status.as_ref().map(|status| status.conditions.as_slice());
                self.publish_changes(&**chain, before.unwrap_or_default(), &status.conditions).await
            }
            Action::ReportFunction(key, status) => {
                self.report::<NetworkFunction>(key, status).await
            }
            Action::ReportGroup(key, status) => self.report::<TrustGroup>(key, status).await,
            Action::ReportHost(name, status) => {
                let api: Api<ChainHost> = Api::all(self.client.clone());
                report(&api, name, status).await?;
                let Some(host) = world.hosts.get(name) else { return Ok(()) };
                let before = host.status.as_ref().map(|status| status.conditions.as_slice());
                self.publish_changes(&**host, before.unwrap_or_default(), &status.conditions).await
            }
            Action::Hold(held, key, version) => self.hold(*held, key, version).await,
            Action::Release(held, key, version) => self.release(*held, key, version).await,
        }
    }

    fn of<K>(&self, key: &Key) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    async fn assign(&self, host: &str, spec: &ChainPlacementSpec) -> Result<(), kube::Error> {
        let Ok(name) = Key::new(&spec.chain.namespace, &spec.chain.name).local() else {
            return Ok(());
        };
        let api: Api<ChainPlacement> = Api::namespaced(self.client.clone(), &host_namespace(host));
        let wanted = json!({
            "apiVersion": ChainPlacement::api_version(&()),
            "kind": ChainPlacement::kind(&()),
            "metadata": {
                "name": name,
                "labels": {MANAGED_BY: OPERATOR},
                "finalizers": [AGENT_FINALIZER],
            },
            "spec": spec,
        });
        let placed = api.patch(&name, &applying(OPERATOR), &Patch::Apply(&wanted)).await?;
        let mut overlay = self.overlay.lock();
        overlay.wrote(placed, Instant::now());
        Ok(())
    }

    async fn withdraw(&self, key: &Key, version: &Version) -> Result<(), kube::Error> {
        let api: Api<ChainPlacement> = self.of(key);
        let preconditions = Preconditions {
            uid: Some(version.uid.clone()),
            resource_version: Some(version.resource_version.clone()),
        };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let deleted = api.delete(&key.name, &params).await?;
        if let Some(ending) = deleted.left() {
            let mut overlay = self.overlay.lock();
            overlay.wrote(ending, Instant::now());
        }
        Ok(())
    }

    async fn admit(&self, host: &str, version: &Version) -> Result<(), kube::Error> {
        manifests::admit(&self.client, host, &version.uid).await?;
        let mut admitted = self.admitted.lock();
        admitted.insert(host.to_owned());
        Ok(())
    }

    async fn report<K>(&self, key: &Key, status: &impl Serialize) -> Result<(), kube::Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        report(&self.of::<K>(key), &key.name, status).await
    }

    async fn hold(&self, held: Held, key: &Key, version: &Version) -> Result<(), kube::Error> {
        match held {
            Held::Chain => hold(&self.of::<ServiceChain>(key), key, version).await,
            Held::Function => hold(&self.of::<NetworkFunction>(key), key, version).await,
            Held::Host => hold(&Api::<ChainHost>::all(self.client.clone()), key, version).await,
        }
    }

    async fn release(&self, held: Held, key: &Key, version: &Version) -> Result<(), kube::Error> {
        let (name, mine) = (&key.name, OPERATOR_FINALIZER);
        match held {
            Held::Chain => release(&self.of::<ServiceChain>(key), name, mine, version).await,
            Held::Function => release(&self.of::<NetworkFunction>(key), name, mine, version).await,
            Held::Host => {
                let api: Api<ChainHost> = Api::all(self.client.clone());
                release(&api, name, mine, version).await?;
                let mut admitted = self.admitted.lock();
                admitted.remove(name);
                Ok(())
            }
        }
    }

    /// Publishes an event for each condition that changed. One that is lost is no reason to act
    /// again.
    async fn publish_changes<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        before: &[Condition],
        after: &[Condition],
    ) -> Result<(), kube::Error> {
        let is_old = |new: &&Condition| {
            let mut old = before.iter().filter(|old| old.type_ == new.type_);
            old.any(|old| (old.status, &old.reason) == (new.status, &new.reason))
        };
        for condition in after.iter().filter(|new| !is_old(new)) {
            let type_ = if condition.holds() { EventType::Normal } else { EventType::Warning };
            let note = condition.message.chars().take(NOTE_LEN_MAX / 4).collect();
            let event = Event {
                type_,
                reason: condition.reason.clone(),
                note: Some(note),
                action: condition.type_.clone(),
                secondary: None,
            };
            if let Err(error) = self.recorder.publish(&event, &object.object_ref(&())).await {
                (self.log)(&format!("an event of {}: {}", object.name_any(), explain(&error)));
            }
        }
        Ok(())
    }
}

fn is_report(action: &Action) -> bool {
    matches!(
        action,
        Action::ReportChain(..)
            | Action::ReportFunction(..)
            | Action::ReportGroup(..)
            | Action::ReportHost(..)
    )
}

/// What an action is about, for messages.
fn about(action: &Action) -> String {
    match action {
        Action::Admit(host, _) => format!("rights of host {host}"),
        Action::Assign(host, spec) => {
            format!("chain {}/{} on host {host}", spec.chain.namespace, spec.chain.name)
        }
        Action::ReportHost(host, _) => format!("status of host {host}"),
        Action::ReportChain(key, _) => format!("status of chain {key}"),
        Action::ReportFunction(key, _) => format!("status of function {key}"),
        Action::ReportGroup(key, _) => format!("status of group {key}"),
        Action::Withdraw(key, _) | Action::Sweep(key, ..) | Action::Abandon(key, _) => {
            format!("placement {key}")
        }
        Action::Hold(held, key, _) | Action::Release(held, key, _) => {
            format!("finalizer of {held:?} {key}")
        }
    }
}

async fn report<K>(api: &Api<K>, name: &str, status: &impl Serialize) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let wanted = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": {"name": name},
        "status": status,
    });
    api.patch_status(name, &applying(OPERATOR), &Patch::Apply(&wanted)).await.map(|_| ())
}

/// Adds the operator's finalizer. With its UID an object that is gone is not made again.
async fn hold<K>(api: &Api<K>, key: &Key, version: &Version) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let wanted = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": {
            "name": key.name,
            "uid": version.uid,
            "finalizers": [OPERATOR_FINALIZER],
        },
    });
    api.patch(&key.name, &applying(OPERATOR), &Patch::Apply(&wanted)).await.map(|_| ())
}
