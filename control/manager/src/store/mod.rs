//! What is asked for, kept: every generation of every chain, in one SQLite database.
//!
//! A change is one transaction: after a crash at any instant there is the old state or the new
//! one. A change that was acknowledged is there for good (ADR 43).

mod error;
mod generation;
mod open;
mod rows;
mod text;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rusqlite::{Connection, Transaction, TransactionBehavior};

pub use error::StoreError;
pub use generation::Generation;
pub use open::SCHEMA_VERSION;
pub use text::{diff, render};

use crate::{Asked, ChainName, ChainSpec};

/// Chains that may be declared at a time.
pub const CHAINS_MAX: u64 = 1024;

/// Names that an error lists.
const NAMES_LISTED_MAX: usize = 20;

/// What a change did, or would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Put {
    /// Generation of the chain afterwards.
    pub generation: u64,
    /// Whether there is a new generation; not if the specification was equal already.
    pub changed: bool,
}

/// What a chain must be for a change to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precondition {
    /// Anything.
    #[default]
    Any,
    /// Not there.
    Absent,
    /// There, at any generation.
    Present,
    /// There, at this generation.
    Generation(u64),
}

/// How a change is made.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChangeOptions<'a> {
    /// What must be.
    pub precondition: Precondition,
    /// Who makes it.
    pub author: &'a str,
    /// Whether only to tell what would come of it.
    pub dry_run: bool,
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The part, in order.
    pub items: Vec<T>,
    /// Whether there is more behind it.
    pub more: bool,
}

/// The database of a state directory.
pub struct Store {
    path: PathBuf,
    // Before the writer, whose end then folds the log into the database.
    reader: Mutex<Connection>,
    writer: Mutex<Connection>,
    _lock: File,
}

impl Store {
    /// Opens the store of a state directory; makes both where they are missing.
    ///
    /// # Errors
    /// Another manager has it, it is damaged, or a later version of the program wrote it. Nothing
    /// is written in these cases.
    pub fn open(dir: &Path) -> Result<Store, StoreError> {
        let opened = open::open(dir)?;
        let store = Store {
            path: opened.path,
            writer: Mutex::new(opened.writer),
            reader: Mutex::new(opened.reader),
            _lock: opened.lock,
        };
        // Reads the last generation of each chain: a damaged one is found now, not later.
        store.all()?;
        Ok(store)
    }

    /// The database's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Declares a chain, new or changed. An equal specification makes no new generation, whatever
    /// the precondition: the change was made already (RFC 9110 section 13.1.1).
    ///
    /// # Errors
    /// [`StoreError::Stale`], [`StoreError::TooMany`], or the disk's.
    pub fn put(
        &self,
        name: &ChainName,
        spec: &ChainSpec,
        options: &ChangeOptions<'_>,
    ) -> Result<Put, StoreError> {
        self.change(name, options, |_, _| Ok(Some(spec.clone())))
    }

    /// Takes a chain back. Its generations stay, and the deletion is one of them.
    ///
    /// # Errors
    /// [`StoreError::NoChain`], [`StoreError::Stale`], or the disk's.
    pub fn delete(&self, name: &ChainName, options: &ChangeOptions<'_>) -> Result<Put, StoreError> {
        self.change(name, options, |transaction, head| match is_live(head) {
            true => Ok(None),
            false => Err(self.no_chain(transaction, name)),
        })
    }

    /// Declares an earlier generation of a chain again, as a new generation. A deleted chain comes
    /// back so.
    ///
    /// # Errors
    /// [`StoreError::NoChain`], [`StoreError::NoGeneration`], [`StoreError::Deletion`],
    /// [`StoreError::Stale`], or the disk's.
    pub fn rollback(
        &self,
        name: &ChainName,
        to: u64,
        options: &ChangeOptions<'_>,
    ) -> Result<Put, StoreError> {
        self.change(name, options, |transaction, head| {
            let found = self.find(transaction, name, head, to)?;
            let deletion = || StoreError::Deletion { name: name.to_string(), generation: to };
            found.spec.map(Some).ok_or_else(deletion)
        })
    }

    /// The chain as it is asked for now.
    ///
    /// # Errors
    /// [`StoreError::NoChain`], or the disk's.
    pub fn get(&self, name: &ChainName) -> Result<Generation, StoreError> {
        let reader = self.reader();
        let head = self.sql(rows::head(&reader, name.as_str()))?;
        head.filter(|head| head.spec.is_some()).ok_or_else(|| self.no_chain(&reader, name))
    }

    /// A generation of a chain, which may be deleted by now.
    ///
    /// # Errors
    /// [`StoreError::NoChain`], [`StoreError::NoGeneration`], or the disk's.
    pub fn generation(&self, name: &ChainName, number: u64) -> Result<Generation, StoreError> {
        let reader = self.reader();
        let head = self.sql(rows::head(&reader, name.as_str()))?;
        self.find(&reader, name, head.as_ref(), number)
    }

    /// The generations of a chain, the last one first: those before `before`, `limit` at most.
    ///
    /// # Errors
    /// [`StoreError::NoChain`], or the disk's.
    pub fn generations(
        &self,
        name: &ChainName,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<Generation>, StoreError> {
        let reader = self.reader();
        let items = self.sql(rows::generations(&reader, name.as_str(), before, limit + 1))?;
        if items.is_empty() && self.sql(rows::head(&reader, name.as_str()))?.is_none() {
            return Err(self.no_chain(&reader, name));
        }
        Ok(page(items, limit))
    }

    /// The chains that are asked for, by name: those behind `after`, `limit` at most.
    ///
    /// # Errors
    /// The disk's.
    pub fn list(&self, after: Option<&str>, limit: usize) -> Result<Page<Generation>, StoreError> {
        let items = self.sql(rows::live(&self.reader(), after.unwrap_or(""), limit + 1))?;
        Ok(page(items, limit))
    }

    /// All chains that are asked for, as whoever runs them takes them.
    ///
    /// # Errors
    /// The disk's.
    pub fn all(&self) -> Result<Vec<Asked>, StoreError> {
        let all = self.sql(rows::live(&self.reader(), "", usize::MAX))?;
        let asked = |one: Generation| {
            let Generation { name, number: generation, spec, .. } = one;
            spec.map(|spec| Asked { name, generation, spec })
        };
        Ok(all.into_iter().filter_map(asked).collect())
    }

    /// Names of the chains that were deleted. A manager that was killed between a deletion and what
    /// follows from it learns here what is still to be ended.
    ///
    /// # Errors
    /// The disk's.
    pub fn deleted(&self) -> Result<Vec<String>, StoreError> {
        self.sql(rows::deleted(&self.reader()))
    }

    /// How two generations of a chain differ, as a unified diff; empty if they do not. Without
    /// `to` it is the last generation, without `from` the one before `to`.
    ///
    /// # Errors
    /// [`StoreError::NoChain`], [`StoreError::NoGeneration`], or the disk's.
    pub fn diff(
        &self,
        name: &ChainName,
        from: Option<u64>,
        to: Option<u64>,
    ) -> Result<String, StoreError> {
        let reader = self.reader();
        let head = self.sql(rows::head(&reader, name.as_str()))?;
        let to = to.unwrap_or(head.as_ref().map_or(1, |head| head.number));
        let new = self.find(&reader, name, head.as_ref(), to)?;
        // What was before the first one: nothing.
        let old = match from.unwrap_or(to.saturating_sub(1)) {
            0 => None,
            number => self.find(&reader, name, head.as_ref(), number)?.spec,
        };
        let titles = (format!("generation {}", from.unwrap_or(to - 1)), format!("generation {to}"));
        Ok(diff((&titles.0, old.as_ref()), (&titles.1, new.spec.as_ref())))
    }

    /// One change: decides under the lock what the next specification is, and writes it.
    fn change(
        &self,
        name: &ChainName,
        options: &ChangeOptions<'_>,
        next: impl FnOnce(
            &Transaction<'_>,
            Option<&Generation>,
        ) -> Result<Option<ChainSpec>, StoreError>,
    ) -> Result<Put, StoreError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction =
            self.sql(writer.transaction_with_behavior(TransactionBehavior::Immediate))?;
        let head = self.sql(rows::head(&transaction, name.as_str()))?;
        let spec = next(&transaction, head.as_ref())?;
        let before = head.as_ref().map_or(0, |head| head.number);
        if is_live(head.as_ref()) && head.as_ref().is_some_and(|head| head.spec == spec) {
            return Ok(Put { generation: before, changed: false });
        }
        options.precondition.hold(name, head.as_ref())?;
        let count = self.sql(rows::count(&transaction))?;
        if !is_live(head.as_ref()) && count >= CHAINS_MAX {
            return Err(StoreError::TooMany(count));
        }
        let new = Generation {
            name: name.to_string(),
            number: before + 1,
            time: SystemTime::now(),
            author: options.author.to_owned(),
            spec,
        };
        self.sql(rows::insert(&transaction, &new))?;
        if !options.dry_run {
            self.sql(transaction.commit())?;
        }
        Ok(Put { generation: new.number, changed: true })
    }

    /// A generation by its number.
    fn find(
        &self,
        connection: &Connection,
        name: &ChainName,
        head: Option<&Generation>,
        number: u64,
    ) -> Result<Generation, StoreError> {
        let Some(head) = head else { return Err(self.no_chain(connection, name)) };
        let found = self.sql(rows::generation(connection, name.as_str(), number))?;
        found.ok_or_else(|| StoreError::NoGeneration {
            name: name.to_string(),
            generation: number,
            last: head.number,
        })
    }

    /// The error that lists what there is.
    fn no_chain(&self, connection: &Connection, name: &ChainName) -> StoreError {
        match rows::names(connection, NAMES_LISTED_MAX) {
            Ok(known) => StoreError::NoChain { name: name.to_string(), known },
            Err(error) => StoreError::of(&self.path, &error),
        }
    }

    fn reader(&self) -> MutexGuard<'_, Connection> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sql<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|error| StoreError::of(&self.path, &error))
    }
}

impl Precondition {
    /// Whether it holds for a chain whose last generation is `head`.
    fn hold(self, name: &ChainName, head: Option<&Generation>) -> Result<(), StoreError> {
        let current = head.filter(|head| head.spec.is_some()).map(|head| head.number);
        let (holds, expected) = match self {
            Precondition::Any => return Ok(()),
            Precondition::Absent => (current.is_none(), "a new chain".to_owned()),
            Precondition::Present => (current.is_some(), "a chain that is there".to_owned()),
            Precondition::Generation(one) => (current == Some(one), format!("generation {one}")),
        };
        match holds {
            true => Ok(()),
            false => Err(StoreError::Stale { name: name.to_string(), expected, current }),
        }
    }
}

/// Whether the last generation is no deletion.
fn is_live(head: Option<&Generation>) -> bool {
    head.is_some_and(|head| head.spec.is_some())
}

/// A page of items of which one more than wanted was read.
fn page<T>(mut items: Vec<T>, limit: usize) -> Page<T> {
    let more = items.len() > limit;
    items.truncate(limit);
    Page { items, more }
}
