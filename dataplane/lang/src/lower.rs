//! The syntax tree to declarations: names and classes are looked up, port lists become
//! connections, libraries are read.

use std::collections::HashMap;

use thruway_element::{Catalog, text};

use crate::ast::*;
use crate::connect::{End, Point, Ports, pairs};
use crate::diagnostics::{Diagnostic, Diagnostics, nearest};
use crate::graph::{EdgeKind, Requirement};
use crate::lexer::is_variable;
use crate::parser;
use crate::scope::{Class, ClassId, CompoundClass, Conn, DeclKind, Scope};
use crate::source::{Source, SourceMap, Span};
use crate::variables::Mapped;

/// Longest text, in bytes.
pub const MAX_TEXT: usize = 16 << 20;
/// How many libraries a configuration may require.
pub const MAX_LIBRARIES: usize = 64;

/// Finds the text of `require(library "NAME")`.
pub trait Loader {
    /// The text called `name`, required by the text called `from`; or why there is none. The
    /// source's name identifies it: a library is taken once.
    fn load(&self, name: &str, from: &str) -> Result<Source, String>;
}

/// Has no libraries.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLibraries;

impl Loader for NoLibraries {
    fn load(&self, name: &str, _from: &str) -> Result<Source, String> {
        Err(format!("library '{name}' not found: libraries cannot be read here"))
    }
}

pub(crate) struct Lowerer<'a> {
    catalog: &'a dyn Catalog,
    loader: &'a dyn Loader,
    pub sources: SourceMap,
    pub diagnostics: Diagnostics,
    pub classes: Vec<Class>,
    pub requirements: Vec<Requirement>,
    pub provides: Vec<String>,
    class_names: Vec<HashMap<String, ClassId>>,
    libraries: Vec<String>,
}

impl<'a> Lowerer<'a> {
    pub fn new(catalog: &'a dyn Catalog, loader: &'a dyn Loader) -> Lowerer<'a> {
        Lowerer {
            catalog,
            loader,
            sources: SourceMap::default(),
            diagnostics: Diagnostics::default(),
            classes: Vec::new(),
            requirements: Vec::new(),
            provides: Vec::new(),
            class_names: vec![HashMap::new()],
            libraries: Vec::new(),
        }
    }

    /// Parses and lowers a text into the outermost scope.
    pub fn file(&mut self, source: Source, scope: &mut Scope) {
        let too_long = source.text.len() > MAX_TEXT;
        let source = if too_long { Source::new(source.name, "") } else { source };
        let text = source.text.clone();
        let index = self.sources.add(source);
        if too_long {
            let message = format!("configuration longer than {MAX_TEXT} bytes");
            self.error(Span { source: index, start: 0, end: 0 }, message);
        }
        let syntax = parser::parse(&text, index);
        for directive in &syntax.directives {
            let name = directive.name.clone().unwrap_or_else(|| {
                let at = directive.offset as u32;
                self.sources.position(Span { source: index, start: at, end: at }).0.to_string()
            });
            self.sources.mark(index, directive.offset, directive.line, &name);
        }
        syntax.errors.into_iter().for_each(|error| self.diagnostics.push(error));
        self.body(&syntax.body, scope);
    }

    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::error(span, message));
    }

    fn body(&mut self, body: &Body, scope: &mut Scope) {
        for statement in &body.statements {
            match statement {
                Statement::Chain(chain) => self.chain(chain, scope),
                Statement::Class(class) => self.class_decl(class),
                Statement::Require(config) => self.require(config, scope),
                Statement::Provide(config) => {
                    let text = self.written(config).text;
                    let args = text::split_args(&text).into_iter();
                    self.provides.extend(args.map(|(arg, _)| text::unquote_text(&arg)));
                }
                Statement::Define(config) => self.define(config, scope),
            }
        }
    }

    fn written(&self, config: &Config) -> Mapped {
        Mapped::written(config, &self.sources)
    }

    fn define(&mut self, config: &Config, scope: &mut Scope) {
        let mapped = self.written(config);
        for (arg, range) in text::split_args(&mapped.text) {
            let span = mapped.span_of(range);
            let name = text::split_words(&arg).first().copied().unwrap_or("");
            match name.strip_prefix('$') {
                Some(variable) if !variable.is_empty() && variable.bytes().all(is_variable) => {
                    if scope.defines.iter().any(|(known, _)| known == variable) {
                        self.error(span, format!("parameter '{name}' multiply defined"));
                    } else {
                        let value = arg[name.len()..].trim_start();
                        scope.defines.push((variable.to_string(), value.to_string()));
                    }
                }
                _ if arg.is_empty() => {}
                _ => self.error(span, "bad 'define' declaration: not a variable"),
            }
        }
    }

    fn require(&mut self, config: &Config, scope: &mut Scope) {
        let mapped = self.written(config);
        for (arg, range) in text::split_args(&mapped.text) {
            let words: Vec<String> =
                text::split_words(&arg).into_iter().map(text::unquote_text).collect();
            let requirement = |kind: &str, value: &str| Requirement {
                kind: kind.to_string(),
                value: value.to_string(),
            };
            match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                [] => {}
                ["library", name] => self.library(name, mapped.span_of(range), scope),
                ["compact_config"] => self.requirements.push(requirement("compact_config", "")),
                ["package", name] => self.requirements.push(requirement("package", name)),
                [name] if name != "package" && name != "library" => {
                    self.requirements.push(requirement("package", name));
                }
                _ => self.error(mapped.span_of(range), "syntax error at requirement"),
            }
        }
    }

    fn library(&mut self, name: &str, span: Span, scope: &mut Scope) {
        if self.class_names.len() > 1 {
            return self.error(span, "'require library' must be used at file scope");
        }
        let from = self.sources.source(span.source).map_or("", |source| source.name.as_str());
        match self.loader.load(name, from) {
            Err(message) => self.error(span, message),
            Ok(source) if self.libraries.contains(&source.name) => {}
            Ok(_) if self.libraries.len() == MAX_LIBRARIES => {
                self.error(span, format!("more than {MAX_LIBRARIES} libraries"));
            }
            Ok(source) => {
                self.libraries.push(source.name.clone());
                self.file(source, scope);
            }
        }
    }

    /// The class called `name` here, if there is one.
    fn class(&mut self, name: &str) -> Option<ClassId> {
        let known = self.class_names.iter().rev().find_map(|names| names.get(name).copied());
        known.or_else(|| {
            let spec = self.catalog.spec(name)?;
            let id = self.add_class(Class::Primitive(name.to_string(), spec));
            self.class_names[0].insert(name.to_string(), id);
            Some(id)
        })
    }

    fn add_class(&mut self, class: Class) -> ClassId {
        self.classes.push(class);
        self.classes.len() - 1
    }

    fn name_class(&mut self, name: &str, id: ClassId) {
        if let Some(names) = self.class_names.last_mut() {
            names.insert(name.to_string(), id);
        }
    }

    /// The class called `name`; if there is none, that is reported once.
    fn class_or_error(&mut self, name: &Name) -> ClassId {
        if let Some(id) = self.class(&name.text) {
            return id;
        }
        let suggestion = self.suggest_class(&name.text);
        let message = format!("unknown element class '{}'", name.text);
        let error = Diagnostic::error(name.span, message).suggest(suggestion.as_deref());
        self.diagnostics.push(error);
        self.unknown_class(&name.text)
    }

    fn unknown_class(&mut self, name: &str) -> ClassId {
        let id = self.add_class(Class::Unknown(name.to_string()));
        self.name_class(name, id);
        id
    }

    fn suggest_class(&self, name: &str) -> Option<String> {
        if self.diagnostics.is_full() {
            return None;
        }
        let own = self.class_names.iter().flat_map(HashMap::iter);
        let own = own.filter(|(_, id)| !matches!(self.classes[**id], Class::Unknown(_)));
        let own: Vec<&str> = own.map(|(name, _)| name.as_str()).collect();
        nearest(name, self.catalog.names().into_iter().chain(own)).map(str::to_string)
    }

    fn class_ref(&mut self, class: &ClassRef) -> ClassId {
        match class {
            ClassRef::Name(name) => self.class_or_error(name),
            ClassRef::Compound(compound) => self.compound(compound, ""),
        }
    }

    fn class_decl(&mut self, decl: &ClassDecl) {
        let id = match &decl.value {
            ClassRef::Name(name) => self.class_or_error(name),
            ClassRef::Compound(compound) => self.compound(compound, &decl.name.text),
        };
        self.name_class(&decl.name.text, id);
    }

    /// Lowers all overloads; the first one's class stands for them.
    fn compound(&mut self, compound: &Compound, name: &str) -> ClassId {
        let extended = compound.extends.and_then(|span| {
            let class = self.class(name);
            if class.is_none() {
                self.error(span, format!("cannot extend unknown element class '{name}'"));
            }
            class
        });
        let mut next = extended;
        let classes: Vec<CompoundClass> =
            compound.overloads.iter().map(|overload| self.overload(overload, name)).collect();
        for mut class in classes.into_iter().rev() {
            class.overload = next;
            next = Some(self.add_class(Class::Compound(Box::new(class))));
        }
        next.unwrap_or_else(|| self.add_class(Class::Unknown(name.to_string())))
    }

    fn overload(&mut self, overload: &Overload, name: &str) -> CompoundClass {
        let mut scope = Scope::compound(overload.span);
        self.check_formals(&overload.formals);
        let depth = self.class_names.len();
        self.class_names.push(HashMap::new());
        self.body(&overload.body, &mut scope);
        self.class_names.pop();
        let printed = if name.is_empty() { "<anonymous>" } else { name };
        let (inputs, outputs) = self.check_pseudo(&scope, (0, 1), printed, overload.span);
        scope.settle_names();
        CompoundClass {
            name: name.to_string(),
            formals: overload.formals.clone(),
            scope,
            inputs,
            outputs,
            overload: None,
            span: overload.span,
            depth,
        }
    }

    fn check_formals(&mut self, formals: &[Formal]) {
        for (index, formal) in formals.iter().enumerate() {
            let before = &formals[..index];
            if before.iter().any(|other| other.variable == formal.variable) {
                let message = format!("parameter '${}' multiply defined", formal.variable);
                self.error(formal.span, message);
            }
            let keyword = &formal.keyword;
            if !keyword.is_empty() && before.iter().any(|other| other.keyword == *keyword) {
                let message = format!("repeated keyword parameter '{keyword}' in compound element");
                self.error(formal.span, message);
            }
            let last = before.last().map_or("", |other| other.keyword.as_str());
            if last == "__REST__" || !last.is_empty() && keyword.is_empty() {
                let error = "compound element parameters out of order";
                let order = "The correct order is '[positional], [keywords], [__REST__]'.";
                self.diagnostics.push(Diagnostic::error(formal.span, error).note(order));
            }
        }
    }

    /// Number of ports of `input` and `output` (declarations `io`); they must have no gaps and be
    /// used on the right side.
    fn check_pseudo(
        &mut self,
        scope: &Scope,
        io: (usize, usize),
        name: &str,
        span: Span,
    ) -> (u32, u32) {
        let (inputs, outputs) = (scope.decls[io.0].outputs, scope.decls[io.1].inputs);
        if scope.decls[io.0].inputs > 0 {
            let message = format!("'{name}' pseudoelement 'input' may only be used as output");
            self.error(span, message);
        }
        if scope.decls[io.1].outputs > 0 {
            let message = format!("'{name}' pseudoelement 'output' may only be used as input");
            self.error(span, message);
        }
        let mut used = (vec![false; inputs as usize], vec![false; outputs as usize]);
        for conn in &scope.conns {
            if conn.from.0 == io.0 {
                used.0[conn.from.1 as usize] = true;
            }
            if conn.to.0 == io.1 {
                used.1[conn.to.1 as usize] = true;
            }
        }
        for (side, ports) in [("input", used.0), ("output", used.1)] {
            for (port, _) in ports.iter().enumerate().filter(|(_, used)| !**used) {
                self.error(span, format!("'{name}' {side} {port} missing"));
            }
        }
        (inputs, outputs)
    }

    fn chain(&mut self, chain: &Chain, scope: &mut Scope) {
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
        place: &str,
    ) {
        if let Some(span) = sides.filter_map(|written| written.span).next() {
            self.error(span, format!("{side} ports ignored at {place} of chain"));
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
                DeclKind::Class(_) => error.note_at(decl.span, message),
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
        let (message, suggestion) = match like_class {
            true => (format!("unknown element class '{name}'"), class.or(element)),
            false => (format!("undeclared element '{name}'"), element.or(class)),
        };
        let error = Diagnostic::error(span, message).suggest(suggestion.as_deref());
        self.diagnostics.push(error);
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
        self.body(body, scope);
        for (name, index) in [("input", outer.0), ("output", outer.1)] {
            match index {
                Some(index) => scope.names.insert(name.to_string(), index),
                None => scope.names.remove(name),
            };
        }
        let name = "<anonymous group>";
        let (inputs, outputs) = self.check_pseudo(scope, (input, output), name, item.span);
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
