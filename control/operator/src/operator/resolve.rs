//! What a chain asks for, with the functions that it names.

use thruway_manager::FunctionUse;

use super::World;
use crate::names::Key;
use crate::resource::{
    ChainPlacementSpec, ChainReference, DeclaredFunction, DeclaredGroup, FunctionVersion,
    PlacementRules, ServiceChain,
};

/// Why a chain is not accepted: a word for programs, a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The word.
    pub reason: &'static str,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Refusal {
    fn new(reason: &'static str, message: String) -> Refusal {
        Refusal { reason, message }
    }
}

/// What a host is to run of a chain.
///
/// # Errors
/// The chain names what is not there, or its own name is too long.
pub fn resolve(
    key: &Key,
    chain: &ServiceChain,
    world: &World,
) -> Result<ChainPlacementSpec, Refusal> {
    key.local().map_err(|why| Refusal::new("NameTooLong", why))?;
    let spec = &chain.spec;
    let mut declared: Vec<DeclaredFunction> = Vec::new();
    let mut functions = std::collections::BTreeMap::new();
    for (variable, text) in &spec.functions {
        let (local, function) = find(key, variable, text, world)?;
        let arguments = text.split_once(' ').map_or("", |(_, arguments)| arguments.trim());
        functions.insert(variable.clone(), format!("{local} {arguments}").trim().to_owned());
        if declared.iter().all(|one| one.name != local) {
            declared.push(DeclaredFunction {
                name: local,
                path: function.path.clone(),
                sha256: function.sha256.clone(),
                limits: function.limits.clone().unwrap_or_default(),
            });
        }
    }
    let groups = spec.groups.iter().map(|name| group(key, name, world));
    let groups = groups.collect::<Result<Vec<_>, _>>()?;
    let PlacementRules { on_host_loss, .. } = spec.placement;
    Ok(ChainPlacementSpec {
        chain: ChainReference {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            generation: chain.metadata.generation.unwrap_or_default(),
        },
        configuration: spec.configuration.clone(),
        variables: spec.variables.clone(),
        functions,
        function_replicas: spec.function_replicas.clone(),
        on_demand: spec.on_demand.clone(),
        declared,
        groups,
        threads: spec.threads,
        stopped: spec.stopped,
        drain: false,
        drain_seconds: spec.drain_seconds,
        on_host_loss,
    })
}

/// A group that a chain names, as hosts have it. Members that nobody declares are left out: the
/// group's own condition says so.
fn group(chain: &Key, name: &str, world: &World) -> Result<DeclaredGroup, Refusal> {
    let key = Key::new(&chain.namespace, name);
    let Some(group) = world.groups.get(&key) else {
        let message = format!(
            "groups: namespace {} has no TrustGroup '{name}'; declare it, or use one of: {}",
            chain.namespace,
            listed(here(world.groups.keys(), chain))
        );
        return Err(Refusal::new("GroupUnknown", message));
    };
    let local = |member: &String| {
        let (function, version) = world.version(&chain.namespace, member)?;
        Some(format!("{}@{}", function.local().ok()?, version.version))
    };
    let functions = group.spec.functions.iter().filter_map(local).collect();
    let name = key.local().map_err(|why| Refusal::new("NameTooLong", format!("groups: {why}")))?;
    Ok(DeclaredGroup { name, functions })
}

/// The names in the namespace of a chain.
fn here<'a>(all: impl Iterator<Item = &'a Key>, chain: &Key) -> Vec<String> {
    all.filter(|one| one.namespace == chain.namespace).map(|one| one.name.clone()).collect()
}

fn listed(names: Vec<String>) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The version that a chain uses by a variable, with its name on hosts.
fn find<'a>(
    chain: &Key,
    variable: &str,
    text: &str,
    world: &'a World,
) -> Result<(String, &'a FunctionVersion), Refusal> {
    let used = FunctionUse::parse(text).map_err(|error| {
        Refusal::new("FunctionMalformed", format!("functions.{variable}: {error}"))
    })?;
    let name = Key::new(&chain.namespace, used.name.function());
    let unknown = |what: String, known: Vec<String>| {
        let known = listed(known);
        let message = format!(
            "functions.{variable}: {what}; declare it as a NetworkFunction, or use one of: {known}"
        );
        Refusal::new("FunctionUnknown", message)
    };
    let Some(function) = world.functions.get(&name) else {
        let what = format!("namespace {} has no function '{}'", chain.namespace, name.name);
        return Err(unknown(what, here(world.functions.keys(), chain)));
    };
    let versions = &function.spec.versions;
    let Some(version) = versions.iter().find(|one| one.version == used.name.version()) else {
        let known = versions.iter().map(|one| format!("{}@{}", name.name, one.version));
        let what = format!("function '{}' has no version '{}'", name.name, used.name.version());
        return Err(unknown(what, known.collect()));
    };
    let local = name
        .local()
        .map_err(|why| Refusal::new("NameTooLong", format!("functions.{variable}: {why}")))?;
    Ok((format!("{local}@{}", version.version), version))
}
