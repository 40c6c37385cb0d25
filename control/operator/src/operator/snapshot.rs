//! What is observed of the cluster at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::reflector::Store;
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::overlay::Overlay;
use super::status::name_of;
use super::world::{Heartbeat, World};
use crate::names::{Key, host_of};
use crate::resource::{
    ChainHost, ChainPlacement, HEARTBEAT_LABEL, NetworkFunction, ServiceChain, TrustGroup, now_text,
};
use crate::watching::{Log, follow};

/// Copies of what the API server has.
pub struct Stores {
    chains: Store<ServiceChain>,
    functions: Store<NetworkFunction>,
    groups: Store<TrustGroup>,
    hosts: Store<ChainHost>,
    placements: Store<ChainPlacement>,
    leases: Store<Lease>,
}

impl Stores {
    /// Begins to copy.
    pub fn follow(
        client: &Client,
        changed: &Arc<Notify>,
        log: &Log,
        tasks: &mut JoinSet<()>,
    ) -> Stores {
        let labelled = Config::default().labels(HEARTBEAT_LABEL);
        Stores {
            chains: copy(client, Config::default(), (changed, log), tasks),
            functions: copy(client, Config::default(), (changed, log), tasks),
            groups: copy(client, Config::default(), (changed, log), tasks),
            hosts: copy(client, Config::default(), (changed, log), tasks),
            placements: copy(client, Config::default(), (changed, log), tasks),
            leases: copy(client, labelled, (changed, log), tasks),
        }
    }

    /// Waits until all copies are whole. What is missing in a part of them would be taken for
    /// deleted.
    pub async fn wait_until_whole(&self) -> bool {
        let all = futures_util::join!(
            self.chains.wait_until_ready(),
            self.functions.wait_until_ready(),
            self.groups.wait_until_ready(),
            self.hosts.wait_until_ready(),
            self.placements.wait_until_ready(),
            self.leases.wait_until_ready(),
        );
        let (chains, functions, groups, hosts, placements, leases) = all;
        let mut all = [chains, functions, groups, hosts, placements, leases].into_iter();
        all.all(|copied| copied.is_ok())
    }

    /// What is observed now.
    pub fn world(
        &self,
        admitted: &BTreeSet<String>,
        overlay: &mut Overlay,
        watch: &mut HeartWatch,
    ) -> World {
        let now = Instant::now();
        let mut placements = by_key(&self.placements);
        overlay.cover(&mut placements, now);
        let hosts = self.hosts.state().into_iter().map(|host| (host.name_any(), host)).collect();
        World {
            chains: by_key(&self.chains),
            functions: by_key(&self.functions),
            groups: by_key(&self.groups),
            hosts,
            placements,
            heartbeats: watch.look(&self.leases.state(), now, Timestamp::now()),
            admitted: admitted.clone(),
            now: now_text(),
        }
    }
}

fn copy<K>(
    client: &Client,
    config: Config,
    (changed, log): (&Arc<Notify>, &Log),
    tasks: &mut JoinSet<()>,
) -> Store<K>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    follow((Api::all(client.clone()), config), changed, log, tasks)
}

fn by_key<K>(store: &Store<K>) -> BTreeMap<Key, Arc<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + 'static,
{
    store.state().into_iter().map(|one| (name_of(&*one), one)).collect()
}

/// Longest and shortest lease that is believed, in seconds.
const LEASE_SECONDS: (i32, i32) = (1, 3600);

/// Duration of a lease that names none.
const LEASE_DEFAULT: i32 = 15;

/// When each agent was heard of, by this host's clock: clocks of hosts may differ.
#[derive(Debug, Default)]
pub struct HeartWatch {
    seen: BTreeMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    renewed: Option<Timestamp>,
    /// When that was first observed; not if it was so from the start, and old then.
    time: Option<Instant>,
}

impl HeartWatch {
    /// Looks at the leases of all agents.
    fn look(
        &mut self,
        leases: &[Arc<Lease>],
        now: Instant,
        clock: Timestamp,
    ) -> BTreeMap<String, Heartbeat> {
        let named = leases.iter().filter_map(|lease| {
            let host = host_of(lease.metadata.namespace.as_deref()?)?.to_owned();
            Some((host, lease.spec.clone()?))
        });
        let mut beats = BTreeMap::new();
        for (host, lease) in named {
            let (least, most) = LEASE_SECONDS;
            let seconds = lease.lease_duration_seconds.unwrap_or(LEASE_DEFAULT).clamp(least, most);
            let duration = Duration::from_secs(u64::from(seconds.unsigned_abs()));
            let renewed = lease.renew_time.as_ref().map(|time| time.0);
            let seen = self.seen.entry(host.clone()).or_insert_with(|| {
                let age = renewed.map(|time| clock.duration_since(time).as_secs());
                let is_young = age.is_some_and(|age| age <= i64::from(seconds));
                Seen { renewed, time: is_young.then_some(now) }
            });
            if seen.renewed != renewed {
                *seen = Seen { renewed, time: Some(now) };
            }
            let age = seen.time.map(|time| now.saturating_duration_since(time));
            beats.insert(host, judge(age, duration));
        }
        beats
    }
}

/// What the age of a heartbeat says. An agent that cannot renew its lease fences itself when the
/// lease is over; another duration is for what that takes.
fn judge(age: Option<Duration>, duration: Duration) -> Heartbeat {
    match age {
        Some(age) if age <= duration => Heartbeat::Fresh,
        Some(age) if age <= 2 * duration => Heartbeat::Late,
        Some(_) => Heartbeat::Lost,
        None => Heartbeat::Late,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::LeaseSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    fn lease(renewed: i64) -> Arc<Lease> {
        let time = Timestamp::from_second(renewed).expect("a time");
        let mut lease = Lease::default();
        lease.metadata.namespace = Some("thruway-host-a".into());
        lease.spec = Some(LeaseSpec {
            lease_duration_seconds: Some(10),
            renew_time: Some(MicroTime(time)),
            ..LeaseSpec::default()
        });
        Arc::new(lease)
    }

    #[test]
    fn a_heartbeat_ages_by_this_clock_alone() {
        let (mut watch, begin) = (HeartWatch::default(), Instant::now());
        let clock = Timestamp::from_second(1_000).expect("a time");
        let mut look = |renewed: i64, after: u64| {
            let now = begin + Duration::from_secs(after);
            watch.look(&[lease(renewed)], now, clock)["a"]
        };
        // Another host's clock may be wrong: what counts is that the time changes.
        assert_eq!(look(5, 0), Heartbeat::Late);
        assert_eq!(look(6, 1), Heartbeat::Fresh);
        assert_eq!(look(6, 11), Heartbeat::Fresh);
        assert_eq!(look(6, 12), Heartbeat::Late);
        assert_eq!(look(6, 22), Heartbeat::Lost);
        assert_eq!(look(7, 23), Heartbeat::Fresh);
    }
}
