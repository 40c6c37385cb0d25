//! Text that streams carry, and words to look for in it, from seeds: the same everywhere.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use thruway_random::Random;

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

/// Mark-up.
const TAGS: [&str; 6] =
    ["<div class=\"a\">", "</div>\r\n", "<a href=\"/b/c.html\">", "</a>", "<p>", "{\"d\": 12, "];
/// Letters, about as often as in English text.
const LETTERS: &[u8; 50] = b"eeeeeetttttaaaaoooonnnniiiissshhhrrrdddlluuccmmfwy";

fn pick<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    from[random.below(from.len() as u64) as usize]
}

/// Bytes that streams carry, [`PERIOD`] of them.
///
/// Half are such as compressed bodies and pictures have, any; the other half text of letters as
/// often as in English, with mark-up. Or all are of what the words are of (`alike`): many words
/// begin in it everywhere.
pub fn text(alike: bool) -> Vec<u8> {
    let mut random = Random::from_seed(SEED);
    let mut text = PLANTED.as_bytes().to_vec();
    while text.len() < PERIOD {
        match (alike, random.below(16)) {
            (true, _) => syllables(&mut text, &mut random),
            (false, 0) => text.extend((0..350).map(|_| random.below(256) as u8)),
            (false, 1) => text.extend(pick(&mut random, &TAGS).bytes()),
            (false, _) => letters(&mut text, &mut random),
        }
    }
    text.truncate(PERIOD);
    text
}

/// Some syllables and what stands behind them.
fn syllables(text: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        text.extend(pick(random, &SYLLABLES).bytes());
    }
    text.extend(pick(random, &JOINTS).bytes());
}

/// A few words of random letters.
fn letters(text: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..4 {
        let len = 1 + random.below(9);
        let letter = |random: &mut Random| LETTERS[random.below(LETTERS.len() as u64) as usize];
        text.extend((0..len).map(|_| letter(random)));
        text.push(b' ');
    }
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

/// Words with the lengths and beginnings that the contents of intrusion rules have: most are parts
/// of requests, some header lines, a fifth is binary. None is in the text, because each that is not
/// binary ends with a number of three digits: what is looked for is rare.
fn words(count: usize) -> Vec<Vec<u8>> {
    let mut random = Random::from_seed(SEED ^ 1);
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
        if word.is_ascii() {
            word.truncate(len - 3);
            word.extend((100 + random.below(900)).to_string().bytes());
        }
        all.insert(word);
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
        for text in [false, true].map(text) {
            let count = |word: &[u8]| text.windows(word.len()).filter(|one| *one == word).count();
            assert!(all.iter().take(20).all(|word| count(word) == 0));
            assert_eq!((text.len(), count(PLANTED.as_bytes())), (PERIOD, 1));
        }
        let dir = tempfile::tempdir().expect("a directory");
        let file = write(dir.path(), 5).expect("room");
        let lines = std::fs::read_to_string(file).expect("written");
        assert_eq!(lines.lines().count(), 5);
    }
}
