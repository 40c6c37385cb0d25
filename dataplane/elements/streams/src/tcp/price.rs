//! The cost of TCPIn, by its processing.

use thruway_element::cost::Access;
use thruway_element::{Cost, Load, Operation};
use thruway_stream::tcp::{Mode, Tcp};

/// The processing of a segment where a context begins and ends.
pub(super) fn entering(mode: Mode, verifies: bool, load: &Load) -> Vec<Cost> {
    let mut cost = vec![Operation::SessionState.once(), Operation::StreamFollow.once()];
    if mode == Mode::Follow {
        return cost;
    }
    let connection = Tcp::CONNECTION_BYTES as f64;
    let order = Operation::StreamOrder.once();
    let lines = connection / 64.0;
    cost.push(order.reaching(connection * load.sessions, lines, Access::Dependent));
    if mode == Mode::Order {
        return cost;
    }
    // A copy is kept of what carries bytes. To map is measured with all of that, for a line.
    let (payload, measured) =
        (Load::lines(load.payload_bytes), f64::from(u8::from(mode == Mode::Map)));
    let carries = payload.min(1.0);
    if mode == Mode::Map {
        cost.push(Operation::StreamMap.once());
    } else {
        cost.push(Operation::Clone.times(carries));
    }
    let copied = carries * Load::lines(load.packet_bytes);
    cost.push(Operation::CopyLine.times((copied - measured).max(0.0)));
    if verifies {
        cost.push(Operation::ChecksumLine.times((payload - measured).max(0.0)));
    }
    cost
}
