//! A Worker as its Master sees it, over any transport.

use thruway_bench_baseline::{PairMaster, PairToken, PointerMaster};
use thruway_exchange::{Doorbell, GroupRegion, Master, SlotTag, Storage, Token};

use super::source::Source;

/// A transport to a Worker and back.
pub trait Lane {
    /// A packet that came back.
    type Token<'a>;

    /// Packets that can be put.
    fn room(&self) -> u32;
    /// Puts a packet of the source, by its number; false when it could not be put.
    fn put(&mut self, source: &Source, number: u32) -> bool;
    /// Puts what came back from another lane; false when it could not be put.
    fn forward(&mut self, token: &Self::Token<'_>) -> bool;
    /// Shows the Worker what was put.
    fn publish(&mut self, now: u64);
    /// Wakes the Worker if packets wait for too long.
    fn check_age(&mut self, now: u64);
    /// Takes what came back, at most `limit` packets.
    ///
    /// # Errors
    /// When the Worker broke the protocol.
    fn poll(
        &mut self,
        now: u64,
        limit: u32,
        take: impl FnMut(Self::Token<'_>),
    ) -> anyhow::Result<u32>;
}

/// The end of a chain: what is done with a packet there.
pub trait Sink<L: Lane> {
    /// Reads the packet into `bytes`, as a port would that sends it.
    fn read(&self, token: &L::Token<'_>, bytes: &mut [u8]);
}

/// The exchange.
pub struct Exchange<S> {
    master: Master<S>,
    bell: Doorbell,
}

impl<S> Exchange<S> {
    /// Over a link.
    pub fn new(master: Master<S>, bell: Doorbell) -> Exchange<S> {
        Exchange { master, bell }
    }
}

impl<S: Storage + 'static> Lane for Exchange<S> {
    type Token<'a> = Token<'a, S>;

    #[inline]
    fn room(&self) -> u32 {
        self.master.room()
    }

    #[inline]
    fn put(&mut self, source: &Source, number: u32) -> bool {
        self.master.put(SlotTag::NONE, source.packet(number)).is_ok()
    }

    #[inline]
    fn forward(&mut self, token: &Token<'_, S>) -> bool {
        self.master.put_token(SlotTag::NONE, token).is_ok()
    }

    #[inline]
    fn publish(&mut self, now: u64) {
        self.master.publish(&self.bell, now);
    }

    #[inline]
    fn check_age(&mut self, now: u64) {
        self.master.check_age(&self.bell, now);
    }

    #[inline]
    fn poll(
        &mut self,
        now: u64,
        limit: u32,
        take: impl FnMut(Token<'_, S>),
    ) -> anyhow::Result<u32> {
        Ok(self.master.poll(now, limit, take)?)
    }
}

/// A ring of frames in each direction.
pub struct Pair {
    master: PairMaster,
    bell: Doorbell,
}

impl Pair {
    /// Over two rings.
    pub fn new(master: PairMaster, bell: Doorbell) -> Pair {
        Pair { master, bell }
    }
}

impl Lane for Pair {
    type Token<'a> = PairToken<'a>;

    #[inline]
    fn room(&self) -> u32 {
        self.master.room()
    }

    #[inline]
    fn put(&mut self, source: &Source, number: u32) -> bool {
        self.master.put(source.packet(number))
    }

    #[inline]
    fn forward(&mut self, token: &PairToken<'_>) -> bool {
        self.master.put_token(token)
    }

    #[inline]
    fn publish(&mut self, now: u64) {
        self.master.publish(&self.bell, now);
    }

    #[inline]
    fn check_age(&mut self, now: u64) {
        self.master.check_age(&self.bell, now);
    }

    #[inline]
    fn poll(
        &mut self,
        now: u64,
        limit: u32,
        take: impl FnMut(PairToken<'_>),
    ) -> anyhow::Result<u32> {
        Ok(self.master.poll(now, limit, take))
    }
}

/// A ring of frame numbers in each direction. The frames are the source's packets, as if written by
/// a port.
pub struct Pointers {
    master: PointerMaster,
    bell: Doorbell,
    /// The end of the chain, where the Master looks at what comes out.
    is_last: bool,
}

impl Pointers {
    /// Over two rings.
    pub fn new(master: PointerMaster, bell: Doorbell, is_last: bool) -> Pointers {
        Pointers { master, bell, is_last }
    }
}

impl Lane for Pointers {
    type Token<'a> = u32;

    #[inline]
    fn room(&self) -> u32 {
        self.master.room()
    }

    #[inline]
    fn put(&mut self, _: &Source, number: u32) -> bool {
        self.master.put(number)
    }

    #[inline]
    fn forward(&mut self, token: &u32) -> bool {
        self.master.put(*token)
    }

    #[inline]
    fn publish(&mut self, now: u64) {
        self.master.publish(&self.bell, now);
    }

    #[inline]
    fn check_age(&mut self, now: u64) {
        self.master.check_age(&self.bell, now);
    }

    #[inline]
    fn poll(&mut self, now: u64, limit: u32, mut take: impl FnMut(u32)) -> anyhow::Result<u32> {
        Ok(self.master.poll(now, limit, self.is_last, &mut take))
    }
}

/// Packets leave their slot: they are copied out whole.
pub struct CopyOut;

impl<S: Storage + 'static> Sink<Exchange<S>> for CopyOut {
    #[inline]
    fn read(&self, token: &Token<'_, S>, bytes: &mut [u8]) {
        token.copy_to(bytes);
    }
}

impl Sink<Pair> for CopyOut {
    #[inline]
    fn read(&self, token: &PairToken<'_>, bytes: &mut [u8]) {
        token.copy_to(bytes);
    }
}

/// Packets stay in the memory that all share: their first line is looked at.
pub struct ReadShared(pub GroupRegion);

impl Sink<Pointers> for ReadShared {
    #[inline]
    fn read(&self, frame: &u32, bytes: &mut [u8]) {
        let len = bytes.len().min(64);
        self.0.copy_out(*frame, &mut bytes[..len]);
    }
}
