//! The manager: a change is checked, kept, told, and handed to whoever runs the chains.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crate::events::EventLog;
use crate::store::{ChangeOptions, Generation, Put, Store, StoreError, diff};
use crate::{ChainName, ChainSpec, DataPlanes, Event};

/// What is wrong with a specification.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CheckError {
    /// Field of the specification: `configuration`.
    pub field: &'static str,
    /// What is wrong and what to do, perhaps of many lines.
    pub message: String,
}

/// Who tells whether a specification can run, as `thruway check` does.
pub trait Checker: Send + Sync {
    /// Checks a specification; returns warnings, which may be empty.
    ///
    /// # Errors
    /// It cannot run.
    fn check(&self, name: &ChainName, spec: &ChainSpec) -> Result<String, CheckError>;
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The specification is wrong.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a change did, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Generation afterwards.
    pub put: Put,
    /// Whether the chain was not there before.
    pub created: bool,
    /// What the check warns of.
    pub warnings: String,
    /// A unified diff of the specifications.
    pub diff: String,
}

/// What is asked for, and who runs it.
pub struct Manager {
    store: Store,
    planes: Arc<dyn DataPlanes>,
    checker: Arc<dyn Checker>,
    events: Arc<EventLog>,
    /// Held while what is asked for is read and handed on: the last list that is handed on is the
    /// newest. True if a change could not be handed on; then the next call does it.
    pending: Mutex<bool>,
}

impl Manager {
    /// A manager; hands what is asked for to the data planes at once.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn new(
        store: Store,
        planes: Arc<dyn DataPlanes>,
        checker: Arc<dyn Checker>,
        events: Arc<EventLog>,
    ) -> Result<Manager, StoreError> {
        let manager = Manager { store, planes, checker, events, pending: Mutex::new(true) };
        manager.converge(false)?;
        Ok(manager)
    }

    /// What is kept.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Who runs the chains.
    pub fn planes(&self) -> &dyn DataPlanes {
        &*self.planes
    }

    /// What happened.
    pub fn events(&self) -> &EventLog {
        &self.events
    }

    /// Declares a chain.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn put(
        &self,
        name: &ChainName,
        spec: &ChainSpec,
        options: &ChangeOptions<'_>,
    ) -> Result<Change, ChangeError> {
        let warnings = self.checker.check(name, spec)?;
        let before = self.current(name)?;
        let put = self.store.put(name, spec, options)?;
        let diff = difference(name, before.as_ref(), Some(spec));
        let change = Change { put, created: before.is_none() && put.changed, warnings, diff };
        self.made(name, "Declared", &change, options)?;
        Ok(change)
    }

    /// Takes a chain back.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn delete(
        &self,
        name: &ChainName,
        options: &ChangeOptions<'_>,
    ) -> Result<Change, ChangeError> {
        let before = self.current(name)?;
        let put = self.store.delete(name, options)?;
        let diff = difference(name, before.as_ref(), None);
        let change = Change { put, created: false, warnings: String::new(), diff };
        self.made(name, "Deleted", &change, options)?;
        Ok(change)
    }

    /// Declares an earlier generation of a chain again.
    ///
    /// # Errors
    /// [`ChangeError`]; also if what was right then is wrong now.
    pub fn rollback(
        &self,
        name: &ChainName,
        to: u64,
        options: &ChangeOptions<'_>,
    ) -> Result<Change, ChangeError> {
        let earlier = self.store.generation(name, to)?.spec;
        let warnings = match &earlier {
            Some(spec) => self.checker.check(name, spec)?,
            None => String::new(),
        };
        let before = self.current(name)?;
        let put = self.store.rollback(name, to, options)?;
        let diff = difference(name, before.as_ref(), earlier.as_ref());
        let change = Change { put, created: before.is_none(), warnings, diff };
        self.made(name, "RolledBack", &change, options)?;
        Ok(change)
    }

    /// What follows a change.
    fn made(
        &self,
        name: &ChainName,
        reason: &str,
        change: &Change,
        options: &ChangeOptions<'_>,
    ) -> Result<(), StoreError> {
        if options.dry_run {
            return Ok(());
        }
        if !change.put.changed {
            return self.converge(false);
        }
        self.events.emit(Event {
            time: SystemTime::now(),
            chain: name.to_string(),
            reason: reason.to_owned(),
            message: format!("generation {} by {}", change.put.generation, options.author),
        });
        self.converge(true)
    }

    /// Hands what is asked for to the data planes, if it changed since it was handed on.
    fn converge(&self, changed: bool) -> Result<(), StoreError> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        *pending |= changed;
        if *pending {
            self.planes.converge(self.store.all()?);
            *pending = false;
        }
        Ok(())
    }

    /// The chain as it is asked for now, if it is.
    fn current(&self, name: &ChainName) -> Result<Option<Generation>, StoreError> {
        match self.store.get(name) {
            Ok(found) => Ok(Some(found)),
            Err(StoreError::NoChain { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// How a change differs from what was.
fn difference(name: &ChainName, old: Option<&Generation>, new: Option<&ChainSpec>) -> String {
    let title = old.map_or("not declared".to_owned(), |old| format!("generation {}", old.number));
    diff((&title, old.and_then(|old| old.spec.as_ref())), (name.as_str(), new))
}
