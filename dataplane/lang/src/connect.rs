//! Which port of one list is connected to which port of the next.

use crate::ast::{ConnectorKind, PortList};

/// An element's ports on one side of a connector.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub element: usize,
    /// Port numbers as written; `None` if not given.
    pub ports: Option<Ports>,
}

/// Ports as written.
#[derive(Debug, Clone)]
pub(crate) struct Ports {
    pub numbers: Vec<u32>,
    pub grows: bool,
}

impl From<&PortList> for Ports {
    fn from(list: &PortList) -> Ports {
        Ports { numbers: list.ports.clone(), grows: list.grows }
    }
}

/// An element and a port.
pub(crate) type Point = (usize, u32);

/// One side of a connector, counted.
struct Side<'a> {
    ends: &'a [End],
    least: usize,
    grows: usize,
}

impl<'a> Side<'a> {
    fn new(ends: &'a [End]) -> Side<'a> {
        let count = |end: &End| end.ports.as_ref().map_or(1, |ports| ports.numbers.len().max(1));
        let grows = |end: &&End| end.ports.as_ref().is_some_and(|ports| ports.grows);
        Side { ends, least: ends.iter().map(count).sum(), grows: ends.iter().filter(grows).count() }
    }

    /// `=>` lets a lone element without ports have as many as the other side needs.
    fn grow_for(&mut self, other: usize) {
        if self.least == 1 && other > 1 && self.ends[0].ports.is_none() {
            self.grows = 1;
        }
    }

    /// All points in order, `more` of them added where it grows.
    fn points(&self, more: usize) -> Vec<Point> {
        let mut points = Vec::new();
        for end in self.ends {
            let none = Ports { numbers: Vec::new(), grows: self.ends.len() == 1 };
            let ports = end.ports.as_ref().unwrap_or(&none);
            let last = ports.numbers.last().copied().unwrap_or(0);
            let numbers = if ports.numbers.is_empty() { &[0][..] } else { &ports.numbers };
            points.extend(numbers.iter().map(|port| (end.element, *port)));
            if ports.grows && self.grows > 0 {
                let further = (1..=more as u32).map(|n| last.saturating_add(n));
                points.extend(further.map(|port| (end.element, port)));
            }
        }
        points
    }
}

/// The pairs of points that `outputs CONNECTOR inputs` connects, and what is wrong with it.
pub(crate) fn pairs(
    outputs: &[End],
    inputs: &[End],
    connector: ConnectorKind,
) -> (Vec<(Point, Point)>, Vec<String>) {
    let (mut from, mut to) = (Side::new(outputs), Side::new(inputs));
    let mut errors = Vec::new();
    if from.least == 0 || to.least == 0 {
        return (Vec::new(), errors);
    }
    if from.grows + to.grows > 1 {
        errors.push("at most one expandable port allowed per connection".to_string());
        return (Vec::new(), errors);
    }
    if connector == ConnectorKind::Many {
        from.grow_for(to.least);
        to.grow_for(from.least);
    }
    let (from_many, to_many) = (from.least > 1 || from.grows > 0, to.least > 1 || to.grows > 0);
    if from_many && to_many {
        if connector != ConnectorKind::Many {
            errors.push("syntax error: many-to-many connections require '=>'".to_string());
        }
        errors.extend(mismatch(&from, &to));
    }
    let from_points = from.points(to.least.saturating_sub(from.least));
    let to_points = to.points(from.least.saturating_sub(to.least));
    let pairs = match (from_many, to_many) {
        (true, true) => from_points.into_iter().zip(to_points).collect(),
        (true, false) => from_points.into_iter().map(|point| (point, to_points[0])).collect(),
        (false, _) => to_points.into_iter().map(|point| (from_points[0], point)).collect(),
    };
    (pairs, errors)
}

fn mismatch(from: &Side<'_>, to: &Side<'_>) -> Option<String> {
    let (outputs, inputs) = (from.least, to.least);
    let (out_more, in_more) = match (from.grows > 0, to.grows > 0) {
        (false, false) if inputs != outputs => ("", ""),
        (true, false) if inputs < outputs => (" or more", ""),
        (false, true) if outputs < inputs => ("", " or more"),
        _ => return None,
    };
    Some(format!(
        "connection mismatch: {outputs}{out_more} outputs connected to {inputs}{in_more} inputs"
    ))
}
