//! Leases: where a witness is given, a host serves only while no other one may.

use std::net::SocketAddr;
use std::time::Duration;

use thruway_element::{ArgErrors, Args, Nanos};
use thruway_replication::{LEASE_MAX_MS, Link, Term, WitnessUse};

/// How this host knows that it may serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leasing {
    pub witness: WitnessUse,
    /// Silence after which the other host asks for the next term.
    after: Duration,
}

impl Leasing {
    /// Of the element's arguments; `None` without a witness.
    pub(super) fn of(
        args: &Args<'_>,
        witness: Option<SocketAddr>,
        after: Option<Duration>,
    ) -> Result<Option<Leasing>, ArgErrors> {
        let Nanos(lease) = args.get("LEASE")?;
        let lease_ms = u32::try_from(lease / 1_000_000).unwrap_or(u32::MAX);
        if !(20..=LEASE_MAX_MS).contains(&lease_ms) {
            return Err(args.error("LEASE", "must be from 20ms to 10s").into());
        }
        let lease = Duration::from_millis(u64::from(lease_ms));
        Ok(witness.map(|at| Leasing {
            witness: WitnessUse { at, lease_ms },
            after: after.unwrap_or(lease),
        }))
    }

    /// What both hosts must have in common.
    pub(super) fn text(&self) -> String {
        let Leasing { witness: WitnessUse { at, lease_ms }, after } = self;
        format!("; witness {at}, lease {lease_ms} ms, after {} ms", after.as_millis())
    }

    /// How much longer this host may serve in a term: for the lease that it has, or as long as the
    /// other one has heard it too lately to take over.
    pub(super) fn left(&self, link: &Link, term: Term) -> Duration {
        link.lease_left(term).max(link.echo_left(self.after))
    }
}
