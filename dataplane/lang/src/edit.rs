//! Changes to a flat configuration: elements come, go, and are bypassed.

use thruway_element::Spec;
use thruway_element::text::split_args;

use crate::graph::{ArgText, Edge, EdgeKind, ElementDecl, Graph, PortRef};
use crate::source::Span;

/// A graph that is being changed. Indices of elements stay the same until [`Editor::finish`].
#[derive(Debug, Clone)]
pub struct Editor {
    graph: Graph,
    removed: Vec<bool>,
}

impl Editor {
    /// Begins with a graph.
    pub fn new(graph: Graph) -> Editor {
        let removed = vec![false; graph.elements.len()];
        Editor { graph, removed }
    }

    /// The element at an index, removed or not.
    pub fn element(&self, index: usize) -> &ElementDecl {
        &self.graph.elements[index]
    }

    /// The element at an index, to be changed.
    pub fn element_mut(&mut self, index: usize) -> &mut ElementDecl {
        &mut self.graph.elements[index]
    }

    /// The indices of all elements that are left.
    pub fn elements(&self) -> Vec<usize> {
        (0..self.removed.len()).filter(|index| !self.removed[*index]).collect()
    }

    /// The connections that are left; their order means nothing.
    pub fn edges(&self) -> &[Edge] {
        &self.graph.edges
    }

    /// The index of the element called `name`, if it is left.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.elements().into_iter().find(|index| self.graph.elements[*index].name == name)
    }

    /// A name that no element has: `base@N`.
    pub fn free_name(&self, base: &str) -> String {
        let mut number = self.graph.elements.len() + 1;
        loop {
            let name = format!("{base}@{number}");
            if self.find(&name).is_none() {
                return name;
            }
            number += 1;
        }
    }

    /// Adds an element; returns its index.
    pub fn add(&mut self, element: ElementDecl) -> usize {
        self.graph.elements.push(element);
        self.removed.push(false);
        self.removed.len() - 1
    }

    /// Adds a connection, if it is not there yet.
    pub fn connect(&mut self, from: PortRef, to: PortRef) {
        self.add_edge(Edge { from, to, kind: EdgeKind::Packet, span: Span::default() });
    }

    /// Adds a connection of any sort, if its ports are not connected yet.
    pub fn add_edge(&mut self, edge: Edge) {
        let is_same = |other: &Edge| (other.from, other.to) == (edge.from, edge.to);
        if !self.graph.edges.iter().any(is_same) {
            self.graph.edges.push(edge);
        }
    }

    /// Removes an element with its connections.
    pub fn remove(&mut self, index: usize) {
        self.removed[index] = true;
        self.retain(|edge| edge.from.element != index && edge.to.element != index);
    }

    /// Keeps those connections that `keep` says.
    pub fn retain(&mut self, keep: impl FnMut(&Edge) -> bool) {
        self.graph.edges.retain(keep);
    }

    /// Changes connections in place.
    pub fn each_edge(&mut self, change: impl FnMut(&mut Edge)) {
        self.graph.edges.iter_mut().for_each(change);
    }

    /// What leads to the input `old` leads to the input `new`.
    pub fn move_input(&mut self, old: PortRef, new: PortRef) {
        self.each_edge(|edge| edge.to = if edge.to == old { new } else { edge.to });
    }

    /// What the output `old` leads to, the output `new` leads to.
    pub fn move_output(&mut self, old: PortRef, new: PortRef) {
        self.each_edge(|edge| edge.from = if edge.from == old { new } else { edge.from });
    }

    /// The ports that lead to an input.
    pub fn sources(&self, to: PortRef) -> Vec<PortRef> {
        self.graph.edges.iter().filter(|edge| edge.to == to).map(|edge| edge.from).collect()
    }

    /// The ports that an output leads to.
    pub fn targets(&self, from: PortRef) -> Vec<PortRef> {
        self.graph.edges.iter().filter(|edge| edge.from == from).map(|edge| edge.to).collect()
    }

    /// Removes an element and connects what leads to its port `input` with what its port `output`
    /// leads to.
    pub fn bypass(&mut self, index: usize, input: usize, output: usize) {
        let before = self.sources(PortRef { element: index, port: input });
        let behind = self.targets(PortRef { element: index, port: output });
        self.remove(index);
        for from in before.iter().filter(|from| from.element != index) {
            for to in behind.iter().filter(|to| to.element != index) {
                self.connect(*from, *to);
            }
        }
    }

    /// The changed graph.
    pub fn finish(mut self) -> Graph {
        let new_index: Vec<usize> = self
            .removed
            .iter()
            .scan(0, |next, removed| {
                *next += usize::from(!removed);
                Some(next.saturating_sub(1))
            })
            .collect();
        let mut removed = self.removed.iter();
        self.graph.elements.retain(|_| removed.next() == Some(&false));
        for edge in &mut self.graph.edges {
            edge.from.element = new_index[edge.from.element];
            edge.to.element = new_index[edge.to.element];
        }
        self.graph.edges.sort_by_key(|edge| (edge.from, edge.to));
        self.graph
    }
}

impl ElementDecl {
    /// An element that a tool adds; `by` stands where the place of its declaration would.
    pub fn added(name: String, spec: &'static Spec, config: String, by: &str) -> ElementDecl {
        let mut element = ElementDecl {
            name,
            class: spec.name.to_owned(),
            spec,
            config: String::new(),
            args: Vec::new(),
            span: Span::default(),
            landmark: by.to_owned(),
            context: Vec::new(),
        };
        element.configure(config);
        element
    }

    /// Gives the element another configuration string.
    pub fn configure(&mut self, config: String) {
        let args = split_args(&config).into_iter();
        self.args = args.map(|(text, _)| ArgText { text, span: self.span }).collect();
        self.config = config;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::catalog::graph;
    use crate::unparse;

    #[test]
    fn bypassed_and_removed() {
        let mut editor = Editor::new(graph(
            "InfiniteSource -> n :: Null -> d :: Discard; InfiniteSource -> n; a :: Any -> b :: Any",
        ));
        let at = editor.find("n").expect("n");
        editor.bypass(at, 0, 0);
        let at = editor.find("a").expect("a");
        editor.remove(at);
        assert_eq!(editor.find("a"), None);
        let text = unparse(&editor.finish());
        let expected = "InfiniteSource@1 -> d;\nInfiniteSource@4 -> d;\n";
        assert!(text.ends_with(expected) && text.contains("b :: Any;\n"), "{text}");
    }

    #[test]
    fn a_loop_through_what_is_bypassed_ends() {
        let mut editor = Editor::new(graph("n :: Null -> n"));
        editor.bypass(0, 0, 0);
        assert_eq!(unparse(&editor.finish()), "");
    }

    #[test]
    fn added_elements_have_new_names() {
        let mut editor = Editor::new(graph("Any@2 :: Any"));
        let spec = editor.element(0).spec;
        let name = editor.free_name("Any");
        let index = editor.add(ElementDecl::added(name, spec, "1, x y".to_owned(), "a test"));
        editor.connect(PortRef { element: 0, port: 1 }, PortRef { element: index, port: 0 });
        editor.connect(PortRef { element: 0, port: 1 }, PortRef { element: index, port: 0 });
        assert_eq!(editor.element(index).args.len(), 2);
        let text = unparse(&editor.finish());
        assert_eq!(text, "Any@2 :: Any;\nAny@3 :: Any(1, x y);\n\nAny@2 [1] -> Any@3;\n");
    }
}
