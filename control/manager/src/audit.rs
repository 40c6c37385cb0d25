//! The audit log: a line of JSON for each call of the API, in files with a bound.
//!
//! Calls of those who were not let in stand in a file of their own, so that strangers cannot push
//! out of the log what was done by others.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustix::fs::OFlags;
use serde::Serialize;

use crate::private::open_to_others;
use crate::timestamp;

/// Longest path that is kept, in bytes.
const PATH_LEN_MAX: usize = 1024;

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub struct AuditLimits {
    /// Bytes after which a file is ended.
    pub file_len_max: u64,
    /// Files that are kept beside the one that is written.
    pub older_max: u32,
}

impl AuditLimits {
    /// 40 MiB: at 200 bytes a call some 200,000 calls.
    pub const DEFAULT: AuditLimits = AuditLimits { file_len_max: 8 << 20, older_max: 4 };
}

/// One call.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// When it came.
    pub time: SystemTime,
    /// How long it took until the head of the answer.
    pub took: Duration,
    /// Who called, if it was let in: `token ci`.
    pub caller: Option<String>,
    /// The role that it has.
    pub role: Option<&'static str>,
    /// Where it called from; not for this host's processes.
    pub address: Option<std::net::IpAddr>,
    /// Method.
    pub method: &'a str,
    /// Path, without what is behind the `?`.
    pub path: &'a str,
    /// Generation that there is after a change.
    pub generation: Option<u64>,
    /// Status of the answer.
    pub status: u16,
}

/// A line of the log.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<std::net::IpAddr>,
    method: &'a str,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    status: u16,
    took_ms: u64,
}

/// The log of a state directory: `audit.log`, and `refused.log` for strangers.
#[derive(Debug)]
pub struct Audit {
    called: Mutex<Rotated>,
    refused: Mutex<Rotated>,
}

impl Audit {
    /// Opens the log of a state directory.
    ///
    /// # Errors
    /// The files cannot be made, or others could have written them.
    pub fn open(state: &Path, limits: AuditLimits) -> io::Result<Audit> {
        let open = |name| Rotated::open(state.join(name), limits).map(Mutex::new);
        Ok(Audit { called: open("audit.log")?, refused: open("refused.log")? })
    }

    /// Adds a call.
    ///
    /// # Errors
    /// The line could not be written; the log goes on with the next one.
    pub fn record(&self, call: &Call<'_>) -> io::Result<()> {
        let end = call.path.floor_char_boundary(PATH_LEN_MAX);
        let line = Line {
            time: timestamp::text(call.time),
            caller: call.caller.as_deref(),
            role: call.role,
            address: call.address,
            method: call.method,
            path: &call.path[..end],
            generation: call.generation,
            status: call.status,
            took_ms: u64::try_from(call.took.as_millis()).unwrap_or(u64::MAX),
        };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        let log = if call.caller.is_some() { &self.called } else { &self.refused };
        log.lock().write(&text)
    }
}

/// A file that gives way to a new one when it is full.
#[derive(Debug)]
struct Rotated {
    path: PathBuf,
    limits: AuditLimits,
    file: File,
    len: u64,
}

impl Rotated {
    fn open(path: PathBuf, limits: AuditLimits) -> io::Result<Rotated> {
        let at =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let file = open_private(&path).map_err(at)?;
        let found = file.metadata().map_err(at)?;
        if let Some(why) = open_to_others(&found) {
            return Err(at(io::Error::new(io::ErrorKind::PermissionDenied, why)));
        }
        let len = found.len();
        Ok(Rotated { path, limits, file, len })
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.len > 0 && self.len + line.len() as u64 > self.limits.file_len_max {
            self.rotate()?;
        }
        // One write, so that a kill leaves no half of a line.
        self.file.write_all(line)?;
        self.len += line.len() as u64;
        Ok(())
    }

    /// `audit.log` becomes `audit.log.1`, that one `audit.log.2`, and so on.
    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..self.limits.older_max).rev() {
            match std::fs::rename(self.older(number), self.older(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        std::fs::rename(&self.path, self.older(1))?;
        self.file = open_private(&self.path)?;
        self.len = 0;
        Ok(())
    }

    fn older(&self, number: u32) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    }
}

/// Opens a file to write at its end, over no link.
fn open_private(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn call(path: &str, caller: Option<&str>) -> Call<'static> {
        Call {
            time: SystemTime::UNIX_EPOCH,
            took: Duration::from_millis(3),
            caller: caller.map(str::to_owned),
            role: caller.map(|_| "view"),
            address: None,
            method: "GET",
            path: Box::leak(path.to_owned().into_boxed_str()),
            generation: Some(2),
            status: 200,
        }
    }

    fn lines(path: &Path) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(path).expect("a log");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    #[test]
    fn a_call_is_a_line_and_strangers_have_a_file_of_their_own() {
        let dir = tempfile::tempdir().expect("a directory");
        let audit = Audit::open(dir.path(), AuditLimits::DEFAULT).expect("a log");
        audit.record(&call("/v1/\"\n", Some("token ci"))).expect("room");
        audit.record(&call(&"\u{e9}".repeat(PATH_LEN_MAX), None)).expect("room");
        let expected = serde_json::json!([{"time": "1970-01-01T00:00:00.000Z", "caller": "token ci",
            "role": "view", "method": "GET", "path": "/v1/\"\n", "generation": 2, "status": 200,
            "took_ms": 3}]);
        assert_eq!(serde_json::Value::from(lines(&dir.path().join("audit.log"))), expected);
        let refused = lines(&dir.path().join("refused.log"));
        assert!(refused[0]["path"].as_str().expect("a path").len() <= PATH_LEN_MAX);
        let mode = std::fs::metadata(dir.path().join("audit.log")).expect("made").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }

    #[test]
    fn the_log_has_a_bound_and_goes_on_after_a_restart() {
        let dir = tempfile::tempdir().expect("a directory");
        let limits = AuditLimits { file_len_max: 1000, older_max: 2 };
        for number in 0..100 {
            let audit = Audit::open(dir.path(), limits).expect("a log");
            audit.record(&call(&format!("/{number}"), Some("uid 0"))).expect("room");
        }
        let files = ["audit.log.2", "audit.log.1", "audit.log"].map(|name| dir.path().join(name));
        let last: Vec<_> = files.iter().flat_map(|file| lines(file)).collect();
        let len: u64 = files.iter().map(|file| file.metadata().expect("a file").len()).sum();
        assert!(len <= 3000 && !dir.path().join("audit.log.3").exists());
        // Nothing between is missing.
        let first = 100 - last.len();
        assert!(first < 90);
        for (at, line) in last.iter().enumerate() {
            assert_eq!(line["path"], format!("/{}", first + at));
        }
    }

    #[test]
    fn a_log_that_others_could_have_written_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit.log");
        std::fs::write(&path, "").expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("set");
        let error = Audit::open(dir.path(), AuditLimits::DEFAULT).expect_err("open to others");
        assert!(error.to_string().contains("chmod 600"), "{error}");
        std::fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink("/tmp/elsewhere", &path).expect("a link");
        assert!(Audit::open(dir.path(), AuditLimits::DEFAULT).is_err());
    }
}
