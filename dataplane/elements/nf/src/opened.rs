//! Slots whose packets are under way in an isolated part.

use std::collections::VecDeque;

use thruway_element::{Cx, Reason, reasons};
use thruway_exchange::{Control, NoRoom, Outgoing, Storage, Worker};
use thruway_nf_abi::control::Figure;
use thruway_nf_abi::{SlotHead, flag};
use thruway_packet::{Batch, Packet};

use super::carried::{Short, is_packed, pack, pack_into, packed_len, unpacked};

reasons! {
    /// Why a packet does not reach the host.
    pub(super) enum Lost {
        TooLong = "too-long": "longer than a slot",
        Full = "ring-full": "no slot was free for a packet beside another or for one of its own",
        Damaged = "damaged": "the host's slot holds no packet",
    }
}

/// Most packets that wait for the host to make room.
const RESULTS_MAX: usize = 1 << 14;

/// The first slots of a link. What leaves while they are open is their results: a packet that
/// entered by a slot leaves in it, all others leave beside the last slot, in their order.
///
/// A packet is known by its tag: slot `n` has tag `n + 1`. Where only one slot is open, the
/// first packet that leaves is its result, whichever it is.
#[derive(Default)]
pub(super) struct Opened {
    /// How many are open.
    count: u32,
    /// A bit for each of them but the last: its result lies in it.
    filled: u32,
    /// What leaves in the last slot, and beside it: output and packet.
    results: VecDeque<(u8, Packet)>,
    /// How many of them were put into or beside the slot.
    sent: u32,
    /// Packets on their way in; empty between calls.
    coming: Batch,
    /// Room to work in.
    bytes: Vec<u8>,
}

/// What became of slots that were to be given back.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// They were given back.
    All,
    /// The host has to make room first for what goes beside the last one.
    WantsRoom,
}

impl Opened {
    pub fn is_open(&self) -> bool {
        self.count > 0
    }

    /// Opens up to `most` waiting slots, and sends their packets on.
    pub fn open<S: Storage>(&mut self, cx: &mut Cx<'_>, worker: &mut Worker<S>, most: u32) {
        self.count = worker.waiting().min(most.min(Packet::TAGS.into()));
        (self.filled, self.sent) = (0, 0);
        let mut input = 0;
        for nth in 0..self.count {
            worker.prefetch(nth + Worker::<S>::AHEAD);
            let head = worker.head(nth);
            let frame = worker.frame(nth, &head);
            match packet_of(held(&head, frame)) {
                Ok(mut packet) => {
                    if self.count > 1 {
                        packet.set_tag(nth as u8 + 1);
                    }
                    if head.input != input {
                        cx.emit_all(usize::from(input), &mut self.coming);
                        input = head.input;
                    }
                    self.coming.push(packet);
                }
                Err(why) => cx.count_drops(why, 1),
            }
        }
        cx.emit_all(usize::from(input), &mut self.coming);
    }

    /// Takes a packet that leaves by this output.
    pub fn keep<S: Storage>(
        &mut self,
        cx: &mut Cx<'_>,
        worker: &mut Worker<S>,
        output: u8,
        mut packet: Packet,
    ) {
        let tag = u32::from(packet.tag());
        packet.set_tag(0);
        let bit = 1 << tag;
        if (1..self.count).contains(&tag) && self.filled & bit == 0 {
            self.filled |= bit;
            fill(cx, worker, tag - 1, output, packet);
        } else if self.results.len() >= RESULTS_MAX {
            cx.drop(Lost::Full, packet);
        } else if tag == self.count && self.sent == 0 {
            self.results.push_front((output, packet));
        } else {
            self.results.push_back((output, packet));
        }
    }

    /// Gives the slots back with what became of their packets.
    pub fn close<S: Storage>(
        &mut self,
        cx: &mut Cx<'_>,
        worker: &mut Worker<S>,
        control: &Control,
    ) -> Closed {
        self.close_all_but_last(worker);
        let room = worker.layout().shape.aux_slots;
        let Some(mut current) = worker.current().filter(|_| self.is_open()) else {
            self.count = 0;
            return Closed::All;
        };
        while let Some((output, mut packet)) = self.results.pop_front() {
            let sent = if self.sent == 0 {
                current.head.output = output;
                if is_packed(&mut packet, held(&current.head, current.frame())) {
                    Ok(())
                } else {
                    current.change();
                    let mut head = current.head;
                    let done = replace(&mut head, current.frame_mut(), &mut packet);
                    current.head = head;
                    done
                }
            } else {
                pack(&mut packet, &mut self.bytes);
                let to = Outgoing { output, fcb: SlotHead::NO_SESSION };
                current.aside.emit(to, [&self.bytes, &[]])
            };
            match sent {
                // What this slot has not used itself will be free again.
                Err(NoRoom::Full) if self.sent <= room => {
                    self.results.push_front((output, packet));
                    current.close();
                    return Closed::WantsRoom;
                }
                Err(NoRoom::Full) => {
                    control.add_figure(Figure::AuxFull, 1);
                    cx.drop(Lost::Full, packet);
                }
                Err(NoRoom::Length) => cx.drop(Lost::TooLong, packet),
                Ok(()) => {}
            }
            self.sent += 1;
        }
        if self.sent == 0 {
            current.head.flags |= flag::DROPPED;
        }
        current.close();
        worker.advance(1);
        self.count = 0;
        Closed::All
    }

    /// Nothing goes beside these.
    fn close_all_but_last<S: Storage>(&mut self, worker: &mut Worker<S>) {
        let before = self.count.saturating_sub(1);
        for nth in (0..before).filter(|nth| self.filled & 1 << (nth + 1) == 0) {
            let mut head = worker.head(nth);
            head.flags |= flag::DROPPED;
            worker.set_head(nth, head);
        }
        if before > 0 {
            worker.advance(before);
            self.count = 1;
        }
    }
}

/// Puts a packet into the `nth` open slot. One that is as it came is there, and the slot stays as
/// the host put it.
fn fill<S: Storage>(
    cx: &mut Cx<'_>,
    worker: &mut Worker<S>,
    nth: u32,
    output: u8,
    mut packet: Packet,
) {
    let mut head = worker.head(nth);
    if is_packed(&mut packet, held(&head, worker.frame(nth, &head))) {
        if head.output != output {
            worker.set_head(nth, SlotHead { output, ..head });
        }
        return;
    }
    head.output = output;
    let frame = worker.frame_mut(nth, &mut head);
    if replace(&mut head, frame, &mut packet).is_err() {
        cx.drop(Lost::TooLong, packet);
    }
    worker.set_head(nth, head);
}

/// The packet in a slot's frame, as its head says.
fn held<'a>(head: &SlotHead, frame: &'a [u8]) -> &'a [u8] {
    let start = usize::from(head.start);
    frame.get(start..start + usize::from(head.len)).unwrap_or_default()
}

/// Puts a packet into a slot's frame, where the one was that came by it if it fits there.
fn replace(head: &mut SlotHead, frame: &mut [u8], packet: &mut Packet) -> Result<(), NoRoom> {
    let len = packed_len(packet);
    let start = usize::from(head.start).min(frame.len().saturating_sub(len));
    let Some(to) = frame.get_mut(start..start + len) else {
        head.flags |= flag::DROPPED;
        return Err(NoRoom::Length);
    };
    pack_into(packet, to);
    (head.start, head.len) = (start as u16, len as u16);
    Ok(())
}

/// The packet in a slot.
fn packet_of(bytes: &[u8]) -> Result<Packet, Reason> {
    match unpacked(bytes) {
        Ok(packet) => packet.ok_or(Reason::NO_MEMORY),
        Err(Short) => Err(Lost::Damaged.into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thruway_element::{ArgErrors, Element, Entry, Run, Spec};
    use thruway_exchange::model::Silent;
    use thruway_exchange::{Mapped, Master, Origin, Pages, SlotTag, Tuning};
    use thruway_nf_abi::LinkShape;
    use thruway_packet::Batch;

    use super::*;
    use crate::carried::PREFIX_LEN;
    use thruway_elements_rig::Rig;

    const SHAPE: LinkShape = LinkShape {
        slots: 32,
        aux_slots: 4,
        injection_slots: 4,
        packet_len_max: 256,
        ..LinkShape::DEFAULT
    };

    static ENTRY: Entry = Entry::new(
        Spec { name: "Ends", ports: "-/-", drops: Lost::DROPS, ..Spec::DEFAULT },
        |_| Err(ArgErrors::whole("it is built by hand")),
    );

    /// A worker's end without a process.
    struct Ends {
        opened: Opened,
        worker: Worker<Mapped>,
        control: Control,
        most: u32,
    }

    impl Element for Ends {
        fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
            for packet in batch.drain() {
                self.opened.keep(cx, &mut self.worker, port as u8, packet);
            }
        }

        fn run(&mut self, cx: &mut Cx<'_>) -> Run {
            if self.opened.close(cx, &mut self.worker, &self.control) == Closed::All {
                self.opened.open(cx, &mut self.worker, self.most);
            }
            let _ = self.worker.flush();
            Run::Again
        }
    }

    /// The host of it.
    struct Host {
        rig: Rig,
        master: Master<Mapped>,
    }

    /// What comes back: the slot (none: beside one), and output and bytes, if any.
    type Back = (Option<u32>, Option<(u32, Vec<u8>)>);

    impl Host {
        fn new(most: u32) -> Host {
            let mapped = Mapped::create(&SHAPE, None, Pages::Normal).unwrap();
            let fd = mapped.fd().try_clone_to_owned().unwrap();
            let worker = Worker::open(fd, 1).unwrap();
            let (opened, control) = (Opened::default(), Control::create().unwrap());
            let ends = Ends { opened, worker, control, most };
            let rig = Rig::around(Box::new(ends), &ENTRY, 1).unwrap();
            Host { rig, master: Master::new(mapped, 2, Tuning::DEFAULT) }
        }

        /// Puts packets of these bytes; those that come in.
        fn put(&mut self, all: impl IntoIterator<Item = u8>) -> Vec<Packet> {
            for byte in all {
                let mut bytes = Vec::new();
                pack(&mut Packet::new(&[byte; 20]).unwrap(), &mut bytes);
                self.master.put(SlotTag::NONE.keeping(), &bytes).unwrap();
            }
            self.master.publish(&Silent::default(), 0);
            self.rig.run().1.remove(0)
        }

        /// Has the slots closed; what comes back.
        fn close(&mut self) -> Vec<Back> {
            self.rig.run();
            self.back()
        }

        fn back(&mut self) -> Vec<Back> {
            let mut back = Vec::new();
            let take = |token: thruway_exchange::Token<'_, Mapped>| {
                let mut bytes = vec![0; token.len() as usize];
                token.copy_to(&mut bytes);
                let packet = (token.output, bytes.split_off(PREFIX_LEN.min(bytes.len())));
                back.push(match token.origin {
                    Origin::Slot(slot) => (Some(slot), Some(packet)),
                    Origin::Dropped(slot) => (Some(slot), None),
                    _ => (None, Some(packet)),
                });
            };
            self.master.poll(0, 64, take).unwrap();
            back
        }
    }

    fn own(slot: u32, output: u32) -> Back {
        (Some(slot), Some((output, vec![slot as u8; 20])))
    }

    fn stray(byte: u8) -> Packet {
        Packet::new(&[byte; 20]).unwrap()
    }

    proptest! {
        /// Whichever of a batch leave, in whatever order and by whatever output, each is in its
        /// own slot, and what else leaves comes behind the last, in its order.
        #[test]
        fn each_of_a_batch_leaves_in_its_slot(
            order in Just((0..31_usize).collect::<Vec<_>>()).prop_shuffle(),
            count in 2..=31_usize,
            fates in prop::collection::vec(0..3_u32, 31),
            strays in prop::collection::vec(0..31_usize, 0..4),
        ) {
            let mut host = Host::new(31);
            let came = host.put((0..count).map(|n| n as u8));
            prop_assert_eq!(came.len(), count);
            let mut came: Vec<Option<Packet>> = came.into_iter().map(Some).collect();
            for (at, nth) in order.into_iter().enumerate() {
                if strays.contains(&at) {
                    host.rig.push_at(1, [stray(200 + at as u8)]);
                }
                if let Some(packet) = came.get_mut(nth).and_then(Option::take)
                    && fates[nth] < 2
                {
                    host.rig.push_at(fates[nth] as usize, [packet]);
                }
            }
            let slots = (0..count as u32).map(|slot| match fates[slot as usize] {
                2 => (Some(slot), None),
                output => own(slot, output),
            });
            let mut wanted: Vec<Back> = slots.collect();
            let mut beside: Vec<u8> = strays.into_iter().map(|at| 200 + at as u8).collect();
            beside.sort_unstable();
            beside.dedup();
            let mut rest = beside.into_iter().map(|byte| (1, vec![byte; 20]));
            // A last slot without a result of its own takes the first of what else leaves.
            if let Some((Some(_), last @ None)) = wanted.last_mut() {
                *last = rest.next();
            }
            wanted.extend(rest.map(|packet| (None, Some(packet))));
            prop_assert_eq!(host.close(), wanted);
        }
    }

    /// The slots of which the host need not take anything back.
    fn kept(host: &mut Host) -> Vec<u32> {
        let mut kept = Vec::new();
        host.rig.run();
        let take = |token: thruway_exchange::Token<'_, Mapped>| match token.origin {
            Origin::Slot(slot) if token.is_kept => kept.push(slot),
            _ => {}
        };
        host.master.poll(0, 64, take).unwrap();
        kept
    }

    #[test]
    fn a_slot_whose_packet_is_as_it_came_stays_as_it_is() {
        for most in [31, 1] {
            let mut host = Host::new(most);
            let mut came = host.put([0]);
            host.rig.push_at(1, came.drain(..));
            assert_eq!(kept(&mut host), [0], "whichever output it leaves by");
        }
        let mut host = Host::new(31);
        let mut came = host.put(0..6);
        came[1].data_mut()[19] = 7;
        came[2].set_anno_number(thruway_packet::Anno::PAINT, 7);
        assert!(came[3].pull(1));
        came.swap(0, 4);
        host.rig.push_at(0, came.drain(..5));
        assert_eq!(kept(&mut host), [0, 4]);
    }

    #[test]
    fn of_one_packet_the_first_that_leaves_is_the_result() {
        let mut host = Host::new(1);
        let came = host.put([0, 1]);
        assert_eq!(came.len(), 1);
        host.rig.push_at(1, [stray(7)]);
        host.rig.push_at(0, came);
        let first = (Some(0), Some((1, vec![7; 20])));
        assert_eq!(host.close(), [first, (None, Some((0, vec![0; 20])))]);
        // The second one is open by now, and nothing leaves for it.
        assert_eq!(host.close(), [(Some(1), None)]);
    }

    #[test]
    fn the_last_slot_waits_for_room_beside_it() {
        let mut host = Host::new(31);
        let bytes = |back: Vec<Back>| -> Vec<u8> {
            back.into_iter().filter_map(|back| Some(back.1?.1[0])).collect()
        };
        let came = host.put([0, 1]);
        host.rig.push_at(0, came);
        host.rig.push_at(0, (0..3).map(|n| stray(100 + n)));
        // Closes these, and opens the next, while the host has taken nothing back.
        let came = host.put([2, 3]);
        host.rig.push_at(0, came);
        host.rig.push_at(0, (3..6).map(|n| stray(100 + n)));
        host.rig.run();
        assert_eq!(bytes(host.back()), [0, 1, 100, 101, 102, 2]);
        assert_eq!(bytes(host.close()), [3, 103, 104, 105]);
        assert_eq!(host.rig.drops().iter().sum::<u64>(), 0);
        // What can never have room is dropped: the slot itself uses all there is.
        let came = host.put([4]);
        host.rig.push_at(0, came);
        host.rig.push_at(0, (0..6).map(|n| stray(110 + n)));
        assert_eq!(bytes(host.close()), [4, 110, 111, 112, 113]);
        assert_eq!(host.rig.drops().iter().sum::<u64>(), 2);
    }

    #[test]
    fn what_has_grown_too_long_is_dropped_and_the_others_are_not() {
        let mut host = Host::new(31);
        let mut came = host.put([0, 1, 2]);
        assert!(came[0].put(1000) && came[2].put(1000));
        host.rig.push_at(0, came);
        assert_eq!(host.close(), [(Some(0), None), own(1, 0), (Some(2), None)]);
        assert_eq!(host.rig.drops().iter().sum::<u64>(), 2);
    }

    #[test]
    fn slots_without_a_packet_come_back_empty() {
        let mut host = Host::new(31);
        host.master.put(SlotTag::NONE, b"short").unwrap();
        let came = host.put([1]);
        assert_eq!(came.len(), 1);
        host.rig.push_at(0, came);
        assert_eq!(host.close(), [(Some(0), None), own(1, 0)]);
        assert_eq!(host.rig.drops().iter().sum::<u64>(), 1);
    }
}
