//! The packet that DelayUnqueue and DelayShaper hold until its time has come.

use thruway_element::{Arg, ArgErrors, Args, Cx, Handler, HandlerError, Nanos, Ty, handler_value};
use thruway_packet::{Batch, Packet};

use crate::seeing::text::interval;

/// The argument DELAY.
pub(super) const DELAY: Arg =
    Arg::required("DELAY", Ty::Time, "time between a packet's timestamp and its leaving");
/// The handler delay.
pub(super) const H_DELAY: Handler = Handler::both("delay", "the delay");

/// At most one packet, whose timestamp says when it may go.
pub(super) struct Held {
    delay: i64,
    packet: Option<Packet>,
    one: Batch,
}

fn not_negative(Nanos(ns): Nanos) -> Result<i64, &'static str> {
    if ns < 0 { Err("must not be negative") } else { Ok(ns) }
}

impl Held {
    pub(super) fn from_args(args: &Args<'_>) -> Result<Held, ArgErrors> {
        let delay = not_negative(args.get("DELAY")?).map_err(|why| args.error("DELAY", why))?;
        Ok(Held { delay, packet: None, one: Batch::with_room() })
    }

    /// When the packet may go that is held, or that is pulled now; `None` where there is none.
    pub(super) fn due(&mut self, cx: &mut Cx<'_>) -> Option<i64> {
        if self.packet.is_none() {
            cx.pull(0, 1, &mut self.one);
            let mut packet = self.one.pop()?;
            let since = if packet.timestamp() == 0 { cx.now() } else { packet.timestamp() };
            packet.set_timestamp(since.saturating_add(self.delay));
            self.packet = Some(packet);
        }
        self.packet.as_ref().map(Packet::timestamp)
    }

    /// The packet that is held.
    pub(super) fn take(&mut self) -> Option<Packet> {
        self.packet.take()
    }

    pub(super) fn holding(&self) -> usize {
        usize::from(self.packet.is_some())
    }

    pub(super) fn read(&self, name: &str) -> Result<String, HandlerError> {
        match name {
            "delay" => Ok(interval(self.delay)),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    pub(super) fn write(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        if name != "delay" {
            return Err(HandlerError::no_write(name));
        }
        let refused = |why| HandlerError::refused(format!("{name}: {why}"));
        self.delay = not_negative(handler_value(name, value)?).map_err(refused)?;
        Ok(())
    }
}
