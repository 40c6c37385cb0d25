//! The rewriting of messages.

use regex::bytes::CaptureLocations;
use thruway_element::{Needs, Next, StreamCursor, StreamFunction};
use thruway_stream::http::{Change, Head, Kind, View, rewrite};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::rules::{FIELDS_MAX, Placement, Ready};

/// Most requests of a connection that wait for their answers: as many as HTTPIn lets wait.
const WAITING_MAX: u32 = 64;

/// The state of a connection.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct SessionState {
    /// A bit for each request that waits for its answer, the oldest lowest: it was blocked.
    blocked: u64,
    waiting: u32,
    /// By direction: whether the body of the current message is removed.
    emptied: [u8; 2],
    spare: [u8; 2],
}

/// Counters.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub blocked: u64,
    pub heads: u64,
    pub edits: u64,
}

/// The page that blocked requests get: a head and a body.
pub(super) struct Page {
    pub head: Vec<u8>,
    pub body: Vec<u8>,
    /// The path requested from the server instead.
    pub elsewhere: Vec<u8>,
}

pub(super) struct Rewriting {
    pub rules: Ready,
    pub page: Page,
    /// How many bytes behind a place decide whether something is found there.
    pub span: usize,
    pub counts: Counts,
    head: Head,
    text: Vec<u8>,
    window: Vec<u8>,
    captures: Option<CaptureLocations>,
}

impl Rewriting {
    pub(super) fn new(rules: Ready, page: Page, span: usize) -> Rewriting {
        Rewriting {
            captures: rules.selectors.as_ref().map(|all| all.capture_locations()),
            rules,
            page,
            span,
            counts: Counts::default(),
            head: Head::with_capacity(128),
            text: Vec::new(),
            window: Vec::new(),
        }
    }

    /// Rewrites a head. False if the connection must end.
    fn head(&mut self, state: &mut SessionState, data: &mut StreamCursor<'_>) -> bool {
        let direction = data.direction() & 1;
        state.emptied[direction] = 0;
        let kind = if direction == 0 { Kind::Request } else { Kind::Response };
        let mut head = std::mem::take(&mut self.head);
        let bytes = data.head().unwrap_or(&[]);
        // HTTPIn has read it.
        let Ok(view) = head.read(kind, bytes) else { return false };
        self.text.clear();
        let verdict = match direction {
            0 => self.request(state, view),
            _ => self.response(state, view),
        };
        self.head = head;
        match verdict {
            Verdict::Keep => {}
            Verdict::Written => data.set_head(&self.text),
            Verdict::Close => return false,
        }
        true
    }

    fn request(&mut self, state: &mut SessionState, view: View<'_>) -> Verdict {
        if state.waiting >= WAITING_MAX {
            return Verdict::Close;
        }
        let blocked = self.rules.has_blocks() && self.rules.blocks(view.host(), view.path());
        state.blocked |= u64::from(blocked) << state.waiting;
        state.waiting += 1;
        if !blocked {
            return self.fields(0, view);
        }
        self.counts.blocked += 1;
        if view.method() == b"CONNECT" {
            return Verdict::Close;
        }
        state.emptied[0] = 1;
        let method: &[u8] = if view.method() == b"HEAD" { b"HEAD" } else { b"GET" };
        for part in [method, b" ", &self.page.elsewhere, b" ", view.version(), b"\r\n"] {
            self.text.extend_from_slice(part);
        }
        for name in [&b"Host"[..], b"Connection"] {
            if let Some(value) = view.value(name) {
                for part in [name, b": ", value, b"\r\n"] {
                    self.text.extend_from_slice(part);
                }
            }
        }
        self.text.extend_from_slice(b"\r\n");
        Verdict::Written
    }

    fn response(&mut self, state: &mut SessionState, view: View<'_>) -> Verdict {
        let blocked = state.blocked & 1 != 0 && state.waiting > 0;
        if (100..200).contains(&view.status()) {
            // An interim answer to what was not asked is not the page.
            return if blocked { Verdict::Close } else { self.fields(1, view) };
        }
        state.blocked >>= 1;
        state.waiting = state.waiting.saturating_sub(1);
        if !blocked {
            return self.fields(1, view);
        }
        // A body that this function does not see cannot be taken out.
        let kind = view.value(b"content-type").unwrap_or(b"text/html");
        if view.value(b"content-encoding").is_some() || !kind.starts_with(b"text/") {
            return Verdict::Close;
        }
        state.emptied[1] = 2;
        self.text.extend_from_slice(&self.page.head);
        Verdict::Written
    }

    /// Changes fields.
    fn fields(&mut self, direction: usize, view: View<'_>) -> Verdict {
        let mine = self.rules.fields.iter().filter(|rule| rule.direction == direction);
        let mut changes = [Change::Remove(&[]); FIELDS_MAX];
        let mut n = 0;
        for (change, rule) in changes.iter_mut().zip(mine) {
            *change = rule.change();
            n += 1;
        }
        if n == 0 {
            return Verdict::Keep;
        }
        self.counts.heads += 1;
        // They were checked when they were read.
        match rewrite(view, &changes[..n], &mut self.text) {
            Ok(()) => Verdict::Written,
            Err(_) => Verdict::Close,
        }
    }

    /// Looks for what body rules select, and changes it. Only places that are followed by all that
    /// could decide about them are looked at, unless no more comes.
    fn body(&mut self, data: &mut StreamCursor<'_>) -> Next {
        let (Some(all), Some(captures)) = (&self.rules.selectors, &mut self.captures) else {
            return Next::Continue;
        };
        self.window.clear();
        while !data.chunk().is_empty() {
            self.window.extend_from_slice(data.chunk());
            let len = data.chunk().len();
            data.advance(len);
        }
        let final_bytes = data.is_last() || data.is_late();
        let decided = match final_bytes {
            true => self.window.len() + 1,
            false => self.window.len().saturating_sub(self.span),
        };
        data.back(self.window.len());
        let mut at = 0;
        while let Some(found) = all.captures_read_at(captures, &self.window, at) {
            if found.start() >= decided {
                break;
            }
            let rule = (0..self.rules.bodies.len()).find(|rule| captures.get(rule + 1).is_some());
            let Some(rule) = rule.and_then(|rule| self.rules.bodies.get(rule)) else { break };
            data.advance(found.start() - at);
            let len = found.len();
            match rule.placement {
                Placement::Instead => {
                    data.advance(len);
                    data.replace_back(len, &rule.text);
                }
                Placement::Before => {
                    data.insert(&rule.text);
                    data.advance(len);
                }
                Placement::After => {
                    data.advance(len);
                    data.insert(&rule.text);
                }
            }
            self.counts.edits += 1;
            at = found.end();
        }
        if final_bytes {
            return Next::Continue;
        }
        data.advance(decided.saturating_sub(at));
        if decided.max(at) < self.window.len() { Next::NeedMore } else { Next::Continue }
    }
}

enum Verdict {
    Keep,
    Written,
    Close,
}

impl StreamFunction for Rewriting {
    type State = SessionState;
    const NEEDS: Needs = Needs::RESIZE;

    fn process(&mut self, state: &mut SessionState, data: &mut StreamCursor<'_>) -> Next {
        if data.head().is_some() && !self.head(state, data) {
            return Next::Close;
        }
        let emptied = &mut state.emptied[data.direction() & 1];
        if *emptied == 0 {
            return self.body(data);
        }
        let len = data.remaining();
        data.remove(len);
        if std::mem::replace(emptied, 1) == 2 {
            data.insert(&self.page.body);
        }
        Next::Continue
    }
}
