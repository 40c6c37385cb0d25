//! Prose: sentences of the pages for readers are short, and decisions are numbered and listed.

use crate::{Problem, Tree};

/// The most words of a sentence.
pub const LONGEST: usize = 35;

/// The index of decisions.
const INDEX: &str = "docs/adr/README.md";

/// Sentences of README.md, ARCHITECTURE.md and docs/*.md that are too long. Code, tables and the
/// targets of links do not count.
pub fn long_sentences(tree: &Tree) -> Vec<Problem> {
    let pages = tree.files.iter().filter(|(path, _)| is_page(path));
    pages.flat_map(|(path, text)| long_in(path, text)).collect()
}

/// Whether a reader's page is at `path`.
fn is_page(path: &str) -> bool {
    let in_docs = |name: &str| name.ends_with(".md") && !name.contains('/');
    ["README.md", "ARCHITECTURE.md"].contains(&path)
        || path.strip_prefix("docs/").is_some_and(in_docs)
}

fn long_in(path: &str, page: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for block in blocks(page) {
        for (line, sentence) in sentences(&block) {
            let words = sentence.iter().filter(|word| word.contains(char::is_alphanumeric)).count();
            if words > LONGEST {
                let begin = sentence.iter().take(6).copied().collect::<Vec<_>>().join(" ");
                let what = format!("a sentence of {words} words: {begin}...");
                let remedy = format!("make two of it: {LONGEST} words are the most");
                problems.push(Problem::new(format!("{path}:{line}"), what, remedy));
            }
        }
    }
    problems
}

/// Words of a paragraph or an item of a list, each with its line.
type Block = Vec<(usize, String)>;

/// The paragraphs and items of a page, without its code and tables.
fn blocks(page: &str) -> Vec<Block> {
    let (mut all, mut open, mut code) = (Vec::new(), String::new(), false);
    let (mut begin, mut after_blank) = (1, true);
    for (at, line) in page.lines().enumerate() {
        let text = line.trim();
        let fence = text.starts_with("```");
        let aside = fence || code || text.is_empty() || text.starts_with(['|', '#', '<']);
        let indented = line.starts_with("    ") && after_blank;
        code ^= fence;
        if aside || indented || begins_item(text) {
            all.push(words(begin, &open));
            (open, begin) = (String::new(), at + 1);
        }
        if !aside && !indented {
            open += text;
        }
        open.push('\n');
        after_blank = text.is_empty() || after_blank && indented;
    }
    all.push(words(begin, &open));
    all
}

fn begins_item(text: &str) -> bool {
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    text.starts_with("- ") || number.len() < text.len() && number.starts_with(". ")
}

/// The words of a text that begins in line `begin`. A piece of code is one word, a link its text.
fn words(begin: usize, text: &str) -> Block {
    let (mut all, mut word, mut line) = (Block::new(), String::new(), begin);
    let (mut in_code, mut in_target) = (false, false);
    for c in text.chars() {
        line += usize::from(c == '\n');
        match c {
            '`' => {
                in_code = !in_code;
                word.push(c);
            }
            _ if in_code => {
                word.push(if c.is_alphanumeric() { c } else { '_' });
                continue;
            }
            ')' if in_target => in_target = false,
            _ if in_target => {}
            '(' if word.ends_with(']') => in_target = true,
            _ if c.is_whitespace() => {
                let at = line - usize::from(c == '\n');
                all.extend((!word.is_empty()).then(|| (at, std::mem::take(&mut word))));
            }
            _ => word.push(c),
        }
    }
    all.extend((!word.is_empty()).then_some((line, word)));
    all
}

/// The sentences of a block, each with the line in which it begins.
fn sentences(block: &Block) -> Vec<(usize, Vec<&str>)> {
    let (mut all, mut begin) = (Vec::new(), 0);
    for at in 0..block.len() {
        let next = block.get(at + 1).map(|(_, word)| word.as_str());
        if next.is_none_or(|next| ends(&block[at].1, next)) {
            let part = &block[begin..=at];
            all.push((part[0].0, part.iter().map(|(_, word)| word.as_str()).collect()));
            begin = at + 1;
        }
    }
    all
}

/// Whether a sentence ends with `word`, which `next` follows.
fn ends(word: &str, next: &str) -> bool {
    let bare = word.trim_end_matches(['*', '"', ')', ']', '_']);
    let begins = next.trim_start_matches(['*', '"', '(', '[', '_']);
    bare.ends_with(['.', '!', '?'])
        && !bare.ends_with("...")
        && !begins.starts_with(|c: char| c.is_lowercase())
}

/// Decisions with a gap in their numbers, with another number in the title, or missing in the
/// index.
pub fn decisions(tree: &Tree) -> Vec<Problem> {
    let index = tree.text(INDEX).unwrap_or_default();
    let mut problems = Vec::new();
    let mut pages = 0;
    for (path, text) in &tree.files {
        let Some(name) = path.strip_prefix("docs/adr/").filter(|_| path != INDEX) else { continue };
        pages += 1;
        problems.extend(decision(path, name, text, pages, index));
    }
    let rows = index.lines().filter(|line| line.starts_with("| [")).count();
    if rows != pages {
        let what = format!("has {rows} rows for {pages} decisions");
        problems.push(Problem::new(INDEX, what, "a row for each: number, title, one sentence"));
    }
    problems
}

/// What is wrong with the decision that is to have `number`.
fn decision(path: &str, name: &str, text: &str, number: usize, index: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !name.starts_with(&format!("{number:04}-")) {
        let what = format!("is the decision after {}, so its number is {number}", number - 1);
        problems.push(Problem::new(path, what, "rename it, and its links: numbers have no gaps"));
    }
    let title =
        text.lines().next().and_then(|line| line.strip_prefix(&format!("# ADR {number}: ")));
    let Some(title) = title else {
        let remedy = format!("begin with '# ADR {number}: TITLE'");
        problems.push(Problem::new(path, "has no title with its number", remedy));
        return problems;
    };
    let row = format!("| [{number}]({name}) | {title} | ");
    if !index.lines().any(|line| line.starts_with(&row) && line.len() > row.len() + 2) {
        let remedy = format!("add a row to {INDEX}: {row}one sentence |");
        problems.push(Problem::new(path, "is not in the index under its title", remedy));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(page: &str) -> Vec<(usize, usize)> {
        let all = blocks(page);
        let all = all.iter().flat_map(sentences);
        all.map(|(line, words)| (line, words.len())).collect()
    }

    #[test]
    fn sentences_are_told_apart() {
        assert_eq!(lengths("One two. Three\nfour five! Six"), [(1, 2), (1, 3), (2, 1)]);
        assert_eq!(
            lengths("**One.** Two e.g. three, 4.5 (six). `a b` c."),
            [(1, 1), (1, 5), (1, 2)]
        );
        assert_eq!(lengths("- one\n  two\n- three\n1. four five"), [(1, 3), (3, 2), (4, 3)]);
        assert_eq!(lengths("see [a b](c.md#d), too [x]"), [(1, 5)]);
    }

    #[test]
    fn code_tables_and_headings_do_not_count() {
        let page =
            "# Title one two\n\n```sh\none two\n```\n| a | b |\n\n    code\n    code\n\nafter it";
        assert_eq!(lengths(page), [(11, 2)]);
    }

    #[test]
    fn a_long_sentence_is_found_with_its_place() {
        let long = |words| format!("Short.\n\nBegin{}.\n", " word".repeat(words - 1));
        let file = |path: &str, words| (path.to_owned(), long(words));
        let files = vec![
            file("README.md", LONGEST),
            file("docs/adr/0001-a.md", LONGEST + 1),
            file("docs/b.md", LONGEST + 1),
        ];
        let found = long_sentences(&Tree { files });
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].location, "docs/b.md:3");
    }

    /// Decisions of these names, and an index with these rows.
    fn tree(decisions: &[(&str, &str)], rows: &str) -> Tree {
        let file = |(name, title): &(&str, &str)| (format!("docs/adr/{name}"), (*title).to_owned());
        let mut files: Vec<_> = decisions.iter().map(file).collect();
        files.push((INDEX.to_owned(), rows.to_owned()));
        Tree { files }
    }

    #[test]
    fn numbers_of_decisions_have_no_gaps() {
        let rows = "| [1](0001-a.md) | A | why. |\n| [2](0002-b.md) | B | why. |\n";
        let a = ("0001-a.md", "# ADR 1: A\n");
        assert_eq!(decisions(&tree(&[a, ("0002-b.md", "# ADR 2: B\n")], rows)), []);
        let gap = decisions(&tree(&[a, ("0003-b.md", "# ADR 3: B\n")], rows));
        assert!(gap[0].what.contains("its number is 2"), "{gap:?}");
        let title = decisions(&tree(&[a, ("0002-b.md", "# ADR 4: B\n")], rows));
        assert_eq!(title.len(), 1, "{title:?}");
    }

    #[test]
    fn each_decision_is_in_the_index() {
        let both = [("0001-a.md", "# ADR 1: A\n"), ("0002-b.md", "# ADR 2: B\n")];
        let missing = decisions(&tree(&both, "| [1](0001-a.md) | A | why. |\n"));
        assert_eq!(missing.len(), 2, "{missing:?}");
        let other = "| [1](0001-a.md) | A | why. |\n| [2](0002-b.md) | Old title | why. |\n";
        assert_eq!(decisions(&tree(&both, other)).len(), 1);
        let bare = "| [1](0001-a.md) | A | |\n| [2](0002-b.md) | B | why. |\n";
        assert_eq!(decisions(&tree(&both, bare)).len(), 1);
    }
}
