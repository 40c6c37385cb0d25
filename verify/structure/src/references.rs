//! What a module defines, declares and names, read from its source.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

/// What one module says.
#[derive(Debug, Default)]
pub struct Scope {
    /// Modules that it declares.
    pub modules: Vec<Declared>,
    /// Names that it defines.
    pub items: BTreeSet<String>,
    /// Names that a `use` brings in, with their paths.
    pub names: BTreeMap<String, Vec<String>>,
    /// Paths of `use path::*`.
    pub globs: Vec<Vec<String>>,
    /// Every path that it names.
    pub imports: Vec<Import>,
}

/// A `mod`.
#[derive(Debug)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// What its `#[path]` says.
    pub file: Option<String>,
    /// What it says, if it stands in braces.
    pub inline: Option<Box<Scope>>,
}

/// A path and where it stands.
#[derive(Debug)]
pub struct Import {
    /// Its words; `crate`, `self` and `super` included.
    pub path: Vec<String>,
    /// Line in the file.
    pub line: usize,
    /// Whether a `use` says it.
    pub is_use: bool,
    /// Whether a `pub use` says it.
    pub is_reexport: bool,
}

/// Reads the items of a module.
pub fn read(items: &[syn::Item]) -> Scope {
    let mut reader = Reader::default();
    let kept = || items.iter().filter(|item| !is_test(attributes(item)));
    for item in kept() {
        reader.define(item);
    }
    for item in kept() {
        reader.visit_item(item);
    }
    reader.scope
}

#[derive(Default)]
struct Reader {
    scope: Scope,
}

impl Reader {
    /// Takes in what an item at the top of the module adds to its names.
    fn define(&mut self, item: &syn::Item) {
        let name = match item {
            syn::Item::Const(item) => &item.ident,
            syn::Item::Enum(item) => &item.ident,
            syn::Item::Fn(item) => &item.sig.ident,
            syn::Item::Static(item) => &item.ident,
            syn::Item::Struct(item) => &item.ident,
            syn::Item::Trait(item) => &item.ident,
            syn::Item::TraitAlias(item) => &item.ident,
            syn::Item::Type(item) => &item.ident,
            syn::Item::Union(item) => &item.ident,
            syn::Item::Macro(syn::ItemMacro { ident: Some(name), .. }) => name,
            syn::Item::Mod(item) => return self.declare(item),
            syn::Item::Use(item) => {
                for (path, name) in leaves(&item.tree) {
                    match name {
                        Some(name) => drop(self.scope.names.insert(name, path)),
                        None => self.scope.globs.push(path),
                    }
                }
                return;
            }
            _ => return,
        };
        self.scope.items.insert(name.to_string());
    }

    fn declare(&mut self, item: &syn::ItemMod) {
        let path = item.attrs.iter().find(|attr| attr.path().is_ident("path"));
        let file = path.and_then(|attr| match &attr.meta {
            syn::Meta::NameValue(pair) => text_of(&pair.value),
            _ => None,
        });
        let inline = item.content.as_ref().map(|(_, items)| Box::new(read(items)));
        self.scope.modules.push(Declared { name: item.ident.to_string(), file, inline });
    }

    fn name(&mut self, path: Vec<String>, line: usize) {
        self.scope.imports.push(Import { path, line, is_use: false, is_reexport: false });
    }

    /// Paths in the tokens of a macro: words joined by `::`, not behind a dot.
    fn scan(&mut self, tokens: TokenStream) {
        let (mut path, mut line, mut colons) = (Vec::new(), 0, 0);
        let mut behind_dot = false;
        for token in tokens {
            match token {
                TokenTree::Ident(word) if colons == 2 && !path.is_empty() => {
                    path.push(word.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                token => {
                    self.end(&mut path, line);
                    // `::word` is another crate's.
                    let is_foreign = behind_dot || colons == 2;
                    colons = 0;
                    behind_dot = matches!(&token, TokenTree::Punct(mark) if mark.as_char() == '.');
                    match token {
                        TokenTree::Group(group) => self.scan(group.stream()),
                        TokenTree::Ident(word) if !is_foreign => {
                            line = word.span().start().line;
                            path.push(word.to_string());
                        }
                        _ => {}
                    }
                }
            }
        }
        self.end(&mut path, line);
    }

    fn end(&mut self, path: &mut Vec<String>, line: usize) {
        if !path.is_empty() {
            self.name(std::mem::take(path), line);
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        // A module inside has a scope of its own.
        if !is_test(attributes(item)) && !matches!(item, syn::Item::Mod(_)) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            syn::visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_reexport = !matches!(item.vis, syn::Visibility::Inherited);
        let line = item.use_token.span.start().line;
        for (path, name) in leaves(&item.tree) {
            // Inside a function: its names are taken for the module's, which is near enough.
            if let Some(name) = name {
                self.scope.names.entry(name).or_insert_with(|| path.clone());
            }
            self.scope.imports.push(Import { path, line, is_use: true, is_reexport });
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none()
            && let Some(first) = path.segments.first()
        {
            let words = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.name(words, first.ident.span().start().line);
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.visit_path(&item.path);
        self.scan(item.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.scan(list.tokens.clone());
        }
    }

    /// `pub(in crate::x)` names a module and needs nothing of it.
    fn visit_visibility(&mut self, _visibility: &'ast syn::Visibility) {}
}

/// The paths of a `use` with the name that each brings in: none for a glob.
fn leaves(tree: &syn::UseTree) -> Vec<(Vec<String>, Option<String>)> {
    match tree {
        syn::UseTree::Path(path) => {
            let mut below = leaves(&path.tree);
            for (words, name) in &mut below {
                // `a::{self}` brings in `a`.
                let is_self = words.as_slice() == ["self"];
                if is_self && name.as_deref() == Some("self") {
                    *name = Some(path.ident.to_string());
                }
                if is_self {
                    words.clear();
                }
                words.insert(0, path.ident.to_string());
            }
            below
        }
        syn::UseTree::Name(name) => {
            let word = name.ident.to_string();
            vec![(vec![word.clone()], Some(word))]
        }
        syn::UseTree::Rename(rename) => {
            vec![(vec![rename.ident.to_string()], Some(rename.rename.to_string()))]
        }
        syn::UseTree::Glob(_) => vec![(Vec::new(), None)],
        syn::UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
    }
}

pub fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether something is compiled for tests only: `#[test]`, `#[cfg(test)]`,
/// `#[cfg(all(test, ..))]`.
pub fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else {
            return attribute.path().is_ident("test");
        };
        attribute.path().is_ident("cfg") && needs_test(list.tokens.clone())
    })
}

fn needs_test(condition: TokenStream) -> bool {
    let mut operator = String::new();
    for token in condition {
        match token {
            TokenTree::Ident(word) if word == "test" => return true,
            TokenTree::Ident(word) => operator = word.to_string(),
            TokenTree::Group(group) if operator == "all" => return needs_test(group.stream()),
            _ => {}
        }
    }
    false
}

fn text_of(value: &syn::Expr) -> Option<String> {
    match value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}
