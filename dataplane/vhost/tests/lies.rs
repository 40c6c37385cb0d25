//! What a guest writes that no driver writes: each lie is found, has a name, and is the guest's
//! own harm.
#![forbid(unsafe_code)]

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thruway_packet::{Batch, Packet};
use thruway_vhost::driver::{BUFFER_LEN, Driver, FrontEnd, INDIRECT, NEXT, RawDescriptor, WRITE};
use thruway_vhost::{
    Address, Features, GuestMemory, MemoryPart, Port, Queue, Received, Ring, RingFault, RingSpec,
    Sent, private_listener,
};

const SIZE: u16 = 8;

fn memory(driver: &Driver) -> Arc<GuestMemory> {
    let fds = vec![driver.fd().try_clone_to_owned().expect("a descriptor")];
    Arc::new(GuestMemory::map(&[driver.part()], fds).expect("it is mapped"))
}

fn queue(driver: &Driver, ring: usize, features: Features) -> Queue {
    let has_indirect = features.contains(Features::INDIRECT);
    let ring = Ring::open(memory(driver), &driver.spec(ring), has_indirect);
    Queue::new(ring.expect("a ring"), features)
}

/// What becomes of what the guest sends after it wrote this.
fn sends(write: impl Fn(&Driver)) -> Result<usize, RingFault> {
    sends_with(Features::OFFERED, write)
}

fn sends_with(features: Features, write: impl Fn(&Driver)) -> Result<usize, RingFault> {
    let driver = Driver::new(SIZE).expect("memory");
    let mut queue = queue(&driver, 1, features);
    write(&driver);
    let (mut batch, mut received) = (Batch::new(), Received::default());
    let done = queue.receive((32, 0), &mut batch, &mut received);
    assert_eq!(received.packets, batch.len());
    done.map(|_| batch.len())
}

/// What becomes of a packet for the guest after it wrote this.
fn receives(write: impl Fn(&Driver)) -> Result<Sent, RingFault> {
    let driver = Driver::new(SIZE).expect("memory");
    let mut queue = queue(&driver, 0, Features::OFFERED);
    write(&driver);
    let (mut batch, mut sent) = (Batch::new(), Sent::default());
    batch.push(Packet::new(&[7; 1000]).expect("memory"));
    queue.send(&mut batch, &mut sent).map(|_| sent)
}

fn one(guest: u64, len: u32, flags: u16, next: u16) -> RawDescriptor {
    RawDescriptor { guest, len, flags, next }
}

/// A guest that sends this chain, from descriptor 0 on.
fn chain(all: &[RawDescriptor]) -> Result<usize, RingFault> {
    sends(|driver| {
        for (index, one) in all.iter().enumerate() {
            driver.describe(1, index as u16, *one);
        }
        driver.offer(1, 0);
    })
}

#[test]
fn honest_packets_before_a_lie_are_taken() {
    assert_eq!(sends(|driver| driver.send(0, b"hello")), Ok(1));
    let driver = Driver::new(SIZE).expect("memory");
    let mut queue = queue(&driver, 1, Features::OFFERED);
    driver.send(0, b"hello");
    driver.offer(1, SIZE);
    let (mut batch, mut received) = (Batch::new(), Received::default());
    let done = queue.receive((32, 0), &mut batch, &mut received);
    assert_eq!(done, Err(RingFault::Index));
    assert_eq!((batch.len(), batch.iter().next().map(Packet::data)), (1, Some(&b"hello"[..])));
}

#[test]
fn indices() {
    assert_eq!(sends(|driver| driver.set_avail_index(1, SIZE + 1)), Err(RingFault::AvailJump));
    assert_eq!(sends(|driver| driver.set_avail_index(1, u16::MAX)), Err(RingFault::AvailJump));
    assert_eq!(sends(|driver| driver.offer(1, SIZE)), Err(RingFault::Index));
    assert_eq!(sends(|driver| driver.offer(1, u16::MAX)), Err(RingFault::Index));
    let buffer = Driver::new(SIZE).expect("memory").buffer(0);
    assert_eq!(chain(&[one(buffer, 100, NEXT, SIZE)]), Err(RingFault::Index));
}

#[test]
fn chains() {
    let buffer = Driver::new(SIZE).expect("memory").buffer(0);
    assert_eq!(chain(&[one(buffer, 100, NEXT, 0)]), Err(RingFault::ChainTooLong));
    let circle = [one(buffer, 100, NEXT, 1), one(buffer, 100, NEXT, 0)];
    assert_eq!(chain(&circle), Err(RingFault::ChainTooLong));
    assert_eq!(chain(&[one(buffer, 0, NEXT, 0)]), Err(RingFault::ChainTooLong));
    assert_eq!(chain(&[one(buffer, 100, WRITE, 0)]), Err(RingFault::Direction));
    assert_eq!(chain(&[one(buffer, 11, 0, 0)]), Err(RingFault::ShortHeader));
    assert_eq!(chain(&[one(buffer, 0, 0, 0)]), Err(RingFault::ShortHeader));
    // A header alone, and more than a packet may have: the guest's own loss, no lie.
    assert_eq!(chain(&[one(buffer, 12, 0, 0)]), Ok(0));
    assert_eq!(chain(&[one(buffer, 1 << 20, 0, 0)]), Ok(0));
    let cut = [one(buffer, 5, NEXT, 3), one(0, 0, 0, 0), one(0, 0, 0, 0), one(buffer, 9, 0, 0)];
    assert_eq!(chain(&cut), Ok(1));
}

#[test]
fn addresses() {
    let driver = Driver::new(SIZE).expect("memory");
    let MemoryPart { guest, len, .. } = driver.part();
    let beyond = [0, guest - 1, guest + len, guest + len - 20, u64::MAX - 5, 1 << 63];
    for address in beyond {
        let fault = chain(&[one(address, 100, 0, 0)]);
        assert_eq!(fault, Err(RingFault::OutsideMemory), "{address:#x}");
        let fault = chain(&[one(driver.buffer(0), 12, NEXT, 1), one(address, 100, 0, 0)]);
        assert_eq!(fault, Err(RingFault::OutsideMemory), "{address:#x}");
        let fault = receives(|driver| {
            driver.describe(0, 0, one(address, 2000, WRITE, 0));
            driver.offer(0, 0);
        });
        assert_eq!(fault, Err(RingFault::OutsideMemory), "{address:#x}");
    }
}

#[test]
fn tables_of_descriptors() {
    let driver = Driver::new(SIZE).expect("memory");
    let (buffer, table) = (driver.buffer(0), driver.buffer(10));
    let with = |len: u32, flags: u16, all: Vec<RawDescriptor>| {
        move |driver: &Driver| {
            driver.table(table, &all);
            driver.describe(1, 0, one(table, len, INDIRECT | flags, 0));
            driver.offer(1, 0);
        }
    };
    let honest = vec![one(buffer, 12, NEXT, 1), one(buffer, 60, 0, 0)];
    assert_eq!(sends(with(32, 0, honest.clone())), Ok(1));
    let none_agreed = Features(Features::OFFERED.0 & !Features::INDIRECT.0);
    let refused = Err(RingFault::IndirectTable);
    assert_eq!(sends_with(none_agreed, with(32, 0, honest.clone())), refused);
    assert_eq!(sends(with(32, NEXT, honest.clone())), refused);
    for len in [0, 15, 17, 16 * 1025, u32::MAX] {
        assert_eq!(sends(with(len, 0, honest.clone())), refused, "{len}");
    }
    assert_eq!(sends(with(16, 0, vec![one(table, 16, INDIRECT, 0)])), refused);
    // Its second descriptor is behind its end.
    assert_eq!(sends(with(16, 0, honest)), Err(RingFault::Index));
    let circle = vec![one(buffer, 60, NEXT, 0)];
    assert_eq!(sends(with(16, 0, circle)), Err(RingFault::ChainTooLong));
    let nowhere = |driver: &Driver| {
        driver.describe(1, 0, one(u64::MAX - 15, 32, INDIRECT, 0));
        driver.offer(1, 0);
    };
    assert_eq!(sends(nowhere), Err(RingFault::OutsideMemory));
}

#[test]
fn offloads_that_were_not_agreed_on() {
    for (at, value) in [(0, 1), (1, 1), (1, 0x80)] {
        let fault = sends(|driver| {
            driver.send(0, &[1; 60]);
            driver.put(driver.buffer(0) + at, &[value]);
        });
        assert_eq!(fault, Err(RingFault::Offload), "{at} {value}");
    }
}

#[test]
fn buffers_to_receive_into() {
    let offers = |all: &'static [(u32, u16)]| {
        move |driver: &Driver| {
            for (index, (len, flags)) in all.iter().enumerate() {
                let index = index as u16;
                driver.describe(0, index, one(driver.buffer(index.into()), *len, *flags, 0));
                driver.offer(0, index);
            }
        }
    };
    assert_eq!(receives(offers(&[(BUFFER_LEN, WRITE)])).map(|sent| sent.packets), Ok(1));
    // Several make one; too few wait for more.
    assert_eq!(receives(offers(&[(500, WRITE), (600, WRITE)])).map(|sent| sent.packets), Ok(1));
    assert_eq!(receives(offers(&[(500, WRITE)])).map(|sent| sent.packets), Ok(0));
    assert_eq!(receives(offers(&[(0, WRITE)])), Err(RingFault::EmptyBuffer));
    assert_eq!(receives(offers(&[(2000, 0)])), Err(RingFault::Direction));
    assert_eq!(receives(|driver| driver.set_avail_index(0, 99)), Err(RingFault::AvailJump));
}

#[test]
fn long_chains_do_not_keep_a_thread() {
    let driver = Driver::new(1024).expect("memory");
    let mut queue = queue(&driver, 1, Features::OFFERED);
    // Each of a thousand chains is a table of a thousand descriptors.
    let table = driver.buffer(0);
    let mut all = vec![one(driver.buffer(100), 12, NEXT, 1)];
    all.extend((2..1000).map(|next| one(driver.buffer(100), 1, NEXT, next)));
    all.push(one(driver.buffer(100), 1, 0, 0));
    driver.table(table, &all);
    driver.describe(1, 0, one(table, 16_000, INDIRECT, 0));
    (0..1000).for_each(|_| driver.offer(1, 0));
    let (mut batch, mut received) = (Batch::new(), Received::default());
    queue.receive((256, 0), &mut batch, &mut received).expect("it is allowed");
    assert_eq!(batch.len(), 2, "as many as have 1,024 descriptors, and the one over that");
}

#[test]
fn rings_outside_of_memory() {
    let driver = Driver::new(SIZE).expect("memory");
    let honest = driver.spec(0);
    let open = |spec: RingSpec| Ring::open(memory(&driver), &spec, true).map(drop);
    assert_eq!(open(honest), Ok(()));
    for size in [0, 3, 2048, 1 << 16, u32::MAX] {
        assert_eq!(open(RingSpec { size, ..honest }), Err(RingFault::Size), "{size}");
    }
    let MemoryPart { user, len, .. } = driver.part();
    for at in [0, user - 1, user + len, user + len - 2, u64::MAX, honest.table + 1] {
        for spec in [
            RingSpec { table: at, ..honest },
            RingSpec { avail: at, ..honest },
            RingSpec { used: at, ..honest },
        ] {
            assert_eq!(open(spec), Err(RingFault::Address), "{spec:x?}");
        }
    }
}

/// A port, its socket, and what keeps the directory.
fn port() -> (Port, PathBuf, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let port = Port::open("test", Address::Listen(path.clone())).expect("a port");
    (port, path, dir)
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn receive(port: &Port) -> Vec<Vec<u8>> {
    let mut batch = Batch::new();
    port.receiver().receive(32, 0, &mut batch);
    batch.iter().map(|packet| packet.data().to_vec()).collect()
}

fn send(port: &Port, bytes: &[u8]) -> Sent {
    let mut batch = Batch::new();
    batch.push(Packet::new(bytes).expect("memory"));
    port.sender().send(&mut batch)
}

#[test]
fn front_ends_come_and_go() {
    let (port, path, _dir) = port();
    assert!(send(&port, b"nobody").is_down);
    let mut driver = Driver::new(SIZE).expect("memory");
    for round in 1..4 {
        let mut front_end = FrontEnd::connect(&path).expect("connected");
        front_end.begin(&driver).expect("it is taken");
        wait_for("the rings", || port.status().is_ready);
        assert_eq!(port.status().connections, round);
        driver.send(0, b"from the guest");
        assert_eq!(receive(&port), [b"from the guest"]);
        assert_eq!(send(&port, b"no buffer").packets, 0);
        driver.offer_buffer(2);
        assert_eq!(send(&port, b"to the guest").packets, 1);
        wait_for("a call", || front_end.was_called(0));
        assert_eq!(driver.receive(), Some((2, b"to the guest".to_vec())));
        assert_eq!(front_end.stop_ring(1).expect("an answer"), 1);
        assert!(!port.status().is_ready);
        drop(front_end);
        wait_for("its end", || !port.status().is_connected);
        assert_eq!(port.status().last_end, "the front-end left");
        driver = Driver::new(SIZE).expect("memory");
    }
    assert_eq!(port.status().faults, 0);
    drop(port);
    assert!(!path.exists());
}

#[test]
fn memory_that_is_cut_off_ends_the_device_alone() {
    let (port, path, _dir) = port();
    let memfd = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).expect("one");
    let driver = Driver::new(SIZE).expect("memory");
    rustix::fs::ftruncate(&memfd, driver.part().len).expect("it grows");
    let mut front_end = FrontEnd::connect(&path).expect("connected");
    front_end.begin(&driver).expect("it is taken");
    front_end.share(&[driver.part()], &[memfd.as_fd()]).expect("sent");
    front_end.stop_ring(0).expect("all was done");
    wait_for("the ring", || receive(&port).is_empty() && port.status().is_connected);
    rustix::fs::ftruncate(&memfd, 0).expect("it shrinks");
    wait_for("the end", || {
        receive(&port);
        port.status().faults == 1
    });
    let end = port.status().last_end;
    assert!(end.starts_with("memory-gone") || end.starts_with("avail-jump"), "{end}");
    let mut front_end = FrontEnd::connect(&path).expect("connected");
    front_end.begin(&driver).expect("it is taken");
    driver.send(0, b"again");
    assert_eq!(receive(&port), [b"again"]);
}

#[test]
fn messages_that_are_none_end_the_connection() {
    let (port, path, _dir) = port();
    let driver = Driver::new(SIZE).expect("memory");
    let part = driver.part();
    let words = |all: &[u64]| all.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let share = |part: MemoryPart| words(&[1, part.guest, part.len, part.user, part.offset]);
    let file = tempfile::tempfile_in("/").expect("a file");
    file.set_len(part.len).expect("it grows");
    let (memory, disk) = (driver.fd(), file.as_fd());
    let cases: &[(u32, Vec<u8>, &[std::os::fd::BorrowedFd<'_>], &str)] = &[
        (99, vec![], &[], "message-unknown"),
        (2, vec![1, 2], &[], "message-length"),
        (2, words(&[1 << 33]), &[], "features"),
        (16, words(&[1]), &[], "features"),
        (8, words(&[7]), &[], "ring-number"),
        (12, words(&[0x100]), &[], "no-kick"),
        (12, words(&[0]), &[], "message-descriptors"),
        (1, vec![], &[memory], "message-descriptors"),
        (1, vec![0; 600], &[], "message-head"),
        (5, words(&[9]), &[], "memory"),
        (5, words(&[0]), &[], "memory"),
        (5, share(MemoryPart { len: 0, ..part }), &[memory], "memory"),
        (5, share(MemoryPart { len: part.len + 1, ..part }), &[memory], "memory"),
        (5, share(MemoryPart { offset: 1, ..part }), &[memory], "memory"),
        (5, share(MemoryPart { guest: u64::MAX - 1, ..part }), &[memory], "memory"),
        (5, share(MemoryPart { offset: u64::MAX, ..part }), &[memory], "memory"),
        (5, share(part), &[disk], "memory"),
    ];
    for (at, (request, body, fds, name)) in cases.iter().enumerate() {
        let mut front_end = FrontEnd::connect(&path).expect("connected");
        front_end.send(*request, body, fds).expect("sent");
        assert!(front_end.answer().is_err(), "{name}");
        wait_for("the fault", || port.status().faults == at as u64 + 1);
        let end = port.status().last_end;
        assert!(end.starts_with(&format!("{name}:")), "{request} {name}: {end}");
    }
    let mut front_end = FrontEnd::connect(&path).expect("connected");
    front_end.begin(&driver).expect("it is taken");
}

#[test]
fn kicks_that_are_no_eventfd_end_the_connection() {
    let port = Port::open("test", Address::Attached).expect("a port");
    let (listener, handle) = private_listener().expect("a socket");
    port.attach(listener);
    let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let front_end = FrontEnd::connect(Path::new(&path)).expect("a front-end");
    let file = std::fs::File::open("/dev/zero").expect("it is there");
    front_end.send(12, &[0; 8], &[file.as_fd()]).expect("sent");
    // Eight zeros are a kick; it is not looked at more often than is good.
    std::thread::sleep(Duration::from_millis(20));
    let file = std::fs::File::open("/dev/null").expect("it is there");
    front_end.send(12, &[0; 8], &[file.as_fd()]).expect("sent");
    wait_for("the end", || port.status().faults == 1);
    assert!(port.status().last_end.starts_with("no-kick"), "{:?}", port.status());
}

#[test]
fn sockets_that_cannot_be_listened_at() {
    let (_port, path, dir) = port();
    let refused = |path: &Path| {
        Port::open("test", Address::Listen(path.to_owned())).expect_err("it is refused")
    };
    assert!(refused(&path).contains("another program listens there"));
    let file = dir.path().join("file");
    std::fs::write(&file, b"x").expect("written");
    assert!(refused(&file).contains("it is no socket"));
    assert!(refused(&dir.path().join("no/socket")).contains("No such file"));
    // One that nobody listens at any more is no obstacle.
    let left = dir.path().join("left");
    drop(std::os::unix::net::UnixListener::bind(&left).expect("bound"));
    Port::open("test", Address::Listen(left)).expect("a port");
}
