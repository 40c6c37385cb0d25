//! IsolatedElement: what stands for an element that runs in another process.

use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, HandlerError, Handlers, NOTHING_MORE, Purpose,
    Replicas, Spec, Topic, Ty,
};

use super::backend::Shared;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "IsolatedElement",
        topic: Topic::Nf,
        summary: "stands for an element that runs in the process of an Nf",
        docs: "Isolate puts it in the place of each element that it takes out of the \
               configuration, under the same name: its handlers are those of that element, and \
               are passed on to the process of NF. It has no ports. No thread waits for an answer: \
               a control client has it when it comes, after two seconds an error; a Script goes on \
               when it comes.",
        example: "Idle -> s :: Strip(14) -> Discard; Isolate(s)",
        ports: "0/0",
        args: &[Arg::required("NF", Ty::Element, "full name of the Nf that it belongs to")],
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        purpose: Purpose::StandForIsolated,
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<IsolatedElement>();

struct IsolatedElement {
    name: String,
    function: Arc<Shared>,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let nf: String = args.get("NF")?;
    let function = args.env().shared.get(&nf, Shared::KEY, Shared::default);
    let function = function.ok_or_else(|| args.error("NF", format!("'{nf}' is not an Nf")))?;
    Ok(Box::new(IsolatedElement { name: args.name().to_owned(), function }))
}

impl IsolatedElement {
    fn call(&self, write: bool, handler: &str, text: &str) -> Result<String, HandlerError> {
        let call = format!("{}.{handler} {text}", self.name);
        let function = self.function.function();
        let function = function.ok_or_else(|| HandlerError::refused("it does not run yet"))?;
        function.ask(write, call.trim_end()).or_later()
    }
}

impl Element for IsolatedElement {}

impl Handlers for IsolatedElement {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        self.call(false, name, param)
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        self.call(true, name, value).map(drop)
    }
}
