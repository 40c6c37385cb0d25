//! What the system says of itself in files: under `/`, or under a tree that a test made.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use thruway_element::text::numbers;

/// Most bytes that are read of one file, and most entries of one directory.
const FILE_MAX: u64 = 256 * 1024;
const ENTRIES_MAX: usize = 4096;

/// A system's files.
pub struct Host {
    root: PathBuf,
}

impl Host {
    /// The system with its root here.
    pub fn new(root: &Path) -> Host {
        Host { root: root.to_owned() }
    }

    /// Whether it is this system, which can be asked by other means too.
    pub fn is_here(&self) -> bool {
        self.root == Path::new("/")
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Whether there is such a file or directory.
    pub fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// A file's text, whatever bytes it has.
    pub fn text(&self, path: &str) -> Option<String> {
        let path = self.path(path);
        // Reading a pipe or a device in an artificial tree would block.
        if !std::fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).ok()?;
        file.take(FILE_MAX).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A file of one line.
    pub fn line(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        Some(plain(text.lines().next().unwrap_or("").trim()))
    }

    /// A file that holds a number.
    pub fn number(&self, path: &str) -> Option<i64> {
        self.line(path)?.parse().ok()
    }

    /// What follows `key` and a colon in a file.
    pub fn field(&self, path: &str, key: &str) -> Option<String> {
        let text = self.text(path)?;
        let mut fields = text.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(name, _)| name.trim() == key).map(|(_, value)| plain(value.trim()))
    }

    /// The names in a directory, sorted; none where there is none.
    pub fn list(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(path)) else { return Vec::new() };
        let names = entries.flatten().take(ENTRIES_MAX);
        let mut names: Vec<String> =
            names.map(|entry| plain(&entry.file_name().to_string_lossy())).collect();
        // eth10 after eth9.
        names.sort_by(|a, b| word_and_number(a).cmp(&word_and_number(b)));
        names
    }

    /// The last part of what a symbolic link points at.
    pub fn link(&self, path: &str) -> Option<String> {
        let target = std::fs::read_link(self.path(path)).ok()?;
        Some(plain(&target.file_name()?.to_string_lossy()))
    }

    /// The processors that a file lists, as `0-3,8`.
    pub fn processors(&self, path: &str) -> Option<Vec<usize>> {
        ranges(&self.line(path)?)
    }
}

fn word_and_number(name: &str) -> (&str, u64) {
    let word = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (word, name[word.len()..].parse().unwrap_or(0))
}

/// Without what would change a terminal.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).take(400).collect()
}

/// Largest number of a processor that is believed.
const PROCESSOR_MAX: usize = 65_535;

/// Numbers as `0-3,8`, or none at all; `None` for what is no such list.
pub fn ranges(text: &str) -> Option<Vec<usize>> {
    if text.is_empty() { Some(Vec::new()) } else { numbers(text, PROCESSOR_MAX) }
}

/// The reverse of [`ranges`].
pub use thruway_engine::ranges as shown;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(ranges("0-3,8\n".trim()), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(ranges(""), Some(vec![]));
        for odd in ["x", "3-1", "0-99999999999", "-", "1-2-3"] {
            assert_eq!(ranges(odd), None, "{odd}");
        }
        assert_eq!(shown(&[0, 1, 2, 3, 8]), "0-3,8");
    }

    #[test]
    fn what_is_not_there_is_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let host = Host::new(dir.path());
        assert!(!host.is_here() && !host.has("proc"));
        assert_eq!((host.text("proc/version"), host.list("sys")), (None, vec![]));
        for name in ["eth10", "eth9", "lo"] {
            std::fs::create_dir(dir.path().join(name)).expect("a directory");
        }
        assert_eq!(host.list(""), ["eth9", "eth10", "lo"]);
        std::fs::write(dir.path().join("odd"), [0xff, 0x1b, b'[', b'\n', b'1']).expect("a file");
        assert_eq!(host.line("odd").as_deref(), Some("\u{fffd}?["));
        assert_eq!(host.number("odd"), None);
    }
}
