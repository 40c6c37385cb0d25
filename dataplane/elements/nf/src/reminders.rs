//! What an element with STREAM is besides: its sessions' streams, and reminders of what is held
//! back for too long.

use thruway_element::{Cx, HandlerError};
use thruway_exchange::SlotTag;

use super::replica::Nf;
use super::sessions::Entries;
use super::state::NfState;
use super::streams::Streams;

/// Token of the timer that lets go what a function of streams holds back.
pub(super) const STREAM_TIMER: u32 = 2;

impl Entries {
    /// The same, of a function of streams.
    pub fn with_streams(mut self, streams: Option<Streams>) -> Entries {
        self.streams = streams.map(Box::new);
        self
    }

    /// The streams of a function of streams.
    pub fn streams(&mut self) -> Option<&mut Streams> {
        self.streams.as_deref_mut()
    }

    /// Packets of bytes that a function of streams holds back.
    pub fn held(&self) -> usize {
        self.streams.as_ref().map_or(0, |streams| streams.held())
    }

    /// What happened to streams.
    pub fn stream_figure(&self, name: &str) -> Option<u64> {
        self.streams.as_ref()?.figure(name)
    }

    /// The same, with the entry of a mark.
    #[inline]
    pub fn streams_at(&mut self, mark: SlotTag) -> Option<(&mut Streams, Option<u32>)> {
        let entry = self.entry_of(mark);
        Some((self.streams.as_deref_mut()?, entry))
    }
}

impl Nf {
    fn streams(&mut self) -> Option<&mut Streams> {
        self.running.as_mut()?.entries.as_mut()?.streams()
    }

    /// Sets the timer for what is held back.
    #[inline]
    pub fn arm(&mut self, cx: &mut Cx<'_>) {
        if self.settings.stream.is_some()
            && let Some(due) = self.streams().and_then(Streams::ask_due)
        {
            cx.set_timer(STREAM_TIMER, due);
        }
    }

    /// The timer is not set any more.
    pub fn disarm(&mut self) {
        if let Some(streams) = self.streams() {
            streams.disarm();
        }
    }

    /// Asks the function for what it holds back for too long.
    #[cold]
    pub fn remind(&mut self, cx: &mut Cx<'_>) {
        self.follow(cx);
        self.be_awake();
        let now = cx.now();
        while let Some((port, packet)) = self.streams().and_then(|streams| streams.remind(now)) {
            let Some(entries) = self.running.as_mut().and_then(|state| state.entries.as_mut())
            else {
                return;
            };
            let Some((mark, packet)) = entries.mark_one(cx, port as u8, packet) else { continue };
            match &self.running {
                Some(NfState { link: Some(_), .. }) => self.offer(cx, mark, packet),
                _ => self.without(cx, mark, packet),
            }
        }
        self.disarm();
        if let Some(state) = &mut self.running {
            state.publish(cx);
            state.outlet.flush(cx);
        }
        self.arm(cx);
    }

    /// A handler of functions of streams.
    pub fn stream_figure(&self, name: &str) -> Result<String, HandlerError> {
        let entries = self.running.as_ref().and_then(|state| state.entries.as_ref());
        let figure = entries.and_then(|entries| entries.stream_figure(name));
        Ok(figure.unwrap_or(0).to_string())
    }
}
