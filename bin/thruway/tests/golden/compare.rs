//! Compares what a test wrote with what it should have written.

use regex::Regex;

use crate::parse::{Expect, Ignore, Mode, Test};

/// A line of an `%expect` section, ready to be matched.
struct Pattern {
    regex: Regex,
    /// For each group `r0`, `r1`, ... of the expression: the numbers allowed there.
    ranges: Vec<(u64, u64)>,
}

impl Pattern {
    fn new(line: &str, mode: Mode) -> Result<Pattern, String> {
        let mut ranges = Vec::new();
        let mut source = String::from(r"\A(?:");
        let mut rest = line;
        while mode != Mode::Verbatim
            && let Some((before, inside, after)) = braces(rest)
        {
            source.push_str(&literal(before, mode));
            if let Some(range) = number_range(inside) {
                source.push_str(&format!(r"(?P<r{}>\d+)", ranges.len()));
                ranges.push(range);
            } else if !inside.starts_with('?') {
                source.push_str(&format!("(?:{inside})"));
            }
            rest = after;
        }
        source.push_str(&literal(rest, mode));
        source.push_str(r")\z");
        let regex = Regex::new(&source).map_err(|error| format!("'{line}': {error}"))?;
        Ok(Pattern { regex, ranges })
    }

    fn matches(&self, line: &str) -> bool {
        let Some(found) = self.regex.captures(line) else { return false };
        self.ranges.iter().enumerate().all(|(at, (low, high))| {
            let number = found.name(&format!("r{at}")).and_then(|text| text.as_str().parse().ok());
            number.is_some_and(|number: u64| (*low..=*high).contains(&number))
        })
    }
}

fn literal(text: &str, mode: Mode) -> String {
    if mode == Mode::Regex { text.to_owned() } else { regex::escape(text) }
}

/// Splits at the first `{{...}}`, which may hold another pair.
fn braces(text: &str) -> Option<(&str, &str, &str)> {
    let open = text.find("{{")?;
    let (mut at, mut level) = (open + 2, 1);
    while level > 0 {
        let next = at + text.get(at..)?.find(['{', '}'])?;
        let pair = text.get(next..next + 2).unwrap_or("");
        level += match pair {
            "{{" => 1,
            "}}" => -1,
            _ => 0,
        };
        at = next + if matches!(pair, "{{" | "}}") { 2 } else { 1 };
    }
    Some((&text[..open], &text[open + 2..at - 2], &text[at..]))
}

/// `~ 5 - 15`, `~ 100 +- 5` and `~ 100 +- 5%`.
fn number_range(inside: &str) -> Option<(u64, u64)> {
    let text = inside.strip_prefix('~')?;
    if let Some((middle, fuzz)) = text.split_once("+-") {
        let (middle, fuzz) = (middle.trim().parse::<u64>().ok()?, fuzz.trim());
        let delta = match fuzz.strip_suffix('%') {
            Some(percent) => middle.checked_mul(percent.trim().parse().ok()?)? / 100,
            None => fuzz.parse().ok()?,
        };
        return Some((middle.saturating_sub(delta), middle.checked_add(delta)?));
    }
    let (low, high) = text.split_once('-')?;
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    Some(if low <= high { (low, high) } else { (high, low) })
}

/// `text` without blanks, except inside of double braces.
fn without_blanks(text: &str) -> String {
    let strip = |part: &str| part.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, inside, after)) = braces(rest) {
        out += &format!("{}{{{{{inside}}}}}", strip(before));
        rest = after;
    }
    out + &strip(rest)
}

/// The lines of `file` that no `%ignore` section takes away.
fn wanted_lines<'a>(test: &Test, file: &str, text: &'a str) -> Result<Vec<&'a str>, String> {
    let mut patterns = Vec::new();
    for ignore in test.ignores.iter().filter(|ignore| ignore.file == file || ignore.file == "all") {
        patterns.extend(ignore_patterns(ignore)?);
    }
    let ignored = |line: &str| {
        let bare: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        patterns.iter().any(|(pattern, whitespace)| {
            pattern.matches(if *whitespace { &bare } else { line.trim_end() })
        })
    };
    Ok(text.lines().filter(|line| !ignored(line)).collect())
}

fn ignore_patterns(ignore: &Ignore) -> Result<Vec<(Pattern, bool)>, String> {
    let lines = ignore.text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| Ok((Pattern::new(line.trim_end(), ignore.mode)?, ignore.whitespace))).collect()
}

/// One expectation against the text; `Err` says where they part: line in the test file, message.
fn compare(test: &Test, expect: &Expect, actual: &[u8]) -> Result<(), (usize, String)> {
    if actual == expect.text {
        return Ok(());
    }
    if expect.mode == Mode::Verbatim {
        return Err((expect.line, format!("{} differs from the verbatim text", expect.file)));
    }
    let text = String::from_utf8_lossy(actual);
    let wanted = String::from_utf8_lossy(&expect.text);
    let fail = |message| (expect.line, message);
    let mut lines = wanted_lines(test, &expect.file, &text).map_err(fail)?.into_iter();
    let mut got = || lines.find(|line| !line.trim().is_empty());
    for (at, line) in wanted.lines().enumerate() {
        let line = line.trim_end();
        if line.is_empty() {
            continue;
        }
        let found = got();
        let trimmed = found.map(|found| match expect.whitespace {
            true => found.chars().filter(|c| !c.is_whitespace()).collect(),
            false => found.trim_end().to_owned(),
        });
        let line = if expect.whitespace { without_blanks(line) } else { line.to_owned() };
        let pattern = Pattern::new(&line, expect.mode).map_err(fail)?;
        if !trimmed.is_some_and(|found| found == line || pattern.matches(&found)) {
            let found = found.map_or("the end".to_owned(), |found| format!("'{found}'"));
            return Err((expect.line + at, format!("expected '{line}'\n  but got  {found}")));
        }
    }
    match got() {
        None => Ok(()),
        Some(line) => {
            Err((expect.line + wanted.lines().count(), format!("more than expected: '{line}'")))
        }
    }
}

/// All expectations of a test about one file, of which one must hold.
///
/// # Errors
/// The line in the test file and what is wrong there, for the alternative that came farthest.
pub fn check(test: &Test, file: &str, actual: &[u8]) -> Result<(), (usize, String)> {
    let mut worst: Option<(usize, String)> = None;
    for expect in test.expects.iter().filter(|expect| expect.file == file) {
        match compare(test, expect, actual) {
            Ok(()) => return Ok(()),
            Err(error) if worst.as_ref().is_none_or(|worst| worst.0 < error.0) => {
                worst = Some(error)
            }
            Err(_) => {}
        }
    }
    worst.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    fn holds(sections: &str, actual: &str) -> bool {
        let tests = parse(format!("%script\nx\n{sections}").as_bytes(), false);
        check(&tests[0], "stdout", actual.as_bytes()).is_ok()
    }

    #[test]
    fn lines_and_blanks() {
        assert!(holds("%expect\na\n\nb\n", "a\nb  \n\n"));
        assert!(!holds("%expect\na\nb\n", "a\n"));
        assert!(!holds("%expect\na\n", "a\nb\n"));
        assert!(!holds("%expect\na b\n", "a  b\n"));
        assert!(holds("%expect -w\na b\n", "a  b\n"));
        assert!(!holds("%expectv\na\n", "a \n"));
    }

    #[test]
    fn expressions() {
        assert!(holds("%expect\na{{\\d+}}.\n", "a12.\n"));
        assert!(!holds("%expect\na{{\\d+}}.\n", "a12x\n"));
        assert!(holds("%expectx\na.+\n", "a12x\n"));
        assert!(holds("%expect\n{{~ 100 +- 5%}}!{{? about a hundred}}\n", "96!\n"));
        assert!(!holds("%expect\n{{~ 5 - 15}}\n", "16\n"));
        assert!(holds("%expect\n{{(ab)+}}\n", "abab\n"));
    }

    #[test]
    fn ignoring_and_alternatives() {
        assert!(holds("%expect\na\n%ignore\n!{{.*}}\n", "!x\na\n"));
        assert!(holds("%expect\na\n%ignorex stdout\n!.*\n", "!x\na\n"));
        assert!(holds("%expect\na\n%expect -a\nb\n", "b\n"));
        assert!(!holds("%expect\na\n%expect -a\nb\n", "c\n"));
    }
}
