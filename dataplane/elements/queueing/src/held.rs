//! The packet that DelayUnqueue and DelayShaper hold until its time has come.

use thruway_element::{Arguments, Cx, Handlers, Nanos};
use thruway_packet::{Batch, Packet};

use thruway_elements_support::text::interval;

/// At most one packet, held until the time in its timestamp.
#[derive(Arguments, Handlers)]
pub(super) struct Held {
    /// time between a packet's timestamp and its leaving
    #[arg(required, via = Nanos::not_negative)]
    #[handler(both, "the delay", get = interval(self.delay))]
    delay: i64,
    packet: Option<Packet>,
    #[new(Batch::with_room())]
    one: Batch,
}

impl Held {
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
}
