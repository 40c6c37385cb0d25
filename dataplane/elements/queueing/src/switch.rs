//! Switch: all packets to one output, which a handler can change.

use thruway_element::{
    ArgError, Args, Arguments, Changes, Cx, Element, Entry, HandlerError, Handlers, NOTHING_MORE,
    Purpose, Replicas, Spec, Topic, handler_value, reasons,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Switch>(Spec {
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
    drops: Off::DROPS,
    changes: Changes::Nothing,
    cost: NOTHING_MORE,
    replicas: Replicas::Alike,
    large_packets: true,
    ..Spec::DEFAULT
});

/// See the spec.
pub static FIXED: Entry = Entry::of::<Switch>(Spec {
    name: "StaticSwitch",
    summary: "sends all packets to one fixed output",
    docs: "A Switch with a required OUTPUT that cannot change.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> s :: StaticSwitch(1);\n\
              s[0] -> Discard; s[1] -> Print(one) -> Discard",
    purpose: Purpose::FixedSwitch,
    ..ENTRY.spec
});

reasons! {
    /// Why a packet goes no further.
    enum Off {
        Off = "switched-off": "OUTPUT was negative",
    }
}

#[derive(Arguments, Handlers)]
struct Switch {
    #[arg(
        optional, name = "OUTPUT", value = i32, or = "0", "number of the output; negative: drop"
    )]
    #[new(chosen(args, output)?)]
    #[handler(
        both, name = "switch", "number of the output; -1 when switched off",
        read = self.output.read(name), write = self.output.write(name, value, cx.outputs())
    )]
    output: ChosenPort,
}

/// The port that packets go by.
pub(super) struct ChosenPort {
    /// `None` when switched off.
    pub(super) number: Option<usize>,
    /// Whether handlers do not change it.
    pub(super) fixed: bool,
}

impl ChosenPort {
    /// Handler `switch`.
    pub(super) fn read(&self, name: &str) -> Result<String, HandlerError> {
        if self.fixed { Err(HandlerError::no_read(name)) } else { Ok(self.text()) }
    }

    pub(super) fn text(&self) -> String {
        self.number.map_or("-1".to_owned(), |number| number.to_string())
    }

    /// Handler `switch`, where there are so many ports.
    pub(super) fn write(
        &mut self,
        name: &str,
        value: &str,
        ports: usize,
    ) -> Result<(), HandlerError> {
        if self.fixed {
            return Err(HandlerError::no_write(name));
        }
        let number = usize::try_from(handler_value::<i32>(name, value)?).ok();
        self.number = number.filter(|number| *number < ports);
        Ok(())
    }
}

fn chosen(args: &Args<'_>, output: i32) -> Result<ChosenPort, ArgError> {
    let fixed = args.class() == "StaticSwitch";
    if fixed && !args.given("OUTPUT") {
        return Err(args.error("OUTPUT", "StaticSwitch needs the number of its output"));
    }
    let (number, outputs) = (usize::try_from(output).ok(), args.env().outputs);
    if number.is_some_and(|number| number >= outputs) {
        let message = format!("must be below {outputs}, the number of connected outputs");
        return Err(args.error("OUTPUT", message));
    }
    Ok(ChosenPort { number, fixed })
}

impl Element for Switch {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        match self.output.number {
            Some(0) => {}
            Some(output) => cx.emit_all(output, batch),
            None => cx.drop_all(Off::Off, batch),
        }
    }
}
