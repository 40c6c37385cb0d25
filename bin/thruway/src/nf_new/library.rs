//! The library for authors of functions, as it is in this program.

use std::fs;
use std::io;
use std::path::Path;

include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// Writes the library into a folder: the same files as in a checkout, without their tests.
///
/// # Errors
/// Of the system.
pub fn write(into: &Path) -> io::Result<()> {
    for (name, bytes) in FILES {
        let path = into.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, bytes)?;
    }
    Ok(())
}
