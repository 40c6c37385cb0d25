//! Counters that the host shows.

use std::cell::Cell;
use std::rc::Rc;

use thruway_exchange::Control;
use thruway_nf_abi::control::COUNTERS_MAX;

/// A named number that the function adds to and the host shows; the host sees it after each batch.
/// Clones are the same counter.
#[derive(Debug, Clone, Default)]
pub struct Counter(Rc<Cell<u64>>);

impl Counter {
    /// Adds.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.set(self.0.get().wrapping_add(n));
    }

    /// Sets: for what is a level, not a count.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.set(value);
    }

    /// Where the number is, for bindings to other languages; there as long as the function runs.
    pub fn as_ptr(&self) -> *mut u64 {
        self.0.as_ptr()
    }

    /// What it is.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// All of a function's.
#[derive(Debug)]
pub(crate) struct Counters {
    control: Control,
    /// With what the host was told.
    entries: Vec<(Counter, u64)>,
}

impl Counters {
    pub fn new(control: Control) -> Counters {
        Counters { control, entries: Vec::new() }
    }

    /// A new one, or why there is none.
    pub fn name(&mut self, name: &str) -> Result<Counter, String> {
        let is_plain = |c: char| c.is_alphanumeric() || "_-.".contains(c);
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(format!(
                "counter '{name}': a name has letters, digits, '_', '-' and '.' only"
            ));
        }
        let index = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        if index >= COUNTERS_MAX {
            return Err(format!("counter '{name}': there can be {COUNTERS_MAX} counters"));
        }
        let counter = Counter::default();
        self.control.name_counter(index, name);
        self.entries.push((counter.clone(), 0));
        Ok(counter)
    }

    /// Shows the host what changed.
    #[inline]
    pub fn announce(&mut self) {
        for (index, (counter, told)) in (0..).zip(&mut self.entries) {
            if counter.get() != *told {
                *told = counter.get();
                self.control.set_counter(index, *told);
            }
        }
    }
}
