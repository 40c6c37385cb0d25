//! Every registered element has its manual, an example that is a correct configuration, its file
//! and its golden test.

use thruway_element::{Entry, Replicas, Spec, Threading, Topic};
use thruway_elements::CATALOG;
use thruway_lang::{NoLibraries, Source, Variables};

use crate::{Problem, Tree};

/// Where elements live, from the root.
const ELEMENTS: &str = "dataplane/elements";

/// Folder of a topic.
fn folder(topic: Topic) -> &'static str {
    match topic {
        Topic::Sources => "sources/src",
        Topic::Counters => "counters/src",
        Topic::Control => "control/src",
        Topic::Captures => "captures/src",
        Topic::Devices => "devices/src",
        Topic::Queueing => "queueing/src",
        Topic::Ethernet => "ethernet/src",
        Topic::Ip => "ip/src",
        Topic::Ip6 => "ip/src/ip6",
        Topic::Hops => "hops/src",
        Topic::Sessions => "sessions/src",
        Topic::Streams => "streams/src",
        Topic::Rewriters => "sessions/src/rewriters",
        Topic::Nf => "nf/src",
        Topic::Faults => "faults/src",
    }
}

/// Elements with incomplete documentation in their specs.
pub fn undocumented() -> Vec<Problem> {
    CATALOG.entries().flat_map(|entry| undocumented_in(&entry.spec)).collect()
}

fn undocumented_in(spec: &Spec) -> Vec<Problem> {
    let mut missing = Vec::new();
    for (what, text) in [("summary", spec.summary), ("docs", spec.docs), ("example", spec.example)]
    {
        if text.trim().is_empty() {
            missing.push(format!("no {what}"));
        }
    }
    if spec.summary.ends_with('.') || spec.summary.contains('\n') {
        missing.push("the summary is one line without a full stop".into());
    }
    if spec.cost.is_empty() {
        missing.push("no cost in elementary operations (NOTHING_MORE, if dispatch is all)".into());
    }
    if spec.replicas == Replicas::Undeclared {
        missing.push("does not say what its replicas in several threads are (replicas)".into());
    }
    let docs = (spec.args.iter().map(|arg| ("argument", arg.name, arg.doc)))
        .chain(spec.drops.iter().map(|drop| ("drop reason", drop.name, drop.doc)))
        .chain(spec.handlers.iter().map(|handler| ("handler", handler.name, handler.doc)))
        .chain(spec.aliases.iter().map(|alias| ("alias", alias.name, alias.summary)));
    for (sort, name, doc) in docs {
        if doc.trim().is_empty() {
            missing.push(format!("{sort} {name} has no doc"));
        }
    }
    for drop in spec.drops.iter().filter(|drop| !is_kebab(drop.name)) {
        missing.push(format!("drop reason '{}' is not kebab-case", drop.name));
    }
    for (at, handler) in spec.handlers.iter().enumerate() {
        // The first one answers all calls: what the second can do nobody reaches.
        if spec.handlers[..at].iter().any(|before| before.name == handler.name) {
            missing.push(format!("handler {} is there twice; declare one for both", handler.name));
        }
    }
    let problem = |what| Problem::new(spec.name, what, "complete its Spec (CONTRIBUTING.md)");
    missing.into_iter().map(problem).collect()
}

fn is_kebab(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// Elements with contradictory statements about replicas in their specs.
pub fn impossible_replicas() -> Vec<Problem> {
    CATALOG.entries().filter_map(impossible_replicas_of).collect()
}

fn impossible_replicas_of(entry: &Entry) -> Option<Problem> {
    let spec = &entry.spec;
    let (inputs, outputs) = spec.ports.split_once('/').unwrap_or((spec.ports, ""));
    let (takes, gives) = spec.processing.split_once('/').unwrap_or((spec.processing, "a"));
    // Nobody brings it packets: there is no input, or its own task or timers pull there.
    let only_pulls = inputs == "0" || takes.chars().all(|code| code == 'l');
    // One output has one puller, which is in one thread unless others pull there.
    let from_nobody = !gives.contains('l') || inputs == "0" && outputs == "1";
    let what = match spec.replicas {
        Replicas::Single if !only_pulls || !from_nobody => {
            "says that it is in one thread, but others may bring or take its packets"
        }
        Replicas::Single
            if entry.shares.is_some() || spec.threading == Threading::TaskPerThread =>
        {
            "says that it is in one thread, but its task is in several"
        }
        Replicas::Alike if spec.wants.session.is_some() => {
            "says that its replicas keep nothing, but has state for sessions"
        }
        Replicas::Alike if spec.threading.has_task() && !spec.threading.task_only_pulls() => {
            "says that its replicas keep nothing, but has a task"
        }
        _ => return None,
    };
    Some(Problem::new(spec.name, what, "correct the replicas of its Spec"))
}

/// Examples that are no correct configuration.
pub fn wrong_examples() -> Vec<Problem> {
    CATALOG.entries().flat_map(|entry| wrong_example(&entry.spec)).collect()
}

fn wrong_example(spec: &Spec) -> Option<Problem> {
    let source = Source::new(format!("example of {}", spec.name), spec.example);
    let errors =
        thruway_lang::load(source, &CATALOG, &Variables::new(), &NoLibraries).err()?.render(false);
    Some(Problem::new(spec.name, format!("its example is wrong:\n{errors}"), "correct the example"))
}

/// Configurations under `examples` that are not correct or not in the standard layout.
pub fn wrong_configurations(tree: &Tree) -> Vec<Problem> {
    let files = tree
        .files
        .iter()
        .filter(|(path, _)| path.starts_with("examples/") && path.ends_with(".click"));
    files.filter_map(|(path, text)| wrong_configuration(path, text)).collect()
}

fn wrong_configuration(path: &str, text: &str) -> Option<Problem> {
    let source = || Source::new(path, text);
    match thruway_lang::load(source(), &CATALOG, &Variables::new(), &NoLibraries) {
        Err(errors) => return Some(Problem::new(path, errors.render(false), "correct it")),
        Ok(loaded) if !loaded.warnings.is_empty() => {
            let warnings = loaded.warnings.render(false);
            return Some(Problem::new(path, warnings, "do what the warning says"));
        }
        Ok(_) => {}
    }
    let is_standard = thruway_lang::format(&source()).is_ok_and(|standard| standard == text);
    (!is_standard).then(|| {
        Problem::new(path, "not in the standard layout", format!("thruway fmt --write {path}"))
    })
}

/// Elements without source file or golden test where they belong.
pub fn misplaced(tree: &Tree) -> Vec<Problem> {
    CATALOG.entries().flat_map(|entry| misplaced_in(tree, &entry.spec)).collect()
}

fn misplaced_in(tree: &Tree, spec: &Spec) -> Option<Problem> {
    let folder = format!("{ELEMENTS}/{}/", folder(spec.topic));
    let declared = format!("name: \"{}\"", spec.name);
    let source = tree.sources().find(|(path, text)| {
        path.starts_with(&folder) && text.contains(&declared) && is_named_after(path, spec)
    });
    let Some((source, _)) = source else {
        return Some(Problem::new(
            spec.name,
            format!("no source file named after it in {folder}"),
            "one element, one file, in the folder of its topic, in snake case",
        ));
    };
    let test = source.trim_end_matches(".rs").trim_end_matches("/mod").to_owned() + ".clicktest";
    if tree.text(&test).is_some_and(|text| text.contains("%expect")) {
        return None;
    }
    let remedy = format!("write {test} with a %script and what to %expect (CONTRIBUTING.md)");
    Some(Problem::new(spec.name, "no golden test", remedy))
}

/// Whether the file has the name of the class or, where several classes are one idea, its end:
/// `ip_lookup.rs` holds DirectIPLookup, `tcp.rs` both ends of a context, TCPIn and TCPOut.
fn is_named_after(path: &str, spec: &Spec) -> bool {
    let stem = path.trim_end_matches(".rs").trim_end_matches("/mod");
    let stem = stem.rsplit('/').next().unwrap_or_default().replace('_', "");
    let name = spec.name.to_lowercase();
    let is_end = |end| name.strip_suffix(end).is_some_and(|name| name == stem);
    !stem.is_empty() && (name.ends_with(&stem) || is_end("in") || is_end("out"))
}

/// Lists that are not sorted, and names that stand for two things.
pub fn unsorted() -> Vec<Problem> {
    let mut problems: Vec<Problem> = CATALOG.0.iter().flat_map(|list| unsorted_in(list)).collect();
    let mut names: Vec<&str> = CATALOG.entries().flat_map(names_of).collect();
    names.sort_unstable();
    for pair in names.windows(2).filter(|pair| pair[0] == pair[1]) {
        problems.push(Problem::new(pair[0], "two elements of this name", "rename one"));
    }
    problems
}

fn names_of(entry: &'static Entry) -> impl Iterator<Item = &'static str> {
    entry.spec.aliases.iter().map(|alias| alias.name).chain([entry.spec.name])
}

fn unsorted_in(list: &[&Entry]) -> Vec<Problem> {
    let behind = list
        .windows(2)
        .filter(|pair| pair[0].spec.name.to_lowercase() > pair[1].spec.name.to_lowercase());
    let problem = |pair: &[&Entry]| {
        let what = format!("stands after {}", pair[0].spec.name);
        Problem::new(pair[1].spec.name, what, "sort the ELEMENTS list of its topic by name")
    };
    behind.map(problem).collect()
}

#[cfg(test)]
mod tests {
    use thruway_element::NOTHING_MORE;

    use super::*;

    use thruway_element::Handler;

    const GOOD: Spec = Spec {
        name: "CheckFoo",
        summary: "checks foo",
        docs: "Checks foo.",
        example: "Idle -> Discard",
        cost: NOTHING_MORE,
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    };

    #[test]
    fn a_spec_must_be_complete() {
        assert_eq!(undocumented_in(&GOOD), []);
        assert_eq!(undocumented_in(&Spec { docs: " ", ..GOOD }).len(), 1);
        assert_eq!(undocumented_in(&Spec { cost: &[], ..GOOD }).len(), 1);
        assert_eq!(undocumented_in(&Spec { replicas: Replicas::Undeclared, ..GOOD }).len(), 1);
        assert_eq!(undocumented_in(&Spec { summary: "checks foo.", ..GOOD }).len(), 1);
        const BAD: &[thruway_element::Drop] = &[thruway_element::Drop::new("Bad Length", "")];
        assert_eq!(undocumented_in(&Spec { drops: BAD, ..GOOD }).len(), 2);
        const TWICE: &[Handler] = &[Handler::read("active", "it is"), Handler::read("active", "-")];
        assert_eq!(undocumented_in(&Spec { handlers: TWICE, ..GOOD }).len(), 1);
    }

    #[test]
    fn what_is_said_of_replicas_must_be_possible() {
        let is_wrong = |spec| {
            let entry = Entry::new(spec, |_| unreachable!());
            impossible_replicas_of(&entry).is_some()
        };
        const SOURCE: Spec = Spec { ports: "0/1", replicas: Replicas::Single, ..GOOD };
        const TASK: Spec = Spec { threading: Threading::Task, ..SOURCE };
        assert!(!is_wrong(GOOD) && !is_wrong(SOURCE) && !is_wrong(TASK));
        assert!(!is_wrong(Spec { ports: "1/1", processing: "l/h", ..TASK }));
        assert!(is_wrong(Spec { ports: "1/1", processing: "l/l", ..SOURCE }));
        assert!(is_wrong(Spec { ports: "0-1/1", ..TASK }));
        assert!(is_wrong(Spec { threading: Threading::TaskPerThread, ..TASK }));
        assert!(is_wrong(Spec { replicas: Replicas::Alike, ..TASK }));
    }

    #[test]
    fn an_example_must_be_correct() {
        let good = "InfiniteSource(LIMIT 1) -> Discard";
        assert_eq!(wrong_example(&Spec { example: good, ..GOOD }), None);
        assert!(wrong_example(&Spec { example: "Infinite -> Discard", ..GOOD }).is_some());
    }

    #[test]
    fn a_configuration_must_be_correct_and_laid_out() {
        assert_eq!(wrong_configuration("a", "InfiniteSource -> Discard;\n"), None);
        assert!(wrong_configuration("a", "InfiniteSource   ->Discard;\n").is_some());
        assert!(wrong_configuration("a", "InfiniteSource -> Discarded;\n").is_some());
    }

    #[test]
    fn files_stand_where_they_belong() {
        let with = |paths: &[&str]| {
            let file = |path: &&str| {
                let text = "name: \"CheckFoo\" %expect stdout";
                (format!("{ELEMENTS}/{path}"), text.to_owned())
            };
            misplaced_in(&Tree { files: paths.iter().map(file).collect() }, &GOOD)
        };
        assert!(with(&[]).is_some());
        assert!(with(&["queueing/src/check_foo.rs"]).is_some());
        assert!(with(&["ip/src/check_foo.rs", "ip/src/check_foo.clicktest"]).is_some());
        assert_eq!(with(&["queueing/src/check_foo.clicktest", "queueing/src/check_foo.rs"]), None);
    }

    #[test]
    fn lists_must_be_sorted() {
        static A: Entry = Entry::new(Spec { name: "A", ..GOOD }, |_| unreachable!());
        static B: Entry = Entry::new(Spec { name: "b", ..GOOD }, |_| unreachable!());
        assert_eq!(unsorted_in(&[&A, &B]), []);
        assert_eq!(unsorted_in(&[&B, &A]).len(), 1);
    }
}
