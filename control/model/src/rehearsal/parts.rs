//! What runs in the processes of isolated elements: the configurations that `Isolate` took out.
//! They are built here, for their elements to be asked what they cost, and do not run here.

use std::collections::BTreeMap;

use thruway_element::text::unquote_text;
use thruway_element::{Catalog as _, Cost, Load, Operation, Purpose, Registry};
use thruway_engine::{Options, Router};
use thruway_lang::{ElementDecl, Graph, NoLibraries, Source, Variables};

use super::error::RehearsalError;

/// Isolated parts by the element that hands packets to them.
#[derive(Default)]
pub(super) struct Parts(BTreeMap<usize, Router>);

impl Parts {
    /// Those of a configuration.
    ///
    /// # Errors
    /// When one cannot be built.
    pub fn of(
        graph: &Graph,
        registry: &Registry,
        options: &Options,
    ) -> Result<Parts, RehearsalError> {
        let texts = graph.elements.iter().enumerate().filter_map(|(at, it)| Some((at, text(it)?)));
        let part = |(at, text): (usize, String)| Ok((at, built(text, registry, options)?));
        Ok(Parts(texts.map(part).collect::<Result<_, RehearsalError>>()?))
    }

    /// What the elements of a part cost a packet that visits each of them once.
    pub fn costs(&self, element: usize, load: &Load) -> Vec<Cost> {
        let Some(router) = self.0.get(&element) else { return Vec::new() };
        let elements = router.layout().graph.elements.iter().enumerate();
        let visited = elements.filter(|(_, decl)| decl.spec.ports != "0/0");
        let of = |(at, decl): (usize, &ElementDecl)| {
            let model = router.cost_model(at).and_then(|model| model.cost(load));
            let mut costs = model.unwrap_or_else(|| decl.spec.cost.to_vec());
            costs.push(Operation::Dispatch.once());
            costs
        };
        // The ports are part of what serving a packet costs.
        visited.filter(|(_, decl)| decl.name != PORTS).flat_map(of).collect()
    }
}

/// What stands in for the ports of a part.
const PORTS: &str = "ports of the part";

/// The configuration of a part, if an element is what runs one.
fn text(decl: &ElementDecl) -> Option<String> {
    let value = |name: &str| {
        let mut all = decl.args.iter().filter_map(|arg| arg.text.split_once(char::is_whitespace));
        all.find(|(word, _)| *word == name).map(|(_, value)| value.trim())
    };
    let is_part = decl.spec.purpose == Purpose::RunProcess && value("CARRY") == Some("true");
    is_part.then(|| value("CONFIG").map(unquote_text))?
}

fn built(text: String, registry: &Registry, options: &Options) -> Result<Router, RehearsalError> {
    let source = Source::new("isolated part", text);
    let loaded = thruway_lang::load(source, registry, &Variables::new(), &NoLibraries)
        .map_err(|found| RehearsalError::Ports(Box::new(found)))?;
    let mut graph = loaded.graph;
    if let Some(idle) = registry.spec("Idle") {
        let is_of_ports = |it: &&mut ElementDecl| it.spec.purpose == Purpose::EnterProcess;
        for ports in graph.elements.iter_mut().filter(is_of_ports) {
            ports.name = PORTS.to_owned();
            (ports.class, ports.spec) = (idle.name.to_owned(), idle);
            (ports.config, ports.args) = (String::new(), Vec::new());
        }
    }
    let (checked, found) = thruway_lang::resolve(&graph);
    if found.has_errors() {
        return Err(RehearsalError::Ports(Box::new(found)));
    }
    let copy = graph.clone();
    let options = Options { threads: 1, ..options.clone() };
    Router::new(graph, checked, registry, &options)
        .map_err(|errors| RehearsalError::Build(Box::new(copy), errors))
}
