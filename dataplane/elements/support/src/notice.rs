//! Messages of elements for the user.

use thruway_element::Cx;

/// Shows the user something of the element: its name and class, and that.
pub fn warn(cx: &mut Cx<'_>, what: &str) {
    let node = cx.node();
    let line = match cx.describe(node) {
        Some((name, class)) => format!("{name} :: {class}: {what}"),
        None => what.to_owned(),
    };
    cx.log(&line);
}
