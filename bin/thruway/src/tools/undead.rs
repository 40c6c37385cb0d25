//! `click-undead`: a configuration without the elements that no packet reaches or that lead
//! nowhere, and without those that only pass packets on.

use std::collections::HashSet;

use thruway_element::text::unquote_text;
use thruway_element::{Catalog as _, Purpose};
use thruway_elements::CATALOG;
use thruway_lang::{Checked, EdgeKind, Editor, ElementDecl, Graph, PortRef, resolve};

/// Of elements with inputs that send packets which nobody brought.
const ON_THEIR_OWN: &[Purpose] =
    &[Purpose::SendUnasked, Purpose::RunProcess, Purpose::EnterProcess];
const SCHEDULERS: &[Purpose] = &[Purpose::Schedule, Purpose::ScheduleByArguments];

/// Removes dead elements from a configuration with valid ports; `report` gets each element and
/// the action.
///
/// # Errors
/// A switch with an argument that is not a number.
pub fn undead(graph: &Graph, mut report: impl FnMut(&str, &ElementDecl)) -> Result<Graph, String> {
    let (checked, _) = resolve(graph);
    let ports: Vec<(usize, usize)> =
        (0..graph.elements.len()).map(|at| (checked.ninputs(at), checked.noutputs(at))).collect();
    let mut work = Work {
        editor: Editor::new(graph.clone()),
        named: named(graph),
        ports,
        report: &mut report,
    };
    work.switches()?;
    work.nulls();
    work.dead(&checked);
    while work.redundant() {}
    work.fill();
    Ok(work.editor.finish())
}

struct Work<'a> {
    editor: Editor,
    /// Elements that the arguments of others name: what is named there must stay.
    named: HashSet<usize>,
    /// Inputs and outputs that each element must have.
    ports: Vec<(usize, usize)>,
    report: &'a mut dyn FnMut(&str, &ElementDecl),
}

impl Work<'_> {
    /// The elements left of some purposes that no arguments name and no context link meets.
    fn of_purposes(&self, purposes: &[Purpose]) -> Vec<usize> {
        let mut found = self.editor.elements();
        found.retain(|at| {
            purposes.contains(&self.editor.element(*at).spec.purpose) && !self.named.contains(at)
        });
        for edge in self.editor.edges().iter().filter(|edge| edge.kind == EdgeKind::Context) {
            found.retain(|at| ![edge.from.element, edge.to.element].contains(at));
        }
        found
    }

    fn bypass(&mut self, at: usize, (input, output): (usize, usize)) {
        (self.report)("bypassing", self.editor.element(at));
        self.editor.bypass(at, input, output);
    }

    /// Switches that cannot be turned: what they switch off hangs in the air.
    fn switches(&mut self) -> Result<(), String> {
        for at in self.of_purposes(&[Purpose::FixedSwitch]) {
            let decl = self.editor.element(at);
            // Of a negative number no packet comes through, as of a port that there is not.
            let on = constant(decl)?.unwrap_or(usize::MAX);
            let port = if pulls(decl) { (on, 0) } else { (0, on) };
            self.bypass(at, port);
        }
        Ok(())
    }

    fn nulls(&mut self) {
        for at in self.of_purposes(&[Purpose::PassOn]) {
            self.bypass(at, (0, 0));
        }
    }

    /// Removes elements that are on no path from a source to a sink.
    fn dead(&mut self, checked: &Checked) {
        let elements = self.editor.elements();
        let count = self.ports.len();
        let mut reached = vec![false; count];
        let mut leads = vec![false; count];
        for at in &elements {
            (reached[*at], leads[*at]) = self.source_and_sink(checked, *at);
        }
        self.spread(&mut reached, false);
        self.spread(&mut leads, true);
        let stays = |at: &usize| {
            self.named.contains(at) || self.ports[*at] == (0, 0) || reached[*at] && leads[*at]
        };
        let dead: Vec<usize> = elements.into_iter().filter(|at| !stays(at)).collect();
        for at in dead {
            (self.report)("removing", self.editor.element(at));
            self.editor.remove(at);
        }
    }

    /// Whether an element is a source, and whether it is a sink.
    fn source_and_sink(&self, checked: &Checked, at: usize) -> (bool, bool) {
        let decl = self.editor.element(at);
        let flow = &checked.elements[at].flow;
        let (inputs, outputs) = self.ports[at];
        if is_idle(decl) {
            return (false, false);
        }
        let own = ON_THEIR_OWN.contains(&decl.spec.purpose);
        let makes = (0..outputs).any(|output| !(0..inputs).any(|i| flow.allows(i, output)));
        let ends = (0..inputs).any(|input| !(0..outputs).any(|o| flow.allows(input, o)));
        // What writes to a device or a file does so whether its packets go on or not. What a
        // context link leads to has its place in the order of the dispatcher's outputs.
        let writes = decl.spec.topic.is_port() && inputs > 0;
        let edges = self.editor.edges().iter().filter(|edge| edge.kind == EdgeKind::Context);
        let chosen = edges.into_iter().any(|edge| edge.to.element == at);
        (own || makes, own || ends || writes || chosen)
    }

    /// Marks what a marked element leads to (or, `back`, what leads to it); Idle leads nowhere.
    fn spread(&self, marks: &mut [bool], back: bool) {
        let mut next: Vec<Vec<usize>> = vec![Vec::new(); marks.len()];
        for edge in self.editor.edges() {
            let (from, to) = (edge.from.element, edge.to.element);
            let (from, to) = if back { (to, from) } else { (from, to) };
            next[from].push(to);
        }
        let mut open: Vec<usize> = (0..marks.len()).filter(|at| marks[*at]).collect();
        while let Some(at) = open.pop() {
            for to in &next[at] {
                if !marks[*to] && !is_idle(self.editor.element(*to)) {
                    marks[*to] = true;
                    open.push(*to);
                }
            }
        }
    }

    /// Takes unused ports off schedulers and tees, and these away where one port is left.
    fn redundant(&mut self) -> bool {
        let mut changed = false;
        for at in self.of_purposes(SCHEDULERS) {
            changed |= self.scheduler(at);
        }
        for at in self.of_purposes(&[Purpose::CopyToAll]) {
            changed |= self.tee(at);
        }
        changed
    }

    fn scheduler(&mut self, at: usize) -> bool {
        let used: Vec<usize> = (0..self.ports[at].0)
            .filter(|port| !self.editor.sources(PortRef { element: at, port: *port }).is_empty())
            .collect();
        let decl = self.editor.element_mut(at);
        if decl.spec.purpose == Purpose::ScheduleByArguments {
            // One number for each input; otherwise they cannot be assigned.
            if decl.args.len() != self.ports[at].0 {
                return false;
            }
            let kept: Vec<&str> = used.iter().map(|port| decl.args[*port].text.as_str()).collect();
            decl.configure(kept.join(", "));
        }
        if let [only] = used[..] {
            self.bypass(at, (only, 0));
            return true;
        }
        self.ports[at].0 = used.len();
        self.editor.each_edge(|edge| {
            if edge.to.element == at {
                edge.to.port = used.binary_search(&edge.to.port).unwrap_or(0);
            }
        });
        false
    }

    fn tee(&mut self, at: usize) -> bool {
        let pulls = pulls(self.editor.element(at));
        let used: Vec<usize> = (0..self.ports[at].1)
            .filter(|port| {
                let targets = self.editor.targets(PortRef { element: at, port: *port });
                // A PullTee's first output leads to the puller.
                pulls && *port == 0 || !targets.is_empty()
            })
            .collect();
        if let [only] = used[..] {
            self.bypass(at, (0, only));
            return true;
        }
        self.ports[at].1 = used.len();
        if !self.editor.element(at).args.is_empty() {
            self.editor.element_mut(at).configure(used.len().to_string());
        }
        self.editor.each_edge(|edge| {
            if edge.from.element == at {
                edge.from.port = used.binary_search(&edge.from.port).unwrap_or(0);
            }
        });
        false
    }

    /// Connects ports that lost their neighbours to an Idle.
    fn fill(&mut self) {
        let mut blank = (Vec::new(), Vec::new());
        for at in self.editor.elements() {
            let (inputs, outputs) = self.ports[at];
            let port = |port| PortRef { element: at, port };
            let editor = &self.editor;
            blank.0.extend((0..inputs).map(port).filter(|to| editor.sources(*to).is_empty()));
            blank.1.extend((0..outputs).map(port).filter(|from| editor.targets(*from).is_empty()));
        }
        let Some(spec) = CATALOG.of_purpose(Purpose::FillPorts) else { return };
        if blank.0.is_empty() && blank.1.is_empty() {
            return;
        }
        let name = self.editor.free_name(spec.name);
        let idle = ElementDecl::added(name, spec, String::new(), "click-undead");
        let idle = self.editor.add(idle);
        for (port, to) in blank.0.into_iter().enumerate() {
            self.editor.connect(PortRef { element: idle, port }, to);
        }
        for (port, from) in blank.1.into_iter().enumerate() {
            self.editor.connect(from, PortRef { element: idle, port });
        }
    }
}

fn is_idle(decl: &ElementDecl) -> bool {
    decl.spec.purpose == Purpose::FillPorts
}

/// Whether its first input pulls.
fn pulls(decl: &ElementDecl) -> bool {
    decl.spec.processing.starts_with('l')
}

/// The port that a switch has turned to.
fn constant(decl: &ElementDecl) -> Result<Option<usize>, String> {
    let text = decl.args.first().map(|arg| unquote_text(&arg.text)).unwrap_or_default();
    let number = text.split_whitespace().last().unwrap_or_default();
    let number: i64 = number.parse().map_err(|_| {
        let class = &decl.class;
        format!(
            "{}: '{}' needs the number of its port: write {class}(N), not {class}({})",
            decl.landmark, decl.name, decl.config
        )
    })?;
    Ok(usize::try_from(number).ok())
}

/// The elements that the arguments of others name, by themselves or by a compound element around
/// them: scripts read their handlers, schedulers place their tasks.
fn named(graph: &Graph) -> HashSet<usize> {
    let mut found = HashSet::new();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_/@".contains(c);
    for (from, decl) in graph.elements.iter().enumerate() {
        let words: HashSet<&str> =
            decl.config.split(|c| !is_name(c)).filter(|word| !word.is_empty()).collect();
        let mut scope = decl.name.as_str();
        while !words.is_empty() {
            scope = scope.rsplit_once('/').map_or("", |(outer, _)| outer);
            let full: HashSet<String> = words
                .iter()
                .map(
                    |word| {
                        if scope.is_empty() { (*word).into() } else { format!("{scope}/{word}") }
                    },
                )
                .collect();
            let others = graph.elements.iter().enumerate().filter(|(at, _)| *at != from);
            let meant = others.filter(|(_, other)| {
                let ends = other.name.match_indices('/').map(|(end, _)| end);
                ends.chain([other.name.len()]).any(|end| full.contains(&other.name[..end]))
            });
            found.extend(meant.map(|(at, _)| at));
            if scope.is_empty() {
                break;
            }
        }
    }
    found
}
