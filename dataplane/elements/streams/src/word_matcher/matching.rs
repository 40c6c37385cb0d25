//! Finding words in the payload of sessions, and what is done about them.

use std::sync::Arc;

use thruway_element::{Needs, Next, StreamCursor, StreamFunction};
use thruway_inspect::patterns::{Found, Seek, Words};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::list::List;

/// The action on a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// It is counted.
    Alert,
    /// The connection ends.
    Close,
    /// Its bytes are overwritten.
    Mask,
    /// It is taken out.
    Remove,
    /// Another one takes its place.
    Replace,
}

impl Mode {
    /// All, in the order of their names; FastClick's FULL is ours REPLACE.
    pub(super) const ALL: [Mode; 6] =
        [Mode::Alert, Mode::Close, Mode::Mask, Mode::Remove, Mode::Replace, Mode::Replace];
    pub(super) const NAMES: [&str; 6] = ["ALERT", "CLOSE", "MASK", "REMOVE", "REPLACE", "FULL"];

    /// Its needs.
    pub(super) fn needs(self) -> Needs {
        match self {
            Mode::Alert => Needs::ORDER,
            Mode::Close => Needs::GUARD,
            Mode::Mask => Needs { stall: true, ..Needs::CHANGE },
            Mode::Remove | Mode::Replace => Needs::RESIZE,
        }
    }

    /// Whether the beginning of a word must not go on before its end is known.
    pub(super) fn holds(self) -> bool {
        matches!(self, Mode::Mask | Mode::Remove | Mode::Replace)
    }
}

/// The state of a session.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct SessionState {
    /// By direction: what may be the beginning of a word and has gone on already
    /// ([`thruway_inspect::patterns::Words::mark`]).
    gone: [u32; 2],
    /// Which list of words the marks are of.
    list: u32,
    /// A word was found.
    is_found: u32,
}

/// Matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Words.
    pub(super) matches: u64,
    /// Sessions with at least one.
    pub(super) sessions: u64,
    /// Words of which a part had gone on before the rest came.
    pub(super) partly: u64,
}

/// Words, and what is done about them.
pub(super) struct Matcher {
    pub(super) list: Arc<List>,
    pub(super) acts: Acts,
}

/// The action on matches, and its counters.
pub(super) struct Acts {
    pub(super) mode: Mode,
    /// Takes the place of a word.
    pub(super) with: Vec<u8>,
    /// Overwrites a word, again and again.
    pub(super) mask: Vec<u8>,
    /// By word: how often it was found.
    pub(super) counts: Vec<u64>,
    pub(super) totals: Totals,
}

/// How far the search in what one call shows has come.
struct Reading<'a> {
    /// What has gone on and may be a word's beginning: it is read again first.
    gone: &'a [u8],
    seek: Seek,
    /// Bytes of the payload that were read since the search last began.
    inside: usize,
}

impl Reading<'_> {
    /// Reads on to the next word.
    fn next(&mut self, words: &Words, data: &mut StreamCursor<'_>) -> Option<Found> {
        loop {
            if !self.gone.is_empty() {
                let (read, found) = words.next(&mut self.seek, self.gone);
                self.gone = &self.gone[read..];
                if found.is_some() {
                    return found;
                }
                continue;
            }
            let chunk = data.chunk();
            if chunk.is_empty() {
                return None;
            }
            let (read, found) = words.next(&mut self.seek, chunk);
            data.advance(read);
            self.inside += read;
            if found.is_some() {
                return found;
            }
        }
    }
}

impl Acts {
    /// Deals with a word; the cursor then stands behind it.
    fn deal(&mut self, reading: &mut Reading<'_>, data: &mut StreamCursor<'_>, found: Found) {
        // Of what was read behind the word, and of the word: what lies in the payload.
        let behind = found.back.min(reading.inside);
        let here = found.len.min(reading.inside - behind);
        data.back(behind);
        match self.mode {
            Mode::Alert | Mode::Close => {}
            Mode::Mask => data.fill_back(here, &self.mask, found.len - here),
            Mode::Remove => data.replace_back(here, &[]),
            Mode::Replace => data.replace_back(here, &self.with),
        }
        self.counts[found.word] += 1;
        self.totals.matches += 1;
        self.totals.partly += u64::from(here < found.len && self.mode.holds());
        reading.inside = 0;
    }

    /// Looks through what is shown; `true`: the connection is to end.
    fn look(
        &mut self,
        words: &Words,
        reading: &mut Reading<'_>,
        data: &mut StreamCursor<'_>,
    ) -> bool {
        let whole = reading.gone;
        // A word that is there counts, if no more is waited for.
        let is_end = match self.mode {
            Mode::Alert => data.is_last(),
            Mode::Close => true,
            _ => data.is_last() || data.is_late(),
        };
        loop {
            let mut found = reading.next(words, data);
            if found.is_none() && is_end {
                found = words.finish(&mut reading.seek);
            }
            let Some(found) = found else { return false };
            let again = found.back.saturating_sub(reading.inside);
            self.deal(reading, data, found);
            if self.mode == Mode::Close {
                return true;
            }
            // What was read behind the word before the payload began.
            let read = whole.len() - reading.gone.len();
            reading.gone = &whole[read - again..];
        }
    }

    /// Words that were there at the end of a session that had no last packet.
    fn count_rest(&mut self, words: &Words, mark: u32) {
        let mut rest = words.string(mark);
        loop {
            let mut seek = Seek::default();
            let (read, found) = words.next(&mut seek, rest);
            let Some(found) = found.or_else(|| words.finish(&mut seek)) else { return };
            self.counts[found.word] += 1;
            self.totals.matches += 1;
            rest = &rest[read - found.back..];
        }
    }
}

impl StreamFunction for Matcher {
    type State = SessionState;
    const NEEDS: Needs = Needs::RESIZE;

    fn process(&mut self, state: &mut SessionState, data: &mut StreamCursor<'_>) -> Next {
        // Not by a clone of the list: threads would fight over its count.
        let Matcher { list, acts } = self;
        let words = &list.words;
        if state.list != list.number {
            (state.gone, state.list) = ([0; 2], list.number);
        }
        let direction = data.direction();
        let gone = words.string(state.gone[direction]);
        let mut reading = Reading { gone, seek: Seek::default(), inside: 0 };
        let before = acts.totals.matches;
        let closes = acts.look(words, &mut reading, data);
        if acts.totals.matches > before {
            acts.totals.sessions += u64::from(state.is_found == 0);
            state.is_found = 1;
        }
        if closes {
            return Next::Close;
        }
        let pending = words.pending(&reading.seek);
        if data.is_last() {
            state.gone[direction] = 0;
        } else if !acts.mode.holds() || data.is_late() {
            state.gone[direction] = words.mark(&reading.seek);
        } else if pending > 0 {
            // What has gone on stays remembered while a word may begin there.
            if pending <= reading.inside {
                state.gone[direction] = 0;
            }
            data.back(pending.min(reading.inside));
            return Next::NeedMore;
        } else {
            state.gone[direction] = 0;
        }
        Next::Continue
    }

    fn ended(&mut self, state: &SessionState) {
        let Matcher { list, acts } = self;
        if acts.mode == Mode::Alert && state.list == list.number {
            state.gone.into_iter().for_each(|mark| acts.count_rest(&list.words, mark));
        }
    }
}

#[cfg(test)]
mod tests;
