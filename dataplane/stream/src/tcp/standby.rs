//! Connections that another host serves, of which this one knows what it needs to reset them, or to
//! go on with them ([`go_on`](super::go_on)).
//!
//! An endpoint believes a RST with exactly the number that it expects next (RFC 5961 section 3),
//! and the last number known here may be old. So each end also gets two acknowledgements, one
//! number before the last one, and 2^31 beyond that: at least one of them is outside of its window,
//! which it answers with the number that it expects (RFC 9293 section 3.10.7.4). Any segment of an
//! end says that, and is answered by a RST with exactly this number.

use thruway_wire::tcp::flags;

use super::ending::Ending;
use super::endpoint::{Conn, Endpoint, Phase};
use super::image::Image;
use super::template::ControlSegment;
use super::{Mode, Out, Tcp, Work};

/// Connections examined in one call, and the time between calls, nanoseconds: their ends answer.
const EXAMINED: u32 = 64;
const STEP_NS: i64 = 1_000_000;
/// When an end that was not heard is asked again, nanoseconds; and how often.
const AGAIN_NS: i64 = 1_000_000_000;
const ROUNDS: u8 = 3;

impl Tcp {
    /// Takes the image of a connection that another host serves: a new one, or news of `id`. Gives
    /// its number. `fcbs` are the flow manager's words for its directions here, ports are below
    /// `ports`.
    ///
    /// # Errors
    /// The bytes are no image, or there are as many connections as may be.
    pub fn import(
        &mut self,
        id: Option<u32>,
        bytes: &[u8],
        fcbs: [u32; 2],
        ports: u16,
    ) -> Result<u32, &'static str> {
        let image = Image::read(bytes, fcbs, ports);
        let image = image.ok_or("the state of a TCP connection is malformed")?;
        if self.settings.mode == Mode::Follow {
            return Err(
                "functions only look at TCP connections here, and at the other host do more",
            );
        }
        let known = id.filter(|id| self.conns.get(*id as usize).is_some_and(|conn| conn.is_used));
        let opened = known.or_else(|| self.open());
        let id = opened.ok_or("there are as many TCP connections as may be")?;
        if let Some(mut work) = self.work(id, 0, &mut Out::default()) {
            work.take_image(image);
        }
        Ok(id)
    }

    /// Another host serves all connections from now on: nothing is kept of them but what it takes
    /// to reset them.
    pub fn stand_by(&mut self, now: i64, out: &mut Out) {
        (self.ending, self.is_live) = (None, false);
        self.owed.clear();
        self.restores.clear();
        for id in 0..self.conns.len() as u32 {
            if let Some(mut work) = self.work(id, now, out) {
                work.stand_by();
            }
        }
    }

    /// This host serves all connections from now on: those that it knows from another one go
    /// on or are reset, a few at a time, by [`Tcp::tick`].
    pub fn serve(&mut self, now: i64) {
        self.ending = Some(Ending { at: now, next: 0, round: 0 });
    }

    /// Goes on with that.
    pub(super) fn end_standing(&mut self, now: i64, out: &mut Out) {
        let Some(ending) = self.ending.as_mut().filter(|ending| ending.at <= now) else { return };
        let (from, round) = (ending.next, ending.round);
        let to = from.saturating_add(EXAMINED).min(self.conns.len() as u32);
        (ending.next, ending.at) = (to, now.saturating_add(STEP_NS));
        if to as usize == self.conns.len() {
            (ending.next, ending.round) = (0, round + 1);
            ending.at = now.saturating_add(AGAIN_NS);
        }
        if ending.round == ROUNDS {
            self.ending = None;
        }
        for id in from..to {
            let Some(mut work) = self.work(id, now, out) else { continue };
            match work.conn.phase {
                Phase::Standby => work.take_over(),
                Phase::Alive if round > 0 => work.ask_again(),
                Phase::Dead if round > 0 => work.end_silent(),
                _ => {}
            }
        }
    }
}

impl Work<'_> {
    fn stand_by(&mut self) {
        *self.replica = None;
        self.free_kept();
        for endpoint in &mut self.conn.endpoints {
            endpoint.seq_map.release(&mut self.stores.slab);
        }
        if self.conn.phase == Phase::Alive {
            self.conn.phase = Phase::Standby;
        }
    }

    /// It is another host's, which has sent this.
    fn take_image(&mut self, image: Image) {
        let replica = self.replica.take();
        self.stand_by();
        (self.conn.phase, self.conn.silent) = (Phase::Standby, 0);
        if let Some(whole) = image.whole {
            let mut replica = replica.unwrap_or_default();
            replica.take(whole);
            *self.replica = Some(replica);
        }
        for (dir, (endpoint, template)) in image.ends.into_iter().enumerate() {
            let Endpoint { is_armed, is_listed, .. } = self.conn.endpoints[dir];
            self.conn.endpoints[dir] = Endpoint { is_armed, is_listed, ..endpoint };
            self.templates[dir] = template;
        }
    }

    /// Goes on with a connection that another host served, or resets it.
    pub(super) fn take_over(&mut self) {
        match self.replica.as_deref().is_some_and(|replica| replica.can_go_on) {
            true => self.go_on(),
            false => self.end_standing(),
        }
    }

    /// Resets a connection that another host served.
    pub(super) fn end_standing(&mut self) {
        self.conn.phase = Phase::Dead;
        self.conn.silent = 3;
        self.counts.unreplicated += 1;
        self.end_silent();
    }

    /// Resets it at the ends that were not heard since.
    fn end_silent(&mut self) {
        let Conn { endpoints, silent, .. } = *self.conn;
        for dir in [0, 1] {
            let (endpoint, other) = (&endpoints[dir], &endpoints[1 - dir]);
            if silent & (1 << dir) == 0 || !endpoint.is_known {
                continue;
            }
            let ack = other.acked_to;
            let reset = ControlSegment {
                flags: flags::RST | flags::ACK,
                seq: endpoint.sent,
                ack,
                ..ControlSegment::default()
            };
            self.emit(dir, reset, &[]);
            let before = endpoint.sent - 1;
            for seq in [before, before + (1 << 31)] {
                let timestamps = endpoint.timestamps;
                let question =
                    ControlSegment { flags: flags::ACK, seq, ack, window: 0, timestamps };
                self.emit(dir, question, &[]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
