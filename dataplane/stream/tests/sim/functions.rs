//! Functions between the two ends of the middle, and what they mean for whole streams.

use thruway_payload::{Needs, Next, StreamCursor};

use thruway_random::{Random, mix};

/// What a function remembers of a session: by direction, how many bytes it has let go, and how
/// often it was asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct FunctionState {
    passed: [u64; 2],
    asked: [u64; 2],
}

/// A packet of 9 kB with as much held back before it, that many times, fits in a frame.
const GROWTH_MOST: usize = 5;

/// Most bytes that are held back: with a packet more, it is less than may be.
const HOLD_MOST: usize = 16 << 10;

/// A function of streams.
#[derive(Debug, Clone)]
pub enum Function {
    /// Sees all, changes nothing.
    Look,
    /// Makes small letters large.
    Upper,
    /// Puts something in the place of a word.
    Replace(&'static [u8], &'static [u8]),
    /// Inserts text at some of the offsets.
    Insert(&'static [u8], u64),
    /// Holds back at random places, changes nothing.
    Hold(u64),
    /// Removes so many bytes of each so many.
    Vanish(u64, u64),
    /// Writes each byte several times.
    Stretch(usize),
    /// Ends the connection once so many bytes have passed.
    Close(u64),
}

impl Function {
    /// One of them.
    pub fn random(random: &mut Random) -> Function {
        match random.size(0..=10) {
            0 => Function::Look,
            1 => Function::Upper,
            2 => Function::Replace(b"attack", b"******"),
            3 => Function::Replace(b"attack", b""),
            4 => Function::Replace(b"attack", b"<a harmless greeting instead>"),
            5 => Function::Replace(b"word", b"w"),
            6 => Function::Insert(b"[inserted]", 1 + random.magnitude(500) as u64),
            7 => Function::Insert(b"+", 1 + random.magnitude(20) as u64),
            8 => Function::Hold(1 + random.magnitude(4) as u64),
            9 => {
                let period = 1 + random.magnitude(20_000) as u64;
                Function::Vanish(random.within(0..=period as i64) as u64, period)
            }
            _ => Function::Stretch(random.size(1..=4)),
        }
    }

    /// One to three of them, which together do not make a packet grow beyond what a packet can be.
    pub fn chain(random: &mut Random) -> Vec<Function> {
        loop {
            let count = *random.one_of(&[1, 1, 1, 2, 3]);
            let chain: Vec<Function> = (0..count).map(|_| Function::random(random)).collect();
            if chain.iter().map(Function::growth).product::<usize>() <= GROWTH_MOST {
                return chain;
            }
        }
    }

    /// How many times longer it makes a packet at most, about.
    fn growth(&self) -> usize {
        match self {
            Function::Replace(word, with) => with.len().div_ceil(word.len()).max(1),
            Function::Insert(text, every) => 1 + (text.len() * 4).div_ceil(*every as usize),
            Function::Stretch(times) => *times,
            _ => 1,
        }
    }

    /// What it does to streams.
    pub fn needs(&self) -> Needs {
        match self {
            Function::Look => Needs::ORDER,
            Function::Close(_) => Needs::GUARD,
            Function::Upper => Needs::CHANGE,
            _ => Needs::RESIZE,
        }
    }

    /// What becomes of a whole stream.
    pub fn whole(&self, data: &[u8]) -> Vec<u8> {
        match self {
            Function::Look | Function::Hold(_) | Function::Close(_) => data.to_vec(),
            Function::Upper => data.to_ascii_uppercase(),
            Function::Replace(word, with) => replace(data, word, with),
            Function::Insert(text, every) => {
                let mut out = Vec::new();
                for (at, byte) in data.iter().enumerate() {
                    if is_chosen(at as u64, *every) {
                        out.extend_from_slice(text);
                    }
                    out.push(*byte);
                }
                out
            }
            Function::Vanish(gone, period) => {
                let stays = |at: &usize| *at as u64 % period >= *gone;
                (0..data.len()).filter(stays).map(|at| data[at]).collect()
            }
            Function::Stretch(times) => {
                data.iter().flat_map(|byte| std::iter::repeat_n(*byte, *times)).collect()
            }
        }
    }

    /// Treats what is new.
    pub fn show(&self, state: &mut FunctionState, data: &mut StreamCursor<'_>) -> Next {
        let dir = data.direction();
        state.asked[dir] += 1;
        let passed = &mut state.passed[dir];
        match self {
            Function::Look => data.skip_all(),
            Function::Upper => upper(data),
            Function::Replace(word, with) => return replace_shown(data, word, with),
            Function::Insert(text, every) => {
                while data.remaining() > 0 {
                    if is_chosen(*passed, *every) {
                        data.insert(text);
                    }
                    data.advance(1);
                    *passed += 1;
                }
            }
            Function::Hold(every) => {
                let dice = mix(state.asked[dir] ^ mix(*every));
                // A function that holds back more than permitted is closed.
                if !dice.is_multiple_of(every + 1) && data.remaining() < HOLD_MOST {
                    data.advance((dice >> 32) as usize % (data.remaining() + 1));
                    return Next::NeedMore;
                }
            }
            Function::Vanish(gone, period) => {
                while data.remaining() > 0 {
                    let at = *passed % period;
                    let bound = if at < *gone { *gone } else { *period };
                    let n = (bound - at).min(data.remaining() as u64);
                    let is_gone = at < *gone;
                    if is_gone {
                        data.remove(n as usize)
                    } else {
                        data.advance(n as usize)
                    }
                    *passed += n;
                }
            }
            Function::Stretch(times) => stretch(data, *times),
            Function::Close(most) => {
                *passed += data.remaining() as u64;
                return if *passed > *most { Next::Close } else { Next::Continue };
            }
        }
        Next::Continue
    }
}

/// Whether text is inserted before an offset.
fn is_chosen(at: u64, every: u64) -> bool {
    mix(at).is_multiple_of(every)
}

fn upper(data: &mut StreamCursor<'_>) {
    loop {
        let chunk = data.chunk_mut();
        let n = chunk.len();
        chunk.make_ascii_uppercase();
        if n == 0 {
            return;
        }
        data.advance(n);
    }
}

fn stretch(data: &mut StreamCursor<'_>, times: usize) {
    while let Some(byte) = data.next() {
        data.insert(&vec![byte; times - 1]);
    }
}

/// Leftmost occurrences, those that do not overlap.
fn replace(data: &[u8], word: &[u8], with: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), data);
    while let Some(byte) = rest.first() {
        if let Some(behind) = rest.strip_prefix(word) {
            out.extend_from_slice(with);
            rest = behind;
        } else {
            out.push(*byte);
            rest = &rest[1..];
        }
    }
    out
}

/// The same in what is shown: the beginning of a word at the end is held back.
fn replace_shown(data: &mut StreamCursor<'_>, word: &[u8], with: &[u8]) -> Next {
    loop {
        let same = word.iter().take_while(|letter| next_is(data, **letter)).count();
        if same == word.len() {
            data.replace_back(word.len(), with);
            continue;
        }
        let is_end = data.remaining() == 0;
        data.back(same);
        if is_end && (same == 0 || !data.is_last()) {
            return if same == 0 { Next::Continue } else { Next::NeedMore };
        }
        data.advance(1);
    }
}

/// Moves over the next byte if it is this one.
fn next_is(data: &mut StreamCursor<'_>, letter: u8) -> bool {
    let is_same = data.chunk().first() == Some(&letter);
    data.advance(usize::from(is_same));
    is_same
}
