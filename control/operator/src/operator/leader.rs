//! One of several operators acts: the holder of a lease.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use crate::calls::explain;
use crate::watching::Log;

/// Name of the lease.
pub const LEASE: &str = "thruway-operator";

/// What a lease says, and since when it says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Its holder; empty if it was given back.
    pub holder: String,
    /// The holder's last renewal.
    pub renewed: Option<Timestamp>,
    /// Since when it is observed so.
    pub since: Instant,
    /// How long it holds after a renewal.
    pub duration: Duration,
}

/// What to do about a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nobody has it, or its holder is late.
    Take,
    /// It is ours.
    Renew,
    /// Another operator has it.
    Wait,
}

/// What to do about a lease now.
pub fn step(me: &str, claim: Option<&Claim>, now: Instant) -> Step {
    match claim {
        None => Step::Take,
        Some(claim) if claim.holder == me => Step::Renew,
        Some(claim) if claim.holder.is_empty() => Step::Take,
        Some(claim) if now.saturating_duration_since(claim.since) > claim.duration => Step::Take,
        Some(_) => Step::Wait,
    }
}

/// One who would hold the lease.
pub struct Candidate {
    api: Api<Lease>,
    /// Its name: no other candidate has it.
    me: String,
    duration: Duration,
    observed: Option<Claim>,
    /// Until when nobody else can hold it, by this host's clock.
    held_until: Option<Instant>,
    log: Log,
}

impl Candidate {
    /// A candidate for the lease of a namespace.
    pub fn new(
        client: &Client,
        (namespace, me): (&str, String),
        duration: Duration,
        log: &Log,
    ) -> Candidate {
        let api = Api::namespaced(client.clone(), namespace);
        Candidate { api, me, duration, observed: None, held_until: None, log: log.clone() }
    }

    /// Time between attempts.
    pub fn period(&self) -> Duration {
        self.duration / 5
    }

    /// Whether it surely holds the lease. A holder stops before others may take it.
    pub fn holds(&self) -> bool {
        self.held_until.is_some_and(|end| Instant::now() < end)
    }

    /// Takes or renews the lease, if it may.
    pub async fn attempt(&mut self) {
        let begin = Instant::now();
        let limit = self.period();
        match tokio::time::timeout(limit, self.call(begin)).await {
            Ok(Ok(true)) => self.held_until = Some(begin + self.duration * 4 / 5),
            // Another one has it.
            Ok(Ok(false)) => self.held_until = None,
            Ok(Err(error)) => {
                (self.log)(&format!("lease {LEASE}: {}; tries again", explain(&error)))
            }
            Err(_) => (self.log)(&format!("lease {LEASE}: no answer in {limit:?}; tries again")),
        }
    }

    /// Gives the lease back, so that another one need not wait for its end.
    pub async fn resign(&mut self) {
        if !self.holds() {
            return;
        }
        self.held_until = None;
        let give = async {
            let mut lease = self.api.get(LEASE).await?;
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() == Some(&self.me) {
                spec.holder_identity = Some(String::new());
                self.api.replace(LEASE, &PostParams::default(), &lease).await?;
            }
            Ok::<(), kube::Error>(())
        };
        let _ = tokio::time::timeout(self.period(), give).await;
    }

    /// Whether it holds the lease afterwards. Of two that write at once, one is refused by the
    /// resource version.
    async fn call(&mut self, now: Instant) -> Result<bool, kube::Error> {
        let found = self.api.get_opt(LEASE).await?;
        self.observe(found.as_ref().and_then(|lease| lease.spec.as_ref()), now);
        let written = match (step(&self.me, self.observed.as_ref(), now), found) {
            (Step::Wait, _) => return Ok(false),
            (_, None) => {
                let metadata = ObjectMeta { name: Some(LEASE.into()), ..ObjectMeta::default() };
                let lease = Lease { metadata, spec: Some(self.spec(None)) };
                self.api.create(&PostParams::default(), &lease).await
            }
            (_, Some(mut lease)) => {
                lease.spec = Some(self.spec(lease.spec.as_ref()));
                self.api.replace(LEASE, &PostParams::default(), &lease).await
            }
        };
        match written {
            Ok(lease) => {
                self.observe(lease.spec.as_ref(), now);
                Ok(true)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn observe(&mut self, spec: Option<&LeaseSpec>, now: Instant) {
        let Some(spec) = spec else {
            self.observed = None;
            return;
        };
        let seconds = spec.lease_duration_seconds.unwrap_or_default().unsigned_abs();
        let claim = Claim {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            renewed: spec.renew_time.as_ref().map(|time| time.0),
            since: now,
            duration: Duration::from_secs(u64::from(seconds)),
        };
        let same = |old: &Claim| (&old.holder, old.renewed) == (&claim.holder, claim.renewed);
        if !self.observed.as_ref().is_some_and(same) {
            self.observed = Some(claim);
        }
    }

    fn spec(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let is_mine =
            before.is_some_and(|spec| spec.holder_identity.as_deref() == Some(self.me.as_str()));
        let acquired = before.filter(|_| is_mine).and_then(|spec| spec.acquire_time.clone());
        let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or_default();
        let seconds = i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX);
        LeaseSpec {
            holder_identity: Some(self.me.clone()),
            lease_duration_seconds: Some(seconds),
            acquire_time: acquired.or(Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if is_mine { transitions } else { transitions + 1 }),
            ..LeaseSpec::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_taken_when_its_holder_is_late() {
        let since = Instant::now();
        let duration = Duration::from_secs(15);
        let claim = |holder: &str| Claim { holder: holder.into(), renewed: None, since, duration };
        let after = |seconds| since + Duration::from_secs(seconds);
        assert_eq!(step("a", None, since), Step::Take);
        assert_eq!(step("a", Some(&claim("a")), after(99)), Step::Renew);
        assert_eq!(step("a", Some(&claim("b")), after(15)), Step::Wait);
        assert_eq!(step("a", Some(&claim("b")), after(16)), Step::Take);
        assert_eq!(step("a", Some(&claim("")), since), Step::Take);
    }
}
