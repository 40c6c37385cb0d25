//! One change of ports at a time.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::error::{CniError, Code};

/// The file that is locked. Only root can write into its directory.
const FILE: &str = "/run/thruway-cni.lock";
/// A change takes milliseconds.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// The lock; it ends with this value, and with the process however that ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for it.
    ///
    /// # Errors
    /// Another process holds it for too long; the file cannot be made.
    pub fn acquire() -> Result<Lock, CniError> {
        let failed = |error: &dyn std::fmt::Display| CniError::io(FILE, error);
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
        let file = file.open(FILE).map_err(|error| failed(&error))?;
        let begin = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(Errno::WOULDBLOCK | Errno::INTR) if begin.elapsed() < WAIT_MAX => {
                    std::thread::sleep(PAUSE);
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    let why = format!("another call has held {FILE} for {WAIT_MAX:?}");
                    return Err(CniError::new(Code::TryAgainLater, why));
                }
                Err(error) => return Err(failed(&error)),
            }
        }
    }
}
