//! The syntax tree to declarations: names and classes are looked up, port lists become
//! connections, libraries are read.

use std::collections::HashMap;

use thruway_element::{Catalog, Purpose, Spec, nearest, text};

use crate::ast::*;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::graph::{Requirement, UNKNOWN};
use crate::lexer::is_variable;
use crate::parser;
use crate::scope::{Class, ClassId, CompoundClass, Scope};
use crate::source::{Source, SourceMap, Span};
use crate::variables::Mapped;

/// Longest text, in bytes.
pub const MAX_TEXT: usize = 64 << 20;
/// Most parameters of a compound element.
pub const MAX_FORMALS: usize = 256;
/// Most variables that a file or compound element defines.
pub const MAX_DEFINES: usize = 10_000;
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

    pub(crate) fn error(&mut self, span: Span, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::error(span, message));
    }

    pub(crate) fn body(&mut self, body: &Body, scope: &mut Scope) {
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

    pub(crate) fn written(&self, config: &Config) -> Mapped {
        Mapped::written(config, &self.sources)
    }

    fn define(&mut self, config: &Config, scope: &mut Scope) {
        let mapped = self.written(config);
        for (arg, range) in text::split_args(&mapped.text) {
            let span = mapped.span_of(range);
            let name = text::split_words(&arg).first().copied().unwrap_or("");
            match name.strip_prefix('$') {
                Some(variable) if !variable.is_empty() && variable.bytes().all(is_variable) => {
                    let value = arg[name.len()..].trim_start().to_string();
                    if scope.defines.len() >= MAX_DEFINES {
                        return self.error(span, format!("more than {MAX_DEFINES} definitions"));
                    }
                    if scope.defines.contains_key(variable) {
                        self.error(span, format!("parameter '{name}' multiply defined"));
                    } else {
                        scope.defines.insert(variable.to_string(), value);
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
    pub(crate) fn class(&mut self, name: &str) -> Option<ClassId> {
        let known = self.class_names.iter().rev().find_map(|names| names.get(name).copied());
        known.or_else(|| {
            let spec = self.catalog.spec(name)?;
            let id = self.add_class(Class::Primitive(name.to_string(), spec));
            self.class_names[0].insert(name.to_string(), id);
            Some(id)
        })
    }

    /// The catalog's class that sorts packets between context links, whatever the configuration
    /// calls so.
    pub(crate) fn link_dispatcher(&self) -> Option<&'static Spec> {
        self.catalog.of_purpose(Purpose::DispatchLinks)
    }

    /// The compound element classes of the outermost scope, in the order of the text.
    pub(crate) fn compounds(&self) -> Vec<(String, ClassId, Span)> {
        let names = self.class_names.first().into_iter().flatten();
        let mut compounds: Vec<(String, ClassId, Span)> = names
            .filter_map(|(name, id)| match &self.classes[*id] {
                Class::Compound(class) => Some((name.clone(), *id, class.span)),
                _ => None,
            })
            .collect();
        compounds.sort_by_key(|(_, _, span)| (span.source, span.start));
        compounds
    }

    /// A class that has any ports and no name in the configuration.
    pub(crate) fn end_class(&mut self) -> ClassId {
        self.add_class(Class::Primitive(String::new(), &UNKNOWN))
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
        let error = Diagnostic::no_class(name.span, &name.text);
        self.diagnostics.push(error.suggest(suggestion.as_deref()));
        self.unknown_class(&name.text)
    }

    pub(crate) fn unknown_class(&mut self, name: &str) -> ClassId {
        let id = self.add_class(Class::Unknown(name.to_string()));
        self.name_class(name, id);
        id
    }

    pub(crate) fn suggest_class(&self, name: &str) -> Option<String> {
        if self.diagnostics.is_full() {
            return None;
        }
        let own = self.class_names.iter().flat_map(HashMap::iter);
        let own = own.filter(|(_, id)| !matches!(self.classes[**id], Class::Unknown(_)));
        let own: Vec<&str> = own.map(|(name, _)| name.as_str()).collect();
        nearest(name, self.catalog.names().into_iter().chain(own)).map(str::to_string)
    }

    pub(crate) fn class_ref(&mut self, class: &ClassRef) -> ClassId {
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
    pub(crate) fn compound(&mut self, compound: &Compound, name: &str) -> ClassId {
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
        let (inputs, outputs) = self.check_pseudo(&scope, (0, 1), (printed, overload.span), 0);
        scope.make_names_unique();
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
        if let Some(formal) = formals.get(MAX_FORMALS) {
            return self.error(formal.span, format!("more than {MAX_FORMALS} parameters"));
        }
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
    /// used on the right side. Connections before `first_conn` do not concern them.
    pub(crate) fn check_pseudo(
        &mut self,
        scope: &Scope,
        io: (usize, usize),
        (name, span): (&str, Span),
        first_conn: usize,
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
        for conn in &scope.conns[first_conn..] {
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
}
