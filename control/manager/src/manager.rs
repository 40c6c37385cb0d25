//! The manager: a change is checked, kept, told, and handed to whoever runs the chains.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use crate::access::Registry;
pub use crate::change::{Change, ChangeError, MANAGED_BY_HEADER};
use crate::events::EventLog;
use crate::executable::{DISK_FULL, Fault, HASH_DIFFERS};
use crate::kept::Kept;
use crate::kind::{CheckError, Name, ResourceKind, Spec};
use crate::observer::{Finding, Observer, finding};
use crate::store::{ChangeOptions, Generation, Put, Store, StoreError, diff};
use crate::{
    ChainName, ChainSpec, ConditionKind, DataPlanes, Event, FunctionSpec, GroupSpec,
    ResourceStatus, expansion, prospect,
};
use expansion::{groups, on_demand};
use parking_lot::Mutex;
use prospect::Step;

/// Who reports whether a specification can run, as `thruway check` does.
pub trait Checker: Send + Sync {
    /// Checks a specification; returns warnings, which may be empty. Its variables are those of its
    /// functions, too.
    ///
    /// # Errors
    /// It cannot run.
    fn check(&self, name: &ChainName, spec: &ChainSpec) -> Result<String, CheckError>;
}

/// A kind of resource that the manager checks before it is kept.
pub trait Declared: Spec {
    /// Checks a specification; returns warnings, which may be empty.
    ///
    /// # Errors
    /// It is wrong, names what is not declared, or cannot run.
    fn check(&self, name: &Self::Name, manager: &Manager) -> Result<String, ChangeError>;

    /// What follows a change; `None`: it is not declared.
    fn steps(_before: Option<&Self>, _after: Option<&Self>) -> Vec<Step> {
        Vec::new()
    }

    /// Keeps what a specification needs beside the store.
    ///
    /// # Errors
    /// It is not as declared, or there is no room.
    fn keep(&self, _manager: &Manager) -> Result<(), ChangeError> {
        Ok(())
    }
}

impl Declared for ChainSpec {
    fn check(&self, name: &ChainName, manager: &Manager) -> Result<String, ChangeError> {
        self.check_functions()?;
        let warnings = manager.checker.check(name, &manager.written_out(self)?)?;
        if !self.on_demand.is_empty() {
            manager.checker.check(name, &manager.written(self, &BTreeSet::new())?)?;
        }
        Ok(warnings)
    }

    fn steps(before: Option<&ChainSpec>, after: Option<&ChainSpec>) -> Vec<Step> {
        prospect::steps(before, after)
    }
}

impl Declared for FunctionSpec {
    fn check(&self, _name: &Self::Name, manager: &Manager) -> Result<String, ChangeError> {
        self.check()?;
        match manager.observer.verify(self) {
            Ok(()) => Ok(String::new()),
            Err(fault) if manager.kept.verify(self).is_ok() => Ok(format!(
                "{}; chains run the copy that is kept of the declared one",
                fault.message
            )),
            Err(fault) => Err(self.wrong(fault)),
        }
    }

    fn keep(&self, manager: &Manager) -> Result<(), ChangeError> {
        manager.kept.keep(self).map_err(|fault| self.wrong(fault))
    }
}

impl FunctionSpec {
    /// What is wrong with an executable, by the field that says so.
    fn wrong(&self, fault: Fault) -> ChangeError {
        match fault.reason {
            DISK_FULL => StoreError::Full(self.path.clone().into()).into(),
            HASH_DIFFERS => CheckError::new("sha256", fault.message).into(),
            _ => CheckError::new("path", fault.message).into(),
        }
    }
}

impl Declared for GroupSpec {
    fn check(&self, _name: &Self::Name, _manager: &Manager) -> Result<String, ChangeError> {
        Ok(self.check().map(|()| String::new())?)
    }
}

/// Reasons of events after which a data plane may run other executables than before.
const OTHERS_RUN: [&str; 3] = ["Started", "Swapped", "Deleted"];

/// What is asked for, and who runs it.
pub struct Manager {
    store: Store,
    observer: Observer,
    kept: Kept,
    planes: Arc<dyn DataPlanes>,
    checker: Arc<dyn Checker>,
    events: Arc<EventLog>,
    access: Registry,
    /// Held while copies of executables are made for what is then declared, and while those that
    /// nothing needs are removed.
    keeping: Mutex<()>,
    /// Held while credentials are kept and handed on, so that both are in the same order.
    pub(crate) granting: Mutex<()>,
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
        let access = Registry::new(store.credentials()?);
        let state = store.path().parent().unwrap_or(Path::new("."));
        let kept = Kept::open(state).map_err(|error| StoreError::of_files(state, &error))?;
        let (granting, pending) = (Mutex::new(()), Mutex::new(true));
        let manager = Manager {
            store,
            observer: Observer::default(),
            kept,
            planes,
            checker,
            events,
            access,
            keeping: Mutex::new(()),
            granting,
            pending,
        };
        manager.sweep()?;
        manager.converge(false)?;
        Ok(manager)
    }

    /// A chain as a data plane would run it first, with all functions on demand: replicas written
    /// out, and the variables of functions with values.
    ///
    /// # Errors
    /// It names functions that are not declared, or what it declares of them cannot be written.
    pub fn written_out(&self, spec: &ChainSpec) -> Result<ChainSpec, ChangeError> {
        self.written(spec, &spec.on_demand.keys().cloned().collect())
    }

    /// The same with these functions on demand.
    fn written(
        &self,
        spec: &ChainSpec,
        deployed: &BTreeSet<String>,
    ) -> Result<ChainSpec, ChangeError> {
        expansion::check(spec)?;
        on_demand::check(spec)?;
        let layouts = expansion::at_first(spec, SystemTime::now());
        let run = self.store.run(spec)?;
        groups::check(&run)?;
        let run = on_demand::with_deployed(&run, deployed)?;
        let run = expansion::expand(&run, &layouts, &BTreeMap::new())?;
        // What was declared by an earlier version of the program has no copy before it runs.
        let variables = run.variables(|function| match self.kept.verify(function) {
            Ok(()) => self.kept.path(function),
            Err(_) => function.path.clone().into(),
        });
        let configuration = run.configuration();
        let on_demand = spec.on_demand.clone();
        Ok(ChainSpec { configuration, variables, on_demand, ..run.spec })
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

    /// Who may use the API.
    pub fn access(&self) -> &Registry {
        &self.access
    }

    /// What is observed of a function, looked at now: its executable may be read.
    pub fn function_status(&self, found: &Generation<FunctionSpec>) -> ResourceStatus {
        let findings = found.spec.iter().flat_map(|spec| self.observer.function(spec, &self.kept));
        let findings = findings.collect();
        let key = (FunctionSpec::KIND, found.name.as_str());
        self.observer.status(key, found.number, findings)
    }

    /// What is observed of a group, looked at now: executables of its functions may be read.
    ///
    /// # Errors
    /// The disk's.
    pub fn group_status(
        &self,
        found: &Generation<GroupSpec>,
    ) -> Result<ResourceStatus, StoreError> {
        let finding = self.members(found)?;
        let key = (GroupSpec::KIND, found.name.as_str());
        Ok(self.observer.status(key, found.number, vec![finding]))
    }

    /// Whether all functions of a group are verified; if not, which one is not.
    fn members(&self, group: &Generation<GroupSpec>) -> Result<Finding, StoreError> {
        let kind = ConditionKind::Verified;
        for name in group.spec.iter().flat_map(|spec| &spec.functions) {
            let member = self.current(name)?.and_then(|found| found.spec);
            let why = match member.map(|spec| self.observer.verify(&spec)) {
                Some(Ok(())) => continue,
                Some(Err(fault)) => fault.message,
                None => "it is not declared any more".to_owned(),
            };
            return Ok(finding(kind, false, "MemberNotVerified", format!("{name}: {why}")));
        }
        let all = "the executables of all its functions are the declared ones".to_owned();
        Ok(finding(kind, true, "MembersVerified", all))
    }

    /// Declares a resource.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn put<N: Name<Spec: Declared>>(
        &self,
        name: &N,
        spec: &N::Spec,
        options: &ChangeOptions<'_>,
    ) -> Result<Change, ChangeError> {
        let before = self.current(name)?;
        may_change(before.as_ref(), Some(spec), options)?;
        let warnings = spec.check(name, self)?;
        let put = self.keep_and(Some(spec), options, || self.store.put(name, spec, options))?;
        let diff = difference(name, before.as_ref(), Some(spec));
        let plan = N::Spec::steps(asked(before.as_ref()), Some(spec));
        let created = before.is_none() && put.changed;
        let change = Change { put, created, warnings, diff, plan };
        self.made(name, "Declared", &change, options)?;
        Ok(change)
    }

    /// Takes a resource back.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn delete<N: Name<Spec: Declared>>(
        &self,
        name: &N,
        options: &ChangeOptions<'_>,
    ) -> Result<Change, ChangeError> {
        let before = self.current(name)?;
        may_change(before.as_ref(), None, options)?;
        let put = self.store.delete(name, options)?;
        let diff = difference(name, before.as_ref(), None);
        let plan = N::Spec::steps(asked(before.as_ref()), None);
        let change = Change { put, created: false, warnings: String::new(), diff, plan };
        if !options.dry_run {
            self.observer.forget(N::Spec::KIND, name.as_str());
        }
        self.made(name, "Deleted", &change, options)?;
        Ok(change)
    }

    /// Declares an earlier generation of a resource again.
    ///
    /// # Errors
    /// [`ChangeError`]; also if what was right then is wrong now.
    pub fn rollback<N: Name<Spec: Declared>>(
        &self,
        name: &N,
        to: u64,
        options: &ChangeOptions<'_>,
    ) -> Result<Change, ChangeError> {
        let earlier = self.store.generation(name, to)?.spec;
        let warnings = match &earlier {
            Some(spec) => spec.check(name, self)?,
            None => String::new(),
        };
        let before = self.current(name)?;
        may_change(before.as_ref(), earlier.as_ref(), options)?;
        let put =
            self.keep_and(earlier.as_ref(), options, || self.store.rollback(name, to, options))?;
        let diff = difference(name, before.as_ref(), earlier.as_ref());
        let plan = N::Spec::steps(asked(before.as_ref()), earlier.as_ref());
        let change = Change { put, created: before.is_none(), warnings, diff, plan };
        self.made(name, "RolledBack", &change, options)?;
        Ok(change)
    }

    /// Makes a change after what the specification needs is kept.
    fn keep_and<S: Declared>(
        &self,
        spec: Option<&S>,
        options: &ChangeOptions<'_>,
        change: impl FnOnce() -> Result<Put, StoreError>,
    ) -> Result<Put, ChangeError> {
        let _order = self.keeping.lock();
        if let Some(spec) = spec.filter(|_| !options.dry_run) {
            spec.keep(self)?;
        }
        Ok(change()?)
    }

    /// What follows a change: of chains, and of functions and groups that chains use, whoever runs
    /// them is notified. Of chains an event is emitted.
    fn made<N: Name>(
        &self,
        name: &N,
        reason: &str,
        change: &Change,
        options: &ChangeOptions<'_>,
    ) -> Result<(), StoreError> {
        if options.dry_run {
            return Ok(());
        }
        match N::Spec::KIND {
            ResourceKind::Group | ResourceKind::Function => {
                let is_used = change.put.changed && self.store.is_used_by_chains(name)?;
                self.converge(is_used)?;
                return self.sweep();
            }
            ResourceKind::Chain => {}
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

    /// Takes what was observed of a chain: emits the event. Where other executables run since,
    /// copies that nothing needs any more are removed.
    pub fn observed(&self, event: Event) {
        let others_run = OTHERS_RUN.contains(&&*event.reason);
        self.events.emit(event);
        if others_run {
            // What stays is removed by the next sweep.
            let _ = self.sweep();
        }
    }

    /// Removes copies of executables that no function declares and no data plane runs. What cannot
    /// be removed stays.
    fn sweep(&self) -> Result<(), StoreError> {
        let _order = self.keeping.lock();
        let mut wanted: BTreeSet<String> = self.store.hashes()?.into_iter().collect();
        // Nearly always; what runs is not looked at then.
        if self.kept.unwanted(&wanted).is_ok_and(|unwanted| unwanted.is_empty()) {
            return Ok(());
        }
        // Where it is not known what runs, everything stays.
        let Ok(running) = self.planes.hashes() else { return Ok(()) };
        wanted.extend(running);
        let _ = self.kept.sweep(&wanted);
        Ok(())
    }

    /// Hands what is asked for to the data planes, if it changed since it was handed on.
    fn converge(&self, changed: bool) -> Result<(), StoreError> {
        let mut pending = self.pending.lock();
        *pending |= changed;
        if *pending {
            self.planes.converge(self.store.all()?);
            *pending = false;
        }
        Ok(())
    }

    /// The resource as it is asked for now, if it is.
    fn current<N: Name>(&self, name: &N) -> Result<Option<Generation<N::Spec>>, StoreError> {
        match self.store.get(name) {
            Ok(found) => Ok(Some(found)),
            Err(StoreError::NoResource { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Refuses a change of what is managed, or becomes so, on behalf of anybody else. It keeps people
/// from changes that are undone; it keeps nobody out, who may call.
fn may_change<S: Spec>(
    before: Option<&Generation<S>>,
    after: Option<&S>,
    options: &ChangeOptions<'_>,
) -> Result<(), ChangeError> {
    let before = before.and_then(|found| found.spec.as_ref());
    let owners = before.into_iter().chain(after).filter_map(Spec::managed_by);
    match owners.into_iter().find(|owner| options.managed_by != Some(owner)) {
        Some(owner) => Err(ChangeError::Managed(owner.to_owned())),
        None => Ok(()),
    }
}

/// What was asked for.
fn asked<S: Spec>(found: Option<&Generation<S>>) -> Option<&S> {
    found.and_then(|found| found.spec.as_ref())
}

/// How a change differs from what was.
fn difference<N: Name>(
    name: &N,
    old: Option<&Generation<N::Spec>>,
    new: Option<&N::Spec>,
) -> String {
    let title = old.map_or("not declared".to_owned(), |old| format!("generation {}", old.number));
    diff((&title, old.and_then(|old| old.spec.as_ref())), (name.as_str(), new))
}
