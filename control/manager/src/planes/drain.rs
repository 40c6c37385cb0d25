//! How a data plane drains: elements take part by their handlers, whatever their class.
//!
//! `switchover` has another host serve the traffic, with its sessions; `draining` refuses new
//! sessions, and `sessions` counts those that are left.

use std::time::Instant;

use super::remote::Remote;
use crate::PlaneError;

/// The elements of a data plane that take part.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Participants {
    /// Those that can have another host serve.
    pub(super) pairs: Vec<String>,
    /// Those that can refuse new sessions; one of them counts for all.
    pub(super) gates: Vec<String>,
}

/// A data plane that drains.
pub(super) struct Draining {
    /// Its process and generation.
    pub(super) of: (u32, u64),
    /// The elements that take part.
    pub(super) participants: Participants,
    /// When that began.
    pub(super) begun: Instant,
}

/// How far it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing is left to wait for, for this reason.
    Done(String),
    /// Something is left, with the reason.
    Waits(&'static str, String),
}

impl Participants {
    /// Asks a data plane for its elements and their handlers.
    pub(super) fn read(remote: Remote<'_>) -> Result<Participants, PlaneError> {
        let list = remote.read("list")?;
        let names: Vec<&str> = list.lines().skip(1).collect();
        let handlers: Vec<String> = names.iter().map(|name| format!("{name}.handlers")).collect();
        let mut found = Participants::default();
        for (name, handlers) in names.iter().zip(remote.read_each(&handlers)?) {
            found.add(name, &handlers.unwrap_or_default());
        }
        Ok(found)
    }

    /// Adds an element if it takes part by its handlers, of which `handlers` has a line each.
    fn add(&mut self, name: &str, handlers: &str) {
        let has = |wanted: &str| {
            handlers.lines().any(|line| line.split_whitespace().next() == Some(wanted))
        };
        if has("switchover") && has("role") && has("passing") {
            self.pairs.push(name.to_owned());
        }
        if has("draining") && has("sessions") {
            self.gates.push(name.to_owned());
        }
    }

    /// Goes on: has another host serve, or refuses new sessions. While `is_patient`, it waits for
    /// another host that cannot serve yet.
    pub(super) fn advance(
        &self,
        remote: Remote<'_>,
        is_patient: bool,
    ) -> Result<Progress, PlaneError> {
        let each = |handler| -> Vec<String> {
            self.pairs.iter().map(|name| format!("{name}.{handler}")).collect()
        };
        let roles = remote.read_each(&each("role"))?;
        let mut refused = None;
        for (name, role) in self.pairs.iter().zip(&roles) {
            if role.as_deref().map(str::trim) == Some("active") {
                refused = remote.write(&format!("{name}.switchover"), "").err().or(refused);
            }
        }
        let is = |word, answer: &Option<String>| answer.as_deref().map(str::trim) == Some(word);
        let are_backups = !roles.is_empty() && roles.iter().all(|role| is("backup", role));
        // Packets may come for a while, until neighbours know where the other host is.
        let passing = remote.read_each(&each("passing"))?;
        let refused = match refused {
            None if are_backups && passing.iter().all(|answer| is("false", answer)) => {
                return Ok(Progress::Done("the other host of its pair serves".into()));
            }
            None if !roles.is_empty() => {
                let message = "the other host of its pair takes over";
                return Ok(Progress::Waits("SwitchingOver", message.into()));
            }
            Some(why) if is_patient => {
                let message = format!("the other host of its pair cannot serve yet: {why}");
                return Ok(Progress::Waits("SwitchingOver", message));
            }
            refused => refused,
        };
        let Some(gate) = self.gates.first() else {
            return Ok(Progress::Done("none of its elements has sessions".into()));
        };
        remote.write(&format!("{gate}.draining"), "true")?;
        let count = remote.read(&format!("{gate}.sessions"))?;
        let count = count.trim();
        if count == "0" {
            return Ok(Progress::Done("its last session has ended".into()));
        }
        let alone = refused.map(|why| format!("; no other host takes them over: {why}"));
        let message = format!("{count} sessions are left{}", alone.unwrap_or_default());
        Ok(Progress::Waits("Draining", message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_take_part_by_their_handlers() {
        let mut found = Participants::default();
        found.add("classifier", "sessions\tr\ndraining\trw\nclass\tr\n");
        found.add("pair", "role\tr\npassing\tr\nswitchover\tw\n");
        found.add("balance", "drain\tw\nsessions\tr\n");
        found.add("odd", "switchover\tw\ndrainings\trw\n\n");
        let expected =
            Participants { pairs: vec!["pair".into()], gates: vec!["classifier".into()] };
        assert_eq!(found, expected);
    }
}
