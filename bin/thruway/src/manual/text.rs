//! The manuals as text, for people.

use std::fmt::Write as _;

use thruway_element::{Access, Arg, ArgRule, Handler, Spec, Topic};

use super::specs::{handlers, sorted, wants};
use crate::table::{Table, wrap};

/// All elements by topic, a line each.
pub fn list() -> String {
    let mut text = String::new();
    for topic in Topic::ALL {
        let mut table = Table::new(&["", ""]);
        for spec in sorted().filter(|spec| spec.topic == topic) {
            table.row(vec![spec.name.into(), spec.summary.into()]);
            for alias in spec.aliases {
                table.row(vec![alias.name.into(), format!("{} ({})", alias.summary, spec.name)]);
            }
        }
        if !table.is_empty() {
            let rows = table.render();
            let (_, rows) = rows.split_once('\n').unwrap_or(("", ""));
            let _ = writeln!(text, "{topic}:\n{rows}");
        }
    }
    text + "thruway elements NAME prints an element's manual.\n"
}

/// One element's manual.
pub fn page(spec: &Spec) -> String {
    let mut text = format!("{}: {}\n\n", spec.name, spec.summary);
    let _ = writeln!(text, "  {}\n", synopsis(spec));
    for alias in spec.aliases {
        let _ = writeln!(text, "Also called {}: {}.", alias.name, alias.summary);
    }
    let _ = writeln!(
        text,
        "Ports {} (inputs/outputs), processing {} (h push, l pull, a either).\n",
        spec.ports, spec.processing
    );
    text += &wrap(spec.docs);
    section(&mut text, "Wants", wants(spec).into_iter());
    let _ = write!(text, "\n{}", wrap(&format!("In several threads, {}.", spec.replicas)));
    section(&mut text, "Arguments", spec.args.iter().map(argument));
    section(&mut text, "Handlers", handlers(spec).map(handler));
    let reasons = spec.reasons().map(|drop| [drop.name.into(), drop.doc.into()]);
    section(&mut text, "Drop reasons", reasons);
    if !spec.example.is_empty() {
        let _ = writeln!(text, "\nExample\n");
        for line in spec.example.lines() {
            let _ = writeln!(text, "  {}", line.trim_end());
        }
    }
    text
}

fn synopsis(spec: &Spec) -> String {
    let words: Vec<String> = spec
        .args
        .iter()
        .map(|arg| match arg.rule {
            ArgRule::Required => arg.name.into(),
            ArgRule::Optional => format!("[{}]", arg.name),
            ArgRule::Keyword => format!("[{} {}]", arg.name, arg.ty),
            ArgRule::RequiredKeyword => format!("{} {}", arg.name, arg.ty),
            ArgRule::Rest => format!("{0}, ...", arg.name),
        })
        .collect();
    format!("{}({})", spec.name, words.join(", "))
}

fn argument(arg: &Arg) -> [String; 2] {
    let default =
        if arg.default.is_empty() { String::new() } else { format!("; default {}", arg.default) };
    let must = match arg.rule {
        ArgRule::Required | ArgRule::RequiredKeyword => "; required",
        _ => "",
    };
    [arg.name.into(), format!("{} ({}{must}{default})", arg.doc, arg.ty)]
}

fn handler(handler: &Handler) -> [String; 2] {
    let access = match handler.access {
        Access::Read => "read",
        Access::Write => "write",
        Access::ReadWrite => "read/write",
    };
    [handler.name.into(), format!("{} ({access})", handler.doc)]
}

fn section(text: &mut String, title: &str, rows: impl Iterator<Item = [String; 2]>) {
    let mut table = Table::new(&[title, ""]);
    rows.for_each(|row| table.row(row.into()));
    if !table.is_empty() {
        let rendered = table.render();
        let (_, rows) = rendered.split_once('\n').unwrap_or(("", ""));
        let _ = write!(text, "\n{title}\n\n{rows}");
    }
}
