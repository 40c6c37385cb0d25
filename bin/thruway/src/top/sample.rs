//! All counters of a running Thruway at one time, asked through its ControlSocket.

use anyhow::{Context as _, anyhow};
use thruway_client::Client;
use thruway_element::{Entry, Topic};
use thruway_elements::CATALOG;

/// Counters at one time.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Sample {
    /// Of the time stamp counter.
    pub cycles: u64,
    /// Of the system's clock.
    pub nanoseconds: u64,
    pub threads: Vec<Thread>,
    /// What each thread's clock is at.
    pub clocks: Vec<String>,
    /// How long threads were away from their rounds.
    pub gaps: Vec<Gap>,
    pub elements: Vec<Element>,
    pub ports: Vec<Port>,
    pub functions: Vec<Function>,
    pub sessions: Option<Sessions>,
}

/// What a thread did since the start.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Thread {
    pub idle_cycles: u64,
    /// Packets that its sources made or took.
    pub made: u64,
    pub work: Work,
}

/// The longest time that a thread was away from its round.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Gap {
    pub thread: u64,
    /// `worst`, since the start, or `recent`.
    pub when: String,
    /// Nanoseconds that the cause took, and with what the thread waited for a processor.
    pub own: u64,
    pub whole: u64,
    pub cause: String,
}

/// What elements did since the start.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Work {
    pub packets: u64,
    pub batches: u64,
    pub cycles: u64,
}

/// An element.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Element {
    pub name: String,
    pub class: String,
    pub work: Work,
    /// Lost packets, by reason.
    pub drops: Vec<(String, u64)>,
    /// Packets that left by another output or did what they came for, by reason and fate.
    pub kept: Vec<(String, u64)>,
}

/// A port.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Port {
    pub name: String,
    pub what: String,
    pub direction: &'static str,
    pub packets: Option<u64>,
    pub bytes: Option<u64>,
}

/// A function in a process of its own.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Function {
    pub name: String,
    pub state: String,
    pub pid: String,
    pub restarts: String,
    pub packets_in: Option<u64>,
    pub packets_out: Option<u64>,
    pub wake_ups: Option<u64>,
    /// Slots in use.
    pub occupancy: Option<u64>,
    pub cpu_seconds: Option<f64>,
}

/// Sessions, since the start but for `now`.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Sessions {
    pub now: u64,
    pub created: u64,
    pub expired: u64,
    pub closed: u64,
    /// Packets of sessions refused by a full table.
    pub refused: u64,
}

impl Sample {
    /// Asks for everything.
    pub fn take(client: &mut Client) -> anyhow::Result<Sample> {
        let text = client.read("statistics").context("it does not show its statistics")?;
        let mut sample = Sample::parse(&text)?;
        for at in 0..sample.elements.len() {
            let name = sample.elements[at].name.clone();
            let Some(entry) = CATALOG.entry(&sample.elements[at].class) else { continue };
            let spec = &entry.spec;
            if spec.topic.is_port() && spec.handler("byte_count").is_some() {
                sample.ports.push(port(client, name, entry));
            } else if spec.topic == Topic::Nf && spec.handler("state").is_some() {
                sample.functions.push(function(client, name));
            } else if entry.begins_classification() && sample.sessions.is_none() {
                // All of them share one table.
                sample.sessions = sessions(client, &name);
            }
        }
        Ok(sample)
    }

    /// Reads the handler `statistics`.
    fn parse(text: &str) -> anyhow::Result<Sample> {
        let mut sample = Sample::default();
        for line in text.lines() {
            sample.line(line).ok_or_else(|| anyhow!("its statistics have a line '{line}'"))?;
        }
        Ok(sample)
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split('\t').collect();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        let work = |at: usize| {
            let (packets, batches) = (number(at)?, number(at + 1)?);
            Some(Work { packets, batches, cycles: number(at + 2)? })
        };
        match *words.first()? {
            "time" => (self.cycles, self.nanoseconds) = (number(1)?, number(2)?),
            "thread" => self.threads.push(Thread {
                idle_cycles: number(2)?,
                made: number(3)?,
                work: work(4)?,
            }),
            "clock" => self.clocks.push((*words.get(2)?).to_owned()),
            "element" => self.elements.push(Element {
                name: (*words.get(1)?).to_owned(),
                class: (*words.get(2)?).to_owned(),
                work: work(3)?,
                drops: Vec::new(),
                kept: Vec::new(),
            }),
            "gap" => {
                let cause = (*words.get(5)?, *words.get(6)?);
                self.gaps.push(Gap {
                    thread: number(1)?,
                    when: (*words.get(2)?).to_owned(),
                    own: number(3)?,
                    whole: number(4)?,
                    cause: match cause {
                        (kind, "-") => kind.to_owned(),
                        (kind, name) => format!("{kind} {name}"),
                    },
                });
            }
            "drop" => {
                let element = self.elements.last_mut().filter(|one| one.name == words[1])?;
                let (reason, count) = (*words.get(2)?, number(3)?);
                match words.get(4).copied().unwrap_or("lost") {
                    "lost" => element.drops.push((reason.to_owned(), count)),
                    fate => element.kept.push((format!("{reason} ({fate})"), count)),
                }
            }
            // Of a later version.
            _ => {}
        }
        Some(())
    }
}

/// A handler's value; `None` where there is none.
fn word(client: &mut Client, element: &str, handler: &str) -> Option<String> {
    client.read(&format!("{element}.{handler}")).ok().map(|text| text.trim().to_owned())
}

fn number(client: &mut Client, element: &str, handler: &str) -> Option<u64> {
    word(client, element, handler)?.parse().ok()
}

fn port(client: &mut Client, name: String, entry: &Entry) -> Port {
    // Outputs that may be left out are for what could not be sent.
    let direction = match entry.spec.ports.split_once('/') {
        Some(("0", _)) => "in",
        Some((inputs, outputs)) if outputs.starts_with('0') && inputs.starts_with('1') => "out",
        _ => "both",
    };
    let what = word(client, &name, "config").unwrap_or_default();
    Port {
        what: what.split(',').next().unwrap_or_default().to_owned(),
        direction,
        packets: number(client, &name, "count"),
        bytes: number(client, &name, "byte_count"),
        name,
    }
}

fn function(client: &mut Client, name: String) -> Function {
    let mut word_of = |handler: &str| word(client, &name, handler).unwrap_or_else(|| "-".into());
    let (state, pid, restarts) = (word_of("state"), word_of("pid"), word_of("restarts"));
    Function {
        state,
        pid,
        restarts,
        packets_in: number(client, &name, "packets_in"),
        packets_out: number(client, &name, "packets_out"),
        wake_ups: number(client, &name, "wake_ups"),
        occupancy: number(client, &name, "occupancy"),
        cpu_seconds: word(client, &name, "cpu_time").and_then(|text| text.parse().ok()),
        name,
    }
}

fn sessions(client: &mut Client, name: &str) -> Option<Sessions> {
    Some(Sessions {
        now: number(client, name, "sessions")?,
        created: number(client, name, "created")?,
        expired: number(client, name, "expired")?,
        closed: number(client, name, "closed")?,
        refused: number(client, name, "refused")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_read_line_by_line() {
        let text = "time\t1000\t400\nthread\t0\t250\t8\t24\t3\t600\nclock\t0\trunning\t1\n\
                    gap\t0\tworst\t7\t9\ttask\tc\n\
                    element\tc\tCheckIPHeader\t8\t1\t99\ndrop\tc\tbad\t2\nfuture\tline\n";
        let sample = Sample::parse(text).unwrap();
        assert_eq!((sample.cycles, sample.nanoseconds), (1000, 400));
        let work = Work { packets: 24, batches: 3, cycles: 600 };
        assert_eq!(sample.threads, [Thread { idle_cycles: 250, made: 8, work }]);
        assert_eq!(sample.clocks, ["running"]);
        assert_eq!((sample.gaps[0].own, sample.gaps[0].cause.as_str()), (7, "task c"));
        assert_eq!(sample.elements[0].work, Work { packets: 8, batches: 1, cycles: 99 });
        assert_eq!(sample.elements[0].drops, [("bad".to_owned(), 2)]);
    }

    #[test]
    fn what_is_no_statistics_is_told() {
        for wrong in
            ["time\t1", "drop\tc\tbad\t2", "drop", "element\tc", "thread\t0\t1\t2\t3\tx\t5"]
        {
            let error = Sample::parse(wrong).unwrap_err().to_string();
            assert_eq!(error, format!("its statistics have a line '{wrong}'"));
        }
    }
}
