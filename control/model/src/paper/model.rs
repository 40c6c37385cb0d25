//! A model: what a network function does with the usual packet, as elementary operations.

use std::path::Path;

use super::mapping::{Cost, Mapping};
use super::operation::Operation;
use super::printed::Printed;
use super::rows::{ModelError, ModelRow, PartRow, line};
use super::run::Run;
use crate::file_error;

/// The paper's models (its section 3), by name. The last one is both directions of the gateway.
pub const MODELS: &[(&str, &str)] = &[
    ("l2-switch", include_str!("../../models/l2-switch.toml")),
    ("learning-switch", include_str!("../../models/learning-switch.toml")),
    ("mpls-switch", include_str!("../../models/mpls-switch.toml")),
    ("bng-access", include_str!("../../models/bng-access.toml")),
    ("bng-core", include_str!("../../models/bng-core.toml")),
    ("bng", include_str!("../../models/bng.toml")),
];

/// An operation of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What is done.
    pub operation: Operation,
    /// What it is for.
    pub about: String,
}

/// What happens to some of the packets.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Name of the model that it comes from.
    pub name: String,
    /// Share of all packets.
    pub share: f64,
    /// In order.
    pub steps: Vec<Step>,
    /// What the paper says of it.
    pub printed: Option<Printed>,
}

/// A network function.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// What people call it.
    pub name: String,
    /// What it is.
    pub title: String,
    /// Where the model comes from.
    pub source: String,
    /// What it runs on.
    pub run: Run,
    /// What happens to packets; the shares come to one.
    pub flows: Vec<Flow>,
    /// What the paper says of it.
    pub printed: Option<Printed>,
}

const STEPS_MAX: usize = 1000;
const PARTS_MAX: usize = 100;

impl Model {
    /// The model of this name, or of this file if the name ends in `.toml`.
    ///
    /// # Errors
    /// When there is none, it is not one, or it has impossible values.
    pub fn find(name: &str) -> Result<Model, ModelError> {
        find(name, Path::new(""), true)
    }

    /// Reads a model; `path` is what errors call it and what parts in files are found beside.
    ///
    /// # Errors
    /// When the text is none, or has impossible values.
    pub fn parse(path: &str, text: &str) -> Result<Model, ModelError> {
        read(path, text, true)
    }

    /// What the usual packet of a frame of this length costs: the mean over flows, by share.
    pub fn cost(&self, mapping: &Mapping, frame: u32) -> Cost {
        self.flows.iter().map(|flow| flow.cost(mapping, frame) * flow.share).sum()
    }

    /// The same where a share of the packets comes by the other processor's ports ([`Run`]).
    pub fn cost_by_sockets(&self, mapping: &Mapping, frame: u32) -> Cost {
        let share = self.run.other_socket;
        self.flows.iter().map(|flow| flow.cost_by_sockets(mapping, frame, share) * flow.share).sum()
    }
}

impl Flow {
    /// What one of its packets costs.
    pub fn cost(&self, mapping: &Mapping, frame: u32) -> Cost {
        self.steps.iter().map(|step| mapping.cost(&step.operation, frame)).sum()
    }

    /// The same where a share of the packets comes by the other processor's ports.
    pub fn cost_by_sockets(&self, mapping: &Mapping, frame: u32, share: f64) -> Cost {
        let cost = |step: &Step| {
            let near = mapping.cost(&step.operation, frame);
            match mapping.remote_cost(&step.operation, frame) {
                Some(remote) => near * (1.0 - share) + remote * share,
                None => near,
            }
        };
        self.steps.iter().map(cost).sum()
    }
}

fn find(name: &str, beside: &Path, may_have_parts: bool) -> Result<Model, ModelError> {
    if let Some((_, text)) = MODELS.iter().find(|(known, _)| *known == name) {
        return read(&format!("{name}.toml"), text, may_have_parts);
    }
    if !name.ends_with(".toml") {
        let known: Vec<&str> = MODELS.iter().map(|(known, _)| *known).collect();
        return Err(ModelError::Unknown { name: name.to_owned(), known: known.join(", ") });
    }
    let path = beside.join(name);
    read(&path.display().to_string(), &file_error::read(&path)?, may_have_parts)
}

fn read(path: &str, text: &str, may_have_parts: bool) -> Result<Model, ModelError> {
    let row: ModelRow = file_error::parse(path, text)?;
    check(path, &row)?;
    let mut flows = steps(path, text, &row)?;
    for part in &row.part {
        let at = line(text, part.span().start);
        let part = part.get_ref();
        if !may_have_parts {
            let what = format!("line {at}: a part of a part");
            return Err(value(path, what, "list the operations in the parts themselves"));
        }
        let beside = Path::new(path).parent().unwrap_or(Path::new(""));
        let model = find(&part.model, beside, false)?;
        flows.extend(model.flows.into_iter().map(|flow| Flow { share: part.share, ..flow }));
    }
    Ok(Model {
        name: row.name,
        title: row.title,
        source: row.source,
        run: row.run,
        flows,
        printed: row.paper,
    })
}

/// One flow of the model's own operations, or none where it has parts.
fn steps(path: &str, text: &str, row: &ModelRow) -> Result<Vec<Flow>, ModelError> {
    if row.operation.is_empty() {
        return Ok(Vec::new());
    }
    let step = |spanned: &toml::Spanned<super::rows::OperationRow>| {
        let row = spanned.get_ref();
        let operation = row.operation().map_err(|(what, remedy)| ModelError::Operation {
            path: path.to_owned(),
            line: line(text, spanned.span().start),
            what,
            remedy,
        })?;
        Ok(Step { operation, about: row.about.clone() })
    };
    let steps = row.operation.iter().map(step).collect::<Result<Vec<Step>, ModelError>>()?;
    Ok(vec![Flow { name: row.name.clone(), share: 1.0, steps, printed: row.paper.clone() }])
}

fn check(path: &str, row: &ModelRow) -> Result<(), ModelError> {
    let run = &row.run;
    let counts = [("cores", run.cores), ("memories", run.memories), ("links", run.links)];
    for (field, count) in counts {
        if !(1..=65536).contains(&count) {
            return Err(value(path, format!("run.{field} is {count}"), "give 1 to 65536"));
        }
    }
    if !(0.0..=1.0).contains(&run.other_socket) {
        let what = format!("run.other_socket is {}", run.other_socket);
        return Err(value(path, what, "a share is from 0 to 1"));
    }
    let (operations, parts) = (row.operation.len(), row.part.len());
    if (operations == 0) == (parts == 0) {
        let what = format!("{operations} operations and {parts} parts");
        return Err(value(path, what, "give [[operation]] tables, or [[part]] tables"));
    }
    if operations > STEPS_MAX || parts > PARTS_MAX {
        let what = format!("{operations} operations and {parts} parts");
        let remedy = format!("a model has at most {STEPS_MAX} operations or {PARTS_MAX} parts");
        return Err(value(path, what, &remedy));
    }
    check_shares(path, row.part.iter().map(toml::Spanned::get_ref))
}

fn check_shares<'a>(
    path: &str,
    parts: impl Iterator<Item = &'a PartRow> + Clone,
) -> Result<(), ModelError> {
    for part in parts.clone() {
        if !(0.0..=1.0).contains(&part.share) {
            let what = format!("the share of {} is {}", part.model, part.share);
            return Err(value(path, what, "a share is from 0 to 1"));
        }
    }
    let sum: f64 = parts.clone().map(|part| part.share).sum();
    if parts.count() > 0 && (sum - 1.0).abs() > 1e-6 {
        return Err(value(path, format!("the parts' shares come to {sum}"), "make them 1 in all"));
    }
    Ok(())
}

fn value(path: &str, what: String, remedy: &str) -> ModelError {
    ModelError::Value { path: path.to_owned(), what, remedy: remedy.to_owned() }
}
