//! Which overload of a compound element class an element means, and the values of its parameters.

use crate::ast::Formal;
use crate::diagnostics::Diagnostic;
use crate::scope::{Class, ClassId, CompoundClass};
use crate::source::Span;

/// How many overloads are tried, those of extended classes included.
pub const MAX_OVERLOADS: usize = 1024;
/// How many candidates are shown.
const MAX_CANDIDATES: usize = 16;

/// No overload has this number of arguments and ports.
#[derive(Debug)]
pub(crate) struct NoMatch {
    args: usize,
    inputs: u32,
    outputs: u32,
}

/// The first overload from `class` on that fits the arguments and the numbers of `(inputs,
/// outputs)` in use, with the parameters' values. If there is only one overload, the ports need
/// not fit (the errors about the ports say more).
pub(crate) fn choose(
    classes: &[Class],
    class: ClassId,
    args: &[String],
    (inputs, outputs): (u32, u32),
) -> Result<(ClassId, Vec<String>), NoMatch> {
    let mut lone = None;
    let mut at = Some(class);
    for _ in 0..MAX_OVERLOADS {
        let Some(id) = at else { break };
        let Class::Compound(compound) = &classes[id] else { return Ok((id, Vec::new())) };
        if let Some(values) = assign(args, &compound.formals) {
            if compound.inputs == inputs && compound.outputs == outputs {
                return Ok((id, values));
            }
            if id == class && compound.overload.is_none() {
                lone = Some((id, values));
            }
        }
        at = compound.overload;
    }
    lone.ok_or(NoMatch { args: args.len(), inputs, outputs })
}

impl NoMatch {
    /// The error, with the candidates.
    pub fn into_diagnostic(self, classes: &[Class], class: ClassId, span: Span) -> Diagnostic {
        let name = match &classes[class] {
            Class::Compound(class) if !class.name.is_empty() => class.name.as_str(),
            _ => "<anonymous>",
        };
        let args = match self.args {
            0 => String::new(),
            n => counted(n, "argument") + ", ",
        };
        let ports = ports(self.inputs, self.outputs);
        let mut error = Diagnostic::error(span, format!("no match for '{name}[{args}{ports}]'"));
        let mut at = Some(class);
        for _ in 0..MAX_CANDIDATES {
            let Some(Class::Compound(compound)) = at.map(|id| &classes[id]) else { break };
            let candidate = format!("candidate: {}", signature(compound));
            error = error.note_at(compound.span, candidate);
            at = compound.overload;
        }
        error
    }
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn ports(inputs: u32, outputs: u32) -> String {
    format!("{}, {}", counted(inputs as usize, "input"), counted(outputs as usize, "output"))
}

fn signature(class: &CompoundClass) -> String {
    let name = if class.name.is_empty() { "<anonymous>" } else { &class.name };
    let formals = class.formals.iter().map(|formal| match formal.keyword.as_str() {
        "" => "<arg>",
        "__REST__" => "...",
        keyword => keyword,
    });
    let formals = formals.collect::<Vec<_>>().join(", ");
    let formals = if formals.is_empty() { formals } else { format!("({formals})") };
    format!("{name}{formals}[{}]", ports(class.inputs, class.outputs))
}

/// The parameters' values in order, if the arguments fit.
fn assign(args: &[String], formals: &[Formal]) -> Option<Vec<String>> {
    let mut values: Vec<Option<String>> = vec![None; formals.len()];
    let positional = formals.iter().take_while(|formal| formal.keyword.is_empty()).count();
    let takes_rest = formals.last().is_some_and(|formal| formal.keyword == "__REST__");
    let mut next = 0;
    let mut rest = Vec::new();
    for arg in args {
        let keyword = keyword_of(arg, formals);
        if next < positional {
            values[next] = Some(arg.clone());
            next += 1;
        } else if let Some((index, value)) = keyword {
            values[index] = Some(value.to_string());
        } else if takes_rest {
            rest.push(arg.as_str());
        } else {
            return None;
        }
    }
    if takes_rest && let Some(last) = values.last_mut() {
        *last = Some(thruway_element::text::join(&rest));
    }
    values.into_iter().collect()
}

/// The keyword parameter that an argument gives, and its value.
fn keyword_of<'a>(arg: &'a str, formals: &[Formal]) -> Option<(usize, &'a str)> {
    let word = arg.split_ascii_whitespace().next()?;
    let fits = |formal: &Formal| formal.keyword == word && word != "__REST__";
    let index = formals.iter().position(fits)?;
    Some((index, arg.trim_start()[word.len()..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(args: &[&str], formals: &[&str]) -> Option<Vec<String>> {
        let formals: Vec<Formal> = formals
            .iter()
            .map(|keyword| Formal {
                keyword: keyword.to_string(),
                variable: "v".into(),
                span: Span::default(),
            })
            .collect();
        let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
        assign(&args, &formals)
    }

    #[test]
    fn arguments() {
        let some = |values: &[&str]| Some(values.iter().map(|v| v.to_string()).collect::<Vec<_>>());
        assert_eq!(assigned(&["a", "b"], &["", ""]), some(&["a", "b"]));
        assert_eq!(assigned(&["a"], &["", ""]), None);
        assert_eq!(assigned(&["a", "b"], &[""]), None);
        assert_eq!(assigned(&["1", "K 2 3"], &["", "K"]), some(&["1", "2 3"]));
        assert_eq!(assigned(&["1"], &["", "K"]), None);
        assert_eq!(
            assigned(&["1", "x", "K 2", "y"], &["", "K", "__REST__"]),
            some(&["1", "2", "x, y"])
        );
        assert_eq!(assigned(&[], &["__REST__"]), some(&[""]));
    }
}
