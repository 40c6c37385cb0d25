//! Notes in front of frames: the kernel copies what the program wrote, for this frame alone.

use crate::hosts::privileged;
use crate::xdp::{frame, open, pair};
use std::time::{Duration, Instant};
use thruway_packet::Batch;
use thruway_port::af_xdp::{Mode, Receiver, Sender};
use thruway_port::drop_stage::{DropStage, DropTests, Notes};

/// Ends of a table: to the chain, and of the class 0.
const CHAIN: u32 = 1 << 31;
const CLASS: u32 = CHAIN | 1 << 16;
/// Bits of the number in a frame: its class, and whether it has one.
const CLASS_BITS: u32 = 3;
const UNKNOWN_BIT: u32 = 4;

/// The class of a frame, by its number.
fn class(number: u32) -> Option<u16> {
    (number & UNKNOWN_BIT == 0).then_some((number & CLASS_BITS) as u16)
}

/// A table of these classes.
fn tests() -> DropTests {
    // The number stands behind the frame's type.
    let test = |mask, lo, yes, no| [14, 0, mask, lo, 0, yes, no, CHAIN];
    let of_class = |class: u32| test(CLASS_BITS, class, CLASS | class, class + 2);
    DropTests {
        tests: vec![
            test(UNKNOWN_BIT, UNKNOWN_BIT, CHAIN, 1),
            of_class(0),
            of_class(1),
            of_class(2),
            test(CLASS_BITS, 3, CLASS | 3, CHAIN),
        ],
        starts: [CHAIN, CHAIN, 0],
        leaves_errors: false,
        depth: 5,
    }
}

/// Sends frames, and takes the notes of those that come: of each its number and class.
fn exchange(
    sender: &mut Sender,
    receiver: &mut Receiver,
    numbers: std::ops::Range<u32>,
    notes: Notes,
) -> Vec<(u32, Option<u16>)> {
    let end = Instant::now() + Duration::from_secs(10);
    let (mut got, mut received) = (Vec::new(), Batch::new());
    for first in numbers.clone().step_by(100) {
        let mut out: Batch = (first..numbers.end.min(first + 100)).map(frame).collect();
        let last = (first - numbers.start) as usize + out.len();
        while got.len() < last {
            assert!(Instant::now() < end, "{} of {last} came", got.len());
            let sent = sender.send(&mut out);
            assert!(sent.error.is_none() && sent.refused == 0, "{sent:?}");
            receiver.receive(256, &mut received);
            for mut packet in received.drain() {
                let class = notes.take(&mut packet);
                let number = packet.data().get(14..18).expect("it is whole");
                let number = u32::from_be_bytes(number.try_into().expect("four"));
                if packet.data()[12..14] == [0x88, 0xB5] {
                    assert_eq!(packet.data(), frame(number).data());
                    got.push((number, class));
                }
            }
        }
    }
    got
}

#[test]
fn each_frame_has_its_own_note() {
    if !privileged("each_frame_has_its_own_note") {
        return;
    }
    for modes in [&[Mode::Native], &[Mode::Generic]] {
        let (far, here) = pair();
        let (near, eth0) = (open(&here, "near", modes), open(&far, "eth0", modes));
        let mut receiver = near.receiver(None).expect("free");
        let mut sender = eth0.sender(Some(0)).expect("free");
        assert_eq!(receiver.notes(), None);
        let install = || here.run(|| DropStage::install("near", &tests())).expect("it is there");
        let stage = install();
        let first = receiver.notes().expect("the program writes notes");
        // More than there are frames lent, so that all are used again.
        let came = exchange(&mut sender, &mut receiver, 0..20_000, first);
        assert!(came.into_iter().eq((0..20_000).map(|number| (number, class(number)))));
        // Without a program nothing is written, and nothing of before is left.
        assert_eq!(stage.remove(), 0, "none is dropped");
        assert_eq!(receiver.notes(), None);
        let came = exchange(&mut sender, &mut receiver, 0..20_000, first);
        assert!(came.iter().all(|(_, class)| class.is_none()), "a note of another frame");
        // A reader that knows the first program ignores the notes of the second one.
        let stage = install();
        let second = receiver.notes().expect("the program writes notes");
        assert_ne!(first, second);
        let came = exchange(&mut sender, &mut receiver, 0..2000, first);
        assert!(came.iter().all(|(_, class)| class.is_none()), "a note of another program");
        let came = exchange(&mut sender, &mut receiver, 0..2000, second);
        assert!(came.into_iter().eq((0..2000).map(|number| (number, class(number)))));
        drop(stage);
        // A program of a table without classes writes none.
        let unclassified = || DropTests { tests: Vec::new(), starts: [CHAIN; 3], ..tests() };
        let install = move || DropStage::install("near", &unclassified());
        let _stage = here.run(install).expect("it is there");
        assert_eq!(receiver.notes(), None);
        let came = exchange(&mut sender, &mut receiver, 0..2000, second);
        assert!(came.iter().all(|(_, class)| class.is_none()), "a note of a table without classes");
    }
}
