//! The application at one end: writes, reads, closes.

use std::ops::RangeInclusive;

use crate::host::{Host, Stage};
use thruway_random::Random;

/// How an application ends its direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// When all is written.
    WhenWritten,
    /// When all is written and the other side has ended (half-close).
    AfterPeer,
    /// It gives up at this time after its beginning, if the connection lasts so long.
    Abort(i64),
}

/// How an application behaves. Times in nanoseconds.
#[derive(Debug, Clone)]
pub struct AppConfig {
    pub data: Vec<u8>,
    pub close: Close,
    pub write_chunk: RangeInclusive<usize>,
    pub write_pause: RangeInclusive<i64>,
    pub read_chunk: RangeInclusive<usize>,
    pub read_pause: RangeInclusive<i64>,
}

/// See the module.
pub struct App {
    pub config: AppConfig,
    random: Random,
    written: usize,
    next_write: i64,
    next_read: i64,
    abort_at: Option<i64>,
}

impl App {
    pub fn new(config: AppConfig, now: i64, mut random: Random) -> App {
        let abort_at = match config.close {
            Close::Abort(after) => Some(now + after),
            _ => None,
        };
        let next_write = now + random.within(config.write_pause.clone());
        let next_read = now + random.within(config.read_pause.clone());
        App { config, random, written: 0, next_write, next_read, abort_at }
    }

    fn is_closing(&self, host: &Host) -> bool {
        let may = match self.config.close {
            Close::WhenWritten => true,
            Close::AfterPeer => host.rx.is_complete() && host.rx.unread() == 0,
            Close::Abort(_) => false,
        };
        may && self.written == self.config.data.len() && !host.tx.is_closed
    }

    /// When it has something to do, if the host's state stays.
    pub fn next_tick(&self, host: &Host) -> Option<i64> {
        if matches!(host.stage, Stage::Idle | Stage::Listen | Stage::Closed) {
            return None;
        }
        let can_write = self.written < self.config.data.len() && host.tx.room_to_write() > 0;
        let write = (can_write || self.is_closing(host)).then_some(self.next_write);
        let read = (host.rx.unread() > 0).then_some(self.next_read);
        [write, read, self.abort_at].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn tick(&mut self, now: i64, host: &mut Host) {
        if self.abort_at.is_some_and(|at| at <= now) {
            self.abort_at = None;
            return host.abort(now);
        }
        if self.next_write <= now {
            self.next_write = now + self.random.within(self.config.write_pause.clone());
            let rest = &self.config.data[self.written..];
            let n = self.random.size(self.config.write_chunk.clone()).min(rest.len());
            self.written += host.write(now, &rest[..n]);
            if self.is_closing(host) {
                host.shutdown(now);
            }
        }
        if self.next_read <= now && host.rx.unread() > 0 {
            self.next_read = now + self.random.within(self.config.read_pause.clone());
            host.read(now, self.random.size(self.config.read_chunk.clone()));
        }
    }
}
