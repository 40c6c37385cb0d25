//! What the manager would do to make a chain as another specification says.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ChainSpec;
use crate::replicas::ReplicasSpec;

/// One thing that the manager would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// What: `Start`, `Stop`, `Drain`, `EndDrain`, `HotSwap`, `RollOut`, or `Scale`.
    pub action: String,
    /// What of it matters, one sentence for people.
    pub message: String,
}

fn step(action: &str, message: impl Into<String>) -> Step {
    Step { action: action.to_owned(), message: message.into() }
}

/// What the manager would do to a chain that is as `before` says (`None`: it is not declared).
pub fn steps(before: Option<&ChainSpec>, after: Option<&ChainSpec>) -> Vec<Step> {
    let runs = |spec: &Option<&ChainSpec>| spec.is_some_and(|spec| !spec.stopped);
    match (before.filter(|_| runs(&before)), after.filter(|_| runs(&after))) {
        (None, None) => Vec::new(),
        (None, Some(after)) => vec![step("Start", start(after))],
        (Some(_), None) => vec![step("Stop", "its data plane ends, and its sessions with it")],
        (Some(before), Some(after)) => {
            let drains = (before.drain != after.drain).then(|| drain(after.drain));
            drains.into_iter().chain(changes(before, after)).collect()
        }
    }
}

fn drain(is_draining: bool) -> Step {
    match is_draining {
        true => step(
            "Drain",
            "no more sessions begin, and its data plane ends when the last one has; if it is the \
             active host of a pair, the other one takes over",
        ),
        false => step("EndDrain", "sessions begin again; a data plane that has ended is started"),
    }
}

fn start(spec: &ChainSpec) -> String {
    let threads = match (&spec.cores, spec.threads) {
        (Some(cores), _) => format!("on cores {cores}"),
        (None, threads) => format!("with {} threads", threads.unwrap_or(1)),
    };
    format!("a data plane begins {threads}")
}

fn changes(before: &ChainSpec, after: &ChainSpec) -> Vec<Step> {
    let mut steps = Vec::new();
    if is_swap(before, after) {
        steps.push(step("HotSwap", swap(before, after)));
    }
    for (variable, replicas) in &after.replicas {
        let Some(old) = before.replicas.get(variable) else { continue };
        let versions = [before, after].map(|spec| spec.functions.get(variable));
        if let [Some(from), Some(to)] = versions
            && from != to
        {
            let how = path(replicas);
            steps.push(step("RollOut", format!("{variable}: from {from} to {to}: {how}")));
        }
        let counts = [old, replicas].map(count);
        if counts[0] != counts[1] {
            let message = format!("{variable}: from {} to {} replicas", counts[0], counts[1]);
            steps.push(step("Scale", message));
        }
    }
    steps
}

/// Whether the configuration changes by more than replicas do by themselves.
fn is_swap(before: &ChainSpec, after: &ChainSpec) -> bool {
    let written = |spec: &ChainSpec| {
        spec.replicas.keys().chain(spec.on_demand.keys()).cloned().collect::<BTreeSet<_>>()
    };
    let others = |spec: &ChainSpec| {
        let functions = spec.functions.clone().into_iter();
        functions.filter(|(name, _)| !spec.replicas.contains_key(name)).collect::<Vec<_>>()
    };
    before.configuration != after.configuration
        || before.variables != after.variables
        || before.groups != after.groups
        || before.moves_threads(after)
        || written(before) != written(after)
        || others(before) != others(after)
}

fn swap(before: &ChainSpec, after: &ChainSpec) -> String {
    let is_other = |name: &&String| {
        let used = [before, after].map(|spec| spec.functions.get(*name));
        let has = [before, after].map(|spec| spec.replicas.contains_key(*name));
        used[0].is_some() && (used[0] != used[1] && !has[1] || has[0] != has[1])
    };
    let anew: Vec<&str> = before.functions.keys().filter(is_other).map(String::as_str).collect();
    let mut kept =
        "the data plane takes the configuration over while packets flow; sessions stay".to_owned();
    if before.moves_threads(after) {
        let cores = after.cores.as_deref().unwrap_or("that it chooses");
        kept = match (before.threads(), after.threads()) {
            (old, new) if old == new => format!("{kept}; its threads move to the cores {cores}"),
            (old, new) => format!(
                "{kept}; it goes from {old} to {new} threads, on the cores {cores}, unless one of \
                 its elements forbids that: then the data plane keeps its threads, and the \
                 condition says RestartNeeded and why"
            ),
        };
    }
    match anew.is_empty() {
        true => kept,
        false => format!("{kept}, but functions begin anew: {}", anew.join(", ")),
    }
}

fn path(replicas: &ReplicasSpec) -> String {
    let Some(canary) = replicas.canary() else {
        return "sessions move as soon as it runs".to_owned();
    };
    let steps: Vec<String> = canary.steps.iter().map(|percent| format!("{percent} %")).collect();
    format!("{} of new sessions for {:?} each, then all", steps.join(", "), canary.window)
}

fn count(replicas: &ReplicasSpec) -> String {
    match replicas.scaling() {
        Some(scaling) => format!("{} to {}", scaling.min, scaling.max),
        None => replicas.count_at_first().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: &str) -> ChainSpec {
        serde_json::from_str(json).expect("a chain")
    }

    fn actions(before: Option<&ChainSpec>, after: Option<&ChainSpec>) -> Vec<String> {
        steps(before, after).into_iter().map(|step| step.action).collect()
    }

    #[test]
    fn each_change_has_its_steps() {
        let plain = spec(r#"{"configuration": "a"}"#);
        assert_eq!(actions(None, Some(&plain)), ["Start"]);
        assert_eq!(actions(Some(&plain), None), ["Stop"]);
        assert_eq!(actions(Some(&plain), Some(&plain)), [""; 0]);
        let stopped = ChainSpec { stopped: true, ..plain.clone() };
        assert_eq!(actions(Some(&plain), Some(&stopped)), ["Stop"]);
        assert_eq!(actions(None, Some(&stopped)), [""; 0]);
        let other = spec(r#"{"configuration": "b", "threads": 2}"#);
        assert_eq!(actions(Some(&plain), Some(&other)), ["HotSwap"]);
        let drained = spec(r#"{"configuration": "b", "drain": true}"#);
        assert_eq!(actions(Some(&plain), Some(&drained)), ["Drain", "HotSwap"]);
        assert_eq!(actions(Some(&drained), Some(&plain)), ["EndDrain", "HotSwap"]);
        let moved = spec(r#"{"configuration": "a", "cores": "3"}"#);
        let found = steps(Some(&plain), Some(&moved));
        assert_eq!(found.len(), 1);
        assert!(found[0].message.ends_with("move to the cores 3"), "{found:?}");
        let wider = spec(r#"{"configuration": "a", "cores": "2-3"}"#);
        assert_eq!(actions(Some(&moved), Some(&wider)), ["HotSwap"]);
        let found = steps(Some(&moved), Some(&wider));
        assert!(found[0].message.contains("from 1 to 2 threads, on the cores 2-3"), "{found:?}");

        let one = spec(
            r#"{"configuration": "a", "functions": {"w": "w@1", "x": "x@1"},
            "replicas": {"w": {"count": 2, "canary": {}}}}"#,
        );
        let with = |variable: &str, version: &str| {
            let mut with = one.clone();
            let used = crate::FunctionUse::parse(version).expect("a use");
            with.functions.insert(variable.to_owned(), used);
            with
        };
        let found = steps(Some(&one), Some(&with("w", "w@2")));
        assert_eq!(found.len(), 1);
        let expected = "w: from w@1 to w@2: 10 %, 50 % of new sessions for 30s each, then all";
        assert_eq!((&*found[0].action, &*found[0].message), ("RollOut", expected));
        let found = steps(Some(&one), Some(&with("x", "x@2")));
        assert!(found[0].message.ends_with("begin anew: x"), "{found:?}");
        let mut scaled = one.clone();
        scaled.replicas.insert("w".to_owned(), ReplicasSpec::default());
        let found = steps(Some(&one), Some(&scaled));
        assert_eq!(found, [step("Scale", "w: from 2 to 1 replicas")]);
        let bare = ChainSpec { replicas: [].into(), ..one.clone() };
        let found = steps(Some(&one), Some(&bare));
        assert!(found[0].message.ends_with("begin anew: w"), "{found:?}");
    }
}
