//! What another function gave comes from its slot into one here.

use thruway_element::Cx;
use thruway_exchange::SlotTag;
use thruway_packet::Packet;

use super::came::{Came, TakesTokens};
use super::replica::Nf;
use super::settings::{OnFailure, Settings};

impl TakesTokens for Nf {
    /// Not where a failure lets packets pass unchanged: a packet that comes so is whole in the slot
    /// only.
    fn takes_tokens(&self, carry: bool) -> bool {
        let Settings { on_failure, carry: own, stream, .. } = &self.settings;
        *on_failure != OnFailure::Open && *own == carry && stream.is_none()
    }

    /// See [`Link::put_token`](super::link::Link::put_token).
    #[inline]
    fn take_token(
        &mut self,
        cx: &mut Cx<'_>,
        input: u8,
        packet: Packet,
        came: &Came<'_, '_>,
    ) -> Result<bool, Packet> {
        let Some(state) = &mut self.running else { return Err(packet) };
        state.expect(1);
        let Some(link) = &mut state.link else { return Err(packet) };
        if !state.backlog.is_empty() {
            return Err(packet);
        }
        let (mark, packet) = match &mut state.entries {
            None => (SlotTag { input, ..SlotTag::NONE }, packet),
            Some(entries) => match entries.mark_one(cx, input, packet) {
                Some((mark, packet)) => (entries.ready(mark), packet),
                // It was dropped here.
                None => {
                    self.came += 1;
                    return Ok(false);
                }
            },
        };
        let went_along = link.put_token(mark, packet, came)?;
        state.entries.iter_mut().for_each(|entries| entries.put(mark));
        self.came += 1;
        Ok(went_along)
    }

    fn end_tokens(&mut self, cx: &mut Cx<'_>) {
        let came = std::mem::take(&mut self.came);
        cx.count_packets(came);
        self.be_awake();
        if let Some(state) = &mut self.running {
            state.token_count += came as u64;
            state.publish(cx);
        }
        self.press(cx);
    }
}
