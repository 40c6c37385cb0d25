//! Sessions of isolated functions that another host takes over, with their scratch.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;

use ring::digest::{Context, SHA256};
use thruway_element::{Answers, SessionTransfer, TransferForm};
use zerocopy::{FromBytes, IntoBytes};

use super::replica::Nf;
use super::sessions::{Entries, SessionEntry};
use super::settings::Settings;

/// Bytes of the digest that are compared.
const DIGEST_LEN: usize = 8;
/// Bytes of the program that are read at once.
const PIECE: usize = 64 << 10;
const NO_ENTRIES: &str = "the function has not started yet";
const OTHER_STATE: &str = "a state of another size";

/// Why sessions of a function with these settings stay on this host.
fn obstacle(settings: &Settings) -> Option<&'static str> {
    if settings.stream.is_some() {
        return Some("a function of streams (STREAM) holds bytes that are in no scratch");
    }
    if settings.machine.is_some() {
        return Some("it runs in a virtual machine (VM): run the function as a process");
    }
    (settings.workers > 1).then_some("it has several Workers: leave WORKERS out")
}

/// What the program is: its name, and a digest of its bytes, arguments and configuration.
fn identity(settings: &Settings) -> Result<String, String> {
    let shown = settings.program.display();
    let unreadable = |error| format!("cannot read '{shown}': {error}");
    let mut context = Context::new(&SHA256);
    let mut file = File::open(&settings.program).map_err(unreadable)?;
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece).map_err(unreadable)? {
            0 => break,
            len => context.update(&piece[..len]),
        }
    }
    for text in settings.arguments.iter().chain([&settings.config]) {
        context.update(&(text.len() as u64).to_be_bytes());
        context.update(text.as_bytes());
    }
    let name = settings.program.file_name().unwrap_or_default().to_string_lossy();
    let mut text = format!("program {} ", name.replace(|c: char| c == ';' || c.is_control(), "_"));
    for byte in &context.finish().as_ref()[..DIGEST_LEN] {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

impl Nf {
    /// Its entries, with the memory of the function that runs.
    fn entries_with_arena(&mut self) -> Option<&mut Entries> {
        let state = self.running.as_mut()?;
        let (entries, function) = (state.entries.as_mut()?, &state.function);
        entries.have_arena(|| function.arena());
        Some(entries)
    }
}

impl SessionTransfer for Nf {
    fn form(&self) -> Result<TransferForm, String> {
        if let Some(why) = obstacle(&self.settings) {
            return Err(why.to_owned());
        }
        let sessions = self.settings.sessions.as_ref();
        let state_len_max = sessions.map_or(0, |all| all.scratch_len_max as usize);
        Ok(TransferForm { identity: identity(&self.settings)?, state_len_max })
    }

    fn export(&self, state: &[u8], out: &mut Vec<u8>) -> bool {
        let entries = self.running.as_ref().and_then(|state| state.entries.as_ref());
        let entry = SessionEntry::read_from_bytes(state).ok();
        entries.zip(entry).is_some_and(|(entries, entry)| entries.export(&entry, out))
    }

    fn exported(&mut self, session: (u8, u32), state: &[u8]) {
        let entries = self.running.as_mut().and_then(|state| state.entries.as_mut());
        if let (Some(entries), Ok(entry)) = (entries, SessionEntry::read_from_bytes(state)) {
            entries.set_session(&entry, session);
        }
    }

    fn import(
        &mut self,
        bytes: &[u8],
        _answers: &mut dyn Answers,
        state: &mut [u8],
    ) -> Result<(), &'static str> {
        let entry = self.entries_with_arena().ok_or(NO_ENTRIES)?.import(bytes)?;
        entry.write_to(state).map_err(|_| OTHER_STATE)
    }

    fn update(&mut self, bytes: &[u8], state: &mut [u8]) -> Result<(), &'static str> {
        let mut entry = SessionEntry::read_from_bytes(state).map_err(|_| OTHER_STATE)?;
        self.entries_with_arena().ok_or(NO_ENTRIES)?.update(&mut entry, bytes)?;
        entry.write_to(state).map_err(|_| OTHER_STATE)
    }

    fn count_changed(&mut self) -> usize {
        let entries = self.running.as_mut().and_then(|state| state.entries.as_mut());
        entries.map_or(0, |entries| entries.changes().len())
    }

    fn next_changed(&mut self) -> Option<(u8, u32)> {
        let done = self.done_count().map(|done| done as u32);
        let entries = self.running.as_mut()?.entries.as_mut()?;
        entries.changes().next(done)
    }

    fn is_settled(&self) -> bool {
        self.done_count().is_none()
    }
}

#[cfg(test)]
mod tests {
    use thruway_element::{Addresses, Args, Env, Shared};

    use super::*;
    use crate::nf::ENTRY;

    fn nf(texts: &[&str]) -> Nf {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let (addresses, shared) = (Addresses::default(), Shared::default());
        let env = Env { inputs: 1, outputs: 1, ..Env::alone("nf", "Nf", &addresses, &shared) };
        Nf::of(&Args::sort(&ENTRY.spec, &texts, &env).unwrap()).unwrap()
    }

    #[test]
    fn the_identity_is_that_of_program_arguments_and_configuration() {
        let of = |texts: &[&str]| nf(&[texts, &["SESSION connection"]].concat()).form().unwrap();
        let plain = of(&["EXEC /bin/true"]);
        assert!(plain.identity.starts_with("program true "), "{}", plain.identity);
        assert_eq!(plain.state_len_max, 256);
        assert_eq!(of(&["EXEC /bin/true", "SLOTS 64", "SCRATCH 256"]), plain, "how it is run");
        let others = [
            of(&["EXEC /bin/false"]),
            of(&["EXEC \"/bin/true a;b\""]),
            of(&["EXEC \"/bin/true a b\""]),
            of(&["EXEC /bin/true", "CONFIG \"a b\""]),
        ];
        for (at, other) in others.iter().enumerate() {
            assert!(!other.identity.contains(';'), "{}", other.identity);
            assert_ne!(*other, plain);
            assert!(!others[..at].contains(other), "{}", other.identity);
        }
    }

    #[test]
    fn functions_that_hold_more_than_scratch_are_refused() {
        let plain = ["EXEC /bin/true", "SESSION connection"];
        let of_streams = nf(&[&plain[..], &["STREAM order"]].concat());
        assert!(of_streams.form().unwrap_err().contains("STREAM"));
        let mut several = nf(&plain);
        assert!(several.form().is_ok());
        several.settings.workers = 2;
        assert!(several.form().unwrap_err().contains("WORKERS"));
    }
}
