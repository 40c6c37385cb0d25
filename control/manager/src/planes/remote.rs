//! What the manager asks of a data plane, over its control socket.

use std::path::Path;
use std::time::{Duration, Instant};

use thruway_client::{Client, Refused};

use crate::PlaneError;

/// Longest wait for an answer to one question.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Longest time that a hot swap may take: it builds all elements of the new configuration.
const SWAP_MAX: Duration = Duration::from_secs(30);
/// Between two looks at whether a hot swap is done.
const LOOK: Duration = Duration::from_millis(2);

/// What became of a hot swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Swap {
    /// The new configuration runs.
    Taken,
    /// The old configuration runs on, for this reason.
    Refused(String),
    /// Nobody knows which one runs, for this reason.
    Unknown(String),
}

/// A data plane's control socket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Remote<'a> {
    /// The socket.
    pub(super) socket: &'a Path,
    /// The process that must listen there.
    pub(super) pid: u32,
}

impl Remote<'_> {
    fn connect(self, limit: Duration) -> anyhow::Result<Client> {
        Client::of_process(self.socket, self.pid, limit)
    }

    /// Whether it answers.
    ///
    /// # Errors
    /// It does not, with the reason.
    pub(super) fn check(self) -> Result<(), String> {
        self.read("version").map(drop).map_err(|error| error.to_string())
    }

    /// Reads a handler.
    ///
    /// # Errors
    /// The data plane refuses, or does not answer within two seconds.
    pub(super) fn read(self, handler: &str) -> Result<String, PlaneError> {
        let answer = self.connect(ANSWER_MAX).and_then(|mut client| client.read(handler));
        answer.map_err(|error| PlaneError::Refused(error.to_string()))
    }

    /// Reads handlers over one connection; `None` for each that is refused.
    ///
    /// # Errors
    /// The data plane does not answer all of it within two seconds.
    pub(super) fn read_each(self, handlers: &[String]) -> Result<Vec<Option<String>>, PlaneError> {
        let answers = self.connect(ANSWER_MAX).and_then(|mut client| {
            let read = |handler: &String| match client.read(handler) {
                Ok(value) => Ok(Some(value)),
                Err(error) if error.is::<Refused>() => Ok(None),
                Err(error) => Err(error),
            };
            handlers.iter().map(read).collect()
        });
        answers.map_err(|error| PlaneError::Refused(error.to_string()))
    }

    /// Writes a handler.
    ///
    /// # Errors
    /// The data plane refuses, or does not answer within two seconds.
    pub(super) fn write(self, handler: &str, value: &str) -> Result<(), PlaneError> {
        let answer = self.connect(ANSWER_MAX).and_then(|mut client| client.write(handler, value));
        answer.map_err(|error| PlaneError::Refused(error.to_string()))
    }

    /// Has the data plane read its configuration file again and replace what runs by it; waits
    /// until that is done.
    pub(super) fn swap(self) -> Swap {
        let end = Instant::now() + SWAP_MAX;
        let asked = self.connect(SWAP_MAX).and_then(|mut client| {
            let before = Counts::of(&mut client)?;
            client.write("reload", "")?;
            Ok(before)
        });
        let before = match asked {
            Ok(before) => before,
            Err(error) if error.is::<Refused>() => return Swap::Refused(error.to_string()),
            Err(error) => return Swap::Unknown(error.to_string()),
        };
        loop {
            let now = self.connect(ANSWER_MAX).and_then(|mut client| Counts::of(&mut client));
            match now {
                Ok(now) if now.taken > before.taken => return Swap::Taken,
                Ok(now) if now.refused > before.refused => return Swap::Refused(now.reason),
                // While one configuration follows the other, the socket may be without one.
                other if Instant::now() > end => {
                    let reason = other.err().map_or_else(
                        || format!("the hot swap takes longer than {} s", SWAP_MAX.as_secs()),
                        |error| error.to_string(),
                    );
                    return Swap::Unknown(reason);
                }
                Err(error) if has_ended(&error) => return Swap::Unknown(error.to_string()),
                _ => std::thread::sleep(LOOK),
            }
        }
    }
}

/// Whether nobody listens any more.
fn has_ended(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<rustix::io::Errno>();
    matches!(kind, Some(&rustix::io::Errno::CONNREFUSED | &rustix::io::Errno::NOENT))
}

/// What the handler `swaps` counts.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    taken: u64,
    refused: u64,
    reason: String,
}

impl Counts {
    fn of(client: &mut Client) -> anyhow::Result<Counts> {
        Ok(Counts::parse(&client.read("swaps")?))
    }

    fn parse(text: &str) -> Counts {
        let mut counts = Counts::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once(' ')) {
            match name {
                "taken" => counts.taken = value.parse().unwrap_or(0),
                "refused" => counts.refused = value.parse().unwrap_or(0),
                "reason" => value.clone_into(&mut counts.reason),
                _ => {}
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_whatever_stands_there() {
        let reason = "f:1: 'x': no such file".to_owned();
        let all = Counts::parse("taken 3\nrefused 1\nreason f:1: 'x': no such file\n");
        assert_eq!(all, Counts { taken: 3, refused: 1, reason });
        assert_eq!(Counts::parse("taken -1\n\nrefused\nx y\n"), Counts::default());
    }
}
