//! Rules from files, for all threads.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;

use parking_lot::Mutex;
use thruway_inspect::rules::{RuleSet, Variables};
use thruway_sync::atomic::{AtomicU32, Ordering};

/// Longest file, bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The requested rules.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) files: Vec<String>,
    /// A file of classes, as `classification.config`.
    pub(super) classes: Option<String>,
    pub(super) variables: Variables,
    /// Good rules are used, whatever the others are.
    pub(super) lenient: bool,
    /// Whether an HTTP context finds messages.
    pub(super) has_messages: bool,
}

/// Rules that are looked for.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) set: Arc<RuleSet>,
    /// For the descriptions of classes.
    pub(super) variables: Variables,
    pub(super) refused: usize,
    /// The errors in refused rules, a line each.
    pub(super) problems: String,
}

/// The shared state of the replicas: the present rules, and their identity.
#[derive(Debug, Default)]
pub(super) struct Shared {
    loaded: Mutex<Option<Arc<Loaded>>>,
    generation: AtomicU32,
}

impl Shared {
    /// The generation of the present rules; others are there when it has changed.
    pub(super) fn generation(&self) -> u32 {
        // Relaxed: a thread that sees another number takes the lock, which orders the rest.
        self.generation.load(Ordering::Relaxed)
    }

    /// The rules, loaded on first use.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub(super) fn first(&self, wanted: &Wanted) -> Result<(Arc<Loaded>, u32), String> {
        let mut loaded = self.loaded.lock();
        if loaded.is_none() {
            *loaded = Some(Arc::new(wanted.load()?));
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
        let set = loaded.clone().ok_or_else(String::new)?;
        Ok((set, self.generation()))
    }

    /// The present rules, if there are any.
    pub(super) fn present(&self) -> Option<(Arc<Loaded>, u32)> {
        let loaded = self.loaded.lock();
        loaded.clone().map(|set| (set, self.generation()))
    }

    /// Loads the rules again; those that there are stay if they cannot be.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub(super) fn reload(&self, wanted: &Wanted) -> Result<(), String> {
        let fresh = Arc::new(wanted.load()?);
        let mut loaded = self.loaded.lock();
        *loaded = Some(fresh);
        self.generation.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Wanted {
    /// Reads everything.
    fn load(&self) -> Result<Loaded, String> {
        let mut variables = self.variables.clone();
        let mut problems = String::new();
        if let Some(file) = &self.classes {
            let text = String::from_utf8_lossy(&read(file)?).into_owned();
            for line in variables.read_classes(&text) {
                note(&mut problems, &format!("{file}, line {line}: is no class of rules"));
            }
        }
        let (mut all, mut begins) = (Vec::new(), Vec::new());
        for file in &self.files {
            begins.push((1 + all.iter().filter(|byte| **byte == b'\n').count(), file));
            all.extend(read(file)?);
            all.push(b'\n');
        }
        let loaded = RuleSet::load_lenient(&all, &variables);
        for error in &loaded.errors {
            let at = begins.partition_point(|(begin, _)| *begin <= error.line).max(1) - 1;
            let (begin, file) = begins[at];
            let error =
                thruway_inspect::rules::RuleError { line: error.line - begin + 1, ..error.clone() };
            note(&mut problems, &format!("{file}, {error}"));
        }
        let blind = self.blind(&loaded.set, &mut problems);
        if !self.lenient && !problems.is_empty() {
            let end = "nothing is loaded; fix these, or set LENIENT true to skip them";
            return Err(format!("{problems}{end}"));
        }
        let (set, refused) = (Arc::new(loaded.set), loaded.refused + blind);
        Ok(Loaded { set, variables, refused, problems })
    }

    /// Number of rules that would match nothing, because no context finds messages.
    fn blind(&self, set: &RuleSet, problems: &mut String) -> usize {
        if self.has_messages {
            return 0;
        }
        let blind = set.rules().iter().filter(|rule| rule.is_of_messages());
        let sids: Vec<u32> = blind.map(|rule| rule.about.sid).collect();
        if !sids.is_empty() {
            let shown: Vec<String> = sids.iter().take(10).map(u32::to_string).collect();
            let more = if sids.len() > shown.len() { "..." } else { "" };
            let message = format!(
                "parts of HTTP messages are looked at by sid {}{more} ({} in all), but no HTTPIn \
                 stands in front of it",
                shown.join(", "),
                sids.len()
            );
            note(problems, &message);
        }
        sids.len()
    }
}

fn note(problems: &mut String, line: &str) {
    let _ = writeln!(problems, "{line}"); // a String does not fail
}

fn read(file: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let opened = File::open(file);
    match opened.and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)) {
        Err(error) => Err(format!("cannot read '{file}': {error}")),
        Ok(len) if len as u64 > FILE_BYTES_MAX => {
            Err(format!("'{file}' is longer than {FILE_BYTES_MAX} bytes"))
        }
        Ok(_) => Ok(bytes),
    }
}
