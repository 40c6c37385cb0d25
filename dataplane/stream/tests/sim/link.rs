//! A link that loses, duplicates, delays and reorders packets.

use std::ops::RangeInclusive;

use thruway_packet::Packet;

use thruway_random::Random;

/// The faults of a link.
#[derive(Debug, Clone)]
pub struct LinkConfig {
    /// Delay of a packet in nanoseconds.
    pub delay: RangeInclusive<i64>,
    /// Packets of a thousand that are lost, come twice, or are overtaken.
    pub lost: u32,
    pub doubled: u32,
    pub overtaken: u32,
    /// Packets of a thousand of which a byte changes.
    pub spoilt: u32,
    /// Nanoseconds by which what is overtaken, or comes a second time, is later.
    pub later: RangeInclusive<i64>,
}

impl LinkConfig {
    /// Whether packets arrive once and in the order in which they were sent.
    pub fn is_ordered(&self) -> bool {
        self.doubled == 0 && self.overtaken == 0
    }
}

/// One direction of a link.
pub struct Link {
    config: LinkConfig,
    random: Random,
    last: i64,
}

impl Link {
    pub fn new(config: LinkConfig, random: Random) -> Link {
        Link { config, random, last: 0 }
    }

    /// When the packet arrives, and its double if there is one.
    pub fn send(&mut self, now: i64, mut packet: Packet, mut arrive: impl FnMut(i64, Packet)) {
        let random = &mut self.random;
        if random.chance(self.config.doubled) {
            let late = random.within(self.config.later.clone());
            let copy = packet.duplicate().expect("packet memory");
            arrive(now + random.within(self.config.delay.clone()) + late, copy);
        }
        if random.chance(self.config.lost) {
            return;
        }
        if random.chance(self.config.spoilt) {
            // Behind the IP header: receivers that check it find a wrong one.
            let transport = packet.transport_offset().expect("marked");
            let at = random.size(transport..=packet.len() - 1);
            packet.data_mut()[at] ^= 1 << random.size(0..=7);
        }
        let at = now + random.within(self.config.delay.clone());
        if random.chance(self.config.overtaken) {
            return arrive(at + random.within(self.config.later.clone()), packet);
        }
        self.last = self.last.max(at);
        arrive(self.last, packet);
    }
}
