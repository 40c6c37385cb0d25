//! Rules of a file: lines put together, comments left out.

/// Most rules in one file.
pub const RULES_MAX: usize = 500_000;

/// A rule's text and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Line where it begins, from 1.
    pub line: usize,
    /// Its bytes, continuation lines joined.
    pub text: std::borrow::Cow<'a, [u8]>,
}

/// What is neither empty nor a comment. A line that ends with `\` goes on in the next.
pub fn entries(bytes: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    let mut lines = bytes.split(|byte| *byte == b'\n').enumerate().map(|(at, line)| (at + 1, line));
    std::iter::from_fn(move || {
        loop {
            let (line, first) = lines.next()?;
            let first = first.trim_ascii();
            if first.is_empty() || first.starts_with(b"#") {
                continue;
            }
            let Some(mut open) = first.strip_suffix(b"\\") else {
                return Some(Entry { line, text: first.into() });
            };
            let mut text = Vec::new();
            loop {
                text.extend_from_slice(open);
                let Some((_, next)) = lines.next() else { break };
                match next.trim_ascii_end().strip_suffix(b"\\") {
                    Some(more) => open = more,
                    None => {
                        text.extend_from_slice(next.trim_ascii_end());
                        break;
                    }
                }
            }
            return Some(Entry { line, text: text.into() });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together() {
        let file = b"# no\n\n  one \r\ntwo \\\n  and \\\nthree\nfour\\";
        let found: Vec<(usize, Vec<u8>)> =
            entries(file).map(|entry| (entry.line, entry.text.into_owned())).collect();
        let want: [(usize, &[u8]); 3] = [(3, b"one"), (4, b"two   and three"), (7, b"four")];
        assert_eq!(found, want.map(|(line, text)| (line, text.to_vec())));
        assert_eq!(entries(b"").count() + entries(b"\\").count(), 1);
    }
}
