//! Storage in ordinary memory, for checkers: loom and miri see every access to a slot and call two
//! of them a race where the protocol does not order them. Property tests use it too, and beside it
//! what a Master needs to be driven by hand.

use std::sync::Arc;

use thruway_nf_abi::control::RUNNING;

use thruway_nf_abi::{LinkLayout, LinkShape, Ring, ShapeError, SlotHead, Word};
use thruway_sync::atomic::AtomicU32;
use thruway_sync::cell::UnsafeCell;

use crate::bell::Bell;
use crate::master::Master;
use crate::storage::{Location, Span, Storage};
use crate::tuning::Tuning;

/// A link of few slots, in which all there is comes soon.
pub const FEW: LinkShape = LinkShape {
    slots: 8,
    aux_slots: 4,
    injection_slots: 4,
    packet_len_max: 128,
    ..LinkShape::DEFAULT
};

/// The bell of a Worker that always runs: nobody is woken.
#[derive(Debug)]
pub struct Silent(AtomicU32);

impl Default for Silent {
    fn default() -> Silent {
        Silent(AtomicU32::new(RUNNING))
    }
}

impl Bell for Silent {
    fn status(&self) -> &AtomicU32 {
        &self.0
    }

    fn wake(&self) {}
}

/// A Master over a link of [`FEW`] slots, and the memory that its Worker can write.
///
/// # Panics
/// Never: the shape is a good one.
pub fn lone_master(outputs: u32) -> (Master<Model>, Model) {
    let model = Model::new(&FEW).expect("a good shape");
    (Master::new(model.clone(), outputs, Tuning::DEFAULT), model)
}

struct Slot {
    head: UnsafeCell<SlotHead>,
    frame: UnsafeCell<Box<[u8]>>,
}

/// The link's parts.
struct Memory {
    layout: LinkLayout,
    words: Vec<AtomicU32>,
    rings: [Vec<Slot>; 3],
}

/// A link in ordinary memory; clones are the same link.
#[derive(Clone)]
pub struct Model(Arc<Memory>);

// JUSTIFICATION: both ends are driven by threads of one process.
// SAFETY: the protocol decides about accesses to each slot; loom and miri check that it
// does. That is what this type is for.
unsafe impl Send for Memory {}
// SAFETY: as for Send.
unsafe impl Sync for Memory {}

impl Model {
    /// A link of this shape.
    ///
    /// # Errors
    /// When the sizes make no link.
    pub fn new(shape: &LinkShape) -> Result<Model, ShapeError> {
        let layout = shape.layout()?;
        let slot = |_| Slot {
            head: UnsafeCell::new(SlotHead::default()),
            frame: UnsafeCell::new(vec![0; shape.frame_len() as usize].into_boxed_slice()),
        };
        let ring = |ring| (0..shape.ring_slots(ring)).map(slot).collect();
        Ok(Model(Arc::new(Memory {
            layout,
            words: (0..Word::COUNT).map(|_| AtomicU32::new(0)).collect(),
            rings: [ring(Ring::Primary), ring(Ring::Aux), ring(Ring::Injection)],
        })))
    }

    fn slot(&self, ring: Ring, slot: u32) -> &Slot {
        let slots = &self.0.rings[ring as usize];
        &slots[slot as usize & (slots.len() - 1)]
    }

    fn frame(&self, location: Location) -> &UnsafeCell<Box<[u8]>> {
        match location {
            Location::Slot(ring, slot) => &self.slot(ring, slot).frame,
            // The model has no group; a frame is the slot of that number.
            Location::Frame(frame) => &self.slot(Ring::Primary, frame).frame,
        }
    }
}

impl Storage for Model {
    fn layout(&self) -> &LinkLayout {
        &self.0.layout
    }

    fn word(&self, word: Word) -> &AtomicU32 {
        &self.0.words[word as usize]
    }

    fn head(&self, ring: Ring, slot: u32) -> SlotHead {
        // JUSTIFICATION: the access that the checker is to see.
        // SAFETY: the protocol orders it after the write of the head, or the checker objects.
        self.slot(ring, slot).head.with(|head| unsafe { *head })
    }

    fn set_head(&self, ring: Ring, slot: u32, head: SlotHead) {
        // JUSTIFICATION: as above.
        // SAFETY: as above.
        self.slot(ring, slot).head.with_mut(|to| unsafe { *to = head });
    }

    fn copy_in(&self, location: Location, start: u32, bytes: &[u8]) {
        self.frame(location).with_mut(|frame| {
            // JUSTIFICATION: as above.
            // SAFETY: as above.
            let frame = unsafe { &mut *frame };
            if let Some(to) = frame.get_mut(start as usize..start as usize + bytes.len()) {
                to.copy_from_slice(bytes);
            }
        });
    }

    fn copy_out(&self, location: Location, start: u32, bytes: &mut [u8]) {
        self.frame(location).with(|frame| {
            // JUSTIFICATION: as above.
            // SAFETY: as above.
            let frame = unsafe { &*frame };
            if let Some(from) = frame.get(start as usize..start as usize + bytes.len()) {
                bytes.copy_from_slice(from);
            }
        });
    }

    fn copy_across(&self, from: Location, span: Span, to: &Self, target: Location) {
        let mut bytes = vec![0; span.len as usize];
        self.copy_out(from, span.start, &mut bytes);
        to.copy_in(target, to.layout().shape.headroom, &bytes);
    }

    fn prefetch(&self, _place: Location) {}

    fn prefetch_fill(&self, _slot: u32) {}

    fn prefetch_take(&self, _slot: u32) {}

    #[allow(clippy::mut_from_ref, reason = "exclusive by the caller's promise")]
    unsafe fn frame_mut(&self, location: Location) -> &mut [u8] {
        // JUSTIFICATION: as above; loom judges the access when it begins.
        // SAFETY: the caller's promise.
        self.frame(location).with_mut(|frame| unsafe { &mut **frame })
    }
}
