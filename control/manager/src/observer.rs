//! What is observed of functions and groups: looked at when somebody asks.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::executable::Fault;
use crate::hashes::Hashes;
use crate::kept::Kept;
use crate::kind::ResourceKind;
use crate::{Condition, ConditionKind, FunctionSpec};

/// What is observed of a function or a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceStatus {
    /// Generation of the specification that the conditions are about.
    pub observed_generation: u64,
    /// What holds of it now, one entry for each kind.
    pub conditions: Vec<Condition>,
}

/// One statement, before it is known since when it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub kind: ConditionKind,
    /// Whether it holds.
    pub holds: bool,
    /// Why, one word.
    pub reason: &'static str,
    /// Why, one sentence.
    pub message: String,
}

/// Kind and name of a resource.
type Key = (&'static str, String);

/// Remembers what it saw.
#[derive(Debug, Default)]
pub struct Observer {
    hashes: Hashes,
    /// Since when each condition is as it is.
    since: Mutex<BTreeMap<Key, Vec<Held>>>,
}

/// A condition, and since when it is as it is.
#[derive(Debug)]
struct Held {
    kind: ConditionKind,
    holds: bool,
    since: SystemTime,
}

impl Observer {
    /// Looks at the executable of a function: it is there, is the declared one, and others cannot
    /// change it.
    ///
    /// # Errors
    /// It is not so.
    pub fn verify(&self, spec: &FunctionSpec) -> Result<(), Fault> {
        self.hashes.verify(Path::new(&spec.path), &spec.sha256)
    }

    /// What is found of a function.
    pub fn function(&self, spec: &FunctionSpec, kept: &Kept) -> Vec<Finding> {
        let mut findings = self.file(spec);
        findings.push(match kept.verify(spec) {
            Ok(()) => {
                let what = "a copy of the declared executable is kept, and chains run that one";
                finding(ConditionKind::Kept, true, "Copied", what.to_owned())
            }
            Err(fault) => {
                let remedy = "it is made again when a chain starts that uses the function";
                let message = format!("{}; {remedy}", fault.message);
                finding(ConditionKind::Kept, false, fault.reason, message)
            }
        });
        findings
    }

    /// What is found of the file that is declared.
    fn file(&self, spec: &FunctionSpec) -> Vec<Finding> {
        let verified = self.verify(spec);
        let is_present = verified.as_ref().err().is_none_or(|fault| fault.is_present);
        let found = format!("{} is there", spec.path);
        let (reason, message, why) = match verified {
            Ok(()) => {
                let right = "it has the declared hash, and others cannot change it".to_owned();
                return vec![
                    finding(ConditionKind::Present, true, "Found", found),
                    finding(ConditionKind::Verified, true, "HashMatches", right),
                ];
            }
            Err(fault) if is_present => ("Found", found, fault),
            Err(fault) => (fault.reason, fault.message.clone(), fault),
        };
        vec![
            finding(ConditionKind::Present, is_present, reason, message),
            finding(ConditionKind::Verified, false, why.reason, why.message),
        ]
    }

    /// Reports since when each finding of a resource is as it is.
    pub fn status(
        &self,
        (kind, name): (ResourceKind, &str),
        generation: u64,
        findings: Vec<Finding>,
    ) -> ResourceStatus {
        let now = SystemTime::now();
        let mut all = self.since.lock();
        let known = all.entry((kind.as_str(), name.to_owned())).or_default();
        let settled = findings.into_iter().map(|Finding { kind, holds, reason, message }| {
            let before = known.iter().find(|one| (one.kind, one.holds) == (kind, holds));
            let since = before.map_or(now, |one| one.since);
            Condition { kind, holds, reason: reason.to_owned(), message, since }
        });
        let conditions: Vec<Condition> = settled.collect();
        let held = |one: &Condition| Held { kind: one.kind, holds: one.holds, since: one.since };
        *known = conditions.iter().map(held).collect();
        ResourceStatus { observed_generation: generation, conditions }
    }

    /// Forgets a resource that is not asked for any more.
    pub fn forget(&self, kind: ResourceKind, name: &str) {
        self.since.lock().remove(&(kind.as_str(), name.to_owned()));
    }
}

/// A finding.
pub fn finding(kind: ConditionKind, holds: bool, reason: &'static str, message: String) -> Finding {
    Finding { kind, holds, reason, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_has_the_time_of_its_last_change() {
        let observer = Observer::default();
        let of = (ResourceKind::Function, "ids@1");
        let status = |holds, reason, generation| {
            let one = finding(ConditionKind::Verified, holds, reason, String::new());
            observer.status(of, generation, vec![one]).conditions.remove(0)
        };
        let first = status(false, "Missing", 1);
        std::thread::sleep(std::time::Duration::from_millis(5));
        let second = status(false, "HashDiffers", 2);
        assert_eq!((second.since, second.reason.as_str()), (first.since, "HashDiffers"));
        let third = status(true, "HashMatches", 2);
        assert!(third.since > first.since);
        observer.forget(ResourceKind::Function, "ids@1");
        assert!(status(true, "HashMatches", 3).since >= third.since);
        assert_eq!(observer.since.lock().len(), 1);
    }
}
