//! A pattern or a replacement as a graph with numbered ends.

use crate::ast::Formal;
use crate::graph::{Edge, EdgeKind, ElementDecl, PortRef};
use crate::lower::Lowerer;
use crate::scope::{Class, ClassId, Conn, DeclKind, Scope};
use crate::source::Span;
use crate::variables::Mapped;

/// Elements, their connections, and the ports of the whole.
#[derive(Debug, Clone, Default)]
pub(super) struct Fragment {
    /// With the names that they have in the class.
    pub elements: Vec<ElementDecl>,
    /// Between the elements; their indices are those of `elements`.
    pub inner: Vec<(PortRef, PortRef, EdgeKind)>,
    /// From an input of the whole to a port of an element.
    pub entries: Vec<(usize, PortRef, EdgeKind)>,
    /// From a port of an element to an output of the whole.
    pub exits: Vec<(PortRef, usize, EdgeKind)>,
    /// From an input to an output.
    pub through: Vec<(usize, usize)>,
    pub inputs: usize,
    pub outputs: usize,
    /// Arguments that are variables, with their places.
    pub variables: Vec<(String, Span)>,
    pub span: Span,
}

/// A class as an element among others, between two ends.
pub(super) struct Instance {
    name: String,
    inputs: usize,
    outputs: usize,
    span: Span,
}

/// The ends of an instance: names that no element of a text can have.
const ENDS: [&str; 2] = [" input", " output"];

impl Instance {
    /// Declares an element of a compound class, and elements at all its inputs and all its outputs.
    pub fn declare(scope: &mut Scope, lowerer: &mut Lowerer<'_>, class: ClassId) -> Instance {
        let Class::Compound(compound) = &lowerer.classes[class] else {
            return Instance { name: String::new(), inputs: 0, outputs: 0, span: Span::default() };
        };
        let (name, span) = (compound.name.clone(), compound.span);
        let (inputs, outputs) = (compound.inputs, compound.outputs);
        let mut config = Mapped::default();
        config.text = arguments(&compound.formals);
        let end = lowerer.end_class();
        let middle = scope.declare(name.clone(), DeclKind::Class(class), config, span);
        let [first, last] = ENDS.map(|end_name| {
            let name = format!("{name}{end_name}");
            scope.declare(name, DeclKind::Class(end), Mapped::default(), span)
        });
        let kind = EdgeKind::Packet;
        for port in 0..inputs {
            scope.connect(Conn { from: (first, port), to: (middle, port), kind, span });
        }
        for port in 0..outputs {
            scope.connect(Conn { from: (middle, port), to: (last, port), kind, span });
        }
        Instance { name, inputs: inputs as usize, outputs: outputs as usize, span }
    }

    /// What the class expanded to.
    pub fn fragment(self, elements: &[ElementDecl], edges: &[Edge]) -> Fragment {
        let Instance { name, inputs, outputs, span } = self;
        let mut fragment = Fragment { inputs, outputs, span, ..Fragment::default() };
        let prefix = format!("{name}/");
        let [first, last] = ENDS.map(|end| format!("{name}{end}"));
        let mut places = vec![None; elements.len()];
        for (element, place) in elements.iter().zip(&mut places) {
            if let Some(short) = element.name.strip_prefix(&prefix) {
                *place = Some(fragment.elements.len());
                let args = element.args.iter().filter(|arg| is_variable(&arg.text));
                fragment.variables.extend(args.map(|arg| (arg.text.clone(), arg.span)));
                fragment.elements.push(ElementDecl { name: short.to_owned(), ..element.clone() });
            }
        }
        for edge in edges {
            let own = |port: PortRef| Some(PortRef { element: places[port.element]?, ..port });
            let is = |port: PortRef, name: &str| elements[port.element].name == name;
            match (own(edge.from), own(edge.to)) {
                (Some(from), Some(to)) => fragment.inner.push((from, to, edge.kind)),
                (None, Some(to)) => fragment.entries.push((edge.from.port, to, edge.kind)),
                (Some(from), None) => fragment.exits.push((from, edge.to.port, edge.kind)),
                (None, None) if is(edge.from, &first) && is(edge.to, &last) => {
                    fragment.through.push((edge.from.port, edge.to.port));
                }
                (None, None) => {}
            }
        }
        fragment
    }
}

/// Whether an argument is a variable, all of it.
pub(super) fn is_variable(arg: &str) -> bool {
    let name = arg.strip_prefix('$').unwrap_or_default();
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Arguments by which each parameter has its own name as its value: `$a` stays `$a`.
fn arguments(formals: &[Formal]) -> String {
    let argument = |formal: &Formal| match formal.keyword.as_str() {
        "" | "__REST__" => format!("${}", formal.variable),
        keyword => format!("{keyword} ${}", formal.variable),
    };
    formals.iter().map(argument).collect::<Vec<_>>().join(", ")
}
