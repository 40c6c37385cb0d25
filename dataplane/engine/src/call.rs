//! A handler call as text.

use thruway_element::HandlerError;

use crate::layout::Layout;

/// A handler call taken apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    /// The element, or `None` for the router itself.
    pub node: Option<usize>,
    /// Handler name.
    pub name: &'a str,
    /// The rest after the name, with all blanks and newlines at its end.
    pub param: &'a str,
}

impl<'a> Call<'a> {
    /// Takes `[element.]handler [param]` apart, with names as seen from element `from`.
    pub fn parse(layout: &Layout, from: usize, call: &'a str) -> Result<Call<'a>, HandlerError> {
        let call = call.trim_start();
        let (path, param) = call.split_once(char::is_whitespace).unwrap_or((call, ""));
        let (param, path) = (param.trim_start(), path.strip_prefix('.').unwrap_or(path));
        let Some((element, name)) = path.rsplit_once('.') else {
            return Ok(Call { node: None, name: path, param });
        };
        let by_number = || {
            let index: usize = element.parse().ok()?;
            // Click counts elements from 1 in handler paths.
            index.checked_sub(1).filter(|index| *index < layout.graph.elements.len())
        };
        let found = if layout.graph.elements.is_empty() {
            None
        } else {
            layout.find_from(from, element).or_else(by_number)
        };
        match found {
            Some(node) => Ok(Call { node: Some(node), name, param }),
            None => Err(HandlerError::NoElement(element.to_owned())),
        }
    }
}
