//! Runs a program: variables, position, steps.

use std::collections::HashMap;
use std::sync::Arc;

use rustix::process::Signal;
use thruway_element::{Cx, HandlerError, Nanos, Origin, handler_value, text};

use super::deferred::Deferred;
use super::expr::{self, Outside, TEXT_MAX, Values};
use super::kind::Kind;
use super::parse::{Ending, Insn, Program, Quotes, Target};
use super::{output, signal};
use thruway_elements_support::call::{first_word, own_handler};
use thruway_elements_support::random::Random;

/// Timer: a `wait` is over.
pub(super) const WAIT: u32 = 1;

/// Jumps in one run before the script is taken to loop for ever, as in Click.
const JUMPS_MAX: u32 = 1_000_000;
/// `$?` after a write that failed: EINVAL, as Click's handlers return.
pub(super) const FAILED: i32 = -22;
/// Bytes of all texts that one run makes: many jumps with long texts take as long as for ever.
const TEXTS_MAX: usize = 256 << 20;
/// Messages kept of one run.
const ERRORS_MAX: usize = 64;

/// Why a program does not run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunState {
    /// It waits for a step or a time, or has not begun.
    Blocked,
    /// It ended with `return`.
    Returned,
    /// It ended otherwise.
    Ended(Ending),
}

/// How the program was called.
#[derive(Debug, Default)]
pub(super) struct Caller {
    /// `$args`.
    pub args: String,
    /// `$0`.
    pub name: String,
    /// `$write`.
    pub write: bool,
}

pub(super) struct Machine {
    pub program: Arc<Program>,
    pub kind: Kind,
    pub state: RunState,
    pub caller: Caller,
    pub random: Random,
    /// Signals that a signal script waits for.
    pub signals: Vec<Signal>,
    /// Errors since the last query.
    pub errors: Vec<String>,
    pos: usize,
    /// Steps that each blocking instruction has seen.
    waited: Vec<u32>,
    pub(super) vars: HashMap<String, String>,
    pub(super) vars_bytes: usize,
    /// `$?`.
    pub(super) status: i32,
    running: bool,
    /// Bytes of the texts that this run made.
    texts: usize,
    /// These became too many, or one text too long, which ends the run.
    overgrown: bool,
    /// Steps that the running script asked of itself, less one.
    more: Option<i64>,
    /// The outside caller whose values may be in the variables.
    pub remote_entry: Origin,
    /// Answers that come later.
    pub deferred: Deferred,
}

/// Steps still to be made, and jumps made.
struct Progress {
    left: i64,
    jumps: u32,
}

impl Machine {
    pub(super) fn new(program: Program, kind: Kind, signals: Vec<Signal>) -> Machine {
        let waited = vec![0; program.insns.len()];
        Machine {
            program: Arc::new(program),
            kind,
            state: RunState::Blocked,
            caller: Caller::default(),
            // Seeded when the time is known.
            random: Random::from_seed(0),
            signals,
            errors: Vec::new(),
            pos: 0,
            waited,
            vars: HashMap::new(),
            vars_bytes: 0,
            status: 0,
            running: false,
            texts: 0,
            overgrown: false,
            more: None,
            remote_entry: None,
            deferred: Deferred::default(),
        }
    }

    /// Notes an error of this run.
    pub(super) fn error(&mut self, message: impl Into<String>) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(message.into());
        }
    }

    /// Sets the variables that are set once.
    pub(super) fn init(&mut self, cx: &mut Cx<'_>) {
        let program = Arc::clone(&self.program);
        for insn in &program.insns {
            if let Insn::Init(name, text, quotes) = insn {
                let value = self.expand(cx, text, *quotes);
                self.set_variable(name, value);
            }
        }
    }

    /// Begins at the first instruction.
    pub(super) fn restart(&mut self) {
        self.pos = 0;
        self.waited.fill(0);
        self.deferred = Deferred::default();
        self.state = RunState::Blocked;
    }

    /// Makes `steps` steps; does nothing but note them where the program is already running.
    pub(super) fn execute(&mut self, cx: &mut Cx<'_>, steps: i64) {
        if self.running {
            let more = self.more.unwrap_or(-1);
            self.more = Some(more.saturating_add(steps));
            return;
        }
        self.running = true;
        (self.texts, self.overgrown) = (0, false);
        let steps = steps.saturating_add(self.deferred.take_steps());
        let mut progress = Progress { left: steps, jumps: 0 };
        loop {
            self.more = None;
            self.step(cx, &mut progress);
            match self.more {
                Some(left) if left >= 0 && progress.jumps < JUMPS_MAX => progress.left = left,
                _ => break,
            }
            progress.jumps += 1;
        }
        self.running = false;
        if self.kind == Kind::Signal && self.state == RunState::Ended(Ending::End) {
            // A script that reached its end waits for the next signal.
            if let Err(error) = signal::install(cx, &self.signals) {
                self.error(error);
            }
        }
    }

    fn step(&mut self, cx: &mut Cx<'_>, progress: &mut Progress) {
        let program = Arc::clone(&self.program);
        self.state = RunState::Blocked;
        while let Some(insn) = program.insns.get(self.pos) {
            let at = self.pos;
            // Before the instruction, which may call this script's own goto.
            self.pos += 1;
            let errors = self.errors.len();
            self.deferred.begin();
            let blocked = self.blocks(cx, insn, at, progress);
            let state = if blocked { RunState::Blocked } else { self.perform(cx, insn, at) };
            if self.overgrown {
                return self.abandon(cx);
            }
            if self.deferred.awaits() && self.kind != Kind::Packet {
                // Errors for want of the answer did not happen.
                self.errors.truncate(errors);
                self.pos = at;
                self.deferred.rest(cx, progress.left);
                return;
            }
            self.deferred.clear();
            if blocked {
                self.pos = at;
                return;
            }
            if state != RunState::Blocked && (state != RunState::Returned || self.pos == at + 1) {
                self.pos = at;
                self.state = state;
                return;
            }
            if self.pos != at + 1 {
                progress.jumps += 1;
                if progress.jumps >= JUMPS_MAX {
                    return self.give_up(cx);
                }
            }
        }
        self.state = RunState::Ended(Ending::End);
    }

    fn give_up(&mut self, cx: &mut Cx<'_>) {
        let declaration = declaration(cx);
        cx.log(&format!("{declaration}: too many jumps, giving up"));
        self.abandon(cx);
    }

    /// Ends the run for good.
    fn abandon(&mut self, cx: &mut Cx<'_>) {
        cx.clear_timer(WAIT);
        self.pos = self.program.insns.len();
        self.state = RunState::Ended(Ending::Exit);
    }

    /// Whether a blocking instruction blocks.
    fn blocks(&mut self, cx: &mut Cx<'_>, insn: &Insn, at: usize, progress: &mut Progress) -> bool {
        match insn {
            Insn::WaitStep(count) => {
                let missing = count.saturating_sub(self.waited[at]);
                let seen = i64::from(missing).min(progress.left);
                progress.left -= seen;
                // At most `missing`, a u32.
                self.waited[at] += seen as u32;
                self.waited[at] < *count
            }
            Insn::WaitTime(text) if progress.left == 0 => {
                let text = self.expand(cx, text, Quotes::Keep);
                if self.deferred.awaits() {
                    return true;
                }
                match handler_value::<Nanos>("wait", &text) {
                    Ok(Nanos(time)) => {
                        let at = cx.now().saturating_add(time.max(0));
                        cx.clear_timer(WAIT);
                        cx.set_timer(WAIT, at);
                    }
                    Err(error) => self.error(error.to_string()),
                }
                true
            }
            Insn::WaitTime(_) => {
                progress.left -= 1;
                cx.clear_timer(WAIT);
                false
            }
            _ => false,
        }
    }

    /// Executes an instruction; any result but `Blocked` ends the run.
    fn perform(&mut self, cx: &mut Cx<'_>, insn: &Insn, at: usize) -> RunState {
        match insn {
            Insn::WaitStep(_) | Insn::WaitTime(_) | Insn::Init(..) | Insn::Label(_) => {}
            Insn::Print { text, newline, quotes } => self.print(cx, text, *newline, *quotes),
            Insn::Read(text, quotes) => self.show(cx, text, *quotes),
            Insn::Write(text, quotes) => self.write(cx, text, *quotes),
            Insn::Set(name, text, quotes) => {
                let value = self.expand(cx, text, *quotes);
                if !self.deferred.awaits() {
                    self.set_variable(name, value);
                }
            }
            Insn::Goto(target, condition) => return self.goto(cx, *target, condition, at),
            Insn::Return(text, quotes) => {
                let value = self.expand(cx, text, *quotes);
                if !self.deferred.awaits() {
                    self.set_variable("_", value);
                }
                return RunState::Returned;
            }
            Insn::End(end) => return RunState::Ended(*end),
            Insn::Error(text, quotes) => {
                let message = self.expand(cx, text, *quotes);
                if !message.is_empty() {
                    self.error(message);
                }
                return RunState::Ended(Ending::Error);
            }
        }
        RunState::Blocked
    }

    fn goto(&mut self, cx: &mut Cx<'_>, target: Target, condition: &str, at: usize) -> RunState {
        let condition = self.expand(cx, condition, Quotes::Keep);
        if self.deferred.awaits() {
            return RunState::Blocked;
        }
        let holds = match condition.as_str() {
            "" => Ok(true),
            text => handler_value::<bool>("goto", text),
        };
        match (holds, target) {
            (Err(_), _) => self.error(format!("bad condition '{condition}'")),
            (Ok(false), _) => {}
            (Ok(true), Target::End(end)) => return RunState::Ended(end),
            (Ok(true), Target::At(to)) => {
                self.waited[to..at.max(to)].fill(0);
                self.pos = to;
            }
        }
        RunState::Blocked
    }

    /// Moves to a label, for the handler `goto`.
    pub(super) fn jump(&mut self, label: &str) -> Result<(), HandlerError> {
        match self.program.target(label.trim()) {
            Some(Target::At(to)) => {
                self.waited[to..].fill(0);
                self.pos = to;
                Ok(())
            }
            _ => Err(HandlerError::refused(format!("goto: no such label '{}'", label.trim()))),
        }
    }

    /// The value of the last `return`; empty after anything else.
    pub(super) fn returned(&self) -> String {
        match self.state {
            RunState::Returned => self.vars.get("_").cloned().unwrap_or_default(),
            RunState::Ended(Ending::End) if self.kind == Kind::Packet => "0".to_owned(),
            _ => String::new(),
        }
    }

    /// `text` with its references replaced.
    fn expand(&mut self, cx: &mut Cx<'_>, text: &str, quotes: Quotes) -> String {
        let text = expr::expand(text, Outside::Plain, &mut Scope { machine: self, cx });
        self.look_at_length(&text);
        if quotes == Quotes::Strip { text::unquote_text(&text) } else { text }
    }

    fn look_at_length(&mut self, text: &str) {
        self.texts = self.texts.saturating_add(text.len());
        if self.texts > TEXTS_MAX {
            self.overgrown = true;
            self.error(format!("texts of {TEXTS_MAX} bytes in one run; the script ends here"));
        } else if text.len() >= TEXT_MAX {
            self.overgrown = true;
            self.error(format!("a text grew beyond {TEXT_MAX} bytes; the script ends here"));
        }
    }

    /// The text of a handler call taken apart: path and parameter.
    pub(super) fn call(&mut self, cx: &mut Cx<'_>, text: &str, quotes: Quotes) -> (String, String) {
        let text = self.expand(cx, text, Quotes::Keep);
        let (path, param) = first_word(&text);
        let strip = quotes == Quotes::Strip;
        let param = if strip { text::unquote_text(param) } else { param.to_owned() };
        (path.to_owned(), param)
    }

    fn print(&mut self, cx: &mut Cx<'_>, text: &str, newline: bool, quotes: Quotes) {
        let (redirect, text) = output::redirect(text);
        let mut sink = match output::open(&redirect) {
            Ok(sink) => sink,
            Err(error) => return self.error(error),
        };
        let errors = self.errors.len();
        let handler = |c: char| c.is_ascii_alphabetic() || c == '@' || c == '_';
        let mut bytes = if text.starts_with(handler) {
            let (path, param) = self.call(cx, text, quotes);
            let answer = self.read_for(cx, text, (&path, &param));
            self.report(&path, "read", answer).unwrap_or_default().into_bytes()
        } else {
            let scope = &mut Scope { machine: self, cx };
            let text = expr::expand(text, Outside::Quoted, scope);
            self.look_at_length(&text);
            text::unquote(&text)
        };
        if self.deferred.awaits() {
            return;
        }
        if newline && bytes.last() != Some(&b'\n') && self.errors.len() == errors {
            bytes.push(b'\n');
        }
        if let Err(error) = sink.write(&bytes) {
            self.error(error);
        }
    }

    /// `read`: shows a handler's name and answer.
    fn show(&mut self, cx: &mut Cx<'_>, text: &str, quotes: Quotes) {
        let (path, param) = self.call(cx, text, quotes);
        let answer = self.read_for(cx, text, (&path, &param));
        if self.deferred.awaits() {
            return;
        }
        if let Some(answer) = self.report(&path, "read", answer) {
            let full = if own_handler(cx, &path).is_some() && !path.contains('.') {
                format!("{}.{path}", cx.name())
            } else {
                path
            };
            cx.log(&format!("{full}:\n{answer}"));
        }
    }

    /// Records a failed call, in Click's words.
    pub(super) fn report<T>(
        &mut self,
        path: &str,
        how: &str,
        result: Result<T, HandlerError>,
    ) -> Option<T> {
        match result {
            Ok(value) => return Some(value),
            Err(HandlerError::Refused(why)) => {
                self.error(why);
            }
            Err(HandlerError::NoHandler { .. }) => self.error(format!("no '{path}' {how} handler")),
            Err(error) => self.error(error.to_string()),
        }
        None
    }
}

/// The values of the references in a text.
struct Scope<'m, 'c, 'a> {
    machine: &'m mut Machine,
    cx: &'c mut Cx<'a>,
}

impl Values for Scope<'_, '_, '_> {
    fn variable(&mut self, name: &str) -> Option<String> {
        self.machine.variable(name)
    }

    fn call(&mut self, call: &str, derived: bool) -> Option<String> {
        let (path, param) = first_word(call);
        let answer = self
            .machine
            .on_behalf(self.cx, derived, |machine, cx| machine.read_path(cx, path, param));
        let refused = matches!(answer, Err(HandlerError::Refused(_)));
        // A handler that fails has an empty answer; one that is not there leaves the text.
        self.machine.report(path, "read", answer).or(refused.then(String::new))
    }
}

/// The element as a configuration declares it: `name :: Class`.
pub(super) fn declaration(cx: &mut Cx<'_>) -> String {
    let node = cx.node();
    cx.describe(node).map_or(String::new(), |(name, class)| format!("{name} :: {class}"))
}
