//! A Master against shared memory in which anything may stand: what it gives is within bounds, each
//! packet comes back, is dropped or reclaimed exactly once, and a fault is for good.

use thruway_exchange::model::{FEW, Model, Silent, lone_master};
use thruway_exchange::{Location, Master, Origin, SlotTag, Storage};
use thruway_nf_abi::{Ring, SlotHead, Word};
use thruway_sync::atomic::Ordering;

const OUTPUTS: u32 = 2;
/// Bytes of the input that are one step.
const STEP_LEN: usize = 8;

struct Exchange {
    master: Master<Model>,
    model: Model,
    bell: Silent,
    put: u32,
    back: u32,
}

impl Exchange {
    fn step(&mut self, [what, which, at, byte, number @ ..]: [u8; STEP_LEN]) {
        let number = u32::from_le_bytes(number);
        let ring = Ring::ALL[usize::from(which) % Ring::ALL.len()];
        match what % 8 {
            0 => {
                let len = 1 + number as usize % FEW.packet_len_max as usize;
                self.put += u32::from(self.master.put(SlotTag::NONE, &vec![byte; len]).is_ok());
                self.master.publish(&self.bell, u64::from(number));
            }
            // Near what would be right, and far from it.
            1 | 2 => {
                let word = Word::ALL[usize::from(which) % Word::ALL.len()];
                let value = if what % 8 == 1 { number % 16 } else { number };
                self.model.word(word).store(value, Ordering::Relaxed);
            }
            3 => {
                let head = 64 | u64::from(number & 0xff) << 16 | u64::from(byte) << 32;
                self.set_head(ring, at, [head, u64::from(number >> 8)]);
            }
            4 => self.set_head(ring, at, [u64::from(number) << 32 | u64::from(number), 0]),
            5 => {
                let place = Location::Slot(ring, u32::from(at));
                self.model.copy_in(place, number % FEW.frame_len(), &[byte]);
            }
            6 => self.poll(u64::from(number)),
            _ => self.poll_injected(),
        }
        assert!(self.master.occupancy() <= FEW.slots);
    }

    fn set_head(&mut self, ring: Ring, at: u8, words: [u64; 2]) {
        self.model.set_head(ring, u32::from(at), SlotHead::from_words(words));
    }

    fn poll(&mut self, now: u64) {
        let before = self.master.fault();
        let back = &mut self.back;
        let mut bytes = [0; 256];
        let done = self.master.poll(now, 100, |token| {
            assert!(token.output < OUTPUTS && token.len() <= FEW.frame_len());
            token.copy_to(&mut bytes);
            *back += u32::from(!matches!(token.origin, Origin::Aux(_)));
        });
        self.is_for_good(before, done.err());
    }

    fn poll_injected(&mut self) {
        let before = self.master.fault();
        let done = self.master.poll_injected(100, |token| {
            assert!(token.output < OUTPUTS && token.len() <= FEW.frame_len());
        });
        self.is_for_good(before, done.err());
    }

    fn is_for_good(
        &self,
        before: Option<thruway_exchange::PeerFault>,
        now: Option<thruway_exchange::PeerFault>,
    ) {
        assert_eq!(self.master.fault(), now);
        assert!(before.is_none() || before == now);
    }
}

/// See the module.
pub fn run(bytes: &[u8]) {
    let (master, model) = lone_master(OUTPUTS);
    let bell = Silent::default();
    let mut exchange = Exchange { master, model, bell, put: 0, back: 0 };
    for step in bytes.chunks_exact(STEP_LEN) {
        exchange.step(step.try_into().expect("so many bytes"));
    }
    let reclaimed = exchange.master.reclaim(|_| ());
    assert_eq!(exchange.back + reclaimed, exchange.put);
}
