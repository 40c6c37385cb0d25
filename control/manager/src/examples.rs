//! Examples of packets that did not go on, found by a trace of the data plane.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use thruway_client::trace::{Answer, Record, Shot, What, describe};
use utoipa::ToSchema;

/// Packets that a search looks at, at most: each is handed to its element alone meanwhile.
pub const PACKETS_MAX: u64 = 5_000;

/// A packet that did not go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Example {
    /// Input by which it came to the element.
    pub input: u32,
    /// `dropped`, `diverted` (it left by another way than usual), or `perhaps` (it ended among
    /// other packets, some of which were dropped for the reason).
    pub fate: String,
    /// Its length when it came, bytes.
    pub length: u64,
    /// The packet in a few words: `60 bytes, TCP 10.0.0.1:4000 > 10.0.0.2:80`.
    pub summary: String,
    /// Its first bytes when it came, at most 256, in hexadecimal.
    pub bytes: String,
}

/// Examples, and how many packets were looked at for them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Examples {
    /// Packets that came to the element and were looked at.
    pub looked_at: u64,
    /// Those that did not go on for the reason; empty where none was among them.
    pub examples: Vec<Example>,
}

/// A search for packets that one element did not let go on for one reason.
#[derive(Debug)]
pub struct Search {
    element: String,
    reason: String,
    wanted: usize,
    /// Packets as they came to the element and are in it, or left it since the last answer.
    came: HashMap<u64, (u32, Shot)>,
    found: Examples,
    is_over: bool,
}

impl Search {
    /// For so many examples.
    pub fn new(element: &str, reason: &str, wanted: usize) -> Search {
        Search {
            element: element.to_owned(),
            reason: reason.to_owned(),
            wanted,
            came: HashMap::new(),
            found: Examples::default(),
            is_over: false,
        }
    }

    /// What starts it, written to the handler `trace`: packets are chosen where they come to the
    /// element.
    pub fn start(&self, name: &str) -> String {
        format!("start {name} {PACKETS_MAX} {} -", self.element)
    }

    /// Takes an answer of the handler `trace`.
    ///
    /// # Errors
    /// It is none.
    pub fn take(&mut self, answer: &str) -> Result<(), String> {
        let answer = Answer::read(answer).map_err(|error| error.to_string())?;
        self.found.looked_at = answer.counts.chosen;
        let mut gone = Vec::new();
        for record in &answer.records {
            if record.element != self.element {
                continue;
            }
            match &record.what {
                What::In(input) => {
                    if let Some(shot) = &record.shot {
                        self.came.insert(record.packet, (*input, shot.clone()));
                    }
                }
                What::Kept | What::Others(_) => {}
                What::Out(_) | What::Ended => gone.push(record.packet),
                What::Dropped(_) | What::PerhapsDropped(_) | What::Counted(_) => {
                    self.check(record);
                    gone.push(record.packet);
                }
            }
        }
        // All that one call of an element reports is in one answer.
        for packet in gone {
            self.came.remove(&packet);
        }
        self.is_over = answer.counts.left == 0 && answer.records.is_empty();
        Ok(())
    }

    /// Keeps a packet that is an example.
    fn check(&mut self, record: &Record) {
        let (reason, fate) = match &record.what {
            What::Dropped(reason) => (reason, "dropped"),
            What::PerhapsDropped(reason) => (reason, "perhaps"),
            What::Counted(reason) => (reason, "diverted"),
            _ => return,
        };
        if *reason != self.reason || self.found.examples.len() >= self.wanted {
            return;
        }
        let Some((input, shot)) = self.came.remove(&record.packet) else { return };
        self.found.examples.push(Example {
            input,
            fate: fate.to_owned(),
            length: shot.len as u64,
            summary: describe(&shot),
            bytes: shot.bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        });
    }

    /// Whether there are enough examples, or no more packets are looked at.
    pub fn is_done(&self) -> bool {
        self.found.examples.len() >= self.wanted || self.is_over
    }

    /// What was found.
    pub fn found(self) -> Examples {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A packet of 3 bytes.
    fn shot() -> String {
        format!("3\t128\t7f00\t-\t-\t-\t0\t{}\t0a0b0c", "0".repeat(56))
    }

    fn answer(left: u64, events: &[&str]) -> String {
        let mut text = format!("time\t1\t2\ntrace\t{left}\t4\t0\t0\t0\n");
        for event in events {
            let (packet, rest) = event.split_once(' ').expect("a packet and what happened");
            let rest = rest.replace(' ', "\t");
            let shot = if rest.contains("in\t") { format!("\t{}", shot()) } else { String::new() };
            text += &format!("event\t0\t9\t{packet}\t0\t{rest}{shot}\n");
        }
        text
    }

    #[test]
    fn packets_of_the_element_and_the_reason_are_found() {
        let mut search = Search::new("fw", "denied", 3);
        assert_eq!(search.start("x"), "start x 5000 fw -");
        let text = answer(
            9,
            &[
                "1 fw F in 0",
                "1 fw F out 0",
                "1 q Queue in 0",
                "1 q Queue dropped denied",
                "2 fw F in 1",
                "2 fw F dropped denied",
                "3 fw F in 0",
                "3 fw F dropped other",
                "4 fw F in 0",
                "4 fw F kept -",
            ],
        );
        search.take(&text).expect("an answer");
        assert!(!search.is_done());
        // One that was kept is dropped later, and one leaves another way.
        let text = answer(
            8,
            &[
                "4 fw F perhaps-dropped denied",
                "5 fw F in 2",
                "5 fw F out 1",
                "5 fw F counted denied",
            ],
        );
        search.take(&text).expect("an answer");
        assert!(search.is_done());
        assert!(search.came.is_empty(), "{:?}", search.came);
        let found = search.found();
        let all: Vec<(u32, &str)> =
            found.examples.iter().map(|one| (one.input, &one.fate[..])).collect();
        assert_eq!(all, [(1, "dropped"), (0, "perhaps"), (2, "diverted")]);
        assert_eq!((found.looked_at, &found.examples[0].bytes[..]), (4, "0a0b0c"));
        assert_eq!(found.examples[0].summary, "3 bytes, no header that is known");
    }

    #[test]
    fn a_search_ends_when_no_more_packets_are_looked_at() {
        let mut search = Search::new("fw", "denied", 3);
        search.take(&answer(0, &["1 fw F in 0"])).expect("an answer");
        assert!(!search.is_done(), "it is still in the element");
        search.take(&answer(0, &[])).expect("an answer");
        assert!(search.is_done() && search.found().examples.is_empty());
        assert!(Search::new("fw", "denied", 1).take("no trace").is_err());
    }

    proptest! {
        /// Whatever a data plane reports is read or refused, and nothing else.
        #[test]
        fn any_answer_is_read_or_refused(
            events in prop::collection::vec(
                "[0-3] [ab] F (in|out|kept|ended|dropped|counted|perhaps-dropped|others) [0-9a]",
                0..20,
            ),
        ) {
            let mut search = Search::new("a", "a", 2);
            let events: Vec<&str> = events.iter().map(String::as_str).collect();
            let _ = search.take(&answer(1, &events));
            prop_assert!(search.found().examples.len() <= 2);
        }
    }
}
