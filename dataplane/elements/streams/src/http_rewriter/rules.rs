//! The rewriting rules, as the user writes them.

use regex::bytes::{Regex, RegexBuilder};
use thruway_element::text;
use thruway_stream::http::Change;

/// Most bytes of the program of all body rules, or of all patterns of one kind.
const PROGRAM_MAX: usize = 16 << 20;

/// Most rules about fields, for each direction.
pub(super) const FIELDS_MAX: usize = 32;

/// A change of a head's field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldRule {
    /// Of requests (0) or responses (1).
    pub direction: usize,
    kind: FieldKind,
    name: Vec<u8>,
    value: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldKind {
    Add,
    Set,
    Replace,
    Remove,
}

impl FieldRule {
    pub(super) fn change(&self) -> Change<'_> {
        match self.kind {
            FieldKind::Add => Change::Add(&self.name, &self.value),
            FieldKind::Set => Change::Set(&self.name, &self.value),
            FieldKind::Replace => Change::Replace(&self.name, &self.value),
            FieldKind::Remove => Change::Remove(&self.name),
        }
    }
}

/// The treatment of a body rule's matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BodyRule {
    selector: String,
    /// In its place, in front of it, behind it.
    pub placement: Placement,
    pub text: Vec<u8>,
}

/// Where a body rule's text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    Instead,
    Before,
    After,
}

/// All rules.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub fields: Vec<FieldRule>,
    pub bodies: Vec<BodyRule>,
    hosts: Vec<String>,
    paths: Vec<String>,
}

/// Rules made ready.
#[derive(Debug)]
pub(super) struct Ready {
    pub fields: Vec<FieldRule>,
    pub bodies: Vec<BodyRule>,
    /// All body rules as one: group n + 1 took part where rule n found something.
    pub selectors: Option<Regex>,
    hosts: Option<Regex>,
    paths: Option<Regex>,
}

impl Rules {
    /// Takes one rule in.
    ///
    /// # Errors
    /// The error in it.
    pub(super) fn add(&mut self, rule: &str) -> Result<(), String> {
        let words: Vec<Vec<u8>> = text::split_words(rule).into_iter().map(text::unquote).collect();
        let plain: Vec<&str> =
            words.iter().map(|word| std::str::from_utf8(word).unwrap_or("")).collect();
        match plain[..] {
            ["block", "host", host] => self.hosts.push(glob(host)?),
            ["block", "path", path] => self.paths.push(glob(path)?),
            ["body", how, "re", selector, ..] => {
                let one = Regex::new(selector).map_err(|why| format!("'{selector}': {why}"))?;
                if one.is_match(b"") {
                    return Err(format!(
                        "'{selector}' matches the empty text, which is everywhere"
                    ));
                }
                self.add_body(how, selector.to_owned(), words.get(4))?;
            }
            ["body", how, word, ..] if !word.is_empty() => {
                self.add_body(how, regex::escape(word), words.get(3))?;
            }
            [how, message, _, ..] if words.len() <= 4 => {
                self.add_field(how, message, &words[2..])?;
            }
            _ => return Err(usage(rule)),
        }
        Ok(())
    }

    fn add_body(
        &mut self,
        how: &str,
        selector: String,
        text: Option<&Vec<u8>>,
    ) -> Result<(), String> {
        let (placement, wants_text) = match how {
            "replace" => (Placement::Instead, true),
            "remove" => (Placement::Instead, false),
            "insert-before" => (Placement::Before, true),
            "insert-after" => (Placement::After, true),
            _ => {
                return Err(format!(
                    "'body {how}': write replace, remove, insert-before or insert-after"
                ));
            }
        };
        if text.is_some() != wants_text {
            let wants = if wants_text { "needs a text" } else { "takes no text" };
            return Err(format!("'body {how}' {wants} behind what it looks for"));
        }
        self.bodies.push(BodyRule { selector, placement, text: text.cloned().unwrap_or_default() });
        Ok(())
    }

    fn add_field(&mut self, how: &str, message: &str, parts: &[Vec<u8>]) -> Result<(), String> {
        let direction = match message {
            "request" => 0,
            "response" => 1,
            _ => return Err(format!("'{message}': write request or response")),
        };
        let kind = match how {
            "add" => FieldKind::Add,
            "set" => FieldKind::Set,
            "replace" => FieldKind::Replace,
            "remove" => FieldKind::Remove,
            _ => return Err(format!("'{how}': write add, set, replace, remove, body or block")),
        };
        if (parts.len() == 2) != (kind != FieldKind::Remove) {
            let wants = if kind == FieldKind::Remove { "no value" } else { "a name and a value" };
            return Err(format!("'{how} {message}' takes {wants}"));
        }
        let value = parts.get(1).cloned().unwrap_or_default();
        let rule = FieldRule { direction, kind, name: parts[0].clone(), value };
        rule.change().check().map_err(|why| why.to_string())?;
        if self.fields.iter().filter(|other| other.direction == direction).count() >= FIELDS_MAX {
            return Err(format!("more than {FIELDS_MAX} rules about fields of a {message}"));
        }
        self.fields.push(rule);
        Ok(())
    }

    /// Makes them ready.
    ///
    /// # Errors
    /// They are too large together.
    pub(super) fn ready(self) -> Result<Ready, String> {
        let groups = self.bodies.iter().map(|rule| format!("({})", no_groups(&rule.selector)));
        let selectors = compile(groups.collect::<Vec<String>>(), false)?;
        Ok(Ready {
            selectors,
            hosts: compile(self.hosts, true)?,
            paths: compile(self.paths, false)?,
            fields: self.fields,
            bodies: self.bodies,
        })
    }
}

impl Ready {
    /// Whether a request is blocked.
    pub(super) fn blocks(&self, host: &[u8], path: &[u8]) -> bool {
        let matches =
            |all: &Option<Regex>, text| all.as_ref().is_some_and(|all| all.is_match(text));
        matches(&self.hosts, host) || matches(&self.paths, path)
    }

    /// Whether something is blocked at all.
    pub(super) fn has_blocks(&self) -> bool {
        self.hosts.is_some() || self.paths.is_some()
    }
}

/// One regular expression of several.
fn compile(all: Vec<String>, nocase: bool) -> Result<Option<Regex>, String> {
    if all.is_empty() {
        return Ok(None);
    }
    let mut builder = RegexBuilder::new(&all.join("|"));
    let built = builder.unicode(false).case_insensitive(nocase).size_limit(PROGRAM_MAX).build();
    built.map(Some).map_err(|why| format!("the rules together: {why}"))
}

/// A selector with all its groups made non-capturing: `(` becomes `(?:` unless it is escaped, in a
/// class, or has its own syntax.
fn no_groups(selector: &str) -> String {
    let mut out = String::new();
    let (mut in_class, mut escaped) = (false, false);
    let mut rest = selector.chars().peekable();
    while let Some(letter) = rest.next() {
        out.push(letter);
        if escaped {
            escaped = false;
            continue;
        }
        match letter {
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class && rest.peek() != Some(&'?') => out.push_str("?:"),
            _ => {}
        }
    }
    out
}

/// A regular expression for a text with `*` for anything.
fn glob(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("the blocked path is empty".to_owned());
    }
    let parts: Vec<String> = text.split('*').map(regex::escape).collect();
    Ok(format!("^{}$", parts.join(".*")))
}

fn usage(rule: &str) -> String {
    format!(
        "'{rule}': write 'block host NAME', 'block path PATH', 'add|set|replace request|response \
         NAME VALUE', 'remove request|response NAME', 'body replace|insert-before|insert-after \
         [re] WORD TEXT' or 'body remove [re] WORD'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_ones() {
        let mut rules = Rules::default();
        for rule in [
            "block host *.example",
            "block path /admin*",
            "set response Server 'a server'",
            "remove request Cookie",
            "body replace cat \"a tiger\"",
            "body remove re '<(b|i)>'",
            "body insert-after re 'x[(]y' z",
        ] {
            rules.add(rule).unwrap();
        }
        let ready = rules.ready().unwrap();
        assert!(ready.blocks(b"ads.EXAMPLE", b"/"));
        assert!(ready.blocks(b"other", b"/admin/x"));
        assert!(!ready.blocks(b"example", b"/x/admin"));
        let all = ready.selectors.unwrap();
        assert_eq!(all.captures_len(), 4);
        assert!(all.captures(b"an <i>").unwrap().get(2).is_some());
    }

    #[test]
    fn bad_ones_say_what_to_do() {
        for (rule, what) in [
            ("", "write 'block host"),
            ("block host", "write 'block host"),
            ("block host ''", "empty"),
            ("set response Server", "a name and a value"),
            ("set reply Server x", "request or response"),
            ("set response Content-Length 7", "seen to"),
            ("remove request Cookie x", "no value"),
            ("change request A b", "add, set"),
            ("body remove cat dog", "takes no text"),
            ("body replace cat", "needs a text"),
            ("body eat cat dog", "insert-before"),
            ("body remove re '('", "unclosed"),
            ("body remove re 'a*'", "everywhere"),
        ] {
            let problem = Rules::default().add(rule).unwrap_err();
            assert!(problem.contains(what), "{rule}: {problem}");
        }
    }
}
