//! Suppressor: ports that can be shut.

use thruway_element::{
    ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Handlers, NOTHING_MORE,
    Replicas, Spec, Topic, handler_value, reasons,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Suppressor",
        topic: Topic::Queueing,
        summary: "passes packets on, of each input to the same output, unless that is shut",
        docs: "Packets go from input N to output N. While activeN is false, packets that are pushed \
               into input N are dropped, and nothing can be pulled from output N. All ports are \
               active at first.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> s :: Suppressor -> Discard",
        ports: "-/=",
        flow: "#/#",
        drops: Shut::DROPS,
        handlers: &[
            Handler::both("active0", "whether port 0 is active; likewise active1 and so on"),
            Handler::write("reset", "makes all ports active"),
        ],
        changes: Changes::Nothing,
        cost: NOTHING_MORE,
        replicas: Replicas::Alike,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<Suppressor>();

reasons! {
    /// Why a packet goes no further.
    enum Shut {
        Suppressed = "suppressed": "its port is not active",
    }
}

struct Suppressor {
    active: Vec<bool>,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(Suppressor { active: vec![true; args.env().inputs] }))
}

impl Suppressor {
    /// What handler `activeN` is about.
    fn port(&mut self, name: &str) -> Option<&mut bool> {
        self.active.get_mut(name.strip_prefix("active")?.parse::<usize>().ok()?)
    }
}

impl Element for Suppressor {
    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        if self.active[port] {
            cx.emit_all(port, batch);
        } else {
            cx.drop_all(Shut::Suppressed, batch);
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize, batch: &mut Batch) {
        if self.active[port] {
            cx.pull(port, max, batch);
        }
    }
}

impl Handlers for Suppressor {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        self.port(name).map(|active| active.to_string()).ok_or_else(|| HandlerError::no_read(name))
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        if name == "reset" {
            self.active.fill(true);
            return Ok(());
        }
        let active = self.port(name).ok_or_else(|| HandlerError::no_write(name))?;
        *active = handler_value(name, value)?;
        Ok(())
    }
}
