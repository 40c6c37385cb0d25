//! Replaces a word in what connections carry, whatever packets it spans.
//!
//! `... ~> TCPIn -> Nf(EXEC "word_replacer WORD REPLACEMENT", STREAM resize) -> TCPOut ...`
#![forbid(unsafe_code)]

use std::process::ExitCode;

use thruway_nf::{Needs, Next, StreamCursor, StreamFunction};

struct Replacer {
    word: Vec<u8>,
    with: Vec<u8>,
}

impl StreamFunction for Replacer {
    type State = ();
    const NEEDS: Needs = Needs::RESIZE;

    fn process(&mut self, _state: &mut (), data: &mut StreamCursor<'_>) -> Next {
        let mut found = 0;
        while let Some(byte) = data.next() {
            if byte != self.word[found] {
                data.back(found); // the next try begins one byte further
                found = 0;
            } else if found + 1 == self.word.len() {
                data.replace_back(self.word.len(), &self.with);
                found = 0;
            } else {
                found += 1;
            }
        }
        data.back(found); // what may be the word's beginning waits for the next packet
        if found > 0 { Next::NeedMore } else { Next::Continue }
    }
}

fn main() -> ExitCode {
    thruway_nf::run_stream("word-replacer", |_| {
        let mut args = std::env::args().skip(1).map(String::into_bytes);
        let (word, with) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
        if word.is_empty() {
            return Err("it wants a word, and what to put in its place".into());
        }
        Ok(Replacer { word, with })
    })
}
