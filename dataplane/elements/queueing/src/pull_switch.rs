//! PullSwitch: pulls from one input, which a handler can change.

use thruway_element::{
    Alias, Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Handlers,
    NOTHING_MORE, Purpose, Replicas, Spec, Topic, Ty, handler_value,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "PullSwitch",
        aliases: &[Alias { name: "SimplePullSwitch", summary: "the same" }],
        topic: Topic::Queueing,
        summary: "pulls from one input, which can be changed",
        docs: "What is pulled at its output comes from input INPUT; with a negative INPUT, or one \
               that there is not, nothing comes. Writing the switch handler turns to another input \
               while packets flow.",
        example: "InfiniteSource -> Queue -> s :: PullSwitch(1) -> Unqueue -> Discard;\n\
                  InfiniteSource -> Queue -> [1] s",
        ports: "-/1",
        processing: "l/l",
        args: &[Arg::optional("INPUT", Ty::Int, "number of the input; negative: none").or("0")],
        handlers: &[
            Handler::both("switch", "number of the input; -1 when switched off"),
            Handler::read("config", "the same"),
        ],
        changes: Changes::Nothing,
        cost: NOTHING_MORE,
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<PullSwitch>();

/// See the spec.
pub static FIXED: Entry = Entry::new(
    Spec {
        name: "StaticPullSwitch",
        aliases: &[],
        summary: "pulls from one input for good",
        docs: "A PullSwitch whose INPUT must be given and does not change.",
        example: "InfiniteSource -> Queue -> s :: StaticPullSwitch(1) -> Unqueue -> Discard;\n\
                  InfiniteSource -> Queue -> [1] s",
        purpose: Purpose::FixedSwitch,
        ..ENTRY.spec
    },
    build,
)
.with_handlers::<PullSwitch>();

struct PullSwitch {
    /// `None` when switched off.
    input: Option<usize>,
    inputs: usize,
    fixed: bool,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let (fixed, inputs) = (args.class() == "StaticPullSwitch", args.env().inputs);
    let input = usize::try_from(args.get::<i32>("INPUT")?).ok();
    if fixed && !args.given("INPUT") {
        return Err(args.error("INPUT", "StaticPullSwitch needs the number of its input").into());
    }
    if fixed && input.is_some_and(|input| input >= inputs) {
        let message = format!("must be below {inputs}, the number of connected inputs");
        return Err(args.error("INPUT", message).into());
    }
    Ok(Box::new(PullSwitch { input: input.filter(|input| *input < inputs), inputs, fixed }))
}

impl Element for PullSwitch {
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        if let Some(input) = self.input {
            cx.pull(input, max, batch);
        }
    }
}

impl Handlers for PullSwitch {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "config" => {}
            "switch" if !self.fixed => {}
            _ => return Err(HandlerError::no_read(name)),
        }
        Ok(self.input.map_or("-1".into(), |input| input.to_string()))
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        if name != "switch" || self.fixed {
            return Err(HandlerError::no_write(name));
        }
        let input = usize::try_from(handler_value::<i32>(name, value)?).ok();
        self.input = input.filter(|input| *input < self.inputs);
        Ok(())
    }
}
