//! What is asked for, kept: every generation of every resource, in one SQLite database.
//!
//! A change is one transaction: after a crash at any instant there is the old state or the new
//! one. A change that was acknowledged is there for good (ADR 43).

mod credentials;
mod error;
mod generation;
mod open;
mod rows;
mod text;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use parking_lot::Mutex;
use rusqlite::{Connection, Transaction, TransactionBehavior};

pub use error::StoreError;
pub use generation::Generation;
pub use open::SCHEMA_VERSION;
pub use text::{diff, render};

use crate::kind::{Name, Reference, ResourceKind, Spec};
use crate::{Asked, ChainSpec, FunctionSpec, GroupSpec, Run};

/// Resources of each kind that may be declared at a time.
pub const RESOURCES_MAX: u64 = 1024;

/// A page of all that there is.
const ALL: usize = usize::MAX - 1;

/// Names that an error lists.
const NAMES_LISTED_MAX: usize = 20;

/// What a change did, or would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Put {
    /// Generation of the resource afterwards.
    pub generation: u64,
    /// Whether there is a new generation; not if the specification was equal already.
    pub changed: bool,
}

/// What a resource must be for a change to be made.
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
    /// On whose behalf: what is managed by somebody is changed on their behalf alone.
    pub managed_by: Option<&'a str>,
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
        // Reads the last generation of each resource: a damaged one is found now, not later.
        store.list::<ChainSpec>(None, ALL)?;
        store.list::<FunctionSpec>(None, ALL)?;
        store.list::<GroupSpec>(None, ALL)?;
        Ok(store)
    }

    /// The database's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Declares a resource, new or changed. An equal specification makes no new generation,
    /// whatever the precondition: the change was made already (RFC 9110 section 13.1.1).
    ///
    /// # Errors
    /// [`StoreError::Stale`], [`StoreError::TooMany`], [`StoreError::Unresolved`], or the disk's.
    pub fn put<N: Name>(
        &self,
        name: &N,
        spec: &N::Spec,
        options: &ChangeOptions<'_>,
    ) -> Result<Put, StoreError> {
        self.change(name, options, |_, _| Ok(Some(spec.clone())))
    }

    /// Takes a resource back. Its generations stay, and the deletion is one of them.
    ///
    /// # Errors
    /// [`StoreError::NoResource`], [`StoreError::Stale`], [`StoreError::InUseBy`], or the disk's.
    pub fn delete<N: Name>(
        &self,
        name: &N,
        options: &ChangeOptions<'_>,
    ) -> Result<Put, StoreError> {
        self.change(name, options, |transaction, head| match is_live(head) {
            true => Ok(None),
            false => Err(self.no_resource(transaction, name)),
        })
    }

    /// Declares an earlier generation of a resource again, as a new generation. A deleted one comes
    /// back so.
    ///
    /// # Errors
    /// [`StoreError::NoResource`], [`StoreError::NoGeneration`], [`StoreError::Deletion`],
    /// [`StoreError::Stale`], [`StoreError::Unresolved`], or the disk's.
    pub fn rollback<N: Name>(
        &self,
        name: &N,
        to: u64,
        options: &ChangeOptions<'_>,
    ) -> Result<Put, StoreError> {
        self.change(name, options, |transaction, head| {
            let found = self.find(transaction, name, head, to)?;
            let (kind, name) = (N::Spec::KIND, name.to_string());
            let deletion = || StoreError::Deletion { kind, name, generation: to };
            found.spec.map(Some).ok_or_else(deletion)
        })
    }

    /// The resource as it is asked for now.
    ///
    /// # Errors
    /// [`StoreError::NoResource`], or the disk's.
    pub fn get<N: Name>(&self, name: &N) -> Result<Generation<N::Spec>, StoreError> {
        let reader = self.reader.lock();
        let head = self.sql(rows::head::<N::Spec>(&reader, name.as_str()))?;
        head.filter(|head| head.spec.is_some()).ok_or_else(|| self.no_resource(&reader, name))
    }

    /// A generation of a resource, which may be deleted by now.
    ///
    /// # Errors
    /// [`StoreError::NoResource`], [`StoreError::NoGeneration`], or the disk's.
    pub fn generation<N: Name>(
        &self,
        name: &N,
        number: u64,
    ) -> Result<Generation<N::Spec>, StoreError> {
        let reader = self.reader.lock();
        let head = self.sql(rows::head(&reader, name.as_str()))?;
        self.find(&reader, name, head.as_ref(), number)
    }

    /// The generations of a resource, the last one first: those before `before`, `limit` at most.
    ///
    /// # Errors
    /// [`StoreError::NoResource`], or the disk's.
    pub fn generations<N: Name>(
        &self,
        name: &N,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<Generation<N::Spec>>, StoreError> {
        let reader = self.reader.lock();
        let items = self.sql(rows::generations(&reader, name.as_str(), before, limit + 1))?;
        if items.is_empty() && self.sql(rows::head::<N::Spec>(&reader, name.as_str()))?.is_none() {
            return Err(self.no_resource(&reader, name));
        }
        Ok(page(items, limit))
    }

    /// The resources of a kind that are asked for, by name: those behind `after`, `limit` at most.
    ///
    /// # Errors
    /// The disk's.
    pub fn list<S: Spec>(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Generation<S>>, StoreError> {
        let items = self.sql(rows::live(&self.reader.lock(), after.unwrap_or(""), limit + 1))?;
        Ok(page(items, limit))
    }

    /// All chains that are asked for, as whoever runs them takes them.
    ///
    /// # Errors
    /// The disk's.
    pub fn all(&self) -> Result<Vec<Asked>, StoreError> {
        let mut reader = self.reader.lock();
        // One transaction: what a chain names is there.
        let snapshot = self.sql(reader.transaction())?;
        let chains = self.sql(rows::live::<ChainSpec>(&snapshot, "", ALL))?;
        let mut asked = Vec::new();
        for Generation { name, number: generation, spec, .. } in chains {
            if let Some(spec) = spec {
                asked.push(Asked { name, generation, run: self.found(&snapshot, spec)? });
            }
        }
        Ok(asked)
    }

    /// A chain with the functions that it uses.
    ///
    /// # Errors
    /// [`StoreError::Unresolved`], or the disk's.
    pub fn run(&self, spec: &ChainSpec) -> Result<Run, StoreError> {
        self.found(&self.reader.lock(), spec.clone())
    }

    fn found(&self, connection: &Connection, spec: ChainSpec) -> Result<Run, StoreError> {
        self.resolve(connection, &spec.references())?;
        let mut functions = BTreeMap::new();
        for used in spec.functions.values() {
            let head = self.sql(rows::head::<FunctionSpec>(connection, used.name.as_str()))?;
            if let Some(function) = head.and_then(|head| head.spec) {
                functions.insert(used.name.clone(), function);
            }
        }
        let mut groups = BTreeMap::new();
        for name in &spec.groups {
            let head = self.sql(rows::head::<GroupSpec>(connection, name.as_str()))?;
            if let Some(group) = head.and_then(|head| head.spec) {
                groups.insert(name.clone(), group);
            }
        }
        Ok(Run { spec, functions, groups })
    }

    /// Hashes of the executables that are declared.
    ///
    /// # Errors
    /// The disk's.
    pub fn hashes(&self) -> Result<Vec<String>, StoreError> {
        let functions = self.list::<FunctionSpec>(None, ALL)?.items;
        Ok(functions.into_iter().filter_map(|one| Some(one.spec?.sha256)).collect())
    }

    /// Whether a chain that is asked for names a resource.
    ///
    /// # Errors
    /// The disk's.
    pub fn is_used_by_chains<N: Name>(&self, name: &N) -> Result<bool, StoreError> {
        Ok(!self.users::<ChainSpec, N>(&self.reader.lock(), name)?.is_empty())
    }

    /// Names of the chains that were deleted. A manager that was killed between a deletion and what
    /// follows from it learns here what is still to be ended.
    ///
    /// # Errors
    /// The disk's.
    pub fn deleted(&self) -> Result<Vec<String>, StoreError> {
        self.sql(rows::deleted(&self.reader.lock(), ResourceKind::Chain))
    }

    /// How two generations of a resource differ, as a unified diff; empty if they do not. Without
    /// `to` it is the last generation, without `from` the one before `to`.
    ///
    /// # Errors
    /// [`StoreError::NoResource`], [`StoreError::NoGeneration`], or the disk's.
    pub fn diff<N: Name>(
        &self,
        name: &N,
        from: Option<u64>,
        to: Option<u64>,
    ) -> Result<String, StoreError> {
        let reader = self.reader.lock();
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
    fn change<N: Name>(
        &self,
        name: &N,
        options: &ChangeOptions<'_>,
        next: impl FnOnce(
            &Transaction<'_>,
            Option<&Generation<N::Spec>>,
        ) -> Result<Option<N::Spec>, StoreError>,
    ) -> Result<Put, StoreError> {
        let mut writer = self.writer.lock();
        let transaction =
            self.sql(writer.transaction_with_behavior(TransactionBehavior::Immediate))?;
        let head = self.sql(rows::head(&transaction, name.as_str()))?;
        let spec = next(&transaction, head.as_ref())?;
        let before = head.as_ref().map_or(0, |head| head.number);
        if is_live(head.as_ref()) && head.as_ref().is_some_and(|head| head.spec == spec) {
            return Ok(Put { generation: before, changed: false });
        }
        options.precondition.hold(name, head.as_ref())?;
        if !is_live(head.as_ref()) {
            self.has_room(&transaction, N::Spec::KIND)?;
        }
        match &spec {
            Some(spec) => self.resolve(&transaction, &spec.references())?,
            None => self.unused(&transaction, name)?,
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
    fn find<N: Name>(
        &self,
        connection: &Connection,
        name: &N,
        head: Option<&Generation<N::Spec>>,
        number: u64,
    ) -> Result<Generation<N::Spec>, StoreError> {
        let Some(head) = head else { return Err(self.no_resource(connection, name)) };
        let found = self.sql(rows::generation(connection, name.as_str(), number))?;
        found.ok_or_else(|| StoreError::NoGeneration {
            kind: N::Spec::KIND,
            name: name.to_string(),
            generation: number,
            last: head.number,
        })
    }

    /// The error that lists what there is.
    fn no_resource<N: Name>(&self, connection: &Connection, name: &N) -> StoreError {
        let (kind, name) = (N::Spec::KIND, name.to_string());
        match self.sql(rows::names(connection, kind, NAMES_LISTED_MAX)) {
            Ok(known) => StoreError::NoResource { kind, name, known },
            Err(error) => error,
        }
    }

    /// Whether one more resource of a kind may be declared.
    fn has_room(&self, connection: &Connection, kind: ResourceKind) -> Result<(), StoreError> {
        let count = self.sql(rows::count(connection, kind))?;
        if count < RESOURCES_MAX { Ok(()) } else { Err(StoreError::TooMany { kind, count }) }
    }

    /// Whether all resources that a specification names are declared.
    fn resolve(&self, connection: &Connection, named: &[Reference]) -> Result<(), StoreError> {
        for Reference { field, kind, name } in named {
            if !self.sql(rows::is_live(connection, *kind, name))? {
                let known = self.sql(rows::names(connection, *kind, NAMES_LISTED_MAX))?;
                let (field, name) = (field.clone(), name.clone());
                return Err(StoreError::Unresolved { field, kind: *kind, name, known });
            }
        }
        Ok(())
    }

    /// Whether no specification names a resource.
    fn unused<N: Name>(&self, connection: &Connection, name: &N) -> Result<(), StoreError> {
        let mut users = self.users::<ChainSpec, N>(connection, name)?;
        users.extend(self.users::<GroupSpec, N>(connection, name)?);
        users.truncate(NAMES_LISTED_MAX);
        match users.is_empty() {
            true => Ok(()),
            false => {
                Err(StoreError::InUseBy { kind: N::Spec::KIND, name: name.to_string(), users })
            }
        }
    }

    /// The resources of a kind that name one, as `group edge`.
    fn users<S: Spec, N: Name>(
        &self,
        connection: &Connection,
        name: &N,
    ) -> Result<Vec<String>, StoreError> {
        let all = self.sql(rows::live::<S>(connection, "", ALL))?;
        let is_named = |one: &Reference| one.kind == N::Spec::KIND && one.name == name.as_str();
        let names_it = |spec: &S| spec.references().iter().any(is_named);
        let users = all.iter().filter(|one| one.spec.as_ref().is_some_and(names_it));
        Ok(users.map(|one| format!("{} {}", S::KIND, one.name)).collect())
    }

    fn sql<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|error| StoreError::of(&self.path, &error))
    }
}

impl Precondition {
    /// Whether it holds for a resource whose last generation is `head`.
    fn hold<N: Name>(self, name: &N, head: Option<&Generation<N::Spec>>) -> Result<(), StoreError> {
        let kind = N::Spec::KIND;
        let current = head.filter(|head| head.spec.is_some()).map(|head| head.number);
        let (holds, expected) = match self {
            Precondition::Any => return Ok(()),
            Precondition::Absent => (current.is_none(), format!("a new {kind}")),
            Precondition::Present => (current.is_some(), format!("a {kind} that is there")),
            Precondition::Generation(one) => (current == Some(one), format!("generation {one}")),
        };
        match holds {
            true => Ok(()),
            false => Err(StoreError::Stale { kind, name: name.to_string(), expected, current }),
        }
    }
}

/// Whether the last generation is no deletion.
fn is_live<S>(head: Option<&Generation<S>>) -> bool {
    head.is_some_and(|head| head.spec.is_some())
}

/// A page of items of which one more than wanted was read.
fn page<T>(mut items: Vec<T>, limit: usize) -> Page<T> {
    let more = items.len() > limit;
    items.truncate(limit);
    Page { items, more }
}
