//! Groups of trust in the text of a configuration, where the manager writes them.

use thruway_element::text;
use thruway_lang::parser;

use super::Search;
use crate::kind::CheckError;
use crate::{GroupName, Run};

/// Checks what a chain declares of groups. They are those of the store.
///
/// # Errors
/// A group is listed twice or has none of the chain's functions, or the configuration names it: its
/// members are those that the group names.
pub fn check(run: &Run) -> Result<(), CheckError> {
    let groups = &run.spec.groups;
    let in_use = run.groups_in_use();
    for (at, group) in groups.iter().enumerate() {
        let wrong = |message: String| Err(CheckError::new(format!("groups[{at}]"), message));
        if groups[..at].contains(group) {
            return wrong(format!("'{group}' is listed twice; list it once"));
        }
        if !in_use.contains(group) {
            let message = format!(
                "none of the chain's `functions` runs in group '{group}': its functions are {}; \
                 use one of them, or leave the group out",
                members(run, group)
            );
            return wrong(message);
        }
        if names(&run.spec.configuration, group) {
            let message = format!(
                "an Nf has GROUP {group}, which is one of `groups`: leave GROUP and MODE out; its \
                 members are {}, by their variables",
                members(run, group)
            );
            return Err(CheckError::new("configuration", message));
        }
    }
    Ok(())
}

fn members(run: &Run, group: &GroupName) -> String {
    let names = run.groups.get(group).into_iter().flat_map(|group| &group.functions);
    names.map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Whether an element that runs a function says by itself that it is a member.
fn names(configuration: &str, group: &GroupName) -> bool {
    let is_member = |arguments: &str| {
        text::split_args(arguments).iter().any(|(argument, _)| {
            let rest = argument.strip_prefix("GROUP").filter(|rest| rest.starts_with([' ', '\t']));
            rest.is_some_and(|name| text::unquote_text(name.trim()) == group.as_str())
        })
    };
    let body = parser::parse(configuration, 0).body;
    let mut search = Search::of(configuration, &is_member);
    search.body(&body);
    search.is_inside || !search.found.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FunctionSpec, GroupSpec};

    /// A chain of `ids@1`, `log@1` and `nat@1`, with these groups and their functions.
    fn run(configuration: &str, groups: &[(&str, &[&str])]) -> Run {
        let json = r#"{"configuration": "", "functions": {"ids": "ids@1", "log": "log@1 -v",
            "nat": "nat@1"}}"#;
        let mut run = Run::from(serde_json::from_str::<crate::ChainSpec>(json).expect("a chain"));
        configuration.clone_into(&mut run.spec.configuration);
        for used in run.spec.functions.values() {
            run.functions.insert(used.name.clone(), FunctionSpec::default());
        }
        for (name, functions) in groups {
            let name = GroupName::new(name).expect("a name");
            let names = serde_json::json!({ "functions": functions });
            let group: GroupSpec = serde_json::from_value(names).expect("a group");
            run.groups.insert(name.clone(), group);
            run.spec.groups.push(name);
        }
        run
    }

    #[test]
    fn members_have_the_group_and_it_is_declared() {
        let text = "Idle -> Nf($ids) -> Nf($log) -> Nf($nat) -> Discard; // end";
        let run = run(text, &[("edge", &["log@1", "ids@1", "x@1"]), ("all", &["ids@1", "nat@1"])]);
        check(&run).expect("good");
        let expected = format!("{text}\nTrustGroup(all);\nTrustGroup(edge);");
        assert_eq!(run.configuration(), expected);
        let variables = run.variables(|_| "/f".into());
        assert_eq!(variables["ids"], r#"EXEC "\"/f\"", MODE group, GROUP edge"#);
        assert_eq!(variables["log"], r#"EXEC "\"/f\" -v", MODE group, GROUP edge"#);
        assert_eq!(variables["nat"], r#"EXEC "\"/f\"", MODE group, GROUP all"#);
    }

    #[test]
    fn a_chain_without_groups_stays_as_it_is() {
        let run = run("Idle -> Nf($ids, MODE group, GROUP own) -> Discard; TrustGroup(own);", &[]);
        check(&run).expect("good");
        assert_eq!(run.configuration(), run.spec.configuration);
    }

    #[test]
    fn what_is_wrong_is_refused_by_its_field() {
        let plain = "Idle -> Nf($ids) -> Discard";
        for (text, groups, field, what) in [
            (plain, &[("edge", &["ids@2"][..])][..], "groups[0]", "its functions are ids@2;"),
            (plain, &[("a", &["ids@1"]), ("b", &["ids@1"])], "groups[1]", "leave the group out"),
            (plain, &[("a", &["ids@1"]), ("a", &["ids@1"])], "groups[1]", "listed twice"),
            (
                "Idle -> Nf($x, MODE group,\n GROUP \"a\") -> Discard",
                &[("a", &["ids@1", "log@1"])],
                "configuration",
                "its members are ids@1, log@1",
            ),
            (
                "p :: { input -> Nf($x, GROUP a) -> output }",
                &[("a", &["ids@1"])],
                "configuration",
                "leave GROUP and MODE out",
            ),
        ] {
            let error = check(&run(text, groups)).expect_err(text);
            assert_eq!(error.field, field, "{}", error.message);
            assert!(error.message.contains(what), "{}", error.message);
        }
    }
}
