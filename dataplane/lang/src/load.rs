//! The way from a text to a graph.

use std::sync::Arc;

use thruway_element::Catalog;

use crate::check;
use crate::checked::Checked;
use crate::diagnostics::Diagnostics;
use crate::expand::expand;
use crate::graph::Graph;
use crate::lower::{Loader, Lowerer, NoLibraries};
use crate::scope::Scope;
use crate::source::Source;
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
    scope.settle_names();
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

/// Reads and checks a configuration as far as it can be made out. If
/// [`Diagnostics::has_errors`], graph and ports are only good for finding more errors.
pub fn examine(
    source: Source,
    catalog: &dyn Catalog,
    variables: &Variables,
    loader: &dyn Loader,
) -> (Graph, Checked, Diagnostics) {
    let (graph, mut diagnostics) = parse_with(source, catalog, variables, loader);
    let (checked, more) = check::resolve_part(&graph, !diagnostics.has_errors());
    diagnostics.append(more);
    (graph, checked, diagnostics)
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
    let (graph, checked, diagnostics) = examine(source, catalog, variables, loader);
    if diagnostics.has_errors() {
        return Err(diagnostics);
    }
    Ok(Loaded { graph, checked, warnings: diagnostics })
}
