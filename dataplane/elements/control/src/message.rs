//! Message: says something when the configuration starts.

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, NOTHING_MORE, Replicas, Spec, Topic, Ty,
};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Message",
        topic: Topic::Control,
        summary: "prints a message when the configuration is read",
        docs: "Writes MESSAGE to standard error before packets flow; with TYPE WARNING, as a \
               warning. With TYPE ERROR it is an error, and the configuration is not run.",
        example: "Message(\"Use the other one\", WARNING); InfiniteSource(LIMIT 3) -> Discard",
        ports: "0/0",
        processing: "/",
        args: &[
            Arg::required("MESSAGE", Ty::Str, "the text"),
            Arg::optional("TYPE", Ty::Choice(&["MESSAGE", "WARNING", "ERROR"]), "what it is")
                .or("MESSAGE"),
        ],
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
);

struct Message {
    text: String,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let (text, kind): (String, String) = (args.get("MESSAGE")?, args.get("TYPE")?);
    match kind.to_ascii_uppercase().as_str() {
        "MESSAGE" => Ok(Box::new(Message { text })),
        "WARNING" => Ok(Box::new(Message { text: format!("warning: {text}") })),
        "ERROR" => Err(ArgErrors::whole(text)),
        _ => Err(args
            .error("TYPE", format!("'{kind}' is not one of MESSAGE, WARNING, ERROR"))
            .into()),
    }
}

impl Element for Message {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.log(&self.text);
        Ok(())
    }
}
