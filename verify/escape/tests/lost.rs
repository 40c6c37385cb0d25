//! Memory that a function shares with its host is lost: the host's thread goes on, the function is
//! started again with new memory.

use std::path::Path;
use std::time::{Duration, Instant};

use thruway_exchange::{Master, PeerFault, SlotTag, Tuning};
use thruway_hostile::storm::{OUTPUTS, spec};
use thruway_nf_host::{Function, HostLink};
use thruway_region::Region;

const SOON: Duration = Duration::from_secs(20);

/// Takes all pages of a region away, so that touching one is SIGBUS: by userfaultfd(2), since the
/// seals let nothing else do it. False where the kernel has none.
fn lose(region: &Region) -> bool {
    const USER_MODE_ONLY: i32 = 1;
    const API: [u64; 3] = [0xaa, 1 << 7, 0]; // UFFD_FEATURE_SIGBUS
    const MISSING: u64 = 1;
    let range = [region.as_ptr().as_ptr().addr() as u64, region.len() as u64, MISSING, 0];
    // JUSTIFICATION: no safe call for userfaultfd.
    // SAFETY: takes flags; the ioctls write to the arrays that they are given, of the lengths in
    // their numbers. The descriptor stays open for the rest of the test.
    unsafe {
        let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | USER_MODE_ONLY) as i32;
        let mut api = API;
        let mut range = range;
        if fd < 0
            || libc::ioctl(fd, 0xc018_aa3f, &raw mut api) != 0
            || libc::ioctl(fd, 0xc020_aa00, &raw mut range) != 0
        {
            return false;
        }
    }
    let at = region.as_ptr().as_ptr().cast();
    // JUSTIFICATION: taking pages away is the point.
    // SAFETY: nobody borrows a region's bytes; the handler puts others in their place.
    unsafe { libc::madvise(at, region.len(), libc::MADV_REMOVE) == 0 }
}

fn link(function: &Function) -> (HostLink, Master<thruway_exchange::Mapped>) {
    let end = Instant::now() + SOON;
    loop {
        if let Some(link) = function.take_link(0) {
            let master = Master::new(link.link.clone(), OUTPUTS, Tuning::DEFAULT);
            return (link, master);
        }
        assert!(Instant::now() < end, "{:?}", function.status());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends packets until one is back, or there is a fault.
fn fault(link: &HostLink, master: &mut Master<thruway_exchange::Mapped>) -> Option<PeerFault> {
    let end = Instant::now() + SOON;
    loop {
        let _ = master.put(SlotTag::NONE, &[1; 100]);
        master.publish(&link.doorbell, 0);
        match master.poll(0, u32::MAX, |_| ()) {
            Ok(0) => assert!(Instant::now() < end, "it gives nothing back"),
            Ok(_) => return None,
            Err(fault) => return Some(fault),
        }
    }
}

#[test]
fn a_lost_page_ends_the_function_and_nothing_else() {
    let program = Path::new(env!("CARGO_BIN_EXE_escape"));
    let function = Function::start(spec(program, &["role", "neighbour"])).expect("it starts");
    let (host, mut master) = link(&function);
    assert_eq!(fault(&host, &mut master), None);
    if !lose(host.link.region()) {
        eprintln!("SKIPPED: lost pages: this kernel has no userfaultfd");
        return;
    }
    assert_eq!(fault(&host, &mut master), Some(PeerFault::Memory));
    function.report_fault(host.generation, PeerFault::Memory);
    let end = Instant::now() + SOON;
    while function.generation() == host.generation || function.generation() == 0 {
        assert!(Instant::now() < end, "it is not started again: {:?}", function.status());
        std::thread::sleep(Duration::from_millis(1));
    }
    let (again, mut master) = link(&function);
    assert_eq!(fault(&again, &mut master), None);
    let end = function.status().last_end.unwrap_or_default();
    assert!(end.contains("memory that it shares with its host is gone"), "{end}");
}
