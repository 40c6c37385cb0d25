//! Ranges of numbers: `5`, `!5`, `<5`, `>5`, `5<>9`, `5-9`.

use std::fmt;

/// Which numbers will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Range<T> {
    /// `n`
    Equal(T),
    /// `!n`
    Not(T),
    /// `<n`
    Below(T),
    /// `>n`
    Above(T),
    /// `<=n`
    AtMost(T),
    /// `>=n`
    AtLeast(T),
    /// `a<>b`: more than a, less than b.
    Between(T, T),
}

impl<T: Copy + PartialOrd> Range<T> {
    /// Whether a number will do.
    pub fn contains(&self, value: T) -> bool {
        match *self {
            Range::Equal(n) => value == n,
            Range::Not(n) => value != n,
            Range::Below(n) => value < n,
            Range::Above(n) => value > n,
            Range::AtMost(n) => value <= n,
            Range::AtLeast(n) => value >= n,
            Range::Between(low, high) => value > low && value < high,
        }
    }
}

type Make<T> = fn(T) -> Range<T>;

impl<T: std::str::FromStr + PartialOrd> Range<T> {
    /// The longer first, where one begins like another.
    const PREFIXES: [(&'static str, Make<T>); 5] = [
        ("<=", Range::AtMost),
        (">=", Range::AtLeast),
        ("<", Range::Below),
        (">", Range::Above),
        ("!", Range::Not),
    ];

    /// Reads one; none where the text is not one.
    pub fn parse(text: &str) -> Option<Range<T>> {
        let number = |text: &str| text.trim().parse::<T>().ok();
        let text = text.trim();
        if let Some((low, high)) = text.split_once("<>") {
            let (low, high) = (number(low)?, number(high)?);
            return (low < high).then_some(Range::Between(low, high));
        }
        for (prefix, make) in Range::PREFIXES {
            if let Some(rest) = text.strip_prefix(prefix) {
                return number(rest).map(make);
            }
        }
        number(text).map(Range::Equal)
    }
}

impl<T: fmt::Display> fmt::Display for Range<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Range::Equal(n) => write!(f, "{n}"),
            Range::Not(n) => write!(f, "!{n}"),
            Range::Below(n) => write!(f, "<{n}"),
            Range::Above(n) => write!(f, ">{n}"),
            Range::AtMost(n) => write!(f, "<={n}"),
            Range::AtLeast(n) => write!(f, ">={n}"),
            Range::Between(low, high) => write!(f, "{low}<>{high}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (text, yes, no) in [
            ("5", 5, 6),
            ("!5", 6, 5),
            ("<5", 4, 5),
            (">5", 6, 5),
            ("<=5", 5, 6),
            (">=5", 5, 4),
            ("3<>6", 5, 6),
            ("3<>6", 4, 3),
        ] {
            let range = Range::<u32>::parse(text).unwrap();
            assert!(range.contains(yes), "{text} {yes}");
            assert!(!range.contains(no), "{text} {no}");
            assert_eq!(range.to_string(), text);
        }
        for text in ["", "x", "5<>5", "6<>5", "<", "5<>", "-1", "99999999999"] {
            assert_eq!(Range::<u32>::parse(text), None, "{text}");
        }
    }
}
