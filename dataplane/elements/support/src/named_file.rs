//! Files that the value of a handler names.
//!
//! What the configuration itself names, in its arguments and scripts, is opened with the process's
//! rights: the operator wrote it. What a caller from outside names ([`Outside`]) is beneath the
//! directory that the operator set aside for that, is reached over no link, and is a plain file of
//! this user that has no other name; or else it is refused.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::io::Errno;
use thruway_element::{Cx, Outside};

/// A file to be written, empty.
///
/// # Errors
/// The system's error; or that the caller has no permission.
pub fn create(cx: &mut Cx<'_>, name: &str) -> io::Result<File> {
    match cx.calls().origin() {
        None => File::create(name),
        Some(outside) => {
            let file = beneath(&outside, name, OFlags::WRONLY | OFlags::CREATE)?;
            file.set_len(0)?;
            Ok(file)
        }
    }
}

/// A file to be read.
///
/// # Errors
/// As [`create`].
pub fn read(cx: &mut Cx<'_>, name: &str) -> io::Result<File> {
    match cx.calls().origin() {
        None => File::open(name),
        Some(outside) => beneath(&outside, name, OFlags::RDONLY),
    }
}

/// Refuses standard output to callers from outside.
///
/// # Errors
/// The caller is one.
pub fn standard_output(cx: &mut Cx<'_>) -> io::Result<()> {
    match cx.calls().origin() {
        None => Ok(()),
        Some(_) => Err(io::Error::other("standard output is not for callers from outside")),
    }
}

fn beneath(outside: &Outside, name: &str, flags: OFlags) -> io::Result<File> {
    let Some(dir) = &outside.files else {
        return Err(io::Error::other(
            "files that values name are refused; give the directory for them: FILES DIR of the \
             ControlSocket, or --files DIR of thruway run",
        ));
    };
    let there = |error: io::Error| io::Error::other(format!("{}: {error}", dir.display()));
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let base = open(dir, directory, Mode::empty()).map_err(|errno| there(errno.into()))?;
    // A pipe or device that lies there is not waited for.
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mode = if flags.contains(OFlags::CREATE) { Mode::RUSR | Mode::WUSR } else { Mode::empty() };
    let opened =
        openat2(&base, Path::new(name), flags, mode, within).map_err(|errno| match errno {
            Errno::XDEV | Errno::LOOP => {
                there(io::Error::other(format!("'{name}' leads out of it, or over a link")))
            }
            Errno::NOSYS => there(io::Error::other("needs openat2: Linux 5.6")),
            errno => errno.into(),
        })?;
    let stat = fstat(&opened)?;
    let is_plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let is_own = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_nlink == 1;
    match is_plain && is_own {
        true => Ok(File::from(opened)),
        false => Err(there(io::Error::other(format!(
            "'{name}' is no plain file of this user with one name"
        )))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    const CREATE: OFlags = OFlags::WRONLY.union(OFlags::CREATE);

    #[test]
    fn values_name_files_of_one_directory_only() {
        let top = tempfile::tempdir().expect("a directory");
        let dir = top.path().join("files");
        std::fs::create_dir_all(dir.join("sub")).expect("a directory");
        std::fs::write(top.path().join("secret"), "keep").expect("a file");
        let outside = Outside { read_only: false, files: Some(dir.clone()) };
        let open = |name: &str| beneath(&outside, name, CREATE);
        for name in ["new", "sub/new", "sub/../twice"] {
            open(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let made = std::fs::metadata(dir.join("new")).expect("it was made");
        assert_eq!(made.permissions().mode() & 0o777, 0o600);

        symlink("../secret", dir.join("link")).expect("a link");
        symlink("..", dir.join("up")).expect("a link");
        symlink("/proc/self/root", dir.join("root")).expect("a link");
        std::fs::hard_link(top.path().join("secret"), dir.join("hard")).expect("a link");
        let pipe = std::process::Command::new("mkfifo").arg(dir.join("pipe")).status();
        assert!(pipe.expect("mkfifo").success());
        let absolute = top.path().join("secret");
        let absolute = absolute.to_str().expect("plain text");
        for name in [
            "../secret",
            "sub/../../secret",
            absolute,
            "link",
            "up/secret",
            "root/etc/passwd",
            "hard",
            "sub",
            "pipe",
            "",
        ] {
            open(name).expect_err(name);
            beneath(&outside, name, OFlags::RDONLY).expect_err(name);
        }
        assert_eq!(std::fs::read_to_string(top.path().join("secret")).expect("there"), "keep");
        let error = beneath(&Outside::default(), "new", CREATE).expect_err("no directory");
        assert!(error.to_string().contains("--files DIR"), "{error}");
    }
}
