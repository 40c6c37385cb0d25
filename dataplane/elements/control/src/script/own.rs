//! Handlers of a Script itself.

use std::io::Read as _;

use thruway_element::{Cx, HandlerError, handler_value, text};

use super::functions;
use super::kind::Kind;
use super::machine::{Caller, Machine, RunState, WAIT};
use super::parse::Ending;
use super::signal;
use thruway_elements_support::call::first_word;
use thruway_elements_support::named_file;
use thruway_elements_support::text::timestamp;

/// Longest file that `cat` reads, bytes.
const FILE_MAX: u64 = 1 << 20;
/// `random` without arguments gives numbers up to this, as C's RAND_MAX.
const RANDOM_MAX: u64 = i32::MAX as u64;

impl Machine {
    /// Reads a handler of this element.
    pub(super) fn read_own(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        // The user's own word counts more than a function of the same name.
        if self.program.exports.iter().any(|export| export == name) {
            return Ok(self.variable(name).unwrap_or_default());
        }
        if let Some(result) = functions::call(name, param) {
            return result.map_err(HandlerError::Refused);
        }
        match name {
            "run" => self.run_from(cx, name, param, false),
            "now" | "now_steady" => Ok(timestamp(cx.now())),
            "random" => self.random_number(param),
            "readable" => Ok(all_handlers(cx, param, 'r').to_string()),
            "writable" => Ok(all_handlers(cx, param, 'w').to_string()),
            "cat" => file_text(cx, param),
            "catq" => file_text(cx, param).map(|text| text::quote(text.as_bytes())),
            "kill" => signal::kill(cx, param).map_err(HandlerError::Refused),
            "get" => {
                let undefined = || HandlerError::refused(format!("undefined variable '{param}'"));
                self.variable(param.trim()).ok_or_else(undefined)
            }
            "shift" => self.shift(if param.is_empty() { "args" } else { param.trim() }),
            _ if self.kind == Kind::Proxy && self.may_change(cx) => {
                self.run_from(cx, name, param, false)
            }
            _ if self.kind == Kind::Proxy => {
                Err(HandlerError::refused("this runs a script, and the caller may only read"))
            }
            _ => Err(HandlerError::no_read(name)),
        }
    }

    /// Writes a handler of this element.
    pub(super) fn write_own(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        self.note_remote_entry(cx);
        match name {
            "run" => self.run_from(cx, name, value, true).map(drop),
            "goto" => {
                self.jump(value)?;
                cx.clear_timer(WAIT);
                self.execute(cx, 0);
                self.outcome(cx).map(drop)
            }
            "step" => {
                let steps: u32 = match value.trim() {
                    "" | "router" => 1,
                    number => handler_value(name, number)?,
                };
                self.execute(cx, i64::from(steps));
                self.outcome(cx).map(drop)
            }
            "set" => {
                let (variable, value) = first_word(value);
                if variable.is_empty() {
                    return Err(HandlerError::refused("set: expected VARIABLE VALUE"));
                }
                match variable {
                    "args" => self.caller.args = value.to_owned(),
                    _ => self.set_variable(variable, value.to_owned()),
                }
                Ok(())
            }
            _ if self.kind == Kind::Proxy => self.run_from(cx, name, value, true).map(drop),
            _ => Err(HandlerError::no_write(name)),
        }
    }

    /// Records an outside caller whose values become the script's.
    fn note_remote_entry(&mut self, cx: &mut Cx<'_>) {
        if let Some(origin) = cx.calls().origin() {
            self.remote_entry = Some(origin);
        }
    }

    /// Whether the caller of a handler may change anything.
    fn may_change(&self, cx: &mut Cx<'_>) -> bool {
        cx.calls().origin().is_none_or(|outside| !outside.read_only)
    }

    /// Runs the script from its beginning on behalf of a handler.
    fn run_from(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        args: &str,
        write: bool,
    ) -> Result<String, HandlerError> {
        self.note_remote_entry(cx);
        self.caller = Caller { args: args.to_owned(), name: name.to_owned(), write };
        self.restart();
        cx.clear_timer(WAIT);
        self.execute(cx, 0);
        self.outcome(cx)
    }

    /// The result of a run on behalf of a handler.
    fn outcome(&mut self, cx: &mut Cx<'_>) -> Result<String, HandlerError> {
        if self.state == RunState::Ended(Ending::Stop) {
            cx.stop();
        }
        if self.errors.is_empty() && self.state != RunState::Ended(Ending::Error) {
            return Ok(self.returned());
        }
        Err(HandlerError::Refused(std::mem::take(&mut self.errors).join("\n")))
    }

    fn random_number(&mut self, param: &str) -> Result<String, HandlerError> {
        let bad = || HandlerError::refused("random: expected [N] or N1 N2, with N at least 1");
        let numbers: Result<Vec<u32>, HandlerError> = text::split_words(param)
            .into_iter()
            .map(|word| handler_value("random", word))
            .collect();
        let (low, count) = match numbers?[..] {
            [] => (0, RANDOM_MAX + 1),
            [end] if end > 0 => (0, u64::from(end)),
            [low, high] if low <= high => (u64::from(low), u64::from(high - low) + 1),
            _ => return Err(bad()),
        };
        Ok((low + self.random.below(count)).to_string())
    }
}

fn file_text(cx: &mut Cx<'_>, param: &str) -> Result<String, HandlerError> {
    let name = text::unquote_text(param);
    let mut bytes = Vec::new();
    let read = named_file::read(cx, &name)
        .and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes));
    match read {
        Err(error) => Err(HandlerError::refused(format!("{name}: {error}"))),
        Ok(_) if bytes.len() as u64 > FILE_MAX => {
            Err(HandlerError::refused(format!("{name}: longer than {FILE_MAX} bytes")))
        }
        Ok(_) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// Whether all handlers named in `param` have the right (`r` or `w`).
fn all_handlers(cx: &mut Cx<'_>, param: &str, right: char) -> bool {
    text::split_words(param).into_iter().all(|path| has_right(cx, path, right))
}

fn has_right(cx: &mut Cx<'_>, path: &str, right: char) -> bool {
    let (owner, name) = path.rsplit_once('.').unwrap_or(("", path));
    let own = format!("{}.handlers", cx.name());
    let lists = match owner {
        // A bare name is this element's own handler, or the router's.
        "" => vec![own, "handlers".to_owned()],
        owner => vec![format!("{owner}.handlers")],
    };
    lists.iter().any(|list| {
        let text = cx.read_handler(list).unwrap_or_default();
        text.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(name) && words.next().is_some_and(|rights| rights.contains(right))
        })
    })
}
