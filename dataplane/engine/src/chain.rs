//! A configuration as the flow manager sees it ([`thruway_flow::chain`]).

use thruway_element::{
    Addresses, Changes, Demand, FlowDispatch, Names, Role, Rule, SessionFunction, Spec, Topic,
};
use thruway_flow::chain::{Chain, Node, useless_rule};
use thruway_flow::plan::{Plan, PlanError};
use thruway_flow::{Expr, SessionDef, consolidate, parse_class};
use thruway_lang::{Checked, Graph, Processing};

use crate::error::{BuildError, Stage};
use crate::replica::Replica;

/// The class that takes every packet.
const EVERYTHING: &str = "-";

/// The result of the analysis.
pub(crate) struct View {
    /// The elements and their connections.
    pub chain: Chain,
    /// Dispatchers without rules of their own, and the class of each of their outputs.
    pub derived: Vec<(usize, Vec<String>)>,
}

/// The graph's elements with their declarations: `elements` has one replica of each, if there is
/// any.
/// # Errors
/// Declarations that cannot be read, and dispatchers that could not distinguish their outputs.
pub(crate) fn view(
    (graph, checked): (&Graph, &Checked),
    elements: &[Option<Replica<'_>>],
    addresses: &Addresses,
) -> Result<View, Vec<BuildError>> {
    let viewer = Viewer { graph, checked, elements, addresses };
    let mut settings = elements.iter().flatten().filter_map(|element| element.settings());
    let early_drop = settings.all(|settings| settings.early_drop);
    let mut view = View { chain: Chain { nodes: Vec::new(), early_drop }, derived: Vec::new() };
    let mut errors = Vec::new();
    for index in 0..graph.elements.len() {
        match viewer.node(index, &mut view.derived) {
            Ok(node) => view.chain.nodes.push(node),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(view) } else { Err(errors) }
}

/// The flow manager's plan for a chain; empty if no element has a demand on it.
/// # Errors
/// Everything that the elements want and cannot have.
pub(crate) fn plan(chain: &Chain) -> Result<Plan, Vec<BuildError>> {
    let concerned = |node: &Node| node.demand.is_some() || node.role == Role::Entry;
    if !chain.nodes.iter().any(concerned) {
        return Ok(Plan::default());
    }
    consolidate(chain).map_err(|errors| errors.into_iter().map(BuildError::from).collect())
}

impl From<PlanError> for BuildError {
    fn from(error: PlanError) -> BuildError {
        let PlanError { node, arg, message } = error;
        BuildError::at(Stage::Arguments, node, message).arg(arg)
    }
}

struct Viewer<'a> {
    graph: &'a Graph,
    checked: &'a Checked,
    elements: &'a [Option<Replica<'a>>],
    addresses: &'a Addresses,
}

impl Viewer<'_> {
    fn spec(&self, index: usize) -> &'static Spec {
        self.graph.elements[index].spec
    }

    fn element(&self, index: usize) -> Option<Replica<'_>> {
        self.elements.get(index).copied().flatten()
    }

    fn session_function(&self, index: usize) -> Option<&dyn SessionFunction> {
        let Replica { entry, element } = self.element(index)?;
        entry.session_function(element)
    }

    fn error(&self, node: usize, message: String) -> BuildError {
        BuildError::at(Stage::Arguments, node, message)
    }

    fn node(
        &self,
        index: usize,
        derived: &mut Vec<(usize, Vec<String>)>,
    ) -> Result<Node, BuildError> {
        let spec = self.spec(index);
        let mut role = self.role(index);
        if let Role::Dispatcher(rules) = &mut role
            && rules.is_empty()
        {
            let classes = self.classes_behind(index);
            *rules = self.derive(index, &classes)?;
            derived.push((index, classes));
        }
        let counts = counts(spec) && !matches!(role, Role::Dispatcher(_));
        let outputs = 0..self.checked.noutputs(index);
        Ok(Node {
            name: self.graph.elements[index].name.clone(),
            role,
            outputs: outputs.map(|output| self.pushes_to(index, output)).collect(),
            passes: (0..self.checked.ninputs(index))
                .map(|input| self.passes(index, input))
                .collect(),
            changes: spec.changes,
            demand: self.demand(index)?,
            counts,
        })
    }

    fn role(&self, index: usize) -> Role {
        let Some(Replica { entry, element }) = self.element(index) else { return Role::Function };
        if entry.flow_entry(element).is_some() {
            return Role::Entry;
        }
        let rules = entry.flow_dispatch(element).map(FlowDispatch::rules);
        rules.map_or(Role::Function, Role::Dispatcher)
    }

    /// The target of packets pushed out of an output.
    fn pushes_to(&self, index: usize, output: usize) -> Option<(usize, usize)> {
        let port = self.checked.elements.get(index)?.outputs.get(output)?;
        let edge = port.edges.first().filter(|_| port.processing == Processing::Push)?;
        let to = self.graph.edges[*edge].to;
        Some((to.element, to.port))
    }

    fn passes(&self, index: usize, input: usize) -> Vec<usize> {
        let flow = &self.checked.elements[index].flow;
        (0..self.checked.noutputs(index)).filter(|output| flow.allows(input, *output)).collect()
    }

    fn demand(&self, index: usize) -> Result<Option<Demand>, BuildError> {
        if let Some(demand) = self.session_function(index).and_then(SessionFunction::demand) {
            return Ok(Some(demand));
        }
        let wants = self.spec(index).wants;
        let Some(text) = wants.session else { return Ok(None) };
        let session = SessionDef::parse(text).map_err(|error| {
            let message = format!("its class declares the session '{text}': {}", error.message);
            self.error(index, message)
        })?;
        Ok(Some(wants.demand_of(session)))
    }

    /// The class that an element declares for an input.
    fn class(&self, index: usize, input: usize) -> Option<String> {
        let own = self.session_function(index).and_then(|function| function.class(input));
        own.or_else(|| {
            let classes = self.spec(index).wants.classes;
            let class = classes.get(input.min(classes.len().checked_sub(1)?))?;
            Some((*class).to_string())
        })
    }

    /// By output of a dispatcher, the class needed downstream.
    fn classes_behind(&self, dispatcher: usize) -> Vec<String> {
        let outputs = 0..self.checked.noutputs(dispatcher);
        let class = |output| self.declared_behind(dispatcher, output).map(|(_, class)| class);
        outputs.map(|output| class(output).unwrap_or_else(|| EVERYTHING.to_string())).collect()
    }

    /// The first element downstream of an output that declares its needs, and those. The path leads
    /// through elements that send the packets of an input by one output only and change no header;
    /// the needs are evaluated at the dispatcher.
    fn declared_behind(&self, dispatcher: usize, output: usize) -> Option<(usize, String)> {
        let mut at = self.pushes_to(dispatcher, output);
        for _ in 0..self.graph.elements.len() {
            let (index, input) = at?;
            if let Some(class) = self.class(index, input) {
                return Some((index, class));
            }
            let passes = self.passes(index, input);
            let [next] = passes[..] else { return None };
            let transparent = self.spec(index).changes <= Changes::Frame;
            if !transparent || self.role(index) != Role::Function {
                return None;
            }
            at = self.pushes_to(index, next);
        }
        None
    }

    /// The rules of a dispatcher with outputs for these classes: outputs for all packets take the
    /// rest, wherever they stand.
    fn derive(&self, dispatcher: usize, classes: &[String]) -> Result<Vec<Rule>, BuildError> {
        let mut rules = Vec::new();
        let mut rest: Option<usize> = None;
        for (output, class) in classes.iter().enumerate() {
            let expr = self.parse(dispatcher, output, class)?;
            if expr != Expr::Const(true) {
                rules.push(Rule::new(expr, output as u32));
                continue;
            }
            if let Some(other) = rest.replace(output) {
                let [a, b] = [other, output].map(|output| self.behind(dispatcher, output));
                return Err(self.error(
                    self.index_behind(dispatcher, output),
                    format!(
                        "'{a}' and '{b}' would both take the rest, for nothing behind them \
                         declares what it wants: write a {} with a class for each output",
                        self.class_name(dispatcher)
                    ),
                ));
            }
        }
        if let Some((at, same)) = useless_rule(&rules) {
            let output = rules[at].output as usize;
            let what = self.behind(dispatcher, output);
            let why = match same.map(|same| self.behind(dispatcher, rules[same].output as usize)) {
                Some(other) => format!("'{other}', which comes first, wants the same"),
                None => "it contradicts itself".to_string(),
            };
            let class = &classes[output];
            return Err(self.error(
                self.index_behind(dispatcher, output),
                format!(
                    "no packet is left for '{what}', which wants '{class}': {why}; write a {} \
                     with a class for each output",
                    self.class_name(dispatcher)
                ),
            ));
        }
        rules.extend(rest.map(|output| Rule::new(Expr::Const(true), output as u32)));
        Ok(rules)
    }

    fn parse(&self, dispatcher: usize, output: usize, class: &str) -> Result<Expr, BuildError> {
        let (declarer, _) =
            self.declared_behind(dispatcher, output).unwrap_or((dispatcher, String::new()));
        let name = &self.graph.elements[declarer].name;
        parse_class(class, &Names::of(name, self.addresses)).map_err(|error| {
            let message = format!("the class that it wants, '{class}': {}", error.message);
            self.error(declarer, message)
        })
    }

    /// The name of an element's class, not of the alias in the configuration.
    fn class_name(&self, node: usize) -> &'static str {
        self.graph.elements[node].spec.name
    }

    /// The target of an output.
    fn index_behind(&self, dispatcher: usize, output: usize) -> usize {
        self.pushes_to(dispatcher, output).map_or(dispatcher, |(index, _)| index)
    }

    /// Its name.
    fn behind(&self, dispatcher: usize, output: usize) -> &str {
        &self.graph.elements[self.index_behind(dispatcher, output)].name
    }
}

/// Whether a handler or an observer may ask the element for its packet count.
fn counts(spec: &Spec) -> bool {
    let numbers = |name: &str| ["count", "byte", "rate"].iter().any(|word| name.contains(word));
    !spec.drops.is_empty()
        || spec.handlers.iter().any(|handler| numbers(handler.name))
        || matches!(spec.topic, Topic::Sources | Topic::Counters | Topic::Control)
        || spec.topic.is_port()
}
