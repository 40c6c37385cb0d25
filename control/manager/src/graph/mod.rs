//! The graph of a chain as it runs, with its counters: what the page draws.
//!
//! A data plane reports all of it by handlers that none of its packet threads answers: what only
//! these threads know they publish ([ADR 80](../../../../docs/adr/0080-published-figures.md)).
//! Counters are since its configuration began to run.

mod edges;
mod report;
mod view;

use crate::{DataPlanes, PlaneError};
use report::Report;
pub use view::{
    ChainGraph, GraphDrop, GraphEdge, GraphElement, GraphFunction, GraphQueue, GraphSessions,
    GraphThread,
};

/// Reads the graph of a chain that runs.
///
/// # Errors
/// It does not run, or does not answer as a data plane of this version does.
pub fn read(planes: &dyn DataPlanes, chain: &str) -> Result<ChainGraph, PlaneError> {
    let names = ["graph", "statistics", "swaps", "figures"].map(str::to_owned);
    let values = planes.read_each(chain, &names)?;
    let text = |at: usize| values.get(at).and_then(Option::as_deref);
    let (Some(graph), Some(statistics)) = (text(0), text(1)) else {
        let why = "it does not report its graph: its data plane is of an earlier version; stop the \
                   chain and start it again";
        return Err(PlaneError::Refused(why.to_owned()));
    };
    let mut report = Report::parse(graph, statistics).map_err(PlaneError::Refused)?;
    let values = match text(3) {
        Some(figures) => report.published(figures).map_err(PlaneError::Refused)?,
        // Of an earlier version: its threads are asked.
        None => planes.read_each(chain, &report.calls())?,
    };
    report.answers(&values);
    let mut graph = report.graph;
    graph.swaps = text(2).and_then(report::swaps).unwrap_or_default();
    graph.pid = planes.status(chain).and_then(|status| status.pid).unwrap_or_default();
    edges::count(&mut graph);
    Ok(graph)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever a data plane reports is read or refused, and nothing else.
        #[test]
        fn any_report_is_read_or_refused(
            graph in "((element|edge|x)(\t[a-z0-9]{1,2}){0,7}\n){0,8}",
            statistics in "((element|drop|time|thread)(\t[a-z0-9]{1,2}){0,6}\n){0,8}",
            values in prop::collection::vec(prop::option::of("[0-9a-z]{0,3}"), 0..20),
            figures in "((figure|fact|x)(\t([a-z0-9]{1,2}|length|capacity|state|-1)){0,4}\n){0,8}",
        ) {
            if let Ok(mut report) = Report::parse(&graph, &statistics) {
                let published = report.published(&figures);
                report.answers(&published.unwrap_or(values));
                edges::count(&mut report.graph);
            }
        }
    }
}
