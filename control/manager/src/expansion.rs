//! Replicas in the text of a configuration: the one element that runs the function becomes a
//! compound element of a `Balance` and the replicas.
//!
//! ```text
//! nf :: Nf($words, ARGS)      nf :: { input -> balance :: Balance(...);
//!                                     balance[0] -> r0 :: Nf($words, ARGS) -> output; ... }
//! ```
//!
//! The text stays in its lines, so that messages name the lines that the operator wrote. Names of
//! replicas stay the same from layout to layout: what a hot swap keeps by name goes on.

pub mod groups;
pub mod on_demand;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::SystemTime;

use thruway_lang::Span;
use thruway_lang::ast::{Body, ClassRef, Compound, Item, Link, PortList, Statement, What};
use thruway_lang::parser;

use crate::kind::CheckError;
use crate::replicas::{Layout, ReplicasSpec, Slot, SlotState};
use crate::{ChainSpec, FunctionName, FunctionSpec, FunctionUse, Run};

/// The class of elements that run a function.
const CLASS: &str = "Nf";

/// The element that runs a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// Its name.
    pub name: String,
    /// Its class and its arguments in the text.
    span: Span,
    /// The arguments behind the function, with the comma in front of them.
    arguments: String,
    /// Its inputs that connections use: one, or two.
    inputs: u32,
    /// Its outputs that connections use.
    outputs: u32,
}

/// The variable of a version that is not the one that is asked for, the `nth` of those, from 0 on.
pub fn variable_of(variable: &str, nth: usize) -> String {
    match nth {
        0 => format!("{variable}_before"),
        _ => format!("{variable}_before_{nth}"),
    }
}

/// Checks what a chain declares of replicas.
///
/// # Errors
/// The field that is wrong.
pub fn check(spec: &ChainSpec) -> Result<(), CheckError> {
    for (variable, replicas) in &spec.replicas {
        let field = format!("replicas.{variable}");
        if !spec.functions.contains_key(variable) {
            let message = format!(
                "'{variable}' is none of `functions`; replicas are of a function that the chain \
                 uses"
            );
            return Err(CheckError::new(field, message));
        }
        let taken = |name: &String| spec.functions.contains_key(name) || is_variable(spec, name);
        if let Some(other) = (0..2).map(|nth| variable_of(variable, nth)).find(taken) {
            let message = format!("'{other}' is a variable that the manager needs; rename yours");
            return Err(CheckError::new(field, message));
        }
        replicas.check(&field)?;
        find(&spec.configuration, variable)
            .map_err(|message| CheckError::new(field.clone(), message))?;
    }
    Ok(())
}

fn is_variable(spec: &ChainSpec, name: &str) -> bool {
    spec.variables.contains_key(name)
}

/// The replicas of a chain that begins.
pub fn at_first(spec: &ChainSpec, now: SystemTime) -> BTreeMap<String, Layout> {
    let layout = |(variable, replicas): (&String, &ReplicasSpec)| {
        let used = spec.functions.get(variable)?;
        Some((variable.clone(), Layout::new(used, replicas.count_at_first(), now)))
    };
    spec.replicas.iter().filter_map(layout).collect()
}

/// Finds the element whose first argument is `$variable`.
///
/// # Errors
/// There is none, there are several, or another cannot be written in its place: a sentence.
pub(crate) fn find(configuration: &str, variable: &str) -> Result<Element, String> {
    let body = parser::parse(configuration, 0).body;
    let runs = |arguments: &str| first_len(arguments.trim_start(), variable).is_some();
    let mut search = Search::of(configuration, &runs);
    search.body(&body);
    if search.is_inside {
        return Err(format!(
            "the {CLASS} of ${variable} is inside of a compound element; declare it outside of all"
        ));
    }
    let (item, class) = match search.found.as_slice() {
        [one] => *one,
        [] => {
            return Err(format!(
                "no element is `NAME :: {CLASS}(${variable}, ...)`; declare the one that runs it so"
            ));
        }
        _ => {
            return Err(format!(
                "several elements run ${variable}; give each function a variable of its own"
            ));
        }
    };
    let (What::Name(name), Some(class), Some(config)) = (&item.what, class, &item.config) else {
        return Err(format!(
            "the element that runs ${variable} has no name; write `NAME :: {CLASS}(${variable}...`"
        ));
    };
    let mut ports = Ports { name: &name.text, inputs: 0, outputs: 0, is_open: false };
    ports.body(&body);
    if ports.is_open {
        return Err(format!("write the numbers of the ports of '{}'", name.text));
    }
    if !(1..=2).contains(&ports.inputs) {
        return Err(format!(
            "'{}' has {} inputs; it can have one, or two for two directions",
            name.text, ports.inputs
        ));
    }
    // The parenthesis that closes the arguments stands behind them.
    let span = Span { end: config.span.end + 1, ..class };
    let text = configuration[config.span.range()].trim_start();
    let arguments = text[first_len(text, variable).unwrap_or(0)..].trim().to_owned();
    let (name, inputs, outputs) = (name.text.clone(), ports.inputs, ports.outputs);
    Ok(Element { name, span, arguments, inputs, outputs })
}

/// The length of `$variable` at the beginning of arguments, where it is the whole first one.
fn first_len(arguments: &str, variable: &str) -> Option<usize> {
    let forms = [format!("${variable}"), format!("${{{variable}}}")];
    let len = forms.iter().find(|form| arguments.starts_with(form.as_str()))?.len();
    let rest = arguments[len..].trim_start();
    (rest.is_empty() || rest.starts_with(',')).then_some(len)
}

/// Looks for elements that run functions and have arguments of some form.
struct Search<'a> {
    text: &'a str,
    is_wanted: &'a dyn Fn(&str) -> bool,
    /// With the span of the class, if they have a name.
    found: Vec<(&'a Item, Option<Span>)>,
    is_inside: bool,
}

impl<'a> Search<'a> {
    fn of(text: &'a str, is_wanted: &'a dyn Fn(&str) -> bool) -> Search<'a> {
        Search { text, is_wanted, found: Vec::new(), is_inside: false }
    }

    fn body(&mut self, body: &'a Body) {
        for statement in &body.statements {
            match statement {
                Statement::Chain(chain) => chain.links.iter().for_each(|link| self.link(link)),
                Statement::Class(class) => {
                    if let ClassRef::Compound(compound) = &class.value {
                        self.compound(compound);
                    }
                }
                _ => {}
            }
        }
    }

    fn link(&mut self, link: &'a Link) {
        for item in &link.items {
            match (&item.what, &item.class) {
                (What::Group(body), _) => self.body(body),
                (What::Compound(compound), _) | (_, Some(ClassRef::Compound(compound))) => {
                    self.compound(compound);
                }
                (What::Name(_), Some(ClassRef::Name(class))) if class.text == CLASS => {
                    self.element(item, Some(class.span));
                }
                (What::Name(class), None) if class.text == CLASS => self.element(item, None),
                _ => {}
            }
        }
    }

    fn element(&mut self, item: &'a Item, class: Option<Span>) {
        let arguments = item.config.as_ref().map(|config| &self.text[config.span.range()]);
        if arguments.is_some_and(self.is_wanted) {
            self.found.push((item, class));
        }
    }

    fn compound(&mut self, compound: &'a Compound) {
        let mut inner = Search::of(self.text, self.is_wanted);
        compound.overloads.iter().for_each(|overload| inner.body(&overload.body));
        self.is_inside |= inner.is_inside || !inner.found.is_empty();
    }
}

/// Counts the ports of an element that connections use.
struct Ports<'a> {
    name: &'a str,
    inputs: u32,
    outputs: u32,
    /// Whether as many as are needed are used somewhere.
    is_open: bool,
}

impl Ports<'_> {
    fn body(&mut self, body: &Body) {
        for statement in &body.statements {
            let Statement::Chain(chain) = statement else { continue };
            let last = chain.links.len() - 1;
            for (at, item) in chain
                .links
                .iter()
                .enumerate()
                .flat_map(|(at, link)| link.items.iter().map(move |item| (at, item)))
            {
                match &item.what {
                    What::Group(body) => self.body(body),
                    What::Name(name) if name.text == self.name => {
                        self.inputs = self.inputs.max(self.used(item.before.as_ref(), at > 0));
                        self.outputs = self.outputs.max(self.used(item.after.as_ref(), at < last));
                    }
                    _ => {}
                }
            }
        }
    }

    /// How many ports there are at least, by one side of an item.
    fn used(&mut self, ports: Option<&PortList>, is_connected: bool) -> u32 {
        let Some(ports) = ports else { return u32::from(is_connected) };
        self.is_open |= ports.grows;
        ports.ports.iter().max().map_or(0, |port| port + 1)
    }
}

/// What a data plane runs where functions have replicas: the same chain with these written out.
/// `others` are versions that are not asked for any more and still run.
///
/// # Errors
/// Replicas of an element cannot be written.
pub fn expand(
    run: &Run,
    layouts: &BTreeMap<String, Layout>,
    others: &BTreeMap<FunctionName, FunctionSpec>,
) -> Result<Run, CheckError> {
    let mut wide = run.clone();
    wide.spec.replicas.clear();
    let mut edits = Vec::new();
    for (variable, layout) in layouts {
        let Some(asked) = run.spec.functions.get(variable) else { continue };
        let element = find(&run.spec.configuration, variable)
            .map_err(|message| CheckError::new(format!("replicas.{variable}"), message))?;
        let versions = Versions::of(variable, asked, layout, |name| {
            wide.functions.contains_key(name) || others.contains_key(name)
        });
        // A variable that nothing uses would be an error.
        wide.spec.functions.remove(variable);
        for (name, used) in &versions.uses {
            wide.spec.functions.insert(name.clone(), (*used).clone());
            if let Some(function) = others.get(&used.name) {
                wide.functions.entry(used.name.clone()).or_insert_with(|| function.clone());
            }
        }
        edits.push((element.span, compound(&element, layout, &versions)));
    }
    edits.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    for (span, text) in edits {
        wide.spec.configuration.replace_range(span.range(), &text);
    }
    Ok(wide)
}

/// The versions that replicas run, each by its variable.
struct Versions<'a> {
    variable: &'a str,
    uses: Vec<(String, &'a FunctionUse)>,
}

impl<'a> Versions<'a> {
    fn of(
        variable: &'a str,
        asked: &'a FunctionUse,
        layout: &'a Layout,
        is_known: impl Fn(&FunctionName) -> bool,
    ) -> Versions<'a> {
        let mut uses: Vec<(String, &FunctionUse)> = Vec::new();
        let mut others = 0;
        for slot in layout.slots.iter().filter(|slot| slot.state != SlotState::Vacant) {
            // A version of which nothing is known any more gives way at once.
            let used = if is_known(&slot.used.name) { &slot.used } else { asked };
            if uses.iter().any(|(_, known)| *known == used) {
                continue;
            }
            let name = match used == asked {
                true => variable.to_owned(),
                false => {
                    others += 1;
                    variable_of(variable, others - 1)
                }
            };
            uses.push((name, used));
        }
        Versions { variable, uses }
    }

    fn variable_of(&self, slot: &Slot) -> &str {
        let known = self.uses.iter().find(|(_, used)| **used == slot.used);
        known.map_or(self.variable, |(name, _)| name)
    }
}

/// The compound element, in one line.
fn compound(element: &Element, layout: &Layout, versions: &Versions<'_>) -> String {
    let &Element { inputs, outputs, .. } = element;
    let replicas = layout.slots.len() as u32;
    let mut text = format!("{{ input[0] -> balance :: Balance({});", balance(layout));
    // Writing to a String does not fail.
    for input in 1..inputs {
        let _ = write!(text, " input[{input}] -> [{input}] balance;");
    }
    for (at, slot) in (0..replicas).zip(&layout.slots) {
        let name = match slot.state {
            SlotState::Vacant => {
                let _ = write!(text, " v{at} :: Discard;");
                format!("v{at}")
            }
            _ => {
                let (variable, arguments) = (versions.variable_of(slot), line(&element.arguments));
                let _ = write!(text, " r{at} :: {CLASS}(${variable}{arguments});");
                for output in 0..outputs {
                    let _ = write!(text, " r{at}[{output}] -> [{output}] output;");
                }
                format!("r{at}")
            }
        };
        for input in 0..inputs {
            let port = if slot.state == SlotState::Vacant { 0 } else { input };
            let _ = write!(text, " balance[{}] -> [{port}] {name};", input * replicas + at);
        }
    }
    text + " }"
}

/// Arguments of the `Balance`.
fn balance(layout: &Layout) -> String {
    let method = if layout.is_weighted() { "weighted" } else { "least-queue" };
    let weights: Vec<String> = layout.slots.iter().map(|slot| slot.weight.to_string()).collect();
    let drained: Vec<String> = (0..)
        .zip(&layout.slots)
        .filter(|(_, slot)| slot.state != SlotState::Up)
        .map(|(at, _): (u32, _)| at.to_string())
        .collect();
    let mut text = format!("METHOD {method}, WEIGHTS {}", weights.join(" "));
    if !drained.is_empty() {
        let _ = write!(text, ", DRAINED {}", drained.join(" "));
    }
    text
}

/// Arguments in one line where that means the same: without comments and strings.
fn line(arguments: &str) -> String {
    match arguments.contains('"') || arguments.contains("//") || arguments.contains("/*") {
        true => arguments.to_owned(),
        false => arguments.replace('\n', " "),
    }
}

#[cfg(test)]
mod tests;
