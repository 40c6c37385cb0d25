//! The output of a data plane, as far as it is kept.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Result, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::files::{open, options, replace};
use crate::LogPart;

/// A file that is cut when it is longer than a bound, with the last part of what was cut in a
/// second file. Positions count all bytes since the older file's first, also those that are not
/// kept any more, from where they begin.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    /// Bytes of both files together.
    max: u64,
    /// Position of the first byte.
    begin: u64,
    /// Position of the first byte of the newer file. Who has the lock sees the files as they are
    /// between two cuts.
    cut: Mutex<u64>,
}

impl Log {
    /// A log at `path`, its older part at `path` with `.1`, whose positions begin at `begin`.
    pub(super) fn new(path: PathBuf, max: u64, begin: u64) -> Log {
        let log = Log { path, max, begin, cut: Mutex::default() };
        *log.cut.lock() = begin.saturating_add(len(&log.older()));
        log
    }

    /// The file of the older part.
    pub(super) fn older(&self) -> PathBuf {
        self.path.with_extension("1")
    }

    /// For a process to write at its end.
    ///
    /// # Errors
    /// It cannot be made, or another user could have written it.
    pub(super) fn open(&self) -> Result<File> {
        open(&self.path, options().append(true).create(true))
    }

    /// Position of what is written next.
    pub(super) fn end(&self) -> u64 {
        *self.cut.lock() + len(&self.path)
    }

    /// Cuts it where it is longer than half of the bound. Lines that are written meanwhile may be
    /// lost.
    ///
    /// # Errors
    /// The file system refuses.
    pub(super) fn cut(&self) -> Result<()> {
        let half = self.max / 2;
        if len(&self.path) <= half {
            return Ok(());
        }
        let mut cut = self.cut.lock();
        let mut file = open(&self.path, options().read(true).write(true))?;
        let end = file.seek(SeekFrom::End(0))?;
        let last = read_range(&mut file, end.saturating_sub(half), half)?;
        replace(&self.older(), if end > half { whole_lines(&last) } else { &last })?;
        file.set_len(0)?;
        *cut += end;
        Ok(())
    }

    /// The files are about to be removed: positions go on behind what they have.
    pub(super) fn forget(&self) {
        let end = self.end();
        *self.cut.lock() = end;
    }

    /// What was written from a position on (0: from the first byte on), at most its last `max`
    /// bytes, and then from the beginning of a line on.
    ///
    /// # Errors
    /// It cannot be read, or another user could have written it.
    pub(super) fn part(&self, from: u64, max: u64) -> Result<LogPart> {
        let cut = self.cut.lock();
        let newer_len = len(&self.path);
        let end = *cut + newer_len;
        // Of an earlier log of this path.
        let is_other = (1..self.begin).contains(&from);
        let from = from.max(self.begin).min(end);
        let wanted = (end - from).min(max);
        let mut text = read_last(&self.older(), wanted.saturating_sub(newer_len))?;
        text.extend(read_last_of(&self.path, newer_len, wanted.min(newer_len))?);
        let is_cut = is_other || (text.len() as u64) < end - from;
        if end - from > max {
            text = whole_lines(&text).to_vec();
        }
        Ok(LogPart { text, next: end, is_cut })
    }

    /// The same as text, empty where it cannot be read.
    pub(super) fn since(&self, start: u64, max: u64) -> String {
        let part = self.part(start, max).unwrap_or_default();
        String::from_utf8_lossy(&part.text).trim().to_owned()
    }
}

/// Bytes that a file has.
fn len(path: &Path) -> u64 {
    path.symlink_metadata().map_or(0, |found| found.len())
}

/// The last bytes of a file, which may be missing.
fn read_last(path: &Path, count: u64) -> Result<Vec<u8>> {
    read_last_of(path, len(path), count)
}

/// The last ones of the first `len` bytes of a file, which may be missing.
fn read_last_of(path: &Path, len: u64, count: u64) -> Result<Vec<u8>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    match open(path, options().read(true)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
        Ok(mut file) => read_range(&mut file, len.saturating_sub(count), count.min(len)),
    }
}

fn read_range(file: &mut File, start: u64, count: u64) -> Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(count).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A text without the line that it begins in; all of it where there is no other line.
fn whole_lines(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
    end.filter(|end| *end < text.len()).map_or(text, |end| &text[end..])
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn dir() -> tempfile::TempDir {
        tempfile::tempdir().expect("a directory")
    }

    #[test]
    fn a_log_has_a_bound_and_keeps_what_came_last() {
        let dir = dir();
        let log = Log::new(dir.path().join("log"), 2000, 0);
        let mut file = log.open().expect("room");
        for number in 0..1000 {
            writeln!(file, "line {number}").expect("room");
        }
        let mark = log.end();
        log.cut().expect("room");
        assert_eq!(log.end(), mark);
        assert!(len(&log.path) + len(&log.older()) <= 2000);
        let older = std::fs::read_to_string(log.older()).expect("text");
        assert!(older.starts_with("line 889\n") && older.ends_with("line 999\n"), "{older}");
        // Who has it open goes on at its end.
        writeln!(file, "next").expect("room");
        assert_eq!(log.since(mark, 100), "next");
        assert_eq!(log.since(0, 20), "line 999\nnext");
        assert_eq!(log.since(0, 3), "xt");
        // The next manager finds the same.
        let again = Log::new(dir.path().join("log"), 2000, 0);
        let part = again.part(0, 5000).expect("read");
        assert_eq!((part.text, part.is_cut), ((older + "next\n").into_bytes(), false));
        std::fs::remove_file(log.older()).expect("ours");
        assert_eq!(log.part(0, 5000).expect("read").text, b"next\n");
        log.forget();
        std::fs::remove_file(&log.path).expect("ours");
        writeln!(log.open().expect("room"), "new").expect("room");
        let part = log.part(mark + 5, 100).expect("read");
        assert_eq!((part.text, part.is_cut), (b"new\n".to_vec(), false));
    }

    #[test]
    fn a_log_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = dir();
        let log = Log::new(dir.path().join("log"), 2000, 0);
        assert_eq!(log.part(0, 100).expect("no file"), LogPart::default());
        writeln!(log.open().expect("room"), "line").expect("room");
        let open = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(&log.path, open).expect("ours");
        let refused = log.part(0, 100).expect_err("open to others").to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
        assert_eq!(log.since(0, 100), "");
    }

    proptest! {
        /// A reader that goes on where it ended gets all bytes in order, or is told that some are
        /// not kept.
        #[test]
        fn a_reader_gets_each_byte_once(
            steps in prop::collection::vec((0usize..60, any::<bool>(), any::<bool>()), 1..60),
            max in 1u64..200,
        ) {
            let dir = dir();
            let log = Log::new(dir.path().join("log"), 200, 0);
            let mut file = log.open().expect("room");
            let (mut written, mut at) = (Vec::new(), 0);
            for (count, cuts, reads) in steps {
                for _ in 0..count {
                    let letter = b"abcdefghijk"[written.len() % 11];
                    let byte = if written.len() % 7 == 6 { b'\n' } else { letter };
                    file.write_all(&[byte]).expect("room");
                    written.push(byte);
                }
                if cuts {
                    log.cut().expect("room");
                }
                if reads {
                    let part = log.part(at, max).expect("read");
                    prop_assert_eq!(part.next, written.len() as u64);
                    prop_assert!(part.text.len() as u64 <= max);
                    prop_assert!(written.ends_with(&part.text));
                    let asked = part.next - at;
                    match part.is_cut {
                        // Half of the bound is kept, but for the line that it begins in.
                        true => prop_assert!(asked > max.min(100 - 7)),
                        false => prop_assert_eq!(part.text.len() as u64, asked),
                    }
                    at = part.next;
                }
            }
        }
    }
}
