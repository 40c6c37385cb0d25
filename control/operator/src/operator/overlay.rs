//! What the operator wrote and does not observe yet.
//!
//! A copy of what the API server has comes a moment late. Without this, a decision right after
//! another one would be made without what that one wrote: a chain could be assigned twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::ResourceExt as _;

use super::status::name_of;
use crate::names::Key;
use crate::resource::ChainPlacement;

/// A copy is never as late as this.
const AGE_MAX: Duration = Duration::from_secs(10);

/// Placements that were written.
#[derive(Debug, Default)]
pub struct Overlay {
    written: BTreeMap<Key, (Instant, Arc<ChainPlacement>)>,
}

impl Overlay {
    /// Takes what the API server answered to a write.
    pub fn wrote(&mut self, placement: ChainPlacement, now: Instant) {
        self.written.insert(name_of(&placement), (now, Arc::new(placement)));
    }

    /// Adds what is newer than what is observed, and forgets the rest.
    pub fn cover(&mut self, observed: &mut BTreeMap<Key, Arc<ChainPlacement>>, now: Instant) {
        self.written.retain(|key, (time, written)| {
            let is_newer = observed.get(key).is_none_or(|one| number(one) < number(written));
            let is_young = now.saturating_duration_since(*time) < AGE_MAX;
            if is_newer && is_young {
                observed.insert(key.clone(), Arc::clone(written));
            }
            is_newer && is_young
        });
    }
}

/// The resource version; those of one kind are ordered (since Kubernetes 1.35, by contract).
fn number(placement: &ChainPlacement) -> u64 {
    placement.resource_version().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::ChainPlacementSpec;

    fn placement(version: u64) -> ChainPlacement {
        let mut one = ChainPlacement::new("a--b", ChainPlacementSpec::default());
        one.metadata.namespace = Some("thruway-host-x".into());
        one.metadata.resource_version = Some(version.to_string());
        one
    }

    #[test]
    fn what_was_written_covers_what_is_older_until_it_is_observed() {
        let (mut overlay, now) = (Overlay::default(), Instant::now());
        let key = Key::new("thruway-host-x", "a--b");
        overlay.wrote(placement(9), now);
        let covered = |overlay: &mut Overlay, observed: Option<u64>, now: Instant| {
            let mut map: BTreeMap<Key, Arc<ChainPlacement>> = BTreeMap::new();
            map.extend(observed.map(|version| (key.clone(), Arc::new(placement(version)))));
            overlay.cover(&mut map, now);
            map.get(&key).map(|one| number(one))
        };
        assert_eq!(covered(&mut overlay, None, now), Some(9));
        assert_eq!(covered(&mut overlay, Some(8), now), Some(9));
        assert_eq!(covered(&mut overlay, Some(10), now), Some(10));
        // Observed once: what is deleted then does not come back.
        assert_eq!(covered(&mut overlay, None, now), None);
        overlay.wrote(placement(11), now);
        assert_eq!(covered(&mut overlay, None, now + AGE_MAX), None);
    }
}
