//! A virtual machine's device against whatever a guest and its front-end write: nothing panics,
//! what is taken fits its bounds, and a lie is found however late.

use std::sync::Arc;

use thruway_packet::{Batch, Packet};
use thruway_vhost::driver::{Driver, INDIRECT, NEXT, RawDescriptor, WRITE};
use thruway_vhost::{
    Features, GuestMemory, HEAD_LEN, Head, Queue, RINGS, Received, Request, Ring, Rings, Sent,
    Session,
};

/// Entries of each ring: few, so that inputs reach their ends.
const SIZE: u16 = 8;

/// Bytes of the input that are one step.
const STEP_LEN: usize = 8;

struct Device {
    driver: Driver,
    queues: [Queue; RINGS],
}

impl Device {
    fn new() -> Option<Device> {
        let driver = Driver::new(SIZE).ok()?;
        let fds = vec![driver.fd().try_clone_to_owned().ok()?];
        let memory = Arc::new(GuestMemory::map(&[driver.part()], fds).ok()?);
        let queue = |ring: usize| {
            let ring = Ring::open(Arc::clone(&memory), &driver.spec(ring), true).ok()?;
            Some(Queue::new(ring, Features::OFFERED))
        };
        Some(Device { queues: [queue(0)?, queue(1)?], driver })
    }

    /// One thing that a guest writes, or that the device does then. False when it has ended.
    fn step(&mut self, [what, which, at, flags, number @ ..]: [u8; STEP_LEN]) -> bool {
        let number = u32::from_le_bytes(number);
        let ring = usize::from(which) % RINGS;
        match what % 8 {
            0 | 1 => self.driver.describe(ring, u16::from(at) % SIZE, descriptor(flags, number)),
            2 => {
                let table = self.driver.buffer(usize::from(at));
                self.driver.table(table, &[descriptor(flags, number), descriptor(which, number)]);
            }
            3 | 4 => self.driver.offer(ring, u16::from(at) % (SIZE + 1)),
            5 if at > 200 => self.driver.set_avail_index(ring, number as u16),
            5 => self.driver.send(u16::from(at) % SIZE, &number.to_le_bytes()),
            6 => return self.receive(usize::from(at)),
            _ => return self.send(1 + number as usize % 5000),
        }
        true
    }

    fn receive(&mut self, max: usize) -> bool {
        let (mut batch, mut received) = (Batch::new(), Received::default());
        let done = self.queues[1].receive((max, 0), &mut batch, &mut received);
        assert_eq!(batch.len(), received.packets);
        assert!(batch.len() <= usize::from(SIZE));
        assert!(batch.iter().all(|packet| (1..=65_600).contains(&packet.len())));
        done.is_ok()
    }

    fn send(&mut self, len: usize) -> bool {
        let Some(mut packet) = Packet::new(&[]) else { return true };
        if !packet.put(len) {
            return true;
        }
        let (mut batch, mut sent) = (Batch::new(), Sent::default());
        batch.push(packet);
        let done = self.queues[0].send(&mut batch, &mut sent);
        assert!(sent.packets + sent.unfit + batch.len() == 1 || done.is_err());
        done.is_ok()
    }
}

/// A descriptor near what would be right, or far from it.
fn descriptor(flags: u8, number: u32) -> RawDescriptor {
    let near = 0x10_0000 + u64::from(number & 0x3f_ffff);
    let guest = if flags & 8 == 0 { near } else { u64::from(number) << 33 | u64::from(number) };
    RawDescriptor {
        guest,
        len: if flags & 16 == 0 { number >> 20 } else { number },
        flags: u16::from(flags) & (NEXT | WRITE | INDIRECT),
        next: u16::from(flags >> 5),
    }
}

/// A guest that writes anything.
pub(crate) fn rings(input: &[u8]) {
    let Some(mut device) = Device::new() else { return };
    let steps = input.as_chunks::<STEP_LEN>().0;
    let _ = steps.iter().all(|step| device.step(*step));
}

/// Rings that are used by nobody.
#[derive(Default)]
struct Kept([Option<Queue>; RINGS]);

impl Rings for Kept {
    fn start(&mut self, ring: usize, queue: Queue) {
        self.0[ring] = Some(queue);
    }

    fn stop(&mut self, ring: usize) -> Option<Queue> {
        self.0[ring].take()
    }
}

/// A front-end that says anything: a byte says how many descriptors come with the message that
/// follows.
pub(crate) fn messages(input: &[u8]) {
    let Ok(driver) = Driver::new(SIZE) else { return };
    let (mut session, mut rings) = (Session::new(), Kept::default());
    let mut rest = input;
    while let Some((fds, more)) = rest.split_first() {
        let Some((head, more)) = more.split_first_chunk::<HEAD_LEN>() else { return };
        let Ok(head) = Head::parse(head) else { return };
        let Some((body, more)) = more.split_at_checked(head.len) else { return };
        rest = more;
        let copy = || driver.fd().try_clone_to_owned();
        let Ok(fds) = (0..fds % 10).map(|_| copy()).collect() else { return };
        let Ok(request) = Request::parse(head.request, body) else { return };
        if session.handle((head.request, request), fds, &mut rings).is_err() {
            return;
        }
        for queue in rings.0.iter_mut().flatten() {
            let _ = queue.receive((8, 0), &mut Batch::new(), &mut Received::default());
        }
    }
}
