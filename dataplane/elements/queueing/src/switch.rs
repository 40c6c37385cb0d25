//! Switch: all packets to one output, which a handler can change.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Handlers,
    NOTHING_MORE, Purpose, Replicas, Spec, Topic, Ty, handler_value, reasons,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Switch",
        topic: Topic::Queueing,
        summary: "sends all packets to one output, which can be changed",
        docs: "Every packet leaves by output OUTPUT; with a negative OUTPUT every packet is dropped. \
               Writing the switch handler turns to another output while packets flow; a number \
               that has no output switches off.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> s :: Switch(1);\n\
                  s[0] -> Discard; s[1] -> Print(one) -> Discard",
        ports: "1/-",
        processing: "h/h",
        straight: true,
        args: &[Arg::optional("OUTPUT", Ty::Int, "number of the output; negative: drop").or("0")],
        drops: Off::DROPS,
        handlers: &[Handler::both("switch", "number of the output; -1 when switched off")],
        changes: Changes::Nothing,
        cost: NOTHING_MORE,
        replicas: Replicas::Alike,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<Switch>();

/// See the spec.
pub static FIXED: Entry = Entry::new(
    Spec {
        name: "StaticSwitch",
        summary: "sends all packets to one output for good",
        docs: "A Switch whose OUTPUT must be given and does not change.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> s :: StaticSwitch(1);\n\
                  s[0] -> Discard; s[1] -> Print(one) -> Discard",
        purpose: Purpose::FixedSwitch,
        ..ENTRY.spec
    },
    build,
)
.with_handlers::<Switch>();

reasons! {
    /// Why a packet goes no further.
    enum Off {
        Off = "switched-off": "OUTPUT was negative",
    }
}

struct Switch {
    /// `None` when switched off.
    output: Option<usize>,
    fixed: bool,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let fixed = args.class() == "StaticSwitch";
    if fixed && !args.given("OUTPUT") {
        return Err(args.error("OUTPUT", "StaticSwitch needs the number of its output").into());
    }
    let output = usize::try_from(args.get::<i32>("OUTPUT")?).ok();
    let outputs = args.env().outputs;
    if output.is_some_and(|output| output >= outputs) {
        let message = format!("must be below {outputs}, the number of connected outputs");
        return Err(args.error("OUTPUT", message).into());
    }
    Ok(Box::new(Switch { output, fixed }))
}

impl Element for Switch {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        match self.output {
            Some(0) => {}
            Some(output) => cx.emit_all(output, batch),
            None => cx.drop_all(Off::Off, batch),
        }
    }
}

impl Handlers for Switch {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match (name, self.fixed, self.output) {
            ("switch", false, Some(output)) => Ok(output.to_string()),
            ("switch", false, None) => Ok("-1".into()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        match (name, self.fixed) {
            ("switch", false) => {
                let output = usize::try_from(handler_value::<i32>(name, value)?).ok();
                self.output = output.filter(|output| *output < cx.outputs());
                Ok(())
            }
            _ => Err(HandlerError::no_write(name)),
        }
    }
}
