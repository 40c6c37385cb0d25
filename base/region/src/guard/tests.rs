use super::*;
use crate::{Pages, Region};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::mmap;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;

const PAGE: usize = 4096;

/// Four pages of a file that can still shrink, and the file.
fn pages() -> (*mut u8, OwnedFd) {
    let fd = memfd_create("thruway-guard", MemfdFlags::CLOEXEC).expect("a file");
    ftruncate(&fd, 4 * PAGE as u64).expect("its length");
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // JUSTIFICATION: a mapping of a file that shrinks, which a region's file cannot.
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let at = unsafe { mmap(null_mut(), 4 * PAGE, protection, MapFlags::SHARED, &fd, 0) };
    (at.expect("a mapping").cast(), fd)
}

#[test]
fn a_lost_page_is_replaced_and_its_region_marked() {
    let (at, file) = pages();
    let guard = Guard::new(at.addr(), 4 * PAGE, PAGE);
    let other = Region::new(PAGE, Pages::Normal).expect("a region").guarded();
    // JUSTIFICATION: touching a lost page is the point of this test.
    // SAFETY: within the mapping, which has no other user; the handler keeps it usable.
    unsafe { at.add(2 * PAGE).write_volatile(7) };
    assert!(!guard.is_damaged());
    ftruncate(&file, 0).expect("it shrinks");
    // SAFETY: as above.
    assert_eq!(unsafe { at.add(2 * PAGE + 5).read_volatile() }, 0);
    assert!(guard.is_damaged() && !other.is_damaged());
    // SAFETY: as above.
    unsafe { at.add(2 * PAGE + 5).write_volatile(9) };
    // SAFETY: as above.
    assert_eq!(unsafe { at.add(2 * PAGE + 5).read_volatile() }, 9);
    // SAFETY: as above: another page.
    unsafe { at.add(PAGE - 1).write_volatile(1) };
}

/// The handler is chained: a fault that is none of ours still ends the process.
#[test]
fn faults_elsewhere_are_not_swallowed() {
    const CHILD: &str = "THRUWAY_REGION_FAULT";
    if std::env::var_os(CHILD).is_none() {
        let own = std::env::current_exe().expect("this program");
        let mut child = std::process::Command::new(own);
        child.args(["--exact", "guard::tests::faults_elsewhere_are_not_swallowed"]);
        let done = child.env(CHILD, "1").output().expect("it runs");
        assert_eq!(done.status.signal(), Some(libc::SIGBUS), "{done:?}");
        return;
    }
    let region = Region::new(PAGE, Pages::Normal).expect("a region").guarded();
    let (at, file) = pages();
    ftruncate(&file, 0).expect("it shrinks");
    // JUSTIFICATION: as above.
    // SAFETY: the fault ends the process.
    unsafe { at.write_volatile(1) };
    unreachable!("{region:?}");
}

#[test]
fn entries_are_used_again_and_the_list_grows() {
    let count = || chunks().count();
    let many: Vec<Guard> = (1..=3 * CHUNK_LEN).map(|at| Guard::new(at << 40, PAGE, PAGE)).collect();
    let grown = count();
    assert!(grown >= 3);
    drop(many);
    let again: Vec<Guard> = (1..=CHUNK_LEN).map(|at| Guard::new(at << 40, PAGE, PAGE)).collect();
    assert_eq!(count(), grown);
    assert!(again.iter().all(|guard| !guard.is_damaged()));
}
