//! Chains of functions that look at streams and change them.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::content::{Edit, OTHER, WORD};
use super::long::{everything, transfer};
use super::options::{options, windows};
use super::path::{Chain, Faults, Path, SERVERS};
use super::trials::{ALL, SOME, SWAPS};
use crate::process::{LIMIT, privileged};
use crate::trials::undergo;

/// Functions of TCP's payload, and what they are to do.
pub struct Functions {
    pub text: &'static str,
    pub edits: &'static [Edit],
}

pub const ORDER: Functions =
    Functions { text: "WordMatcher(NANANAS, SOUP, MODE ALERT)", edits: &[] };

const MASK: Functions = Functions {
    text: "WordMatcher(NANANAS, MODE MASK)",
    edits: &[Edit { word: WORD, with: "*******" }],
};

const REMOVE: Functions = Functions {
    text: "WordMatcher(NANANAS, MODE REMOVE)",
    edits: &[Edit { word: WORD, with: "" }],
};

pub const LONGER: Functions = Functions {
    text: "WordMatcher(NANANAS, MODE REPLACE, WITH 'peaches and cream')",
    edits: &[Edit { word: WORD, with: "peaches and cream" }],
};

const SHORTER: Functions = Functions {
    text: "WordMatcher(NANANAS, MODE REPLACE, WITH NAN)",
    edits: &[Edit { word: WORD, with: "NAN" }],
};

/// The second one looks for what the first one makes.
const TWO: Functions = Functions {
    text: "WordMatcher(NANANAS, MODE REPLACE, WITH 'SO')
        => [0, 1]WordMatcher(SOUP, MODE REPLACE, WITH 'a dish of broth')",
    edits: &[Edit { word: WORD, with: "SO" }, Edit { word: OTHER, with: "a dish of broth" }],
};

impl Functions {
    /// The contexts around them.
    pub fn chain(&self) -> String {
        format!(
            "input -> there :: FlowClassifier ~> ip :: IPIn;
            input[1] -> back :: FlowClassifier ~> [1]ip;
            ip => [0, 1]tcp :: TCPIn => [0, 1]{} => [0, 1]end :: TCPOut
                => [0, 1]IPOut => [0, 1]output",
            self.text
        )
    }

    /// Does something with a chain of them, between hosts that lose nothing.
    pub fn with(&self, work: impl FnOnce(&Chain<'_>)) {
        work(&Chain { text: &self.chain(), edits: self.edits, ..Chain::CABLE });
    }
}

/// How much is tried where nobody asks for more.
#[derive(Clone, Copy, PartialEq)]
enum Extent {
    /// All trials on a good path, some of them on a bad one.
    All,
    /// Some trials on a bad path.
    Some,
}

fn carry(test: &str, functions: &Functions, extent: Extent) {
    if !privileged(test) {
        return;
    }
    functions.with(|chain| {
        if extent == Extent::All {
            let path = Path::new(chain);
            undergo(&path, ALL);
            undergo(&path, SWAPS);
            path.stop();
        }
        let path = Path::new(&Chain { faults: Faults::ROUGH, ..*chain });
        undergo(&path, SOME);
        path.stop();
        transfer(chain);
        everything(chain);
    });
}

#[test]
fn in_order() {
    carry("in_order", &ORDER, Extent::Some);
}

#[test]
fn words_are_masked() {
    carry("words_are_masked", &MASK, Extent::Some);
}

#[test]
fn words_are_removed() {
    carry("words_are_removed", &REMOVE, Extent::All);
}

#[test]
fn words_grow() {
    carry("words_grow", &LONGER, Extent::All);
}

#[test]
fn words_shrink() {
    carry("words_shrink", &SHORTER, Extent::Some);
}

#[test]
fn one_function_behind_another() {
    carry("one_function_behind_another", &TWO, Extent::Some);
}

/// The example, with words and what is done about them as it says, and as its comments say.
#[test]
fn example_words() {
    if !privileged("example_words") {
        return;
    }
    let masked = Edit { word: WORD, with: "*******" };
    let replaced = Edit { word: WORD, with: "defence" };
    let other = Edit { word: OTHER, with: "****" };
    let both = [masked, other];
    let cases: [(&[&str], &[Edit]); 3] = [
        (&["WORDS=NANANAS", "DO=MODE MASK"], &[masked]),
        (&["WORDS=NANANAS, \"SOUP\"", "DO=MODE MASK"], &both),
        (&["WORDS=NANANAS", "DO=MODE REPLACE, WITH \"defence\""], &[replaced]),
    ];
    for (variables, edits) in cases {
        let path = Path::example("words.click", variables, edits);
        undergo(&path, SOME);
        assert!(path.control().read("filter.words").contains(WORD));
        path.stop();
    }
}

#[test]
fn words_grow_between_all_sorts_of_hosts() {
    if !privileged("words_grow_between_all_sorts_of_hosts") {
        return;
    }
    LONGER.with(|chain| {
        let path = Path::new(&Chain { faults: Faults::CONGESTED, ..*chain });
        options(&path);
        windows(&path);
        path.stop();
        for faults in [Faults::JITTER, Faults::BURSTS] {
            let path = Path::new(&Chain { faults, method: "LINUX", ..*chain });
            undergo(&path, SOME);
            path.stop();
        }
    });
}

/// The beginning of a word goes on when the rest does not come in time; so does what follows it,
/// and the rest does not pass unchanged.
#[test]
fn nothing_waits_forever() {
    if !privileged("nothing_waits_forever") {
        return;
    }
    for (mode, rest) in [("MASK", "***"), ("REMOVE", ""), ("REPLACE, WITH LETTUCE", "LETTUCE")] {
        let text = format!("WordMatcher(NANANAS, HOLD 50ms, MODE {mode})");
        let functions = Functions { text: text.leak(), edits: &[] };
        functions.with(|chain| {
            let path = Path::new(chain);
            let (client, server) = connection(&path);
            for (from, to) in [(&client, &server), (&server, &client)] {
                says(from, to, "(NANA", "(NANA");
                std::thread::sleep(Duration::from_millis(100));
                says(from, to, "NAS)", &format!("{rest})"));
                says(from, to, "NANANANAS)", &format!("NA{})", whole(mode)));
            }
            path.stop();
        });
    }
}

/// A connection: its ends at client and server.
fn connection(path: &Path) -> (TcpStream, TcpStream) {
    let listener = path.server().within(|| TcpListener::bind((SERVERS[0], 0)));
    let listener = listener.expect("a free port");
    let to = listener.local_addr().expect("it is bound");
    let client = path.client().within(|| TcpStream::connect(to)).expect("a way");
    let (server, _) = listener.accept().expect("a connection");
    (client, server)
}

/// A program that starts anew knows of no connection. Those that were only looked at go on; those
/// whose numbers were changed cannot, but no byte arrives at a wrong place.
#[test]
fn a_restart() {
    if !privileged("a_restart") {
        return;
    }
    for (functions, goes_on) in [(&ORDER, true), (&LONGER, false), (&SHORTER, false)] {
        functions.with(|chain| {
            let mut path = Path::new(chain);
            let (client, server) = connection(&path);
            let with = functions.edits.first().map_or(WORD, |edit| edit.with);
            for (from, to) in [(&client, &server), (&server, &client)] {
                says(from, to, "NANANAS, NANANAS.", &format!("{with}, {with}."));
            }
            path.restart();
            let said = [b'1'; 3000];
            for (mut from, to) in [(&client, &server), (&server, &client)] {
                // A client that learnt of the end of the connection cannot say anything.
                let was_said = from.write_all(&said).and_then(|()| from.write_all(b"!")).is_ok();
                to.set_read_timeout(Some(Duration::from_secs(2))).expect("a time above zero");
                let mut heard = Vec::new();
                let _ = to.take(3001).read_to_end(&mut heard);
                assert!(!goes_on || was_said && heard.len() == 3001, "{}", heard.len());
                let wanted = [&said[..], b"!"].concat();
                assert_eq!(heard, wanted[..heard.len()], "{}", functions.text);
            }
            let (client, server) = connection(&path);
            says(&client, &server, "NANANAS.", &format!("{with}."));
            path.stop();
        });
    }
}

/// What becomes of a whole word.
fn whole(mode: &str) -> &'static str {
    match mode {
        "MASK" => "*******",
        "REMOVE" => "",
        _ => "LETTUCE",
    }
}

/// Asserts that the other end hears this, without anything else being said.
#[track_caller]
fn says(mut from: &TcpStream, mut to: &TcpStream, said: &str, heard: &str) {
    to.set_read_timeout(Some(LIMIT)).expect("a time above zero");
    from.write_all(said.as_bytes()).expect("a connection");
    let mut bytes = vec![0; heard.len()];
    to.read_exact(&mut bytes).unwrap_or_else(|error| panic!("'{said}': {error}"));
    assert_eq!(String::from_utf8_lossy(&bytes), heard);
}
