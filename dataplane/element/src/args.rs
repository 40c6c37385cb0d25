//! From the arguments of a configuration to typed values, by the element's spec.

use std::sync::Arc;

use crate::arg_error::{ArgError, ArgErrors};
use crate::env::Env;
use crate::names::Names;
use crate::nearest::nearest;
use crate::spec::{Arg, ArgRule, Spec, Ty};
use crate::values::FromArg;

/// See [`Args::meanings`].
fn meanings(element: &str, name: &str) -> Vec<String> {
    let mut scope = element;
    let mut names = Vec::new();
    while let Some((outer, _)) = scope.rsplit_once('/') {
        names.push(format!("{outer}/{name}"));
        scope = outer;
    }
    names.push(name.to_owned());
    names
}

/// Arguments sorted by the spec.
pub struct Args<'a> {
    spec: &'static Spec,
    env: &'a Env<'a>,
    texts: &'a [String],
    /// Per declared argument: index of the text and where its value begins.
    given: Vec<Option<(usize, usize)>>,
    /// Indices of the texts that go to the `Rest` argument.
    rest: Vec<usize>,
}

/// The keyword at the beginning of an argument, if it looks like one.
fn leading_keyword(text: &str) -> Option<&str> {
    let end = text.find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.len());
    let word = &text[..end];
    let keyword = word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    keyword.then_some(word)
}

impl<'a> Args<'a> {
    /// Sorts `texts` (as [`crate::text::split_args`] splits them).
    ///
    /// # Errors
    /// All arguments that are too many, unknown or missing.
    pub fn sort(
        spec: &'static Spec,
        texts: &'a [String],
        env: &'a Env<'a>,
    ) -> Result<Args<'a>, ArgErrors> {
        let mut args =
            Args { spec, env, texts, given: vec![None; spec.args.len()], rest: Vec::new() };
        let mut errors = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let is_taken = !args.takes_for_name(text)
                && (args.take_keyword(index, text) || args.take_positional(index, text));
            if !is_taken {
                errors.push(args.excess(index, text));
            }
        }
        errors.extend(args.missing());
        if errors.is_empty() { Ok(args) } else { Err(ArgErrors(errors)) }
    }

    fn take_keyword(&mut self, index: usize, text: &str) -> bool {
        let Some(word) = leading_keyword(text) else { return false };
        let named = |arg: &Arg| arg.name == word && arg.rule != ArgRule::Rest;
        let Some(at) = self.spec.args.iter().position(named) else { return false };
        let value = text[word.len()..].trim_start();
        // A positional argument may have a value that looks like its own name.
        if value.is_empty() && matches!(self.spec.args[at].rule, ArgRule::Required) {
            return false;
        }
        // As in Click, the last one counts.
        self.given[at] = Some((index, text.len() - value.len()));
        true
    }

    /// Whether `text` would become a text or a name by its position, although it begins as a
    /// keyword with its value does: `LIMT 4`, `CSV file`. Click takes no unquoted blanks in texts
    /// either.
    fn takes_for_name(&self, text: &str) -> bool {
        let Some(word) = leading_keyword(text).filter(|word| word.len() > 1) else { return false };
        if text[word.len()..].trim().is_empty() || self.keywords().any(|known| known == word) {
            return false;
        }
        let free = self.spec.args.iter().enumerate().find(|(at, arg)| {
            matches!(arg.rule, ArgRule::Required | ArgRule::Optional) && self.given[*at].is_none()
        });
        let is_text = |ty| matches!(ty, Ty::Str | Ty::Data | Ty::File | Ty::OutFile | Ty::Element);
        free.is_some_and(|(_, arg)| is_text(arg.ty))
    }

    fn take_positional(&mut self, index: usize, text: &str) -> bool {
        let free = |(at, arg): &(usize, &Arg)| {
            matches!(arg.rule, ArgRule::Required | ArgRule::Optional) && self.given[*at].is_none()
        };
        if let Some((at, _)) = self.spec.args.iter().enumerate().find(free) {
            self.given[at] = Some((index, 0));
            return true;
        }
        let has_rest = self.spec.args.iter().any(|arg| arg.rule == ArgRule::Rest);
        if has_rest {
            self.rest.push(index);
        }
        has_rest || text.is_empty()
    }

    fn excess(&self, index: usize, text: &str) -> ArgError {
        let message = match leading_keyword(text).filter(|word| word.len() > 1) {
            _ if self.spec.args.is_empty() => {
                format!("{} takes no arguments", self.env.class)
            }
            Some(word) => match nearest(word, self.keywords()) {
                Some(keyword) => format!("unknown keyword '{word}'; did you mean {keyword}?"),
                None => {
                    let known: Vec<&str> = self.keywords().collect();
                    let known = known.join(", ");
                    let quote = match self.takes_for_name(text) {
                        true => format!("; a text with blanks is written in quotes: \"{text}\""),
                        false => String::new(),
                    };
                    format!("unknown keyword '{word}'; {} knows {known}{quote}", self.env.class)
                }
            },
            None => {
                let synopsis: Vec<&str> = self.spec.args.iter().map(|arg| arg.name).collect();
                format!("too many arguments; expected {}({})", self.env.class, synopsis.join(", "))
            }
        };
        ArgError { index: Some(index), message }
    }

    /// Keywords that may begin an argument.
    fn keywords(&self) -> impl Iterator<Item = &'static str> {
        let named = self.spec.args.iter().filter(|arg| arg.rule != ArgRule::Rest);
        named.map(|arg| arg.name)
    }

    /// A hint for errors about a positional argument that starts like a keyword: as in Click, such
    /// a word is part of the value.
    fn meant(&self, text: &str) -> String {
        let word = leading_keyword(text).filter(|word| self.keywords().all(|known| known != *word));
        let near = word.and_then(|word| Some((word, nearest(word, self.keywords())?)));
        near.map_or(String::new(), |(word, keyword)| {
            format!(" (no keyword '{word}'; did you mean {keyword}?)")
        })
    }

    fn missing(&self) -> Vec<ArgError> {
        let absent = |(at, arg): (usize, &Arg)| {
            let must = matches!(arg.rule, ArgRule::Required | ArgRule::RequiredKeyword);
            (must && self.given[at].is_none()).then(|| ArgError {
                index: None,
                message: format!("missing argument {}: {} ({})", arg.name, arg.doc, arg.ty),
            })
        };
        self.spec.args.iter().enumerate().filter_map(absent).collect()
    }

    /// The environment of the element.
    pub fn env(&self) -> &Env<'a> {
        self.env
    }

    /// The element's name.
    pub fn name(&self) -> &str {
        self.env.name
    }

    /// The class as written, which may be an alias.
    pub fn class(&self) -> &str {
        self.env.class
    }

    /// Full names that `name` may mean as seen from this element, the innermost first.
    pub fn meanings(&self, name: &str) -> Vec<String> {
        meanings(self.env.name, name)
    }

    /// State that all replicas of this element share.
    pub fn shared<T: Send + Sync + 'static>(
        &self,
        key: &'static str,
        make: impl FnOnce() -> T,
    ) -> Arc<T> {
        // A key belongs to one element's code, which asks for one type under it.
        self.env.shared.get(self.env.name, key, make).expect("one type per key")
    }

    fn find(&self, name: &str) -> (usize, &'static Arg) {
        let at = self.spec.args.iter().position(|arg| arg.name == name);
        // The names are literals in the element's own file; its golden test calls this.
        let at = at.unwrap_or_else(|| panic!("{} declares no argument {name}", self.spec.name));
        (at, &self.spec.args[at])
    }

    /// The names of addresses that the element may use, for handlers that parse values later.
    pub fn names(&self) -> Names {
        Names::of(self.env.name, self.env.addresses)
    }

    /// Whether the user gave the argument.
    pub fn given(&self, name: &str) -> bool {
        self.given[self.find(name).0].is_some()
    }

    /// The text of an argument as written, if given and not empty.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        let (index, from) = self.given[self.find(name).0]?;
        Some(&self.texts[index][from..]).filter(|text| !text.is_empty())
    }

    /// The value of an argument, or of its default.
    ///
    /// # Errors
    /// When the text is not of the type, or there is neither text nor default.
    pub fn get<T: FromArg>(&self, name: &str) -> Result<T, ArgError> {
        let (at, arg) = self.find(name);
        match self.opt(name)? {
            Some(value) => Ok(value),
            None if arg.default.is_empty() && arg.rule != ArgRule::Optional => Err(ArgError {
                index: self.given[at].map(|g| g.0),
                message: format!("{name} is empty: {}", arg.doc),
            }),
            None => T::from_arg(arg.default, self.env)
                .map_err(|message| ArgError { index: None, message: format!("{name}: {message}") }),
        }
    }

    /// The value of an argument, or `None` where it is not given.
    ///
    /// # Errors
    /// When the text is not of the type.
    pub fn opt<T: FromArg>(&self, name: &str) -> Result<Option<T>, ArgError> {
        let (at, _) = self.find(name);
        let Some(text) = self.text(name) else { return Ok(None) };
        T::from_arg(text, self.env).map(Some).map_err(|message| self.wrong(at, name, &message))
    }

    /// Which word of a [`Ty::Choice`] an argument is.
    ///
    /// # Errors
    /// When it is none of them.
    pub fn choice(&self, name: &str) -> Result<usize, ArgError> {
        let words = match self.find(name).1.ty {
            Ty::Choice(words) => words,
            _ => &[],
        };
        let word: String = self.get(name)?;
        let unknown = || self.error(name, format!("'{word}' is not one of {}", words.join(", ")));
        words.iter().position(|known| *known == word).ok_or_else(unknown)
    }

    fn wrong(&self, at: usize, name: &str, message: &str) -> ArgError {
        let positional = self.given[at].filter(|(_, from)| *from == 0);
        let meant = positional.map_or(String::new(), |(index, _)| self.meant(&self.texts[index]));
        let index = self.given[at].map(|(index, _)| index);
        ArgError { index, message: format!("{name}: {message}{meant}") }
    }

    /// An error about the argument `name`, for checks that only the element can make.
    pub fn error(&self, name: &str, message: impl std::fmt::Display) -> ArgError {
        self.wrong(self.find(name).0, name, &message.to_string())
    }

    /// The further positional arguments: index (for [`Args::rest_error`]) and text.
    pub fn rest(&self) -> impl ExactSizeIterator<Item = (usize, &'a str)> {
        self.rest.iter().map(|index| (*index, self.texts[*index].as_str()))
    }

    /// An error about one of the further arguments.
    pub fn rest_error(&self, index: usize, message: impl Into<String>) -> ArgError {
        ArgError { index: Some(index), message: message.into() }
    }

    /// Parses any text as a value, for arguments with several words.
    ///
    /// # Errors
    /// A message when the text is not of the type.
    pub fn parse<T: FromArg>(&self, text: &str) -> Result<T, String> {
        T::from_arg(text, self.env)
    }
}

#[cfg(test)]
mod tests {
    use super::meanings;

    #[test]
    fn names_are_looked_up_outwards() {
        assert_eq!(meanings("a/b/c", "r"), ["a/b/r", "a/r", "r"]);
        assert_eq!(meanings("c", "r"), ["r"]);
    }
}
