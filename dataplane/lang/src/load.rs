//! From a text to a graph: the stages in their order.

use std::sync::Arc;

use thruway_element::Catalog;

use crate::check;
use crate::checked::Checked;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::expand::expand;
use crate::graph::Graph;
use crate::lower::{Loader, Lowerer, NoLibraries};
use crate::scope::Scope;
use crate::source::{Source, Span};
use crate::variables::Variables;

/// Reads a configuration: the graph as far as it can be made out, and errors and warnings. If
/// [`Diagnostics::has_errors`], the graph is only good for finding more errors.
pub fn parse_with(
    source: Source,
    catalog: &dyn Catalog,
    variables: &Variables,
    loader: &dyn Loader,
) -> (Graph, Diagnostics) {
    let mut lowerer = Lowerer::new(catalog, loader);
    let mut scope = Scope::default();
    lowerer.file(source, &mut scope);
    lowerer.diagnostics.sort();
    scope.make_names_unique();
    let texts = lowerer.sources.texts();
    let defined = scope.defines.keys().map(String::as_str);
    for message in variables.unknown(texts, defined) {
        let error = Diagnostic::error(Span::default(), message);
        lowerer.diagnostics.push(Diagnostic { span: None, ..error });
    }
    let (elements, edges) = expand(&mut lowerer, scope, variables);
    let sources = Arc::new(lowerer.sources);
    let mut diagnostics = lowerer.diagnostics;
    diagnostics.sources = sources.clone();
    let (requirements, provides) = (lowerer.requirements, lowerer.provides);
    (Graph { elements, edges, requirements, provides, sources }, diagnostics)
}

/// Reads a configuration that requires no libraries; all errors if there are any.
pub fn parse(
    source: Source,
    catalog: &dyn Catalog,
    variables: &Variables,
) -> Result<Graph, Diagnostics> {
    let (graph, diagnostics) = parse_with(source, catalog, variables, &NoLibraries);
    if diagnostics.has_errors() { Err(diagnostics) } else { Ok(graph) }
}

/// A configuration that can run.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Its elements and edges.
    pub graph: Graph,
    /// What is known of its ports.
    pub checked: Checked,
    /// What a user may want to know.
    pub warnings: Diagnostics,
}

/// What is known of a configuration, however wrong it is.
#[derive(Debug, Clone)]
pub struct Examined {
    /// Its elements and edges; with errors only good for finding more of them.
    pub graph: Graph,
    /// What is known of its ports.
    pub checked: Checked,
    /// What is wrong with the text.
    pub language: Diagnostics,
    /// What is wrong with the connections, as far as the text could be made out.
    pub ports: Diagnostics,
}

/// Reads and checks a configuration as far as it can be made out.
pub fn examine(
    source: Source,
    catalog: &dyn Catalog,
    variables: &Variables,
    loader: &dyn Loader,
) -> Examined {
    let (graph, language) = parse_with(source, catalog, variables, loader);
    let (checked, ports) = check::resolve_part(&graph, !language.has_errors());
    Examined { graph, checked, language, ports }
}

/// Reads and checks a configuration: all errors of the language and of the ports at once.
///
/// # Errors
/// All that is wrong with it.
pub fn load(
    source: Source,
    catalog: &dyn Catalog,
    variables: &Variables,
    loader: &dyn Loader,
) -> Result<Loaded, Diagnostics> {
    let Examined { graph, checked, language, ports } = examine(source, catalog, variables, loader);
    let mut warnings = language;
    warnings.append(ports);
    if warnings.has_errors() { Err(warnings) } else { Ok(Loaded { graph, checked, warnings }) }
}
