use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

const SLOTS: u32 = 8;
const OFFSETS: XdpRingOffset =
    XdpRingOffset { producer: 0, consumer: 64, desc: 128, flags: Some(100) };

/// Memory of a ring with both indices at `start`, and two views of it: ours and the kernel's.
struct Shared {
    // The areas point into it.
    _bytes: Box<[u64]>,
    ours: Option<Area>,
    kernel: Area,
}

fn shared(start: u32) -> Shared {
    let mut bytes = vec![0_u64; 16 + SLOTS as usize].into_boxed_slice();
    let base = NonNull::new(bytes.as_mut_ptr().cast()).expect("memory");
    let len = bytes.len() * 8;
    let area = || Area { base, len, is_mapped: false, offsets: OFFSETS, slots: SLOTS };
    let (ours, kernel) = (area(), area());
    kernel.producer().store(start, Ordering::Relaxed);
    kernel.consumer().store(start, Ordering::Relaxed);
    Shared { _bytes: bytes, ours: Some(ours), kernel }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_produced_ring_is_a_queue_also_where_indices_wrap(
        start in prop_oneof![Just(0), Just(u32::MAX - 3), any::<u32>()],
        steps in prop::collection::vec((0..12_usize, 0..12_usize), 1..60),
    ) {
        let mut shared = shared(start);
        let mut ring = Producer::<u64>::new(shared.ours.take().expect("there"));
        // The kernel's end is a consumer.
        let mut kernel = Consumer::<u64>::new(shared.kernel);
        let (mut oracle, mut value) = (VecDeque::new(), 0);
        for (wanted, taken) in steps {
            let room = ring.room(wanted);
            prop_assert!(room >= wanted.min(SLOTS as usize - oracle.len()));
            prop_assert!(room <= SLOTS as usize - oracle.len());
            for _ in 0..wanted.min(room) {
                value += 1;
                ring.put(value);
                oracle.push_back(value);
            }
            ring.publish();
            prop_assert_eq!(ring.pending(), oracle.len());
            for _ in 0..2 {
                let mut got = Vec::new();
                let count = kernel.take(taken, |value| got.push(value));
                prop_assert_eq!(count, got.len());
                prop_assert!(count <= taken);
                for value in got {
                    prop_assert_eq!(Some(value), oracle.pop_front());
                }
            }
        }
    }

    #[test]
    fn a_kernel_that_lies_gets_no_more_than_the_ring(start in any::<u32>(), lie in any::<u32>()) {
        let mut one = shared(start);
        let mut consumer = Consumer::<u64>::new(one.ours.take().expect("there"));
        one.kernel.producer().store(start.wrapping_add(lie), Ordering::Relaxed);
        let count = consumer.take(usize::MAX, |value| assert_eq!(value, 0));
        prop_assert_eq!(count, lie.min(SLOTS) as usize);
        let mut two = shared(start);
        let mut producer = Producer::<u64>::new(two.ours.take().expect("there"));
        two.kernel.consumer().store(start.wrapping_sub(lie), Ordering::Relaxed);
        prop_assert_eq!(producer.room(usize::MAX), SLOTS.saturating_sub(lie) as usize);
    }
}

#[test]
fn the_wakeup_flag_is_seen() {
    let mut shared = shared(0);
    let ring = Producer::<u64>::new(shared.ours.take().expect("there"));
    assert!(!ring.needs_wakeup());
    shared.kernel.word(100).store(NEED_WAKEUP, Ordering::Relaxed);
    assert!(ring.needs_wakeup());
}

#[test]
fn addresses_are_a_chunk_and_an_offset() {
    assert_eq!(offset_of(0x1234_5678), 0x1234_5678);
    assert_eq!(offset_of(320 << 48 | 0x1_0000_0040), 0x1_0000_0040 + 320);
    assert_eq!(offset_of(u64::MAX), (1 << 48) - 1 + 0xFFFF);
}

#[test]
fn descriptors_are_the_kernels() {
    assert_eq!(size_of::<Descriptor>(), size_of::<libc::xdp_desc>());
    assert_eq!(std::mem::offset_of!(Descriptor, len), 8);
}
