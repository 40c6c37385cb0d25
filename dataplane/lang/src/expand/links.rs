//! Context links: behind every output that has some, a dispatcher is put, with an output for each.
//!
//! The dispatcher's outputs are in the order in which the links were written. Where a link leads
//! into a compound element whose `input` is connected to several elements, the links within stand
//! in the place of the link that leads there, in the order in which they are written; likewise
//! those of a compound element's `output`. The first rule that matches counts, so this order is
//! the order of precedence.

use std::collections::{BTreeMap, HashMap};

use super::{Context, Expander, Joined, Node, NodeKind, Stop};
use crate::connect::Point;
use crate::diagnostics::Diagnostic;
use crate::scope::{Class, ClassId};
use crate::variables::Mapped;

/// The class of the dispatchers.
#[derive(Clone, Copy)]
struct Dispatcher {
    class: ClassId,
    name: &'static str,
}

/// Per compound element the number of its next anonymous element.
type Numbers = HashMap<Option<*const Context>, usize>;

impl Expander<'_, '_> {
    /// Puts the dispatchers of context links in place.
    pub(super) fn dispatch(&mut self, joined: Vec<Joined>) -> Result<Vec<Joined>, Stop> {
        let Some(first) = joined.iter().find(|edge| edge.link.is_some()) else {
            return Ok(joined);
        };
        let Some(spec) = self.lowerer.link_dispatcher() else {
            let [from, to] = [first.from, first.to].map(|point| &self.nodes[point.0].name);
            let message = format!(
                "context link '{from} ~> {to}' needs an element class that sorts packets between \
                 such links, and there is none here; use '->' and a classifier"
            );
            self.error(first.span, message);
            return Ok(joined);
        };
        self.classes.push(Class::Primitive(spec.name.to_string(), spec));
        let dispatcher = Dispatcher { class: self.classes.len() - 1, name: spec.name };
        let mut outputs: BTreeMap<Point, Vec<Joined>> = BTreeMap::new();
        joined.into_iter().for_each(|edge| outputs.entry(edge.from).or_default().push(edge));
        let mut numbers = self.numbers();
        let mut edges = Vec::new();
        for links in outputs.into_values() {
            if links.iter().all(|edge| edge.link.is_none())
                || self.is_dispatched(dispatcher, &links)
            {
                edges.extend(links);
                continue;
            }
            self.check_unmixed(&links);
            self.insert(dispatcher, links, &mut numbers, &mut edges)?;
        }
        Ok(edges)
    }

    /// Whether a link leads to or from a dispatcher that has no rules: then it needs no other.
    fn is_dispatched(&self, dispatcher: Dispatcher, links: &[Joined]) -> bool {
        let [link] = links else { return false };
        [link.from, link.to].iter().any(|point| {
            let node = &self.nodes[point.0];
            let NodeKind::Element(class) = node.kind else { return false };
            let Class::Primitive(name, _) = &self.classes[class] else { return false };
            name == dispatcher.name && node.config.text.trim().is_empty()
        })
    }

    fn check_unmixed(&mut self, links: &[Joined]) {
        let Some(plain) = links.iter().find(|edge| edge.link.is_none()) else { return };
        let context = links.iter().find(|edge| edge.link.is_some()).unwrap_or(plain);
        let message = format!(
            "output {} of '{}' has a plain link '->' beside a context link '~>': write '~>' for \
             both, then packets are sorted between them",
            plain.from.1, self.nodes[plain.from.0].name
        );
        let error = Diagnostic::error(plain.span, message);
        let error = error.beside(context.span, "the context link is here");
        self.lowerer.diagnostics.push(error);
    }

    /// Per compound element, what an anonymous element at its end would be numbered.
    fn numbers(&self) -> Numbers {
        let mut numbers = Numbers::new();
        for node in &self.nodes {
            let name = node.name.rsplit('/').next().unwrap_or("");
            let pseudo =
                matches!(node.kind, NodeKind::Tunnel(_)) && ["input", "output"].contains(&name);
            *numbers.entry(scope(node)).or_insert(1) += usize::from(!pseudo);
        }
        numbers
    }

    /// A dispatcher for the links of one output, in the compound element (or file) where the first
    /// of them is written.
    fn insert(
        &mut self,
        dispatcher: Dispatcher,
        mut links: Vec<Joined>,
        numbers: &mut Numbers,
        edges: &mut Vec<Joined>,
    ) -> Result<(), Stop> {
        let Some((first, link)) = links.iter().find_map(|edge| Some((*edge, edge.link?))) else {
            return Ok(());
        };
        let mut seen = std::collections::HashSet::new();
        links.retain(|edge| seen.insert(edge.to));
        let written_in = &self.nodes[self.conns[link].from.0];
        let number = numbers.entry(scope(written_in)).or_insert(1);
        let context = written_in.context.clone();
        let prefix = context.as_ref().map_or(String::new(), |c| format!("{}/", c.frame.name));
        let mut name;
        loop {
            name = format!("{prefix}{}@{number}", dispatcher.name);
            *number += 1;
            if !self.names.contains_key(&name) {
                break;
            }
        }
        let node = self.add(Node {
            name,
            kind: NodeKind::Element(dispatcher.class),
            config: Mapped::default(),
            span: first.span,
            context,
            inputs: 1,
            outputs: links.len() as u32,
        })?;
        edges.push(Joined { to: (node, 0), ..first });
        let outputs = links.into_iter().zip(0..);
        edges.extend(outputs.map(|(edge, port)| Joined {
            from: (node, port),
            link: Some(link),
            ..edge
        }));
        Ok(())
    }
}

/// What distinguishes the compound elements around elements.
fn scope(node: &Node) -> Option<*const Context> {
    node.context.as_ref().map(std::rc::Rc::as_ptr)
}
