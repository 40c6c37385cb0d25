//! Words as a user writes them.

use std::sync::OnceLock;

use thruway_element::text::unquote;
use thruway_inspect::patterns::Words;

/// Longest word, bytes: as much of a session and direction may be held back.
pub(super) const WORD_LEN_MAX: usize = 4_096;
/// Longest file, bytes.
const FILE_MAX: u64 = 64 << 20;

/// Words, ready to be looked for.
pub(super) struct List {
    pub(super) words: Words,
    pub(super) names: Vec<Vec<u8>>,
    /// Distinguishes lists (not 0).
    pub(super) number: u32,
}

/// The requested words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) words: Vec<Vec<u8>>,
    pub(super) file: Option<String>,
    pub(super) nocase: bool,
}

/// A list that is made once for all threads.
pub(super) type Shared = OnceLock<Result<std::sync::Arc<List>, String>>;

impl Wanted {
    /// Reads the file and makes the list.
    ///
    /// # Errors
    /// The file cannot be read, or a word cannot be looked for.
    pub(super) fn make(&self) -> Result<List, String> {
        let mut names = self.words.clone();
        if let Some(file) = &self.file {
            names.extend(read(file).map_err(|error| format!("FILE {file}: {error}"))?);
        }
        if names.is_empty() {
            return Err("there is no word to look for: write WORD or FILE".to_owned());
        }
        let long = names.iter().position(|word| word.len() > WORD_LEN_MAX);
        if let Some(at) = long {
            let len = names[at].len();
            return Err(format!("word {} has {len} bytes; at most {WORD_LEN_MAX}", at + 1));
        }
        let words = Words::new(&names, self.nocase).map_err(|error| error.to_string())?;
        let number = number(&names, self.nocase);
        Ok(List { words, names, number })
    }
}

/// A line is a word: as it stands, or quoted; empty lines and those that begin with # are none.
fn read(file: &str) -> Result<Vec<Vec<u8>>, String> {
    let len = std::fs::metadata(file).map_err(|error| error.to_string())?.len();
    if len > FILE_MAX {
        return Err(format!("it has {len} bytes; at most {FILE_MAX}"));
    }
    let bytes = std::fs::read(file).map_err(|error| error.to_string())?;
    let lines = bytes.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let words = lines.filter(|line| !line.is_empty() && line[0] != b'#');
    Ok(words.map(word).collect())
}

fn word(line: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(line) {
        Ok(text) if text.starts_with(['"', '\'']) || text.starts_with("\\<") => unquote(text),
        _ => line.to_vec(),
    }
}

/// FNV-1a, 32 bits (draft-eastlake-fnv section 2).
pub(super) fn number(names: &[Vec<u8>], nocase: bool) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let lens = |word: &Vec<u8>| (word.len() as u32).to_le_bytes();
    let all = names.iter().flat_map(|word| lens(word).into_iter().chain(word.iter().copied()));
    all.chain([u8::from(nocase)]).fold(0x811c_9dc5, step).max(1)
}
