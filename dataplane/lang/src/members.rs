//! Chains: the elements that their lists name or declare, and the connections between them.

use thruway_element::nearest;

use crate::ast::*;
use crate::connect::{End, Point, Ports, pairs};
use crate::diagnostics::Diagnostic;
use crate::graph::EdgeKind;
use crate::lower::Lowerer;
use crate::parser;
use crate::scope::{ClassId, Conn, DeclKind, Scope};
use crate::source::Span;
use crate::variables::Mapped;

impl Lowerer<'_> {
    /// Declares the elements of a chain and connects them.
    pub(crate) fn chain(&mut self, chain: &Chain, scope: &mut Scope) {
        let mut last: Vec<Member> = Vec::new();
        let lone = chain.links.len() == 1;
        for link in &chain.links {
            let members = self.list(link, lone, scope);
            match link.connector {
                Some(connector) => self.connect(&last, &members, connector, scope),
                None => {
                    self.check_useless(
                        members.iter().map(|member| &member.inputs),
                        "input",
                        "start",
                    );
                }
            }
            last = members;
        }
        self.check_useless(last.iter().map(|member| &member.outputs), "output", "end");
    }

    fn check_useless<'b>(
        &mut self,
        sides: impl Iterator<Item = &'b Written>,
        side: &str,
        position: &str,
    ) {
        if let Some(span) = sides.filter_map(|written| written.span).next() {
            self.error(span, format!("{side} ports ignored at {position} of chain"));
        }
    }

    fn connect(&mut self, from: &[Member], to: &[Member], connector: Connector, scope: &mut Scope) {
        let end = |member: &Member, written: &Written| End {
            element: member.element,
            ports: written.ports.clone(),
        };
        let outputs: Vec<End> = from.iter().map(|member| end(member, &member.outputs)).collect();
        let inputs: Vec<End> = to.iter().map(|member| end(member, &member.inputs)).collect();
        let (pairs, errors) = pairs(&outputs, &inputs, connector.kind);
        errors.into_iter().for_each(|error| self.error(connector.span, error));
        let kind = match connector.kind {
            ConnectorKind::Context => EdgeKind::Context,
            _ => EdgeKind::Packet,
        };
        let too_high = |point: &Point| point.1 >= parser::MAX_PORTS;
        for (from, to) in pairs {
            if too_high(&from) || too_high(&to) {
                let message = format!("more than {} ports", parser::MAX_PORTS);
                return self.error(connector.span, message);
            }
            scope.connect(Conn { from, to, kind, span: connector.span });
        }
    }

    fn list(&mut self, link: &Link, lone: bool, scope: &mut Scope) -> Vec<Member> {
        let spread = if lone { spread_class(&link.items) } else { None };
        if let Some((class, config)) = spread {
            let class = self.class_ref(class);
            let config = config.map_or(Mapped::default(), |config| self.written(config));
            let declare = |item: &Item| self.element(item, Some(class), config.clone(), scope);
            return link.items.iter().map(declare).collect();
        }
        // Groups and compounds come first, as they are met; then the list's elements in order.
        let mut found: Vec<Found<'_>> = Vec::new();
        for item in &link.items {
            match &item.what {
                What::Group(body) => match lone_list(body) {
                    Some(items) => {
                        let members = self.listed(items, scope);
                        found.push(Found::Members(members));
                        self.check_plain_group(item);
                    }
                    None => found.push(Found::Members(vec![self.group(item, body, scope)])),
                },
                _ => {
                    let class = item.class.as_ref().map(|class| self.class_ref(class));
                    let compound = match &item.what {
                        What::Compound(compound) => Some(self.compound(compound, "")),
                        _ => None,
                    };
                    found.push(Found::Item(item, class, compound));
                }
            }
        }
        let mut members = Vec::new();
        for found in found {
            match found {
                Found::Members(list) => members.extend(list),
                Found::Item(item, class, compound) => {
                    let config = item.config.as_ref();
                    let config = config.map_or(Mapped::default(), |config| self.written(config));
                    members.push(match compound {
                        Some(id) => self.compound_element(item, (id, class), config, scope),
                        None => self.element(item, class, config, scope),
                    });
                }
            }
        }
        members
    }

    /// `(a, b)`: the elements themselves.
    fn listed(&mut self, items: &[Item], scope: &mut Scope) -> Vec<Member> {
        let link = Link { connector: None, items: items.to_vec() };
        self.list(&link, true, scope)
    }

    fn check_plain_group(&mut self, item: &Item) {
        if let Some(ports) = item.before.as_ref().or(item.after.as_ref()) {
            self.error(ports.span, "ports belong to the elements of a list, not to the list");
        }
    }

    fn compound_element(
        &mut self,
        item: &Item,
        (id, class): (ClassId, Option<ClassId>),
        config: Mapped,
        scope: &mut Scope,
    ) -> Member {
        if class.is_some() {
            self.error(item.span, "class '<anonymous>' used as element name");
        }
        let kind = DeclKind::Class(id);
        Member::of(scope.declare_anonymous("", kind, config, item.span), item)
    }

    /// A name: a class (of an anonymous element), a new element, or a known one.
    fn element(
        &mut self,
        item: &Item,
        class: Option<ClassId>,
        config: Mapped,
        scope: &mut Scope,
    ) -> Member {
        let (name, span) = match &item.what {
            What::Name(name) => (name.text.clone(), name.span),
            What::Compound(_) | What::Group(_) => (String::new(), item.span),
        };
        let named_class = self.class(&name);
        let known = scope.names.get(&name).copied();
        let element = match (named_class, known, class) {
            (Some(id), _, class) => {
                if class.is_some() {
                    self.error(span, format!("class '{name}' used as element name"));
                }
                scope.declare_anonymous(&name, DeclKind::Class(id), config, item.span)
            }
            (None, Some(known), class) => {
                self.check_reference(item, known, class.is_some(), scope);
                known
            }
            (None, None, Some(class)) => {
                self.check_name(&name, span);
                scope.declare(name, DeclKind::Class(class), config, item.span)
            }
            (None, None, None) => {
                let id = self.undeclared(item, &name, span, scope);
                scope.declare_anonymous(&name, DeclKind::Class(id), config, item.span)
            }
        };
        Member::of(element, item)
    }

    fn check_reference(&mut self, item: &Item, known: usize, declared: bool, scope: &Scope) {
        let decl = &scope.decls[known];
        if declared {
            let error =
                Diagnostic::error(item.span, format!("redeclaration of element '{}'", decl.name));
            let message = format!("element '{}' previously declared here", decl.name);
            self.diagnostics.push(match decl.kind {
                DeclKind::Class(_) => error.beside(decl.span, message),
                _ => error,
            });
        } else if let Some(config) = &item.config {
            self.error(config.span, "configuration string ignored on element reference");
        }
    }

    fn check_name(&mut self, name: &str, span: Span) {
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if name.split('/').any(digits) {
            self.error(span, format!("element name '{name}' has all-digit component"));
        }
    }

    fn undeclared(&mut self, item: &Item, name: &str, span: Span, scope: &Scope) -> ClassId {
        let like_class =
            item.config.is_some() || name.starts_with(|c: char| c.is_ascii_uppercase());
        let names = scope.names.keys().map(String::as_str);
        let element = if self.diagnostics.is_full() { None } else { nearest(name, names) };
        let element = element.map(str::to_string);
        let class = self.suggest_class(name);
        let (error, suggestion) = match like_class {
            true => (Diagnostic::no_class(span, name), class.or(element)),
            false => {
                let message = format!("undeclared element '{name}'");
                (Diagnostic::error(span, message), element.or(class))
            }
        };
        self.diagnostics.push(error.suggest(suggestion.as_deref()));
        self.unknown_class(name)
    }

    /// `( ... )` with statements: like a compound element, but in this scope.
    fn group(&mut self, item: &Item, body: &Body, scope: &mut Scope) -> Member {
        let none = Mapped::default;
        let kind = DeclKind::Group { inputs: 0, outputs: 0 };
        let group = scope.declare_anonymous("", kind, none(), item.span);
        let outer = (scope.names.remove("input"), scope.names.remove("output"));
        let input = scope.declare("input".to_string(), DeclKind::Input, none(), item.span);
        let output = scope.declare("output".to_string(), DeclKind::Output, none(), item.span);
        let first_conn = scope.conns.len();
        self.body(body, scope);
        for (name, index) in [("input", outer.0), ("output", outer.1)] {
            match index {
                Some(index) => scope.names.insert(name.to_string(), index),
                None => scope.names.remove(name),
            };
        }
        let name = "<anonymous group>";
        let (inputs, outputs) =
            self.check_pseudo(scope, (input, output), (name, item.span), first_conn);
        scope.decls[group].kind = DeclKind::Group { inputs, outputs };
        if item.class.is_some() {
            self.error(item.span, "a group has no class");
        }
        if let Some(config) = &item.config {
            self.error(config.span, "configuration string ignored on element reference");
        }
        let mut member = Member::of(group, item);
        let all = |n: u32| (n > 0).then(|| Ports { numbers: (0..n).collect(), grows: false });
        if item.before.is_none() {
            member.inputs.ports = all(inputs);
        }
        if item.after.is_none() {
            member.outputs.ports = all(outputs);
        }
        member
    }
}

/// Met in a list.
enum Found<'b> {
    Members(Vec<Member>),
    Item(&'b Item, Option<ClassId>, Option<ClassId>),
}

/// Ports as written, and where (nowhere, if implied).
#[derive(Debug)]
struct Written {
    ports: Option<Ports>,
    span: Option<Span>,
}

impl Written {
    fn of(list: &Option<PortList>) -> Written {
        Written { ports: list.as_ref().map(Ports::from), span: list.as_ref().map(|list| list.span) }
    }
}

/// An element in a chain.
#[derive(Debug)]
struct Member {
    element: usize,
    inputs: Written,
    outputs: Written,
}

impl Member {
    fn of(element: usize, item: &Item) -> Member {
        Member { element, inputs: Written::of(&item.before), outputs: Written::of(&item.after) }
    }
}

/// `a, b :: Class(config)` standing alone: the class and configuration of all.
fn spread_class(items: &[Item]) -> Option<(&ClassRef, Option<&Config>)> {
    let (last, before) = items.split_last()?;
    let bare = |item: &Item| {
        matches!(item.what, What::Name(_)) && item.class.is_none() && item.config.is_none()
    };
    let no_ports = items.iter().all(|item| item.before.is_none() && item.after.is_none());
    let named = matches!(last.what, What::Name(_));
    let spreads = !before.is_empty() && named && no_ports && before.iter().all(bare);
    last.class.as_ref().filter(|_| spreads).map(|class| (class, last.config.as_ref()))
}

/// The list that is all of a group, as in `(a, b) -> c`.
fn lone_list(body: &Body) -> Option<&[Item]> {
    match &body.statements[..] {
        [Statement::Chain(chain)] if chain.links.len() == 1 => Some(&chain.links[0].items),
        _ => None,
    }
}
