//! Why packets go no further.

use thruway_element::reasons;

reasons! {
    /// Why a packet goes no further.
    pub(crate) enum Lost {
        NoServer = "no-server": "no server takes new sessions",
        Taken = "taken": "answers could not be distinguished from another session's, whatever the server",
        NoRoom = "no-room": "the session table has no room for the key of the answers",
        Removed = "removed": "its server was removed with all sessions",
        Spoofed = "spoofed": "a session that began with a packet claiming to be a service's",
        Untranslatable = "untranslatable": "headers are cut short",
        NoSession = "no-session": "to a service's address and without a session: a fragment...",
    }
}
