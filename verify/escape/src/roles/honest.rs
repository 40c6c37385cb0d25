//! What an honest function does: it attaches to its host and serves its packets.

use thruway_exchange::{Attached, attach};
use thruway_hostile::storm::{OUTPUTS, mark};
use thruway_nf_abi::features::Offer;
use thruway_nf_abi::message::{Hello, Wake};

/// Shakes hands with the host, with a wake-up line of its own.
///
/// # Errors
/// When it cannot attach.
pub fn begin(name: &str, scratch_len: u32) -> Result<Attached, Box<dyn std::error::Error>> {
    let name = Hello::name_from(name);
    let offer = Offer::ONE_WORKER;
    let hello =
        Hello { wake: Wake::Eventfd, outputs: OUTPUTS, scratch_len, stream: 0, offer, name };
    let host = attach(&hello)?;
    host.ready()?;
    Ok(host)
}

/// Serves all packets that wait. Whether there were any.
pub fn serve(host: &mut Attached) -> bool {
    let link = &mut host.links[0];
    let waiting = link.worker.waiting();
    for _ in 0..waiting {
        let mut head = link.worker.head(0);
        let (start, len) = (usize::from(head.start), usize::from(head.len));
        mark(&mut link.worker.frame_mut(0, &mut head)[start..][..len]);
        link.worker.advance(1);
    }
    link.flush();
    host.control.beat();
    waiting > 0
}
