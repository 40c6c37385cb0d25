//! What is kept of a data plane across ends of the manager.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files;
use crate::kept::Kept;
use crate::replicas::Layout;
use crate::{ChainSpec, FunctionName, FunctionSpec, GroupName, GroupSpec, Run};

/// The directory of a chain, and the names in it.
#[derive(Debug, Clone)]
pub(super) struct ChainDir(PathBuf);

/// Files that the manager makes; with the chain, these go, and nothing else.
const OURS: &[&str] = &[
    "record.json",
    "record.new",
    "chain.click",
    "chain.new",
    "variables.json",
    "variables.new",
    "log",
    "log.1",
    "log.new",
    "control.sock",
    // Last: what is left half removed is removed by the next manager.
    "deleted",
];

impl ChainDir {
    /// That of chain `name`, below the directory of all chains.
    pub(super) fn new(chains: &Path, name: &str) -> ChainDir {
        ChainDir(chains.join(name))
    }

    /// The directory itself.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The record.
    pub(super) fn record(&self) -> PathBuf {
        self.0.join("record.json")
    }

    /// The configuration that the data plane reads.
    pub(super) fn configuration(&self) -> PathBuf {
        self.0.join("chain.click")
    }

    /// The variables that the data plane reads.
    pub(super) fn variables(&self) -> PathBuf {
        self.0.join("variables.json")
    }

    /// The output of the data plane.
    pub(super) fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    /// The control socket of the data plane.
    pub(super) fn socket(&self) -> PathBuf {
        self.0.join("control.sock")
    }

    /// Marks the chain as one that is being deleted, so that the next manager goes on with it. A
    /// chain without a directory needs no mark. Nothing waits for the disk: after a loss of power
    /// no data plane runs.
    ///
    /// # Errors
    /// The file system refuses.
    pub(super) fn mark_deleted(&self) -> Result<()> {
        match files::touch(&self.0.join("deleted")) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Takes the mark away.
    ///
    /// # Errors
    /// The file system refuses.
    pub(super) fn unmark_deleted(&self) -> Result<()> {
        match std::fs::remove_file(self.0.join("deleted")) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether it is marked.
    pub(super) fn is_deleted(&self) -> bool {
        self.0.join("deleted").symlink_metadata().is_ok()
    }

    /// Writes what the data plane reads.
    ///
    /// # Errors
    /// The file system refuses.
    pub(super) fn write_configuration(&self, run: &Run, kept: &Kept) -> Result<()> {
        let variables = run.variables(|function| kept.path(function));
        files::replace_changed(&self.configuration(), run.configuration().as_bytes())?;
        files::replace_changed(&self.variables(), &serde_json::to_vec(&variables)?)
    }

    /// Removes what the manager made; the directory stays where there is something else in it.
    ///
    /// # Errors
    /// The file system refuses, or something else is in it.
    pub(super) fn remove(&self) -> Result<()> {
        for name in OURS {
            match std::fs::remove_file(self.0.join(name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match std::fs::remove_dir(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

/// Which process it is, beyond its number, which another one gets some day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {
    /// Its number.
    pub(super) pid: u32,
    /// When it started, in clock ticks since boot: field 22 of `/proc/PID/stat`, proc(5).
    pub(super) start_ticks: u64,
    /// Which boot: `/proc/sys/kernel/random/boot_id`.
    pub(super) boot: String,
    /// Device and inode of its executable.
    pub(super) executable: Option<(u64, u64)>,
}

/// What is kept of a data plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    /// The process; `None` while none runs, or one is about to be started.
    pub(super) process: Option<Identity>,
    /// Generation of `spec`.
    pub(super) generation: u64,
    /// What the process runs.
    pub(super) spec: ChainSpec,
    /// Versions of functions that it uses, as they were declared then.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) functions: BTreeMap<FunctionName, FunctionSpec>,
    /// Its groups of trust, as they were declared then.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) groups: BTreeMap<GroupName, GroupSpec>,
    /// Replicas of functions as they are to stand, by variable.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) replicas: BTreeMap<String, Layout>,
    /// Functions on demand that are to run, by variable.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) deployed: BTreeSet<String>,
    /// Whether it may refuse new sessions, as it is to drain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) draining: bool,
    /// Whether another configuration is about to take over: then nobody knows which one runs.
    pub(super) swapping: bool,
    /// Times that it was started again.
    pub(super) restarts: u32,
}

impl Record {
    /// Of a process that runs this, or is about to.
    pub(super) fn new(generation: u64, run: Run, restarts: u32) -> Record {
        let Run { spec, functions, groups } = run;
        Record {
            process: None,
            generation,
            spec,
            functions,
            groups,
            replicas: BTreeMap::new(),
            deployed: BTreeSet::new(),
            draining: false,
            swapping: false,
            restarts,
        }
    }

    /// What the process runs.
    pub(super) fn run(&self) -> Run {
        let Record { spec, functions, groups, .. } = self.clone();
        Run { spec, functions, groups }
    }

    /// Reads the record of a chain; `None` if there is none.
    ///
    /// # Errors
    /// It is there and cannot be used, with the reason.
    pub(super) fn read(dir: &ChainDir) -> Result<Option<Record>> {
        let path = dir.record();
        let bytes = match files::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| Error::other(format!("{}: {error}", path.display())))
    }

    /// Writes it.
    ///
    /// # Errors
    /// The file system refuses; the old record is as it was.
    pub(super) fn write(&self, dir: &ChainDir) -> Result<()> {
        files::replace(&dir.record(), &serde_json::to_vec(self)?)
    }
}
