//! How a Master goes to sleep without losing a wake-up.

use thruway_nf_abi::Word;
use thruway_sync::atomic::{Ordering, fence};

use super::Master;
use crate::storage::Storage;

impl<S: Storage> Master<S> {
    /// Declares that the Master goes to sleep and wants its wake-up line written when something
    /// comes back. False, and nothing declared, when something is there already: look, do not
    /// sleep.
    pub fn rest(&mut self) -> bool {
        let word = self.storage.word(Word::MasterWaits);
        // A swap for the same reason as in `prepare_wait`.
        word.swap(1, Ordering::Relaxed);
        // M2: orders the declaration before the second look; pairs with W2 in Worker::publish.
        fence(Ordering::SeqCst);
        let injected = self.storage.word(Word::Injected).load(Ordering::Relaxed);
        let returned = self.storage.word(Word::WorkerProduced).load(Ordering::Relaxed);
        if returned == self.consumed && injected == self.injection_consumed {
            return true;
        }
        self.wakened();
        false
    }

    /// Takes back [`rest`](Self::rest). True when the Worker has seen it: then its wake-up line
    /// was written, or will be.
    pub fn wakened(&mut self) -> bool {
        self.storage.word(Word::MasterWaits).swap(0, Ordering::Relaxed) == 0
    }
}
