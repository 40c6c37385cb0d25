//! The manuals as JSON, for programs that write or check configurations.

use serde_json::{Value, json};
use thruway_element::{Access, Arg, ArgRule, Handler, Spec};

use super::specs::{handlers, sorted, wants};

/// All elements by name, with their aliases.
pub fn list() -> Value {
    let specs = sorted().map(|spec| {
        json!({
            "name": spec.name, "topic": spec.topic.to_string(), "summary": spec.summary,
            "aliases": aliases(spec),
        })
    });
    specs.collect()
}

/// One element's manual.
pub fn page(spec: &Spec) -> Value {
    let all_handlers = handlers(spec).map(handler).collect::<Vec<_>>();
    let reasons = spec.reasons().map(|drop| json!({ "name": drop.name, "doc": drop.doc }));
    json!({
        "name": spec.name, "topic": spec.topic.to_string(), "summary": spec.summary,
        "aliases": aliases(spec), "docs": spec.docs, "example": spec.example,
        "ports": spec.ports, "processing": spec.processing,
        "wants": wants(spec).into_iter().map(|[what, doc]| json!({ "what": what, "doc": doc }))
            .collect::<Vec<_>>(),
        "threads": spec.replicas.to_string(),
        "arguments": spec.args.iter().map(argument).collect::<Vec<_>>(),
        "handlers": all_handlers,
        "drop_reasons": reasons.collect::<Vec<_>>(),
    })
}

fn aliases(spec: &Spec) -> Vec<Value> {
    let alias = spec.aliases.iter();
    alias.map(|alias| json!({ "name": alias.name, "summary": alias.summary })).collect()
}

fn argument(arg: &Arg) -> Value {
    let place = match arg.rule {
        ArgRule::Required | ArgRule::Optional => "position",
        ArgRule::Keyword | ArgRule::RequiredKeyword => "keyword",
        ArgRule::Rest => "rest",
    };
    json!({
        "name": arg.name, "type": arg.ty.to_string(), "doc": arg.doc, "given_by": place,
        "required": matches!(arg.rule, ArgRule::Required | ArgRule::RequiredKeyword),
        "default": (!arg.default.is_empty()).then_some(arg.default),
    })
}

fn handler(handler: &Handler) -> Value {
    json!({
        "name": handler.name, "doc": handler.doc,
        "read": handler.access != Access::Write, "write": handler.access != Access::Read,
    })
}

#[cfg(test)]
mod tests {
    use thruway_element::Catalog as _;
    use thruway_elements::CATALOG;

    use super::*;

    #[test]
    fn every_name_of_the_catalog_is_listed_once() {
        let listed = list();
        let names = listed.as_array().expect("a list").iter().flat_map(|one| {
            let aliases = one["aliases"].as_array().expect("a list").iter();
            std::iter::once(&one["name"]).chain(aliases.map(|alias| &alias["name"]))
        });
        let mut names: Vec<&str> = names.map(|name| name.as_str().expect("text")).collect();
        names.sort_unstable();
        let mut expected = CATALOG.names();
        expected.sort_unstable();
        assert_eq!(names, expected);
    }

    #[test]
    fn a_page_says_how_arguments_are_given() {
        let page = page(&CATALOG.entry("InfiniteSource").expect("an element").spec);
        let limit = page["arguments"].as_array().expect("a list").iter();
        let limit: Vec<_> = limit.filter(|arg| arg["name"] == "LIMIT").collect();
        assert_eq!(limit.len(), 1, "{page}");
        assert_eq!((&limit[0]["required"], &limit[0]["default"]), (&json!(false), &json!("-1")));
        let handlers = page["handlers"].as_array().expect("a list");
        let is = |name, read, write| {
            handlers.iter().any(|one| {
                one["name"] == name
                    && (&one["read"], &one["write"]) == (&json!(read), &json!(write))
            })
        };
        assert!(is("count", true, false) && is("active", true, true) && is("reset", false, true));
    }
}
