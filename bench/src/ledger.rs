//! Counters of a bench's own elements, which other threads read while a router runs.

use std::ops::Range;
use std::sync::Arc;

use thruway_element::{ArgErrors, Args, Shared};

/// See the module.
pub trait Ledger: Default + Send + Sync + 'static {
    /// The bench's name.
    const BENCH: &'static str;

    /// Puts it where the elements of a configuration look for it.
    fn provide(self: Arc<Self>, shared: &Shared) {
        shared.get("", Self::BENCH, || self);
    }

    /// The one of the elements' configuration.
    ///
    /// # Errors
    /// The bench has provided none.
    fn of(args: &Args<'_>) -> Result<Arc<Self>, ArgErrors> {
        let shared = args.env().shared.get::<Arc<Self>>("", Self::BENCH, Arc::default);
        let ledger = shared.ok_or_else(|| ArgErrors::whole("the bench gave it no ledger"))?;
        Ok(Arc::clone(&ledger))
    }
}

/// The number that some bytes of a packet say; 0 where they are not there.
pub fn number(bytes: &[u8], range: Range<usize>) -> u64 {
    let bytes = bytes.get(range).unwrap_or_default();
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
