//! Keys of sessions, as the flow manager and as records have them.

use thruway_flow::manager::Key;
use thruway_replication::SessionKey;

/// The key for a record: of IPv6 without the words that only keys with raw fields use.
pub(super) fn sent(key: &Key) -> SessionKey {
    match key {
        Key::Narrow(words) => SessionKey::V4(*words),
        Key::Wide([words @ .., _, _]) => SessionKey::V6(*words),
    }
}

/// The key of a record.
pub(super) fn received(key: &SessionKey) -> Key {
    match key {
        SessionKey::V4(words) => Key::Narrow(*words),
        SessionKey::V6(words) => {
            let mut wide = [0; 12];
            wide[..words.len()].copy_from_slice(words);
            Key::Wide(wide)
        }
    }
}
