//! The tools: their names, what they do, and how they fail.

use std::process::ExitCode;

/// What a tool does.
#[derive(Clone, Copy)]
pub enum Work {
    /// Prints the flat configuration, or a list of what is in it.
    Flatten,
    /// Prints the configuration as it is: here there is nothing to change.
    Keep(&'static str),
    /// Prints several configurations as one.
    Combine,
    /// Prints one of those that were combined.
    Uncombine,
    /// Prints the configuration with patterns replaced.
    Transform,
    /// Prints the configuration without what is dead in it.
    Undead,
    /// Says whether all that is named is provided.
    Provides,
    /// Says why there is no such tool.
    None(&'static str),
}

/// A tool, and the name of Click's without `click-`.
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// What `main` has it do.
    pub work: Work,
    /// What it does, after its name.
    pub does: &'static str,
    /// A command line.
    pub example: &'static str,
}

const fn tool(name: &'static str, work: Work, does: &'static str, example: &'static str) -> Tool {
    Tool { name, work, does, example }
}

/// A tool that has nothing to do, and why.
const fn keep(name: &'static str, why: &'static str, example: &'static str) -> Tool {
    tool(name, Work::Keep(why), "checks a configuration and prints it as it is", example)
}

const fn none(name: &'static str, why: &'static str) -> Tool {
    tool(name, Work::None(why), "", "")
}

const TOOLS: &[Tool] = &[
    keep(
        "align",
        "elements read headers at any address: none needs an Align",
        "thruway align router.click",
    ),
    tool(
        "combine",
        Work::Combine,
        "prints several configurations as one; where a ToDevice of one is linked to a
FromDevice \
         of another, a RouterLink takes their place",
        "thruway combine a=left.click b=right.click -l a.eth0=b.eth1 -l b.eth1=a.eth0",
    ),
    keep(
        "devirtualize",
        "elements are compiled for batches: no calls to specialise",
        "thruway devirtualize router.click",
    ),
    keep(
        "fastclassifier",
        "classifiers are compiled when the configuration is read",
        "thruway fastclassifier router.click",
    ),
    tool(
        "flatten",
        Work::Flatten,
        "prints a configuration without compound elements and variables",
        "thruway flatten router.click RATE=1000 -o flat.click",
    ),
    none("mkmindriver", "there is one driver, with all elements: use 'click'"),
    tool(
        "provides",
        Work::Provides,
        "exit status (0 or 1): whether elements and features are there; 'A|B' is one of them",
        "thruway provides -V Queue 'RadixIPLookup|DirectIPLookup' ip6 && echo all there",
    ),
    tool(
        "uncombine",
        Work::Uncombine,
        "prints one of the configurations that 'thruway combine' joined",
        "thruway uncombine both.click a -o left.click",
    ),
    tool(
        "undead",
        Work::Undead,
        "prints a configuration without the elements that no packet reaches or that lead\nnowhere, \
         and without Null, StaticSwitch, StaticPullSwitch, and schedulers and tees with one port",
        "thruway undead -V -e 'Idle -> Counter -> Discard; InfiniteSource -> Null -> Discard'",
    ),
    tool(
        "xform",
        Work::Transform,
        "replaces parts of a configuration that match patterns, until none is left; a\npattern is \
         a compound element class X, its replacement the class X_Replacement",
        "thruway xform router.click patterns.click -o new.click",
    ),
];

/// The tool of this name.
pub fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// Says why a tool fails.
pub fn fail(name: &str, why: &str) -> ExitCode {
    errln!("click-{name}: {why}");
    ExitCode::FAILURE
}
