//! The graph of a chain as it runs, with its counters: what the page draws.
//!
//! A data plane reports all of it by handlers. Counters are since its configuration began to run.

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
    let names = ["graph", "statistics", "swaps"].map(str::to_owned);
    let values = planes.read_each(chain, &names)?;
    let text = |at: usize| values.get(at).and_then(Option::as_deref);
    let (Some(graph), Some(statistics)) = (text(0), text(1)) else {
        let why = "it does not report its graph: its data plane is of an earlier version; stop the \
                   chain and start it again";
        return Err(PlaneError::Refused(why.to_owned()));
    };
    let mut report = Report::parse(graph, statistics).map_err(PlaneError::Refused)?;
    let calls = report.calls();
    let values = planes.read_each(chain, &calls)?;
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
        ) {
            if let Ok(mut report) = Report::parse(&graph, &statistics) {
                report.answers(&values);
                edges::count(&mut report.graph);
            }
        }
    }
}
