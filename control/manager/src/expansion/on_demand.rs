//! Functions on demand in the text of a configuration: the element of one that is not needed
//! becomes a piece of cable.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{Element, find};
use crate::kind::CheckError;
use crate::{ChainSpec, Run};

/// Checks what a chain declares of functions on demand, but for the handlers.
///
/// # Errors
/// The field that is wrong.
pub fn check(spec: &ChainSpec) -> Result<(), CheckError> {
    for (variable, policy) in &spec.on_demand {
        let field = format!("on_demand.{variable}");
        let wrong =
            |name: &str, message: String| Err(CheckError::new(format!("{field}{name}"), message));
        if !spec.functions.contains_key(variable) {
            let message = format!("'{variable}' is none of `functions`, which the chain uses");
            return wrong("", message);
        }
        if spec.replicas.contains_key(variable) {
            return wrong("", "it has replicas, too; keep one of the two".to_owned());
        }
        if !policy.is_handler() {
            let when = policy.when.escape_debug();
            let message = format!("'{when}' is no handler; give ELEMENT.HANDLER");
            return wrong(".when", message);
        }
        if let Err(message) = policy.calm() {
            return wrong(".calm", message);
        }
        if let Err(message) = find(&spec.configuration, variable) {
            return wrong("", message);
        }
    }
    Ok(())
}

/// What a data plane runs where these functions on demand run, and the others do not.
///
/// # Errors
/// A function has no element.
pub fn with_deployed(run: &Run, deployed: &BTreeSet<String>) -> Result<Run, CheckError> {
    let mut now = run.clone();
    now.spec.on_demand.clear();
    for variable in run.spec.on_demand.keys().filter(|variable| !deployed.contains(*variable)) {
        let element = find(&now.spec.configuration, variable)
            .map_err(|message| CheckError::new(format!("on_demand.{variable}"), message))?;
        now.spec.configuration.replace_range(element.span.range(), &cable(&element));
        // A variable that nothing uses would be an error.
        now.spec.functions.remove(variable);
    }
    Ok(now)
}

/// An element in one line that passes packets on: those of the first input by the first output,
/// those of the second by the second.
fn cable(element: &Element) -> String {
    let mut text = "{".to_owned();
    // Writing to a String does not fail.
    for input in 0..element.inputs.max(element.outputs) {
        let _ = match (input < element.inputs, input < element.outputs) {
            (true, true) => write!(text, " input[{input}] -> [{input}] output;"),
            (true, false) if element.outputs > 0 => {
                write!(text, " input[{input}] -> [0] output;")
            }
            (true, false) => write!(text, " input[{input}] -> Discard;"),
            (false, _) => write!(text, " Idle -> [{input}] output;"),
        };
    }
    text + " }"
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "a -> d :: FloodDetector(9)\n  -> nf :: Nf($x,\n  HOLD 1s) -> b; nf[1] -> c;";

    fn spec(json: &str) -> ChainSpec {
        let mut spec: ChainSpec = serde_json::from_str(json).expect("a chain");
        if spec.configuration.is_empty() {
            TEXT.clone_into(&mut spec.configuration);
        }
        spec
    }

    #[test]
    fn a_function_that_does_not_run_is_a_cable() {
        let spec = spec(
            r#"{"configuration": "", "functions": {"x": "x@1"},
            "on_demand": {"x": {"when": "d.flooded"}}}"#,
        );
        check(&spec).expect("good");
        let run = Run::from(spec);
        let all = with_deployed(&run, &["x".to_owned()].into()).expect("written");
        assert_eq!(all.spec.configuration, TEXT);
        assert!(all.spec.on_demand.is_empty() && all.spec.functions.len() == 1);
        let none = with_deployed(&run, &BTreeSet::new()).expect("written");
        let cable = "{ input[0] -> [0] output; Idle -> [1] output; }";
        let expected = TEXT.replace("Nf($x,\n  HOLD 1s)", cable);
        assert_eq!(none.spec.configuration, expected);
        assert!(none.spec.functions.is_empty());
    }

    #[test]
    fn cables_are_for_as_many_ports_as_are_used() {
        let cable = |text: &str| cable(&find(text, "x").expect("an element"));
        let one = "{ input[0] -> [0] output; }";
        assert_eq!(cable("a -> nf :: Nf($x) -> b"), one);
        let two = "{ input[0] -> [0] output; input[1] -> [1] output; }";
        assert_eq!(cable("a -> nf :: Nf($x) -> b; c -> [1] nf [1] -> d"), two);
        let joined = "{ input[0] -> [0] output; input[1] -> [0] output; }";
        assert_eq!(cable("a -> nf :: Nf($x) -> b; c -> [1] nf"), joined);
        assert_eq!(cable("a -> nf :: Nf($x)"), "{ input[0] -> Discard; }");
    }

    #[test]
    fn what_cannot_be_followed_is_refused_by_its_field() {
        for (rest, field) in [
            (r#""on_demand": {"y": {"when": "d.flooded"}}"#, "on_demand.y"),
            (r#""on_demand": {"x": {"when": "flooded"}}"#, "on_demand.x.when"),
            (r#""on_demand": {"x": {"when": "d. flooded"}}"#, "on_demand.x.when"),
            (r#""on_demand": {"x": {"when": "d.flooded", "calm": "1ms"}}"#, "on_demand.x.calm"),
            (r#""on_demand": {"x": {"when": "d.flooded", "calm": "soon"}}"#, "on_demand.x.calm"),
            (r#""on_demand": {"x": {"when": "d.flooded"}}, "replicas": {"x": {}}"#, "on_demand.x"),
            (r#""functions": {"z": "x@1"}, "on_demand": {"z": {"when": "d.f"}}"#, "on_demand.z"),
        ] {
            let functions = r#""functions": {"x": "x@1"},"#;
            let functions = if rest.contains("functions") { "" } else { functions };
            let spec = spec(&format!(r#"{{"configuration": "", {functions} {rest}}}"#));
            assert_eq!(check(&spec).expect_err(rest).field, field);
        }
    }
}
