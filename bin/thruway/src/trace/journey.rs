//! From events to the paths of packets: the elements that each passed, in order.

use std::collections::BTreeMap;

use thruway_client::trace::{Record, Shot, What};

/// What became of a packet at an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It left by this output.
    Left(u32),
    Dropped(String),
    PerhapsDropped(String),
    Ended,
    Kept,
    /// Nothing was seen of that (yet).
    Open,
}

/// A packet at an element.
#[derive(Debug, Clone)]
pub struct Hop {
    pub element: String,
    pub class: String,
    pub thread: usize,
    /// By which input it came; none where it begins, or where the element had kept it.
    pub input: Option<u32>,
    /// When it came (where that was seen) and when it left, in cycles.
    pub came: Option<u64>,
    pub left: u64,
    pub before: Option<Shot>,
    pub after: Option<Shot>,
    pub outcome: Outcome,
    /// Reasons that were counted although it was not dropped.
    pub counted: Vec<String>,
    /// Packets that are not followed and left because of it.
    pub others: u64,
}

/// The path of one packet, or of a copy.
#[derive(Debug, Clone)]
pub struct PacketPath {
    /// `1`, or `1.2` for the second copy of packet 1.
    pub name: String,
    /// The packet that it is a copy of.
    pub copy_of: Option<String>,
    pub hops: Vec<Hop>,
}

impl PacketPath {
    /// Whether nothing more will be seen of it.
    pub fn is_over(&self) -> bool {
        let last = self.hops.last().map(|hop| &hop.outcome);
        let over = |outcome: &Outcome| {
            matches!(outcome, Outcome::Dropped(_) | Outcome::PerhapsDropped(_) | Outcome::Ended)
        };
        last.is_some_and(over)
    }
}

/// Puts events in order and takes them apart by packet.
pub fn paths(records: &[Record]) -> Vec<PacketPath> {
    let mut sorted: Vec<&Record> = records.iter().collect();
    sorted.sort_by_key(|record| record.cycles);
    let mut names = Names::default();
    let mut paths: BTreeMap<u64, PacketPath> = BTreeMap::new();
    for record in sorted {
        let path = paths.entry(record.packet).or_insert_with(|| {
            let (name, copy_of) = names.name(record.packet, record.parent);
            PacketPath { name, copy_of, hops: Vec::new() }
        });
        add(&mut path.hops, record);
    }
    let mut paths: Vec<PacketPath> = paths.into_values().collect();
    paths.sort_by_cached_key(|path| sort_key(&path.name));
    paths
}

/// `1.10` comes after `1.9`.
fn sort_key(name: &str) -> Vec<u64> {
    name.split('.').map(|number| number.parse().unwrap_or(0)).collect()
}

/// Packets in the order of their appearance, copies below what they are copies of.
#[derive(Default)]
struct Names {
    names: BTreeMap<u64, String>,
    copies: BTreeMap<u64, u64>,
    roots: u64,
}

impl Names {
    fn name(&mut self, packet: u64, parent: u64) -> (String, Option<String>) {
        let above = self.names.get(&parent).cloned();
        let name = match &above {
            Some(above) => {
                let copies = self.copies.entry(parent).or_default();
                *copies += 1;
                format!("{above}.{copies}")
            }
            None => {
                self.roots += 1;
                self.roots.to_string()
            }
        };
        self.names.insert(packet, name.clone());
        (name, above)
    }
}

fn add(hops: &mut Vec<Hop>, record: &Record) {
    let outcome = match &record.what {
        What::In(port) => {
            hops.push(Hop {
                input: Some(*port),
                came: Some(record.cycles),
                before: record.shot.clone(),
                ..hop(record)
            });
            return;
        }
        What::Counted(reason) => {
            if let Some(last) = last_at(hops, record) {
                last.counted.push(reason.clone());
            }
            return;
        }
        What::Others(count) => {
            if let Some(last) = last_at(hops, record) {
                last.others += count;
            }
            return;
        }
        What::Out(port) => Outcome::Left(*port),
        What::Dropped(reason) => Outcome::Dropped(reason.clone()),
        What::PerhapsDropped(reason) => Outcome::PerhapsDropped(reason.clone()),
        What::Ended => Outcome::Ended,
        What::Kept => Outcome::Kept,
    };
    // What an element that had kept it does with it is another hop.
    if last_at(hops, record).is_none_or(|last| last.outcome != Outcome::Open) {
        hops.push(hop(record));
    }
    if let Some(last) = hops.last_mut() {
        last.outcome = outcome;
        last.left = record.cycles;
        last.after = record.shot.clone();
    }
}

/// The last hop, if it is at the element of this record.
fn last_at<'a>(hops: &'a mut [Hop], record: &Record) -> Option<&'a mut Hop> {
    hops.last_mut().filter(|hop| hop.element == record.element)
}

fn hop(record: &Record) -> Hop {
    Hop {
        element: record.element.clone(),
        class: record.class.clone(),
        thread: record.thread,
        input: None,
        came: None,
        left: record.cycles,
        before: None,
        after: None,
        outcome: Outcome::Open,
        counted: Vec::new(),
        others: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(cycles: u64, packet: u64, parent: u64, element: &str, what: What) -> Record {
        let (element, class) = (element.to_owned(), "Null".to_owned());
        Record { thread: 0, cycles, packet, parent, element, class, what, shot: None }
    }

    #[test]
    fn events_become_ways() {
        let events = [
            record(40, 9, 7, "tee", What::Out(0)),
            record(10, 7, 0, "in", What::Out(0)),
            record(30, 7, 0, "tee", What::In(0)),
            record(41, 7, 0, "tee", What::Out(1)),
            record(50, 7, 0, "q", What::In(0)),
            record(51, 7, 0, "q", What::Kept),
            record(60, 7, 0, "q", What::Out(0)),
            record(52, 9, 7, "x", What::In(2)),
            record(53, 9, 7, "x", What::Dropped("bad".into())),
            record(70, 8, 0, "in", What::Out(0)),
            record(80, 8, 0, "f", What::In(0)),
            record(81, 8, 0, "f", What::Out(1)),
            record(82, 8, 0, "f", What::Counted("odd".into())),
        ];
        let paths = paths(&events);
        let names: Vec<&str> = paths.iter().map(|path| &path.name[..]).collect();
        assert_eq!(names, ["1", "1.1", "2"]);
        let of = |path: &PacketPath| -> Vec<(String, Outcome)> {
            path.hops.iter().map(|hop| (hop.element.clone(), hop.outcome.clone())).collect()
        };
        let left = |element: &str, port| (element.to_owned(), Outcome::Left(port));
        assert_eq!(
            of(&paths[0]),
            [left("in", 0), left("tee", 1), ("q".into(), Outcome::Kept), left("q", 0)]
        );
        assert_eq!(of(&paths[1]), [left("tee", 0), ("x".into(), Outcome::Dropped("bad".into()))]);
        assert!(paths[1].is_over() && !paths[0].is_over());
        assert_eq!(paths[1].copy_of.as_deref(), Some("1"));
        assert_eq!(paths[2].hops[1].counted, ["odd"]);
    }
}
