//! Text that streams carry, and words to look for in it, from seeds: the same everywhere.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use thruway_lpm::synthetic::Random;

const SEED: u64 = 20_261_122;

/// A word that the text has, once in [`PERIOD`] bytes.
pub const PLANTED: &str = "thruway-planted-word";
/// Bytes of text until it begins anew.
pub const PERIOD: usize = 64 * 1_400;

/// What texts and words are made of.
const SYLLABLES: [&str; 24] = [
    "con", "ser", "ver", "ad", "min", "user", "pass", "log", "in", "cgi", "php", "get", "post",
    "id", "ex", "ec", "sel", "ect", "un", "ion", "host", "file", "path", "data",
];
const JOINTS: [&str; 12] = [" ", " ", " ", "/", "=", "&", ".", "-", "\r\n", ": ", "<", ">"];

fn pick<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    from[random.below(from.len() as u64) as usize]
}

/// Text as of the web: syllables and what stands between them; of the same alphabet as the words,
/// so that many begin in it and few are found.
pub fn text() -> Vec<u8> {
    let mut random = Random::new(SEED);
    let mut text = String::with_capacity(PERIOD + 16);
    text.push_str(PLANTED);
    while text.len() < PERIOD {
        for _ in 0..1 + random.below(3) {
            text.push_str(pick(&mut random, &SYLLABLES));
        }
        text.push_str(pick(&mut random, &JOINTS));
    }
    text.truncate(PERIOD);
    text.into_bytes()
}

/// A file with so many words; [`PLANTED`] is the first.
pub fn write(dir: &Path, count: usize) -> anyhow::Result<PathBuf> {
    let mut text = format!("{PLANTED}\n");
    for word in words(count - 1) {
        // In hexadecimal, as a configuration writes any bytes.
        let bytes: String = word.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "\\<{bytes}>")?;
    }
    let file = dir.join(format!("words-{count}"));
    std::fs::write(&file, text)?;
    Ok(file)
}

/// Words with the lengths and beginnings that the contents of intrusion rules have: most are parts of
/// requests, some header lines, a fifth is binary. None is in the text: what is looked for is rare.
fn words(count: usize) -> Vec<Vec<u8>> {
    let mut random = Random::new(SEED ^ 1);
    let text = String::from_utf8_lossy(&text()).into_owned();
    let mut all = std::collections::BTreeSet::new();
    while all.len() < count {
        let len = match random.below(10) {
            0..2 => 4 + random.below(5),
            2..6 => 9 + random.below(8),
            6..9 => 17 + random.below(16),
            _ => 33 + random.below(32),
        } as usize;
        let mut word = match random.below(20) {
            0..4 => (0..len).map(|_| random.below(256) as u8).collect(),
            4..9 => b"User-Agent: ".to_vec(),
            9..15 => b"/".to_vec(),
            _ => Vec::new(),
        };
        while word.len() < len {
            word.extend(pick(&mut random, &SYLLABLES).bytes());
            match random.below(3) {
                0 => word.extend(pick(&mut random, &JOINTS).bytes()),
                1 => word.extend(random.below(1000).to_string().bytes()),
                _ => {}
            }
        }
        word.truncate(len);
        if !std::str::from_utf8(&word).is_ok_and(|word| text.contains(word)) {
            all.insert(word);
        }
    }
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_many_as_wanted_and_the_planted_one_is_there_once() {
        let all = words(2_000);
        assert_eq!(all.len(), 2_000);
        assert!(all.iter().all(|word| (4..=64).contains(&word.len())));
        let text = text();
        let is_there = |word: &Vec<u8>| text.windows(word.len()).any(|place| place == word);
        assert!(!all.iter().take(20).any(is_there));
        let found = text.windows(PLANTED.len()).filter(|place| *place == PLANTED.as_bytes());
        assert_eq!((text.len(), found.count()), (PERIOD, 1));
        let dir = tempfile::tempdir().expect("a directory");
        let file = write(dir.path(), 5).expect("room");
        let lines = std::fs::read_to_string(file).expect("written");
        assert_eq!(lines.lines().count(), 5);
    }
}
