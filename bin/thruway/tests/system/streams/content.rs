//! What connections carry: streams of bytes that a seed determines, and what is to come of them.

use thruway_random::Random;

/// A word for functions to look for. Its beginning occurs in it again, so that who has seen
/// `NANANANA` may not forget all of it.
pub const WORD: &str = "NANANAS";
/// A second word, that begins as the first one ends.
pub const OTHER: &str = "SOUP";

/// Bytes that a [`Source`] makes at once.
const BLOCK: usize = 1 << 16;

/// A stream: noise, with words at random places.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    pub seed: u64,
    /// Bytes of it.
    pub len: u64,
    /// Bytes of noise between two words, on average.
    pub gap: usize,
}

/// The bytes of a [`Stream`].
pub struct Source {
    random: Random,
    gap: usize,
    /// Bytes that are not made yet.
    left: u64,
    block: Vec<u8>,
    at: usize,
}

impl Source {
    /// From its beginning.
    pub fn new(stream: Stream) -> Source {
        let random = Random::from_seed(stream.seed);
        Source { random, gap: stream.gap, left: stream.len, block: Vec::new(), at: 0 }
    }

    /// What comes next; empty at the end.
    pub fn peek(&mut self) -> &[u8] {
        if self.at == self.block.len() && self.left > 0 {
            self.make();
        }
        &self.block[self.at..]
    }

    /// Goes on by `len` bytes of those that [`Source::peek`] gave.
    pub fn advance(&mut self, len: usize) {
        self.at += len;
    }

    /// Makes the next block. The last one may end within a word.
    fn make(&mut self) {
        self.block.clear();
        self.at = 0;
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        while self.block.len() < BLOCK.min(left) {
            self.make_noise();
            self.make_word();
        }
        self.block.truncate(left);
        self.left -= self.block.len() as u64;
    }

    fn make_noise(&mut self) {
        let len = self.random.index(2 * self.gap);
        for _ in 0..len / 8 {
            self.block.extend(self.random.next_u64().to_le_bytes());
        }
        let rest = self.random.next_u64().to_le_bytes();
        self.block.extend(&rest[..len % 8]);
    }

    /// A word, something that begins like one, or both.
    fn make_word(&mut self) {
        let word = if self.random.index(4) == 0 { OTHER } else { WORD }.as_bytes();
        let part = &word[..1 + self.random.index(word.len() - 1)];
        match self.random.index(8) {
            0 => self.block.extend([part, word].concat()),
            1 => self.block.extend([word, word].concat()),
            2 => self.block.extend([word, OTHER.as_bytes()].concat()),
            3 => self.block.extend(part),
            _ => self.block.extend(word),
        }
    }
}

/// What a function makes of a stream: each `word` that is met, from the beginning, becomes `with`.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    pub word: &'static str,
    pub with: &'static str,
}

/// An [`Edit`] under way.
struct Editor {
    edit: Edit,
    /// What is not decided yet: the beginning of a word.
    kept: Vec<u8>,
}

impl Editor {
    fn edit(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let word = self.edit.word.as_bytes();
        self.kept.extend(bytes);
        let mut rest = &self.kept[..];
        loop {
            let skip = rest.iter().position(|byte| *byte == word[0]).unwrap_or(rest.len());
            out.extend(&rest[..skip]);
            rest = &rest[skip..];
            if rest.len() < word.len() {
                break;
            }
            let (taken, made) = match rest.starts_with(word) {
                true => (word.len(), self.edit.with.as_bytes()),
                false => (1, &rest[..1]),
            };
            out.extend(made);
            rest = &rest[taken..];
        }
        let left = rest.len();
        self.kept.drain(..self.kept.len() - left);
    }

    fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.kept)
    }
}

/// What is to arrive of a [`Stream`] behind functions, in their order.
pub struct Expected {
    source: Source,
    editors: Vec<Editor>,
    ready: Vec<u8>,
    at: usize,
    /// Bytes that arrived and were as expected.
    pub matched: u64,
}

impl Expected {
    /// From its beginning.
    pub fn new(stream: Stream, edits: &[Edit]) -> Expected {
        let editors = edits.iter().map(|edit| Editor { edit: *edit, kept: Vec::new() }).collect();
        let source = Source::new(stream);
        Expected { source, editors, ready: Vec::new(), at: 0, matched: 0 }
    }

    /// Takes bytes that arrived; an error reports where they differ.
    pub fn check(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            let ready = self.ready();
            let len = ready.len().min(bytes.len());
            if len == 0 {
                return Err(format!("{} bytes too many: {}", bytes.len(), show(bytes)));
            }
            if ready[..len] != bytes[..len] {
                return Err(self.difference(bytes));
            }
            self.at += len;
            self.matched += len as u64;
            bytes = &bytes[len..];
        }
        Ok(())
    }

    /// Whether all has arrived.
    pub fn is_complete(&mut self) -> bool {
        self.ready().is_empty()
    }

    /// What is expected next; empty at the end.
    fn ready(&mut self) -> &[u8] {
        while self.at == self.ready.len() {
            self.at = 0;
            let mut bytes = self.source.peek().to_vec();
            self.source.advance(bytes.len());
            let is_last = bytes.is_empty();
            for editor in &mut self.editors {
                let mut out = Vec::with_capacity(bytes.len() * 2);
                editor.edit(&bytes, &mut out);
                if is_last {
                    out.extend(editor.finish());
                }
                bytes = out;
            }
            self.ready = bytes;
            if is_last {
                break;
            }
        }
        &self.ready[self.at..]
    }

    fn difference(&mut self, bytes: &[u8]) -> String {
        let matched = self.matched;
        let ready = self.ready();
        let same = ready.iter().zip(bytes).take_while(|(one, other)| one == other).count();
        let from = same.saturating_sub(16);
        let (wanted, came) = (show(&ready[from..]), show(&bytes[from..]));
        format!("byte {} differs: expected\n{wanted}, came\n{came}", matched + same as u64)
    }
}

/// The beginning of some bytes, to be read.
fn show(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(64)].escape_ascii().to_string()
}

/// Where, from byte `from` of a stream on, the first word begins.
pub fn word_after(stream: Stream, from: u64) -> u64 {
    let mut source = Source::new(stream);
    let mut bytes: Vec<u8> = Vec::new();
    while !source.peek().is_empty() {
        let block = source.peek();
        let len = block.len();
        bytes.extend(block);
        source.advance(len);
    }
    let from = from as usize;
    let mut places = bytes[from..].windows(WORD.len());
    let place = places.position(|window| window == WORD.as_bytes());
    (from + place.expect("a word in the rest of the stream")) as u64
}

/// What arrives of a whole stream.
pub fn whole(stream: Stream, edits: &[Edit]) -> Vec<u8> {
    let mut expected = Expected::new(stream, edits);
    let mut bytes = Vec::new();
    while !expected.ready().is_empty() {
        bytes.extend(expected.ready());
        expected.at = expected.ready.len();
    }
    bytes
}

#[test]
fn a_stream_is_what_its_seed_says() {
    let stream = Stream { seed: 1, len: 300_000, gap: 50 };
    let bytes = whole(stream, &[]);
    assert_eq!(bytes.len(), 300_000);
    assert_eq!(bytes, whole(stream, &[]));
    assert_ne!(bytes, whole(Stream { seed: 2, ..stream }, &[]));
    let count = |word: &str| bytes.windows(word.len()).filter(|w| *w == word.as_bytes()).count();
    assert!(count(WORD) > 2000 && count(OTHER) > 500, "{} {}", count(WORD), count(OTHER));
    let place = word_after(stream, 100_000) as usize;
    assert!(place >= 100_000 && bytes[place..].starts_with(WORD.as_bytes()));
}

#[test]
fn edits_are_those_of_a_string() {
    // What a string's own replacement makes of it: bytes are letters here, one for one.
    let latin = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect::<String>();
    let edits = [
        Edit { word: WORD, with: "" },
        Edit { word: OTHER, with: "NA" },
        Edit { word: "A", with: "SOUP" },
    ];
    for seed in 0..20 {
        let stream = Stream { seed, len: 100_000 + seed, gap: 20 };
        let mut text = latin(&whole(stream, &[]));
        for edit in edits {
            text = text.replace(edit.word, edit.with);
        }
        assert_eq!(latin(&whole(stream, &edits)), text, "{stream:?}");
    }
}

#[test]
fn what_differs_is_told() {
    let stream = Stream { seed: 3, len: 1000, gap: 100 };
    let mut bytes = whole(stream, &[]);
    let mut expected = Expected::new(stream, &[]);
    assert_eq!(expected.check(&bytes[..400]), Ok(()));
    bytes[700] ^= 1;
    let error = expected.check(&bytes[400..]).expect_err("a byte differs");
    assert!(error.starts_with("byte 700 differs"), "{error}");
    let mut expected = Expected::new(stream, &[]);
    bytes[700] ^= 1;
    assert_eq!(expected.check(&bytes), Ok(()));
    assert!(expected.is_complete() && expected.check(b"!").is_err());
}
