//! From the arguments of a Script to its program.

use std::collections::HashMap;

use thruway_element::{handler_value, text};

use thruway_elements_support::call::first_word;

/// Treatment of quotes in the text of an instruction after its substitutions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    /// They stay (`set`).
    Keep,
    /// One layer is taken off (`setq`).
    Strip,
}

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Insn {
    /// Blocks for that many steps.
    WaitStep(u32),
    /// Blocks for a time, or a step.
    WaitTime(String),
    /// Prints text or a handler's answer.
    Print { text: String, newline: bool, quotes: Quotes },
    /// Shows a handler's name and answer.
    Read(String, Quotes),
    /// Calls a write handler.
    Write(String, Quotes),
    /// Sets a variable.
    Set(String, String, Quotes),
    /// Sets a variable once, at the beginning.
    Init(String, String, Quotes),
    /// A place to go to.
    Label(String),
    /// Goes to a place if the condition holds.
    Goto(Target, String),
    /// Ends with a value.
    Return(String, Quotes),
    /// Ends, in the manner of the `Ending`.
    End(Ending),
    /// Ends with an error.
    Error(String, Quotes),
}

/// Where `goto` leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// An instruction.
    At(usize),
    /// The end.
    End(Ending),
}

/// How a script ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// `end`: a signal script is installed anew, a packet goes on.
    End,
    /// `exit`: neither.
    Exit,
    /// `stop`: and the driver is asked to stop.
    Stop,
    /// `error`.
    Error,
}

/// A script ready to run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Program {
    pub insns: Vec<Insn>,
    /// Variables that are read handlers too.
    pub exports: Vec<String>,
    labels: HashMap<String, usize>,
}

/// An instruction that is wrong: its index among the arguments, and why.
pub(super) type Wrong = (usize, String);

/// Parses instructions, given with their argument indices. `last` is added at the end.
pub(super) fn parse<'a>(
    args: impl Iterator<Item = (usize, &'a str)>,
    last: Insn,
) -> Result<Program, Vec<Wrong>> {
    let mut program = Program::default();
    let mut wrong = Vec::new();
    // Labels may come after their use: the gotos wait.
    let mut gotos: Vec<(usize, usize, String)> = Vec::new();
    for (index, text) in args {
        let (word, rest) = first_word(text);
        match instruction(word, rest) {
            Ok(None) => {}
            Ok(Some(insn)) => {
                let at = program.insns.len();
                match &insn {
                    Insn::Label(name) => drop(program.labels.entry(name.clone()).or_insert(at)),
                    Insn::Goto(_, label) => gotos.push((index, at, label.clone())),
                    Insn::Init(name, ..) if word.starts_with("export") => {
                        program.exports.push(name.clone());
                    }
                    _ => {}
                }
                program.insns.push(insn);
            }
            Err(message) => wrong.push((index, message)),
        }
    }
    program.insns.push(last);
    for (index, at, text) in gotos {
        let (label, condition) = first_word(&text);
        match program.target(label) {
            Some(target) => program.insns[at] = Insn::Goto(target, condition.to_owned()),
            None => wrong.push((index, format!("no such label '{label}'"))),
        }
    }
    if wrong.is_empty() { Ok(program) } else { Err(wrong) }
}

impl Program {
    /// The meaning of a label.
    pub(super) fn target(&self, label: &str) -> Option<Target> {
        if let Some(at) = self.labels.get(label) {
            return Some(Target::At(*at));
        }
        Some(match label {
            // `loop` is a goto without a label.
            "" | "begin" | "loop" => Target::At(0),
            "end" => Target::End(Ending::End),
            "exit" => Target::End(Ending::Exit),
            "stop" => Target::End(Ending::Stop),
            "error" | "errorq" => Target::End(Ending::Error),
            _ => return None,
        })
    }
}

/// One instruction; `None` for an empty one. A goto keeps its label in place of its condition.
fn instruction(word: &str, rest: &str) -> Result<Option<Insn>, String> {
    let syntax = || format!("syntax error at '{word}'");
    let text = || rest.to_owned();
    let bare = |insn| if rest.is_empty() { Ok(Some(insn)) } else { Err(syntax()) };
    let quotes = if word.ends_with('q') { Quotes::Strip } else { Quotes::Keep };
    Ok(Some(match word {
        "" => return Ok(None),
        "wait" if !rest.is_empty() => Insn::WaitTime(text()),
        "wait_time" | "wait_for" if !rest.is_empty() => Insn::WaitTime(text()),
        "wait" | "pause" | "wait_step" | "wait_stop" => {
            let count = if rest.is_empty() { "1" } else { rest };
            Insn::WaitStep(handler_value(word, count).map_err(|_| syntax())?)
        }
        "print" | "printq" => Insn::Print { text: text(), newline: true, quotes },
        "printn" | "printnq" => Insn::Print { text: text(), newline: false, quotes },
        "save" => Insn::Print { text: redirect(">", rest), newline: true, quotes },
        "append" => Insn::Print { text: redirect(">>", rest), newline: true, quotes },
        "read" | "readq" => Insn::Read(text(), quotes),
        "write" | "writeq" => Insn::Write(text(), quotes),
        "return" | "returnq" => Insn::Return(text(), quotes),
        "error" | "errorq" => Insn::Error(text(), quotes),
        "set" | "setq" | "init" | "initq" | "export" | "exportq" => {
            let (name, value) = first_word(rest);
            let set = word.starts_with("set");
            if name.is_empty() || (set && value.is_empty()) {
                return Err(syntax());
            }
            let make = if set { Insn::Set } else { Insn::Init };
            make(name.to_owned(), value.to_owned(), quotes)
        }
        "label" => match first_word(rest) {
            (label, "") if !label.is_empty() => Insn::Label(label.to_owned()),
            _ => return Err(syntax()),
        },
        "goto" => Insn::Goto(Target::At(0), text()),
        "loop" => return bare(Insn::Goto(Target::At(0), String::new())),
        "end" => return bare(Insn::End(Ending::End)),
        "exit" => return bare(Insn::End(Ending::Exit)),
        "stop" => return bare(Insn::End(Ending::Stop)),
        _ => return Err(format!("unknown instruction '{word}'")),
    }))
}

/// `save HANDLER [PARAM] FILE` as the print that it is: the last word is the file.
fn redirect(mark: &str, rest: &str) -> String {
    let (call, file) = match text::split_words(rest)[..] {
        [_, .., file] => (rest.trim_end().strip_suffix(file).unwrap_or(rest).trim_end(), file),
        _ => (rest, "-"),
    };
    format!("{mark}{file} {call}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(text: &[&str]) -> Result<Program, Vec<Wrong>> {
        parse(text.iter().copied().enumerate(), Insn::End(Ending::End))
    }

    #[test]
    fn instructions() {
        let program = program(&[
            "set x $(add 1 2)",
            "",
            "label here",
            "print >>F \"a b\"",
            "goto here $(lt $x 5)",
            "goto stop",
            "wait 1s",
            "pause 3",
            "save c.count F",
            "append r.lookup 1.0.0.1 \"F G\"",
            "save c.count",
            "exportq y 1",
            "loop",
        ])
        .unwrap();
        use Quotes::{Keep, Strip};
        let print = |text: &str| Insn::Print { text: text.into(), newline: true, quotes: Keep };
        assert_eq!(
            program.insns,
            [
                Insn::Set("x".into(), "$(add 1 2)".into(), Keep),
                Insn::Label("here".into()),
                print(">>F \"a b\""),
                Insn::Goto(Target::At(1), "$(lt $x 5)".into()),
                Insn::Goto(Target::End(Ending::Stop), "".into()),
                Insn::WaitTime("1s".into()),
                Insn::WaitStep(3),
                print(">F c.count"),
                print(">>\"F G\" r.lookup 1.0.0.1"),
                print(">- c.count"),
                Insn::Init("y".into(), "1".into(), Strip),
                Insn::Goto(Target::At(0), "".into()),
                Insn::End(Ending::End),
            ]
        );
        assert_eq!(program.exports, ["y"]);
    }

    #[test]
    fn all_errors_at_once() {
        let wrong = program(&["set x", "frob", "goto nowhere", "pause x", "label a b", "end 1"]);
        let indexes: Vec<usize> = wrong.unwrap_err().iter().map(|wrong| wrong.0).collect();
        assert_eq!(indexes, [0, 1, 3, 4, 5, 2]);
    }
}
