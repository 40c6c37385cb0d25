//! A capture on a file system that fills up.

use crate::hosts::privileged;
use std::process::Command;
use std::thread;
use thruway_port::CaptureError;
use thruway_port::capture::{CaptureWriter, FileFormat, Trace, WriterOptions};

const FORMATS: [FileFormat; 3] = [FileFormat::PcapMicro, FileFormat::PcapNano, FileFormat::Pcapng];

#[test]
fn a_full_disk_leaves_a_whole_capture() {
    if !privileged("a_full_disk_leaves_a_whole_capture") {
        return;
    }
    thread::spawn(|| {
        // JUSTIFICATION: a test needs it, and the standard library does not offer it.
        // SAFETY: changes this thread's view of the file systems only.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0, "unshare");
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().to_str().expect("plain text");
        run("mount --make-rprivate /");
        run(&format!("mount -t tmpfs -o size=300k thruway-test {path}"));
        for format in FORMATS {
            fill(&format!("{path}/full.pcap"), format);
        }
        // Lazily: a process that another test begins has what is open here until its program runs.
        run(&format!("umount --lazy {path}"));
    })
    .join()
    .expect("no panic");
}

fn run(command: &str) {
    let mut words = command.split_whitespace();
    let program = words.next().expect("a program");
    let status = Command::new(program).args(words).status().expect("installed");
    assert!(status.success(), "{command}");
}

fn fill(path: &str, format: FileFormat) {
    let options = WriterOptions { format, ..WriterOptions::default() };
    let mut writer = CaptureWriter::create(path, &options).expect("room for a header");
    let mut frames = 0_u64..100_000;
    let error = frames.find_map(|i| writer.write(i, &[i as u8; 999], 999).err());
    let error = error.expect("100 MB do not fit");
    let text = error.to_string();
    assert!(text.contains(path), "{text}");
    let CaptureError::Write { bytes, records, .. } = error else { panic!("{text}") };
    drop(writer);
    assert_eq!(std::fs::metadata(path).expect("there").len(), bytes);
    let trace = Trace::load(path, usize::MAX).expect("readable");
    assert!(trace.damage().is_none(), "{:?}", trace.damage());
    assert_eq!(trace.len() as u64, records);
    assert!(records > 200, "{records} records in 300 kB");
    std::fs::remove_file(path).expect("there");
}
