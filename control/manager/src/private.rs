//! What only this user can have written, or only this user and root can change.

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

/// Why a user besides this one and root could change a file, or what is in a directory; and what to
/// do. What is in a sticky directory can be renamed only by its owner.
pub(crate) fn changeable_by_others(found: &Metadata) -> Option<&'static str> {
    let owner = found.uid();
    let sticky = found.is_dir() && found.mode() & 0o1000 != 0;
    if owner != 0 && owner != geteuid().as_raw() {
        Some("it belongs to another user")
    } else if found.mode() & 0o022 != 0 && !sticky {
        Some("its mode lets others write; chmod go-w it")
    } else {
        None
    }
}
