//! The output that a class of FlowDispatcher may name, as FastClick's rules do: `9/06 20/0050 1`.

/// Where packets of a class go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// Out of this output.
    Port(u32),
    /// Nowhere.
    Drop,
}

/// Splits the text of a class into the class and the output that it names.
///
/// A number counts as an output only behind patterns or `-`: the 53 of `udp dst port 53` is part
/// of the class.
pub(super) fn split(text: &str) -> (&str, Option<Output>) {
    let text = text.trim();
    let Some((class, word)) = text.rsplit_once(char::is_whitespace) else { return (text, None) };
    let class = class.trim_end();
    let output = match word {
        "drop" => Some(Output::Drop),
        _ if !class.split_whitespace().all(|word| word == "-" || is_pattern(word)) => None,
        _ => word.parse().ok().map(Output::Port),
    };
    output.map_or((text, None), |output| (class, Some(output)))
}

/// A clause of Classifier's: `12/0800`, `!30/ff%80`.
fn is_pattern(word: &str) -> bool {
    let word = word.strip_prefix('!').unwrap_or(word);
    let offset = word.split_once('/').map_or("", |(offset, _)| offset);
    !offset.is_empty() && offset.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::{Output, split};

    #[test]
    fn an_output_stands_behind_patterns_only() {
        for (text, class, output) in [
            ("9/06 0", "9/06", Some(Output::Port(0))),
            (" 9/06\t20/01bb  12 ", "9/06\t20/01bb", Some(Output::Port(12))),
            ("12/8ba5/ffff drop", "12/8ba5/ffff", Some(Output::Drop)),
            ("- 1", "-", Some(Output::Port(1))),
            ("- drop", "-", Some(Output::Drop)),
            ("tcp dst port 80 drop", "tcp dst port 80", Some(Output::Drop)),
            ("udp dst port 53", "udp dst port 53", None),
            ("dst port/0050 1", "dst port/0050 1", None),
            ("9/06 20/0050", "9/06 20/0050", None),
            ("9/06 99999999999", "9/06 99999999999", None),
            ("-", "-", None),
            ("", "", None),
        ] {
            assert_eq!(split(text), (class, output), "{text:?}");
        }
    }
}
