//! From a file or an expression to a router, with every error pointing at the text.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use thruway_element::{Registry, nearest};
use thruway_elements::CATALOG;
use thruway_engine::{BuildError, Options, Router, Stage};
use thruway_lang::{
    Checked, Diagnostic, Diagnostics, Examined, Graph, Loader, Note, Source, Variables, examine,
};

/// Where the configuration text comes from.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A file; `-` for standard input.
    File(String),
    /// Text given on the command line.
    Expression(String),
}

impl Origin {
    /// Reads the text.
    pub fn read(&self) -> anyhow::Result<Source> {
        match self {
            Origin::Expression(text) => Ok(Source::new("config", text.clone())),
            Origin::File(name) if name == "-" => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text)?;
                Ok(Source::new("<stdin>", text))
            }
            Origin::File(name) => {
                let bytes = std::fs::read(name).map_err(|error| {
                    anyhow::anyhow!("{name}: {}{}", plain(&error), remedy(Path::new(name), &error))
                })?;
                let text = String::from_utf8(bytes).map_err(|error| {
                    let at = error.utf8_error().valid_up_to();
                    anyhow::anyhow!("{name}: not a text: byte {at} is not UTF-8")
                })?;
                Ok(Source::new(name.clone(), text))
            }
        }
    }
}

/// The remedy for a missing file: suggests a file beside it with a similar name.
/// Empty for a file that cannot be read for another reason.
fn remedy(path: &Path, error: &std::io::Error) -> String {
    if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) {
        return String::new();
    }
    let wanted = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let entries = std::fs::read_dir(parent.unwrap_or(Path::new("."))).into_iter().flatten();
    let files = entries.flatten().filter(|entry| entry.path().is_file());
    let names: Vec<String> =
        files.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    match nearest(&wanted, names.iter().map(String::as_str)).filter(|name| **name != *wanted) {
        Some(name) => format!("; did you mean {}?", path.with_file_name(name).display()),
        None => "; name a file with a configuration, or give its text with -e".to_owned(),
    }
}

/// An I/O error in the system's words, without its number.
pub fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// The directories of libraries that the environment names, separated by colons.
pub fn click_path() -> String {
    std::env::var("CLICKPATH").unwrap_or_default()
}

/// Finds required libraries beside the configuration and in the directories of `CLICKPATH`.
pub struct Libraries {
    path: Vec<PathBuf>,
}

impl Libraries {
    /// With the directories of a colon-separated path.
    pub fn new(path: &str) -> Libraries {
        Libraries {
            path: path.split(':').filter(|dir| !dir.is_empty()).map(PathBuf::from).collect(),
        }
    }
}

impl Loader for Libraries {
    fn load(&self, name: &str, from: &str) -> Result<Source, String> {
        let beside = Path::new(from).parent().map(Path::to_path_buf);
        let dirs = beside.into_iter().chain(self.path.iter().cloned());
        for path in dirs.map(|dir| dir.join(name)) {
            if let Ok(text) = std::fs::read_to_string(&path) {
                return Ok(Source::new(path.display().to_string(), text));
            }
        }
        Err(format!("library '{name}' not found beside the configuration nor in CLICKPATH"))
    }
}

/// Everything wrong with a configuration, in the two manners of showing it.
#[derive(Debug)]
pub struct Failure {
    /// For people.
    pub pretty: Diagnostics,
    /// In Click's words.
    pub click: Diagnostics,
    /// Whether at least the text was right.
    pub parsed: bool,
}

/// Reads, checks and builds; opens nothing yet.
pub fn build(
    source: Source,
    variables: &Variables,
    libraries: &dyn Loader,
    options: &Options,
) -> Result<(Router, Diagnostics), Failure> {
    build_of((source, &CATALOG), variables, libraries, options)
}

/// The same with the elements of a registry.
pub fn build_of(
    (source, registry): (Source, &Registry),
    variables: &Variables,
    libraries: &dyn Loader,
    options: &Options,
) -> Result<(Router, Diagnostics), Failure> {
    let Examined { graph, checked, language, ports } =
        examine(source, registry, variables, libraries);
    let mut found = language.clone();
    found.append(ports.clone());
    if found.has_errors() {
        // The arguments of what is known are checked all the same: all errors at once.
        let errors = thruway_engine::check_arguments(&graph, &checked, registry);
        let pretty = explain(&graph, &errors, found).pretty;
        // Click looks at the connections only when the text has no errors.
        let parsed = !language.has_errors();
        return Err(Failure { pretty, click: if parsed { ports } else { language }, parsed });
    }
    let (graph, checked) = isolated((graph, checked), registry, &mut found)?;
    let copy = graph.clone();
    match Router::new(graph, checked, registry, options) {
        Ok(router) => Ok((router, found)),
        Err(errors) => Err(explain(&copy, &errors, found)),
    }
}

/// Reads and checks a configuration; its isolated parts are taken out. Builds nothing.
pub fn graph(
    source: Source,
    variables: &Variables,
    libraries: &dyn Loader,
) -> Result<(Graph, Diagnostics), Failure> {
    let registry = &CATALOG;
    match thruway_lang::load(source, registry, variables, libraries) {
        Ok(loaded) => {
            let mut found = loaded.warnings;
            let (graph, _) = isolated((loaded.graph, loaded.checked), registry, &mut found)?;
            Ok((graph, found))
        }
        Err(found) => Err(Failure { pretty: found.clone(), click: found, parsed: false }),
    }
}

/// The graph with its isolated parts taken out; all errors of these, too.
fn isolated(
    (graph, checked): (Graph, Checked),
    registry: &Registry,
    found: &mut Diagnostics,
) -> Result<(Graph, Checked), Failure> {
    if !crate::isolate::is_wanted(&graph) {
        return Ok((graph, checked));
    }
    // Here the arguments have their places in the user's text; in the process they have not.
    let errors = thruway_engine::check_arguments(&graph, &checked, registry);
    if !errors.is_empty() {
        return Err(explain(&graph, &errors, found.clone()));
    }
    let taken = crate::isolate::apply(&graph, &checked);
    let taken = taken.map_err(|errors| explain(&graph, &errors, found.clone()))?;
    let (checked, ports) = thruway_lang::resolve(&taken);
    found.append(ports);
    if found.has_errors() {
        return Err(Failure { pretty: found.clone(), click: found.clone(), parsed: true });
    }
    Ok((taken, checked))
}

/// Opens files and devices.
pub fn initialize(router: &mut Router) -> Result<(), Failure> {
    router.initialize().map_err(|errors| {
        let graph = &router.layout().graph;
        let none = Diagnostics::about(&graph.sources);
        explain(graph, &errors, none)
    })
}

/// Puts the engine's errors at their places in the text.
pub fn explain(graph: &Graph, errors: &[BuildError], warnings: Diagnostics) -> Failure {
    let (mut pretty, mut click) = (warnings.clone(), warnings);
    let mut reported = Vec::new();
    // In Click's manner the errors of one element stand below one headline.
    let mut headlines: Vec<((Option<usize>, Stage), Diagnostic)> = Vec::new();
    for error in errors {
        // Every thread's replica finds the same.
        if reported.contains(&error) {
            continue;
        }
        reported.push(error);
        let Some(decl) = error.node.and_then(|node| graph.elements.get(node)) else {
            let global = Diagnostic::global(error.message.clone());
            pretty.push(global.clone());
            click.push(global);
            continue;
        };
        let span = error.arg.and_then(|arg| decl.args.get(arg)).map_or(decl.span, |arg| arg.span);
        let what = format!("{} :: {}", decl.name, decl.class);
        let doing = match error.stage {
            Stage::Arguments => "configuring",
            Stage::Initialize => "initializing",
            Stage::Run => "running",
            Stage::Finish => "closing",
        };
        let said = Diagnostic::error(span, error.message.clone()).note(format!("in {what}"));
        pretty.push(thruway_lang::check::within(said, decl));
        let key = (error.node, error.stage);
        let at = headlines.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
            let headline = Diagnostic::error(decl.span, format!("While {doing} '{what}':"));
            headlines.push((key, headline));
            headlines.len() - 1
        });
        let detail = |line: &str| Note {
            message: line.to_owned(),
            span: None,
            role: thruway_lang::Role::Detail,
        };
        headlines[at].1.notes.extend(error.message.lines().map(detail));
    }
    headlines.into_iter().for_each(|(_, headline)| click.push(headline));
    Failure { pretty, click, parsed: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_run_blames_no_element() {
        let source = Source::new("config", "Idle -> Discard".to_owned());
        let (graph, warnings) =
            graph(source, &Variables::default(), &Libraries::new("")).expect("a configuration");
        let error = BuildError::of_run(Stage::Run, "cannot start thread 1".to_owned());
        let failure = explain(&graph, &[error], warnings);
        assert_eq!(failure.pretty.render(false), "error: cannot start thread 1\n\n");
        assert_eq!(failure.click.click(), "cannot start thread 1\n");
    }
}
