//! IP summary dumps: a line of chosen fields for every packet.

mod field;
mod md5;
mod options;
mod packet_maker;
mod record;
mod view;

pub(super) use field::Field;
pub(super) use packet_maker::{Defaults, make_packet};
pub(super) use record::{FlowId, Record, protocol};
pub(super) use view::View;

/// Version of the format that is written, and the newest that is read.
pub(super) const VERSION: (u32, u32) = (1, 3);
