//! Handler calls that an argument names: `HANDLER [VALUE]`.

use thruway_element::{ArgErrors, Args, Cx, Origin, text};

/// A write handler and what to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    handler: String,
    value: String,
    /// Its origin: the call has no more permissions than that.
    origin: Origin,
}

impl Call {
    /// The call written `text`; `None` if it names no handler.
    pub fn parse(text: &str) -> Option<Call> {
        let (handler, value) = first_word(text);
        let value = text::unquote_text(value);
        let origin = None;
        (!handler.is_empty()).then(|| Call { handler: handler.to_owned(), value, origin })
    }

    /// The call with the permissions of the running handler's caller.
    pub fn by_caller(self, cx: &mut Cx<'_>) -> Call {
        Call { origin: cx.calls().origin(), ..self }
    }

    /// The write handler that asks the driver to stop.
    pub fn stop() -> Call {
        Call { handler: "stop".to_owned(), value: String::new(), origin: None }
    }

    /// The same call with `name` in its value replaced by `text`.
    pub fn with(&self, name: &str, text: &str) -> Call {
        Call { value: self.value.replace(name, text), ..self.clone() }
    }

    /// Calls the handler once the running element has returned.
    pub fn write_later(&self, cx: &mut Cx<'_>) {
        let before = cx.calls().set_origin(self.origin.clone());
        cx.write_later(self.handler.as_str(), self.value.as_str());
        cx.calls().set_origin(before);
    }

    /// Calls the handler, and logs failures to the user.
    pub fn write(&self, cx: &mut Cx<'_>) {
        let before = cx.calls().set_origin(self.origin.clone());
        self.write_now(cx);
        cx.calls().set_origin(before);
    }

    fn write_now(&self, cx: &mut Cx<'_>) {
        match own_handler(cx, &self.handler) {
            // An element cannot be called while it runs.
            Some(name) => {
                let call = own_path(cx, name);
                cx.write_later(call, self.value.as_str());
            }
            None => {
                if let Err(error) = cx.write_handler(&self.handler, &self.value) {
                    let call = format!("While calling '{}':", self.handler);
                    cx.calls().report(call, error);
                }
            }
        }
    }
}

/// The call that STOP or END_CALL asks for.
pub fn end_call(args: &Args<'_>) -> Result<Option<Call>, ArgErrors> {
    match (args.text("END_CALL"), args.get::<bool>("STOP")?) {
        (Some(_), true) => Err(args.error("END_CALL", "cannot be given with STOP").into()),
        (Some(text), false) => Ok(Call::parse(text)),
        (None, stop) => Ok(stop.then(Call::stop)),
    }
}

fn own_path(cx: &mut Cx<'_>, name: &str) -> String {
    format!("{}.{name}", cx.name())
}

/// The name of the handler that `path` means, if it is one of the running element's own: `name`
/// alone where the element has a handler of that name, or `element.name`.
pub fn own_handler<'a>(cx: &mut Cx<'_>, path: &'a str) -> Option<&'a str> {
    let node = cx.node();
    match path.rsplit_once('.') {
        Some(("", _)) => None,
        Some((element, name)) => (cx.find(node, element) == Some(node)).then_some(name),
        None => {
            let spec = cx.spec(node)?;
            spec.handlers.iter().any(|handler| handler.name == path).then_some(path)
        }
    }
}

/// Splits a text after its first word; both parts are without blanks around them.
pub fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let word = text::split_words(text).first().map_or("", |word| *word);
    // The words are parts of the text, and the first one begins it unless a comment does.
    let end = text.find(word).unwrap_or(0) + word.len();
    (word, text[end..].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_calls() {
        assert_eq!(first_word(" a  b c "), ("a", "b c"));
        assert_eq!(first_word("\"a b\" c"), ("\"a b\"", "c"));
        assert_eq!(first_word(""), ("", ""));
        let call = Call::parse("s.switch 1").unwrap();
        assert_eq!((call.handler.as_str(), call.value.as_str()), ("s.switch", "1"));
        assert_eq!(Call::parse("  "), None);
    }
}
