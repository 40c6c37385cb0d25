//! What an operator declares, what is observed of it, and who makes the two equal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::kind::{CheckError, Name, Reference, ResourceKind, Spec};
use crate::on_demand::OnDemandSpec;
use crate::replicas::{ReplicasSpec, ReplicasStatus};
use crate::{ChainName, FunctionName, FunctionSpec, FunctionUse, GroupName, GroupSpec, NameError};

/// Functions that a chain uses, at most.
pub const FUNCTIONS_MAX: usize = 64;

/// A chain as an operator declares it. `{"configuration": "..."}` is enough.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChainSpec {
    /// Text in the Click language.
    pub configuration: String,
    /// Values of the configuration's variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Versions of functions that it uses, each by a variable that an element `Nf` has as its first
    /// argument: with `words: "words@1.0 attack hug"`, `Nf($words)` runs the declared executable
    /// with these arguments, within the limits of that version.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub functions: BTreeMap<String, FunctionUse>,
    /// Replicas of functions, by their variables in `functions`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replicas: BTreeMap<String, ReplicasSpec>,
    /// Functions that run only while they are needed, by their variables in `functions`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub on_demand: BTreeMap<String, OnDemandSpec>,
    /// Groups of trust. A function runs in the first of these that names its version: it shares
    /// memory with the chain's other functions of that group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub groups: Vec<GroupName>,
    /// Threads, 1 to 256; as many as `cores` names, else one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u16>,
    /// Cores of the threads, one each, in order: `2-5,8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<String>,
    /// Whether the chain is declared but not run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// Whether no more sessions are to begin, and the chain is stopped when the last one has ended;
    /// a host of a pair (`Replicate`) has the other one take over, and is stopped then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drain: bool,
    /// Who asks for it and alone changes it, as `cluster`; anybody, if nobody is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
}

impl ChainSpec {
    /// Number of its threads.
    pub fn threads(&self) -> usize {
        let named = || self.cores.as_deref().map_or(1, count);
        self.threads.map_or_else(named, usize::from)
    }

    /// Whether a data plane that turns from this to `other` moves its threads to other cores, or
    /// has more or fewer of them.
    pub fn moves_threads(&self, other: &ChainSpec) -> bool {
        self.threads() != other.threads() || self.cores != other.cores
    }

    /// Whether the variables of its functions are names that are free.
    ///
    /// # Errors
    /// There are too many, or one is no name of a variable or is given a value, too.
    pub fn check_functions(&self) -> Result<(), CheckError> {
        let count = self.functions.len();
        if count > FUNCTIONS_MAX {
            let message =
                format!("a chain uses at most {FUNCTIONS_MAX} functions, this one {count}");
            return Err(CheckError::new("functions", message));
        }
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        for variable in self.functions.keys() {
            let field = format!("functions.{variable}");
            if variable.is_empty() || !variable.bytes().all(good) {
                let name = variable.escape_debug();
                let message = format!("'{name}' names no variable; use letters, digits and _");
                return Err(CheckError::new(field, message));
            }
            if self.variables.contains_key(variable) {
                let message = format!("'{variable}' is one of `variables`, too; rename one");
                return Err(CheckError::new(field, message));
            }
        }
        Ok(())
    }
}

/// How many cores a list names (`2-5,8`); a part that is none counts as one.
fn count(cores: &str) -> usize {
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let of = |part: &str| {
        let (first, last) = part.split_once('-')?;
        Some(number(last)?.checked_sub(number(first)?)?.saturating_add(1))
    };
    cores.split(',').fold(0, |sum, part| sum.saturating_add(of(part).unwrap_or(1)))
}

impl Name for ChainName {
    type Spec = ChainSpec;

    fn parse(text: &str) -> Result<ChainName, NameError> {
        ChainName::new(text)
    }

    fn as_str(&self) -> &str {
        self.as_str()
    }
}

impl Spec for ChainSpec {
    type Name = ChainName;

    const KIND: ResourceKind = ResourceKind::Chain;

    /// A field each, then the configuration, indented.
    fn lines(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        if let Some(owner) = &self.managed_by {
            let _ = writeln!(text, "managed_by: {owner}");
        }
        if let Some(threads) = self.threads {
            let _ = writeln!(text, "threads: {threads}");
        }
        if let Some(cores) = &self.cores {
            let _ = writeln!(text, "cores: {cores:?}");
        }
        if self.stopped {
            text += "stopped: true\n";
        }
        if self.drain {
            text += "drain: true\n";
        }
        if !self.variables.is_empty() {
            text += "variables:\n";
        }
        for (name, value) in &self.variables {
            let _ = writeln!(text, "  {name}: {value:?}");
        }
        if !self.functions.is_empty() {
            text += "functions:\n";
        }
        for (variable, used) in &self.functions {
            let _ = writeln!(text, "  {variable}: {:?}", used.to_string());
        }
        if !self.groups.is_empty() {
            text += "groups:\n";
        }
        for group in &self.groups {
            let _ = writeln!(text, "- {group}");
        }
        if !self.replicas.is_empty() {
            text += "replicas:\n";
        }
        for (variable, replicas) in &self.replicas {
            let value = serde_json::to_string(replicas).unwrap_or_default();
            let _ = writeln!(text, "  {variable}: {value}");
        }
        if !self.on_demand.is_empty() {
            text += "on_demand:\n";
        }
        for (variable, policy) in &self.on_demand {
            let value = serde_json::to_string(policy).unwrap_or_default();
            let _ = writeln!(text, "  {variable}: {value}");
        }
        text += "configuration:\n";
        for line in self.configuration.lines() {
            let _ = writeln!(text, "  {line}");
        }
        text
    }

    fn managed_by(&self) -> Option<&str> {
        self.managed_by.as_deref()
    }

    fn references(&self) -> Vec<Reference> {
        let reference = |(variable, used): (&String, &FunctionUse)| Reference {
            field: format!("functions.{variable}"),
            kind: ResourceKind::Function,
            name: used.name.to_string(),
        };
        let of_group = |(at, group): (usize, &GroupName)| Reference {
            field: format!("groups[{at}]"),
            kind: ResourceKind::Group,
            name: group.to_string(),
        };
        let groups = self.groups.iter().enumerate().map(of_group);
        self.functions.iter().map(reference).chain(groups).collect()
    }
}

/// What a data plane runs: a chain, and the versions of functions and the groups that it uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Run {
    /// The chain.
    pub spec: ChainSpec,
    /// Each version that it uses, as it is declared.
    pub functions: BTreeMap<FunctionName, FunctionSpec>,
    /// Each of its groups, as it is declared.
    pub groups: BTreeMap<GroupName, GroupSpec>,
}

impl Run {
    /// The group that a version runs in, if any.
    pub fn group_of(&self, version: &FunctionName) -> Option<&GroupName> {
        let mut groups = self.spec.groups.iter();
        groups.find(|name| self.groups.get(name).is_some_and(|group| group.has(version)))
    }

    /// The groups that functions of the chain run in.
    pub fn groups_in_use(&self) -> BTreeSet<&GroupName> {
        self.spec.functions.values().filter_map(|used| self.group_of(&used.name)).collect()
    }

    /// The configuration, with each group that functions run in as an element behind it.
    pub fn configuration(&self) -> String {
        let groups = self.groups_in_use().into_iter();
        let declarations = groups.map(|group| format!("\nTrustGroup({group});"));
        self.spec.configuration.clone() + &declarations.collect::<String>()
    }

    /// Values of all variables of the configuration: those that are given, and one for each
    /// function. `program` tells the path of a version's executable.
    pub fn variables(
        &self,
        program: impl Fn(&FunctionSpec) -> PathBuf,
    ) -> BTreeMap<String, String> {
        let mut variables = self.spec.variables.clone();
        for (variable, used) in &self.spec.functions {
            if let Some(function) = self.functions.get(&used.name) {
                let program = program(function);
                let mut text = used.text(&program.to_string_lossy(), function);
                if let Some(group) = self.group_of(&used.name) {
                    // Writing to a String does not fail.
                    let _ = write!(text, ", MODE group, GROUP {group}");
                }
                variables.insert(variable.clone(), text);
            }
        }
        variables
    }
}

impl From<ChainSpec> for Run {
    /// A chain that uses no function.
    fn from(spec: ChainSpec) -> Run {
        Run { spec, ..Run::default() }
    }
}

/// A chain as the store hands it to whoever runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Name of the chain: a DNS label (RFC 1123 section 2.1).
    pub name: String,
    /// Number of the specification; it grows by one with each change.
    pub generation: u64,
    /// What is to run.
    pub run: Run,
}

/// What is observed of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ChainStatus {
    /// Generation of the specification that the data plane runs; 0 if none does.
    pub observed_generation: u64,
    /// Process of the data plane, while there is one.
    pub pid: Option<u32>,
    /// Unix socket of the data plane's handlers.
    pub control: Option<String>,
    /// Times that the data plane was started again after it ended by itself.
    pub restarts: u32,
    /// What holds of the chain now, one entry for each kind.
    pub conditions: Vec<Condition>,
    /// Replicas of functions, where some are declared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<ReplicasStatus>,
}

/// One statement about a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Condition {
    /// What the statement is about.
    pub kind: ConditionKind,
    /// Whether it holds.
    pub holds: bool,
    /// Why, one word in `CamelCase` for programs: `Started`, `CrashLoop`, `ConfigurationRefused`.
    pub reason: String,
    /// Why, one sentence for people.
    pub message: String,
    /// Since when `holds` is as it is (RFC 3339).
    #[serde(with = "crate::timestamp")]
    #[schema(value_type = String, format = DateTime)]
    pub since: SystemTime,
}

/// What a condition is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ConditionKind {
    /// The data plane runs and answers.
    Ready,
    /// The data plane runs the specification that is asked for.
    UpToDate,
    /// As many replicas of functions as are wanted have sessions.
    Scaled,
    /// All replicas run the versions that are asked for.
    RolledOut,
    /// Functions on demand run while they are needed, and only then.
    OnDemand,
    /// A chain that is to drain has no sessions any more, and does not run.
    Drained,
    /// The executable of a function is there.
    Present,
    /// The executable is the declared one, and nobody else can change it; of a group, those of all
    /// its functions are.
    Verified,
    /// A copy of the declared executable of a function is kept: chains run that one.
    Kept,
}

/// Something that happened to a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// When (RFC 3339).
    #[serde(with = "crate::timestamp")]
    #[schema(value_type = String, format = DateTime)]
    pub time: SystemTime,
    /// Name of the chain.
    pub chain: String,
    /// What happened, one word in `CamelCase`: `Started`, `Adopted`, `Exited`, `Swapped`.
    pub reason: String,
    /// What happened, one sentence for people.
    pub message: String,
}

/// Why a data plane did not answer.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// No chain of that name runs.
    #[error("chain '{0}' does not run")]
    NotRunning(String),
    /// The data plane refused, or could not be reached.
    #[error("{0}")]
    Refused(String),
    /// What was asked for cannot be found out here.
    #[error("{0}")]
    NoReport(String),
}

/// A part of a chain's output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogPart {
    /// What was written.
    pub text: Vec<u8>,
    /// Position behind it, in all that was written.
    pub next: u64,
    /// Whether there was more before it that is not given: it is not kept, or it is too long.
    pub is_cut: bool,
}

/// Who runs the chains of this host.
pub trait DataPlanes: Send + Sync {
    /// Makes what runs equal to `asked`: starts, changes and ends data planes. Returns at once;
    /// what comes of it is told by [`DataPlanes::status`] and by events.
    fn converge(&self, asked: Vec<Asked>);

    /// What is observed of a chain; `None` if none of that name is asked for or runs.
    fn status(&self, chain: &str) -> Option<ChainStatus>;

    /// The program `thruway` that runs chains, where there is one.
    fn program(&self) -> Option<&Path> {
        None
    }

    /// Reads a handler of a chain: `threads`, `c0.count`. Waits for the data plane, at most two
    /// seconds.
    ///
    /// # Errors
    /// [`PlaneError`].
    fn read(&self, chain: &str, handler: &str) -> Result<String, PlaneError>;

    /// Reads handlers of a chain in turn; `None` for each that is refused. Waits as
    /// [`DataPlanes::read`] does, for all together.
    ///
    /// # Errors
    /// [`PlaneError`], if the data plane does not answer.
    fn read_each(
        &self,
        chain: &str,
        handlers: &[String],
    ) -> Result<Vec<Option<String>>, PlaneError>;

    /// Writes a handler of a chain. Waits as [`DataPlanes::read`] does.
    ///
    /// # Errors
    /// [`PlaneError`].
    fn write(&self, chain: &str, handler: &str, value: &str) -> Result<(), PlaneError>;

    /// What a chain wrote to its output and its errors from a position on (0: from the first byte
    /// on), but at most its last `len_max` bytes. Nothing was written by a chain that never ran.
    ///
    /// # Errors
    /// It cannot be read.
    fn log(&self, chain: &str, from: u64, len_max: u64) -> io::Result<LogPart>;

    /// Hashes of the executables of functions that data planes were started with, in hexadecimal
    /// digits: they may be started again.
    ///
    /// # Errors
    /// It is not known.
    fn hashes(&self) -> io::Result<BTreeSet<String>> {
        Ok(BTreeSet::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_as_many_as_said_or_as_cores_are_named() {
        let threads =
            |json: &str| serde_json::from_str::<ChainSpec>(json).expect("a chain").threads();
        assert_eq!(threads(r#"{"configuration": "a"}"#), 1);
        assert_eq!(threads(r#"{"configuration": "a", "cores": "2-5,8"}"#), 5);
        assert_eq!(threads(r#"{"configuration": "a", "cores": "2-5,8", "threads": 2}"#), 2);
        assert_eq!(threads(r#"{"configuration": "a", "cores": "5-2,x"}"#), 2);
    }
}
