//! The machine's serial port to its host.

use std::fs::{File, OpenOptions, read_dir, read_to_string};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thruway_nf_abi::machine::{FRAME_HEAD_LEN, Frame, PORT_NAME};

/// Where the kernel lists ports.
const PORTS: &str = "/sys/class/virtio-ports";

/// Looks for the port, and the time between two: its driver may still be at work.
const LOOKS: u32 = 100;
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The port: any thread sends, one receives.
#[derive(Debug, Clone)]
pub struct Port {
    file: Arc<Mutex<File>>,
}

impl Port {
    /// Opens the port of this name, and what reads of it.
    pub fn open() -> io::Result<(Port, File)> {
        let mut found = find(Path::new(PORTS));
        for _ in 0..LOOKS {
            if found.is_some() {
                break;
            }
            std::thread::sleep(LOOK_AGAIN);
            found = find(Path::new(PORTS));
        }
        let none = || io::Error::other(format!("this machine has no serial port {PORT_NAME}"));
        let file = OpenOptions::new().read(true).write(true).open(found.ok_or_else(none)?)?;
        let reader = file.try_clone()?;
        Ok((Port { file: Arc::new(Mutex::new(file)) }, reader))
    }

    /// Sends a frame.
    pub fn send(&self, frame: Frame, body: &[u8]) -> io::Result<()> {
        let bytes = [&frame.head(body.len() as u32)[..], body].concat();
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&bytes)
    }
}

/// The next frame.
pub fn receive(from: &mut impl Read) -> io::Result<(Frame, Vec<u8>)> {
    let mut head = [0; FRAME_HEAD_LEN];
    from.read_exact(&mut head)?;
    let no_frame = || io::Error::other("what the host sent is no frame of this version");
    let (frame, len) = Frame::parse(head).ok_or_else(no_frame)?;
    let mut body = vec![0; len];
    from.read_exact(&mut body)?;
    Ok((frame, body))
}

/// The device of the port with the agreed name.
fn find(ports: &Path) -> Option<PathBuf> {
    let mut all = read_dir(ports).ok()?.flatten();
    let port = all.find(|port| {
        read_to_string(port.path().join("name")).is_ok_and(|name| name.trim() == PORT_NAME)
    })?;
    Some(Path::new("/dev").join(port.file_name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_found_by_its_name() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(find(dir.path()), None);
        for (port, name) in [("vport0p0", "other\n"), ("vport0p1", "thruway.control\n")] {
            std::fs::create_dir(dir.path().join(port)).expect("made");
            std::fs::write(dir.path().join(port).join("name"), name).expect("written");
        }
        assert_eq!(find(dir.path()), Some("/dev/vport0p1".into()));
    }

    #[test]
    fn frames_are_read_whole_or_not_at_all() {
        let mut bytes = Frame::Wake.head(4).to_vec();
        bytes.extend([1, 0, 0, 0]);
        assert_eq!(receive(&mut &bytes[..]).expect("whole"), (Frame::Wake, vec![1, 0, 0, 0]));
        assert!(receive(&mut &bytes[..7]).is_err() && receive(&mut &bytes[..11]).is_err());
        assert!(receive(&mut &[0xff; 20][..]).is_err());
    }
}
