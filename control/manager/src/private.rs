//! What only this user can have written.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

use rustix::process::geteuid;

/// Why another user could read or write a file or directory, if one could; and what to do.
pub(crate) fn open_to_others(found: &Metadata) -> Option<&'static str> {
    if found.uid() != geteuid().as_raw() {
        Some("it belongs to another user")
    } else if found.mode() & 0o077 == 0 {
        None
    } else if found.is_dir() {
        Some("it is open to other users; chmod 700 it")
    } else {
        Some("it is open to other users; chmod 600 it")
    }
}
