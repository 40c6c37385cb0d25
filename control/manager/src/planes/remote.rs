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

    /// Has the data plane read its configuration file again and replace what runs by it, in so many
    /// threads (`None`: as many as there are) on these cores (`None`: on those that it chooses);
    /// waits until that is done.
    pub(super) fn swap(self, threads: Option<usize>, cores: Option<&str>) -> Swap {
        // An earlier version does not know THREADS.
        let threads = threads.map_or_else(String::new, |count| format!("THREADS {count} "));
        let how = format!("{threads}CORES {}", cores.unwrap_or_default());
        let end = Instant::now() + SWAP_MAX;
        let asked = self.connect(SWAP_MAX).and_then(|mut client| {
            let before = Counts::of(&mut client)?;
            client.write("reload", &how)?;
            Ok(before)
        });
        let before = match asked {
            Ok(before) => before,
            Err(error) if error.is::<Refused>() => return Swap::Refused(error.to_string()),
            Err(error) => return Swap::Unknown(error.to_string()),
        };
        let mut wanted = None;
        loop {
            let now = self.connect(ANSWER_MAX).and_then(|mut client| Counts::of(&mut client));
            match now {
                Ok(now) => {
                    // It is this one's number, or that of a later one, which read the same file.
                    let wanted = *wanted.get_or_insert(now.asked);
                    if let Some(fate) = now.fate(&before, wanted) {
                        return fate;
                    }
                    if Instant::now() > end {
                        let limit = SWAP_MAX.as_secs();
                        return Swap::Unknown(format!("the hot swap takes longer than {limit} s"));
                    }
                }
                // While one configuration follows the other, the socket may be without one.
                Err(error) if Instant::now() > end || has_ended(&error) => {
                    return Swap::Unknown(error.to_string());
                }
                Err(_) => {}
            }
            std::thread::sleep(LOOK);
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
    /// Number of the last configuration that was built; `None` of a data plane of an earlier
    /// version.
    asked: Option<u64>,
    /// Number of the last one that took over or could not, and whether it took over.
    settled: Option<(u64, bool)>,
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
                "asked" => counts.asked = value.parse().ok(),
                "settled" => counts.settled = settled(value),
                "reason" => value.clone_into(&mut counts.reason),
                _ => {}
            }
        }
        counts
    }

    /// What became of configuration `wanted`; `None` as long as that is open. Without numbers the
    /// first count that grew since `before` is taken for it: one that an earlier manager asked for
    /// may be mistaken for it.
    fn fate(&self, before: &Counts, wanted: Option<u64>) -> Option<Swap> {
        let took_over = match (wanted, self.settled) {
            (Some(wanted), Some((number, took_over))) if number >= wanted => took_over,
            (None, _) if self.taken > before.taken => true,
            (None, _) if self.refused > before.refused => false,
            _ => return None,
        };
        Some(if took_over { Swap::Taken } else { Swap::Refused(self.reason.clone()) })
    }
}

/// Reads `NUMBER taken` or `NUMBER refused`.
fn settled(value: &str) -> Option<(u64, bool)> {
    let (number, fate) = value.split_once(' ')?;
    Some((number.parse().ok()?, fate == "taken"))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A hot swap of a data plane that reports these counts, one after the other.
    fn swap_of<const COUNT: usize>(reports: [&'static str; COUNT]) -> Swap {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("control.sock");
        let listener = UnixListener::bind(&socket).expect("a free path");
        // Ends with the last report, or with this program.
        std::thread::spawn(move || report(&listener, &reports));
        Remote { socket: &socket, pid: std::process::id() }.swap(None, None)
    }

    fn report(listener: &UnixListener, reports: &[&str]) {
        let mut reports = reports.iter();
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            write!(stream, "Click::ControlSocket/1.3\r\n").expect("it reads");
            for line in BufReader::new(stream.try_clone().expect("a descriptor")).lines() {
                if line.expect("text").starts_with("WRITE reload") {
                    write!(stream, "200 written\r\n").expect("it reads");
                    continue;
                }
                let Some(text) = reports.next() else { return };
                write!(stream, "200 read\r\nDATA {}\r\n{text}", text.len()).expect("it reads");
            }
        }
    }

    #[test]
    fn a_swap_that_an_earlier_manager_asked_for_is_not_taken_for_this_one() {
        let superseded = "taken 0\nrefused 1\nasked 2\nreason another came before\n";
        let before = "taken 0\nrefused 0\nasked 0\n";
        let taken = "taken 1\nrefused 1\nasked 2\nsettled 2 taken\nreason another came before\n";
        // The earlier one's gave way to this one.
        assert_eq!(swap_of([before, superseded, taken]), Swap::Taken);
        // The earlier one's took over, and this one could not.
        let first = "taken 1\nrefused 0\nasked 2\nsettled 1 taken\n";
        let second = "taken 1\nrefused 1\nasked 2\nsettled 2 refused\nreason no such file\n";
        let refused = Swap::Refused("no such file".to_owned());
        assert_eq!(swap_of([before, first, second]), refused);
        // A later one counts for this one, too.
        let later = "taken 1\nrefused 0\nasked 3\nsettled 3 taken\n";
        assert_eq!(swap_of([before, first, later]), Swap::Taken);
    }

    #[test]
    fn a_data_plane_of_an_earlier_version_is_waited_for_by_its_counts() {
        let before = "taken 4\nrefused 0\n";
        assert_eq!(swap_of([before, before, "taken 5\nrefused 0\n"]), Swap::Taken);
        let refused = "taken 4\nrefused 1\nreason no\n";
        assert_eq!(swap_of([before, before, refused]), Swap::Refused("no".to_owned()));
    }

    #[test]
    fn counts_are_read_whatever_stands_there() {
        let reason = "f:1: 'x': no such file".to_owned();
        let text =
            "taken 3\nrefused 1\nasked 4\nsettled 4 refused\nreason f:1: 'x': no such file\n";
        let (asked, settled) = (Some(4), Some((4, false)));
        let all = Counts { taken: 3, refused: 1, asked, settled, reason };
        assert_eq!(Counts::parse(text), all);
        for text in ["taken -1\n\nrefused\nx y\n", "asked x\nsettled 1\n", "settled x taken\n"] {
            assert_eq!(Counts::parse(text), Counts::default(), "{text}");
        }
    }
}
