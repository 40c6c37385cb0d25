//! The three codes by which a spec declares an element's ports: port counts (`"1/1-2"`), processing
//! (`"a/ah"`) and flow (`"x/x"`), in Click's notation.

use std::ops::RangeInclusive;

/// The end of a connection that moves a packet: the upstream (push) or the downstream (pull).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Processing {
    /// The upstream element.
    Push,
    /// The downstream element.
    Pull,
}

/// A parsed port count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortCount {
    inputs: RangeInclusive<usize>,
    outputs: Outputs,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Outputs {
    Between(RangeInclusive<usize>),
    /// As many as inputs, and so many more.
    Same(usize),
}

impl PortCount {
    /// Parses `INPUTS/OUTPUTS`, each `N`, `N-M`, `N-` or `-`; outputs may be `=` with `+`s.
    /// One count stands for both sides.
    pub fn parse(code: &str) -> Option<PortCount> {
        let (inputs, outputs) = code.split_once('/').unwrap_or((code, code));
        let inputs = parse_range(inputs)?;
        let outputs = match outputs.strip_prefix('=') {
            Some(more) if more.bytes().all(|byte| byte == b'+') => Outputs::Same(more.len()),
            Some(_) => return None,
            None => Outputs::Between(parse_range(outputs)?),
        };
        Some(PortCount { inputs, outputs })
    }

    /// Any number of ports.
    pub fn any() -> PortCount {
        PortCount { inputs: 0..=usize::MAX, outputs: Outputs::Between(0..=usize::MAX) }
    }

    /// How many ports an element has of which so many are connected: the nearest allowed numbers.
    pub fn resolve(&self, inputs: usize, outputs: usize) -> (usize, usize) {
        let clamp = |n: usize, range: &RangeInclusive<usize>| n.clamp(*range.start(), *range.end());
        match &self.outputs {
            Outputs::Between(range) => (clamp(inputs, &self.inputs), clamp(outputs, range)),
            Outputs::Same(more) => {
                let n = clamp(inputs.max(outputs.saturating_sub(*more)), &self.inputs);
                (n, n + more)
            }
        }
    }
}

fn parse_range(text: &str) -> Option<RangeInclusive<usize>> {
    let Some((low, high)) = text.split_once('-') else {
        let n = text.parse().ok()?;
        return Some(n..=n);
    };
    let low = if low.is_empty() { 0 } else { low.parse().ok()? };
    let high = if high.is_empty() { usize::MAX } else { high.parse().ok()? };
    (low <= high).then_some(low..=high)
}

/// A parsed processing code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessingCode {
    inputs: Vec<Option<Processing>>,
    outputs: Vec<Option<Processing>>,
}

impl ProcessingCode {
    /// Parses letters `h` push, `l` pull, `a` agnostic, per port; the last one repeats. A side
    /// without letters has no ports.
    pub fn parse(code: &str) -> Option<ProcessingCode> {
        let (inputs, outputs) = code.split_once('/').unwrap_or((code, code));
        let side = |letters: &str| {
            let letters = if letters.is_empty() { "a" } else { letters };
            letters.chars().map(letter).collect::<Option<Vec<_>>>()
        };
        Some(ProcessingCode { inputs: side(inputs)?, outputs: side(outputs)? })
    }

    /// All ports agnostic.
    pub fn agnostic() -> ProcessingCode {
        ProcessingCode { inputs: vec![None], outputs: vec![None] }
    }

    /// Declared processing of an input; `None` is agnostic.
    pub fn input(&self, port: usize) -> Option<Processing> {
        self.inputs[port.min(self.inputs.len() - 1)]
    }

    /// Declared processing of an output; `None` is agnostic.
    pub fn output(&self, port: usize) -> Option<Processing> {
        self.outputs[port.min(self.outputs.len() - 1)]
    }
}

fn letter(code: char) -> Option<Option<Processing>> {
    match code {
        'h' => Some(Some(Processing::Push)),
        'l' => Some(Some(Processing::Pull)),
        'a' => Some(None),
        _ => None,
    }
}

/// A parsed flow code: a set of letters per port, the last one repeating. A packet of an input can
/// leave by an output if their sets meet; `#` stands for the port's number, `[^...]` for all but.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    inputs: Vec<Set>,
    outputs: Vec<Set>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Set {
    letters: Vec<char>,
    number: bool,
    negated: bool,
}

impl Default for Flow {
    fn default() -> Flow {
        let all = Set { letters: vec!['x'], number: false, negated: false };
        Flow { inputs: vec![all.clone()], outputs: vec![all] }
    }
}

impl Flow {
    /// Parses a flow code.
    pub fn parse(code: &str) -> Option<Flow> {
        let (inputs, outputs) = code.split_once('/').unwrap_or((code, code));
        Some(Flow { inputs: parse_sets(inputs)?, outputs: parse_sets(outputs)? })
    }

    /// Whether a packet of `input` can leave by `output`.
    pub fn allows(&self, input: usize, output: usize) -> bool {
        let from = &self.inputs[input.min(self.inputs.len() - 1)];
        let to = &self.outputs[output.min(self.outputs.len() - 1)];
        let number = from.number && to.number && input == output;
        let matches = match (from.negated, to.negated) {
            (false, false) => number || from.letters.iter().any(|c| to.letters.contains(c)),
            (true, false) => to.letters.iter().any(|c| !from.letters.contains(c)),
            (false, true) => from.letters.iter().any(|c| !to.letters.contains(c)),
            (true, true) => true,
        };
        matches || (from.negated != to.negated && (from.number || to.number) && !number)
    }
}

fn parse_sets(code: &str) -> Option<Vec<Set>> {
    let mut sets = Vec::new();
    let mut chars = code.chars().peekable();
    while let Some(c) = chars.next() {
        let mut set = Set::default();
        if c == '[' {
            set.negated = chars.next_if_eq(&'^').is_some();
            loop {
                match chars.next()? {
                    ']' => break,
                    c => set.add(c)?,
                }
            }
        } else {
            set.add(c)?;
        }
        sets.push(set);
    }
    (!sets.is_empty()).then_some(sets)
}

impl Set {
    fn add(&mut self, c: char) -> Option<()> {
        match c {
            '#' => self.number = true,
            c if c.is_ascii_alphabetic() => self.letters.push(c),
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_counts() {
        let resolve = |code, i, o| PortCount::parse(code).unwrap().resolve(i, o);
        assert_eq!(resolve("1/1-2", 0, 0), (1, 1));
        assert_eq!(resolve("1/1-2", 3, 3), (1, 2));
        assert_eq!(resolve("-/-", 7, 0), (7, 0));
        assert_eq!(resolve("1-/=", 1, 4), (4, 4));
        assert_eq!(resolve("1-/=+", 2, 2), (2, 3));
        assert_eq!(resolve("0/1", 0, 0), (0, 1));
        assert_eq!(resolve("1", 0, 0), (1, 1));
        assert_eq!(PortCount::parse("2-1/1"), None);
        assert_eq!(PortCount::parse("x"), None);
    }

    #[test]
    fn processing_codes() {
        let code = ProcessingCode::parse("a/ah").unwrap();
        assert_eq!(code.input(3), None);
        assert_eq!(code.output(0), None);
        assert_eq!(code.output(5), Some(Processing::Push));
        assert_eq!(ProcessingCode::parse("l").unwrap().output(0), Some(Processing::Pull));
        assert_eq!(ProcessingCode::parse("q/h"), None);
        assert_eq!(ProcessingCode::parse("/h").unwrap().output(0), Some(Processing::Push));
    }

    #[test]
    fn flow_codes() {
        let allows = |code, i, o| Flow::parse(code).unwrap().allows(i, o);
        assert!(allows("x/x", 3, 5));
        assert!(!allows("x/y", 0, 0));
        assert!(allows("#/#", 2, 2) && !allows("#/#", 2, 1));
        assert!(allows("xy/x", 0, 0) && !allows("xy/x", 1, 0));
        assert!(allows("#/[^#]", 1, 2) && !allows("#/[^#]", 1, 1));
        assert!(allows("[xy]/y", 0, 0) && !allows("[^x]/x", 0, 0));
        assert_eq!(Flow::parse("[x"), None);
        assert!(Flow::default().allows(1, 1));
    }
}
