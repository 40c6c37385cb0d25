//! Mappings that all sessions of an inside endpoint share (endpoint-independent, RFC 4787 REQ-1),
//! and their filters for packets from outside (REQ-8).

use super::chains::{Chains, Slab};
use super::kind::Kind;

/// An inside endpoint and its outside port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mapping {
    /// Inside address.
    pub host: u32,
    /// Inside port.
    pub host_port: u16,
    /// Outside port.
    pub port: u16,
    /// Place of the outside address.
    pub address_index: u32,
    /// Sessions that use it.
    pub uses: u32,
    /// Embryonic ones among them that are listed as such.
    pub embryonic: u32,
    /// [`Kind`].
    pub kind: u8,
}

impl Mapping {
    fn inside(host: u32, port: u16, kind: u8) -> u64 {
        u64::from(host) << 24 | u64::from(port) << 8 | u64::from(kind)
    }

    fn outside(address_index: u32, port: u16, kind: u8) -> u64 {
        Mapping::inside(address_index, port, kind)
    }

    fn inside_key(&self) -> u64 {
        Mapping::inside(self.host, self.host_port, self.kind)
    }

    fn outside_key(&self) -> u64 {
        Mapping::outside(self.address_index, self.port, self.kind)
    }
}

/// An outside address that may send to a mapping.
#[derive(Clone, Copy, Debug, Default)]
struct Permit {
    mapping: u32,
    remote: u32,
    uses: u32,
}

impl Permit {
    fn key(mapping: u32, remote: u32) -> u64 {
        u64::from(mapping) << 32 | u64::from(remote)
    }
}

/// All mappings of one thread.
pub(super) struct Mappings {
    slab: Slab<Mapping>,
    by_inside: Chains,
    by_outside: Chains,
    permits: Slab<Permit>,
    by_permit: Chains,
}

impl Mappings {
    /// Room for this many mappings, and this many permits.
    pub(super) fn new(capacity: usize, permits: usize, seeds: [u64; 2]) -> Mappings {
        Mappings {
            slab: Slab::new(capacity),
            by_inside: Chains::new(capacity, seeds),
            by_outside: Chains::new(capacity, seeds),
            permits: Slab::new(permits),
            by_permit: Chains::new(permits, seeds),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there is room for one more.
    pub(super) fn has_room(&self) -> bool {
        self.slab.has_room()
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Mapping> {
        self.slab.slots().iter().filter(|mapping| mapping.uses > 0)
    }

    /// The mapping under a number that a session holds.
    pub(super) fn get(&self, at: u32) -> &Mapping {
        self.slab.get(at)
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, at: u32) -> &mut Mapping {
        self.slab.get_mut(at)
    }

    /// The mapping of an inside endpoint.
    pub(super) fn find_inside(&self, host: u32, port: u16, kind: Kind) -> Option<u32> {
        let key = Mapping::inside(host, port, kind as u8);
        self.by_inside.find(key, |at| self.slab.get(at).inside_key() == key)
    }

    /// The mapping of an outside port.
    pub(super) fn find_outside(&self, address_index: u32, port: u16, kind: Kind) -> Option<u32> {
        let key = Mapping::outside(address_index, port, kind as u8);
        self.by_outside.find(key, |at| self.slab.get(at).outside_key() == key)
    }

    /// Keeps a mapping that is not there yet.
    pub(super) fn add(&mut self, mapping: Mapping) -> Option<u32> {
        let at = self.slab.add(mapping)?;
        self.by_inside.insert(mapping.inside_key(), at);
        self.by_outside.insert(mapping.outside_key(), at);
        Some(at)
    }

    /// One more session uses it.
    pub(super) fn hold(&mut self, at: u32) {
        self.slab.get_mut(at).uses += 1;
    }

    /// One session less; gives it when that was the last, and it is no more.
    pub(super) fn release(&mut self, at: u32) -> Option<Mapping> {
        let mapping = self.slab.get_mut(at);
        mapping.uses -= 1;
        if mapping.uses > 0 {
            return None;
        }
        let mapping = *mapping;
        self.by_inside.remove(mapping.inside_key(), at);
        self.by_outside.remove(mapping.outside_key(), at);
        self.slab.remove(at);
        Some(mapping)
    }

    /// Lets `remote` send to a mapping; false when there is no room to remember it.
    pub(super) fn permit(&mut self, mapping: u32, remote: u32) -> bool {
        if let Some(at) = self.find_permit(mapping, remote) {
            self.permits.get_mut(at).uses += 1;
            return true;
        }
        let added = self.permits.add(Permit { mapping, remote, uses: 1 });
        if let Some(at) = added {
            self.by_permit.insert(Permit::key(mapping, remote), at);
        }
        added.is_some()
    }

    /// Takes one such permission back.
    pub(super) fn revoke(&mut self, mapping: u32, remote: u32) {
        let Some(at) = self.find_permit(mapping, remote) else { return };
        let permit = self.permits.get_mut(at);
        permit.uses -= 1;
        if permit.uses == 0 {
            self.by_permit.remove(Permit::key(mapping, remote), at);
            self.permits.remove(at);
        }
    }

    /// Whether `remote` may send to a mapping.
    pub(super) fn may(&self, mapping: u32, remote: u32) -> bool {
        self.find_permit(mapping, remote).is_some()
    }

    fn find_permit(&self, mapping: u32, remote: u32) -> Option<u32> {
        self.by_permit.find(Permit::key(mapping, remote), |at| {
            let permit = self.permits.get(at);
            (permit.mapping, permit.remote) == (mapping, remote)
        })
    }
}
