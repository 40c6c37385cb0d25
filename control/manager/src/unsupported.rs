//! Nobody who runs chains: what is asked for is kept, and every status says that nothing runs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::events::EventLog;
use crate::{Asked, ChainStatus, Condition, ConditionKind, DataPlanes, Event, LogPart, PlaneError};

const REASON: &str = "NotSupported";
const MESSAGE: &str = "no program `thruway` stands beside thruway-manager, so chains are kept and \
                       not run; put it there, or name it with `thruway daemon --program`";

/// Stands where no data planes can be run.
#[derive(Debug)]
pub struct Unsupported {
    events: Arc<EventLog>,
    /// Since when each chain is asked for.
    asked: Mutex<BTreeMap<String, SystemTime>>,
}

impl Unsupported {
    /// Reports on chains that it does not start by events.
    pub fn new(events: Arc<EventLog>) -> Unsupported {
        Unsupported { events, asked: Mutex::new(BTreeMap::new()) }
    }
}

impl DataPlanes for Unsupported {
    fn converge(&self, asked: Vec<Asked>) {
        let now = SystemTime::now();
        let mut known = self.asked.lock();
        known.retain(|name, _| asked.iter().any(|one| one.name == *name));
        for one in asked {
            known.entry(one.name.clone()).or_insert_with(|| {
                let (reason, message) = (REASON.to_owned(), MESSAGE.to_owned());
                self.events.emit(Event { time: now, chain: one.name, reason, message });
                now
            });
        }
    }

    fn status(&self, chain: &str) -> Option<ChainStatus> {
        let since = *self.asked.lock().get(chain)?;
        let condition = |kind| Condition {
            kind,
            holds: false,
            reason: REASON.to_owned(),
            message: MESSAGE.to_owned(),
            since,
        };
        let conditions = [ConditionKind::Ready, ConditionKind::UpToDate].map(condition).to_vec();
        Some(ChainStatus { conditions, ..ChainStatus::default() })
    }

    fn read(&self, chain: &str, _handler: &str) -> Result<String, PlaneError> {
        Err(PlaneError::NotRunning(chain.to_owned()))
    }

    fn read_each(
        &self,
        chain: &str,
        _handlers: &[String],
    ) -> Result<Vec<Option<String>>, PlaneError> {
        Err(PlaneError::NotRunning(chain.to_owned()))
    }

    fn write(&self, chain: &str, _handler: &str, _value: &str) -> Result<(), PlaneError> {
        Err(PlaneError::NotRunning(chain.to_owned()))
    }

    fn log(&self, _chain: &str, _from: u64, _len_max: u64) -> io::Result<LogPart> {
        Ok(LogPart::default())
    }

    /// What an earlier manager started may run on.
    fn hashes(&self) -> io::Result<BTreeSet<String>> {
        Err(io::Error::other("nobody knows which functions run"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_what_may_run_are_not_known_to_be_free() {
        assert!(Unsupported::new(Arc::default()).hashes().is_err());
    }
}
