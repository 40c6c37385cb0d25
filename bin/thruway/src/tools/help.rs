//! What the tools print of themselves.

use super::tool::{Tool, Work};

/// Prints what a tool does, its arguments, and an example.
pub fn print(tool: &Tool) {
    let name = tool.name;
    outln!("'click-{name}' (thruway {name}) {}.\n", tool.does);
    let (usage, options) = arguments(tool.work);
    outln!("Usage: thruway {name} {usage}\n");
    outln!("Options:");
    for (option, what) in options.iter().flat_map(|some| some.iter()).chain(LAST) {
        outln!("  {option:<24} {what}");
    }
    outln!("\nExample:\n  {}", tool.example);
}

type Lines = &'static [(&'static str, &'static str)];

const FILE: Lines = &[
    ("-f, --file FILE", "Read the configuration from FILE (default: standard input)."),
    ("-e, --expression EXPR", "Use EXPR as the configuration."),
    ("-o, --output FILE", "Write to FILE (default: standard output)."),
    ("-C, --clickpath PATH", "Look for libraries in these directories."),
];

const LISTS: Lines = &[
    ("-c, --classes", "Print the classes in use instead, sorted."),
    ("-n, --names", "Print the names of elements instead, sorted."),
    ("-d, --declarations", "Print 'NAME :: CLASS' of elements instead, sorted."),
];

const UNDEAD: Lines = &[
    ("-V, --verbose", "Report removed elements on standard error."),
    ("-c, -k, -u", "Accepted as Click's; they change nothing here."),
];

const COMBINE: Lines = &[
    ("-n, --name NAME", "Call the next configuration NAME (default: router1, router2...)."),
    ("-f, --file FILE", "Read a configuration from FILE."),
    ("-e, --expression EXPR", "Use EXPR as a configuration."),
    ("-l, --link A.X=B.Y", "Join what A sends to X with what B receives from Y; X and Y are"),
    ("", "names of elements, or devices of a ToDevice and a FromDevice."),
    ("-o, --output FILE", "Write to FILE (default: standard output)."),
    ("-c, --config", "Accepted as Click's; it changes nothing here."),
];

const UNCOMBINE: Lines = &[
    ("-n, --name NAME", "The configuration to print; A/B is part B of part A."),
    ("-f, --file FILE", "Read the combined configuration from FILE (default: standard input)."),
    ("-o, --output FILE", "Write to FILE (default: standard output)."),
];

const TRANSFORM: Lines = &[
    ("-p, --patterns FILE", "Read patterns from FILE; may be given more than once."),
    ("-r, --reverse", "Put the patterns in the place of their replacements."),
    ("-V, --verbose", "Report replaced elements on standard error."),
];

const PROVIDES: Lines = &[("-V, --verbose", "Report missing elements.")];

const LAST: Lines =
    &[("    --help", "Print this and exit."), ("-v, --version", "Print the version and exit.")];

/// The arguments of a tool, and its options.
fn arguments(work: Work) -> (&'static str, &'static [Lines]) {
    const ONE: &str = "[OPTION]... [ROUTERFILE] [NAME=VALUE]...";
    match work {
        Work::Flatten => (ONE, &[LISTS, FILE]),
        Work::Transform => {
            ("[OPTION]... [ROUTERFILE] [PATTERNFILE]... [NAME=VALUE]...", &[TRANSFORM, FILE])
        }
        Work::Undead => (ONE, &[UNDEAD, FILE]),
        Work::Combine => ("[OPTION]... [NAME=FILE | A.X=B.Y]...", &[COMBINE]),
        Work::Uncombine => ("[OPTION]... [ROUTERFILE [NAME]]", &[UNCOMBINE]),
        Work::Provides => ("[-V] NAME...", &[PROVIDES]),
        Work::Keep(_) | Work::None(_) => (ONE, &[FILE]),
    }
}
