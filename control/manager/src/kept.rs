//! Copies of declared executables, each by its hash: what chains run (ADR 53).
//!
//! A file that is replaced where it was declared changes no copy, and versions stand side by side.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::{StatVfsMountFlags, statvfs};

use crate::FunctionSpec;
use crate::executable::{self, Fault, fault, not_kept};
use crate::hashes::Hashes;
use crate::private::{at, private_dir};

/// Mode of a copy: functions run as users of their own.
const MODE: u32 = 0o555;

/// The directory of the copies, `STATE/functions`.
#[derive(Debug)]
pub struct Kept {
    dir: PathBuf,
    hashes: Hashes,
    /// Copies that were begun.
    begun: Mutex<u64>,
}

impl Kept {
    /// The copies of a state directory; makes the directory where it is missing.
    ///
    /// # Errors
    /// The file system refuses, or another user could change what is in it.
    pub fn open(state: &Path) -> io::Result<Kept> {
        let dir = state.join("functions");
        private_dir(&dir)?;
        let dir = dir.canonicalize().map_err(|error| at(&dir, &error))?;
        Ok(Kept { dir, hashes: Hashes::default(), begun: Mutex::new(0) })
    }

    /// Where the copy of a version is, if there is one.
    pub fn path(&self, function: &FunctionSpec) -> PathBuf {
        self.dir.join(&function.sha256)
    }

    /// Whether a copy is there that is the declared executable and can run.
    ///
    /// # Errors
    /// It is not so.
    pub fn verify(&self, function: &FunctionSpec) -> Result<(), Fault> {
        self.can_execute()?;
        self.hashes.verify(&self.path(function), &function.sha256)
    }

    /// Has a copy of the declared executable: the one that there is, or a new one. One that was
    /// damaged is replaced.
    ///
    /// # Errors
    /// There is none, and the executable is not as it was declared, or cannot be copied or run.
    pub fn keep(&self, function: &FunctionSpec) -> Result<(), Fault> {
        self.can_execute()?;
        match self.hashes.verify(&self.path(function), &function.sha256) {
            Ok(()) => Ok(()),
            Err(_) => self.copy(function),
        }
    }

    fn copy(&self, function: &FunctionSpec) -> Result<(), Fault> {
        let source = Path::new(&function.path);
        let executable = executable::open(source)?;
        let fresh = self.fresh();
        let refused = |error: io::Error| not_kept(source, &at(&fresh, &error));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh);
        let mut file = file.map_err(refused)?;
        let made = executable.copy(source, &mut file).and_then(|(hash, _)| {
            executable::compare(source, &hash, &function.sha256)?;
            file.set_permissions(Permissions::from_mode(MODE)).map_err(refused)?;
            file.sync_all().map_err(refused)?;
            fs::rename(&fresh, self.path(function)).map_err(refused)?;
            fs::File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(refused)
        });
        if made.is_err() {
            // It may be renamed already; what stays is removed by the next sweep.
            let _ = fs::remove_file(&fresh);
        }
        made
    }

    /// A name that no other copy has while it is written.
    fn fresh(&self) -> PathBuf {
        let mut begun = self.begun.lock();
        *begun += 1;
        self.dir.join(format!("new-{}-{begun}", std::process::id()))
    }

    /// Copies that are not wanted, and what a crash left.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn unwanted(&self, wanted: &BTreeSet<String>) -> io::Result<Vec<PathBuf>> {
        let own = format!("new-{}-", std::process::id());
        let is_wanted = |name: &str| wanted.contains(name) || name.starts_with(&own);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(|error| at(&self.dir, &error))? {
            let entry = entry?;
            if !entry.file_name().to_str().is_some_and(is_wanted) {
                found.push(entry.path());
            }
        }
        Ok(found)
    }

    /// Removes copies that are not wanted, and what a crash left.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn sweep(&self, wanted: &BTreeSet<String>) -> io::Result<()> {
        let remove = |path: &PathBuf| fs::remove_file(path).map_err(|error| at(path, &error));
        self.unwanted(wanted)?.iter().try_for_each(remove)
    }

    fn can_execute(&self) -> Result<(), Fault> {
        if !forbids_execution(&self.dir) {
            return Ok(());
        }
        let message = format!(
            "functions run from {}, whose file system is mounted noexec; mount it without, or \
             give another --state",
            self.dir.display()
        );
        Err(fault(true, "MountedNoexec", message))
    }
}

/// Whether nothing on this file system can be executed.
fn forbids_execution(path: &Path) -> bool {
    statvfs(path).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::access::{hex, sha256};
    use crate::executable::HASH_DIFFERS;

    struct Lab {
        dir: TempDir,
        kept: Kept,
    }

    impl Lab {
        fn new() -> Lab {
            let dir = TempDir::new().expect("a directory");
            let kept = Kept::open(dir.path()).expect("room");
            Lab { dir, kept }
        }

        /// A version of this content, whose file may have another.
        fn function(&self, declared: &str, content: &str) -> FunctionSpec {
            let path = self.dir.path().canonicalize().expect("there").join("ids");
            fs::write(&path, content).expect("written");
            fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("set");
            let (path, sha256) =
                (path.to_str().expect("text").to_owned(), hex(&sha256(declared.as_bytes())));
            FunctionSpec { path, sha256, ..FunctionSpec::default() }
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.kept.dir).expect("there").flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
        }
    }

    #[test]
    fn a_copy_is_kept_whatever_becomes_of_the_file() {
        let lab = Lab::new();
        let one = lab.function("one", "one");
        assert_eq!(lab.kept.verify(&one).expect_err("no copy yet").reason, "Missing");
        lab.kept.keep(&one).expect("copied");
        let found = fs::metadata(lab.kept.path(&one)).expect("there");
        assert_eq!(found.permissions().mode() & 0o7777, MODE);
        let two = lab.function("two", "two");
        lab.kept.keep(&two).expect("copied");
        fs::remove_file(&one.path).expect("removed");
        for (function, content) in [(&one, "one"), (&two, "two")] {
            lab.kept.keep(function).expect("kept");
            lab.kept.verify(function).expect("as declared");
            let read = fs::read_to_string(lab.kept.path(function)).expect("read");
            assert_eq!(read, content);
        }
        assert_eq!(lab.names().len(), 2);
    }

    #[test]
    fn another_executable_is_not_kept_and_leaves_nothing() {
        let lab = Lab::new();
        let fault = lab.kept.keep(&lab.function("one", "two")).expect_err("another one");
        assert_eq!(fault.reason, HASH_DIFFERS);
        assert!(fault.message.contains("has SHA-256"), "{fault:?}");
        assert!(lab.names().is_empty());
    }

    #[test]
    fn a_damaged_copy_is_found_and_replaced() {
        let lab = Lab::new();
        let one = lab.function("one", "one");
        lab.kept.keep(&one).expect("copied");
        let path = lab.kept.path(&one);
        fs::remove_file(&path).expect("removed");
        fs::write(&path, "two").expect("written");
        fs::set_permissions(&path, Permissions::from_mode(MODE)).expect("set");
        assert_eq!(lab.kept.verify(&one).expect_err("damaged").reason, HASH_DIFFERS);
        lab.kept.keep(&one).expect("copied again");
        lab.kept.verify(&one).expect("as declared");
        // A link in its place is none of the manager's.
        fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink("/bin/true", &path).expect("a link");
        assert_eq!(lab.kept.verify(&one).expect_err("a link").reason, "Link");
    }

    #[test]
    fn what_nobody_wants_goes() {
        let lab = Lab::new();
        let (one, two) = (lab.function("one", "one"), "two");
        lab.kept.keep(&one).expect("copied");
        lab.kept.keep(&lab.function(two, two)).expect("copied");
        // One of another process that was killed, and one that is being written here.
        let own = format!("new-{}-7", std::process::id());
        for name in ["new-1-0", &own] {
            fs::write(lab.kept.dir.join(name), "").expect("written");
        }
        lab.kept.sweep(&BTreeSet::from([one.sha256.clone()])).expect("swept");
        let mut names = lab.names();
        names.sort();
        assert_eq!(names, [one.sha256, own]);
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        let dir = TempDir::new().expect("a directory");
        let path = dir.path().join("functions");
        fs::create_dir(&path).expect("made");
        fs::set_permissions(&path, Permissions::from_mode(0o770)).expect("set");
        assert!(Kept::open(dir.path()).expect_err("open").to_string().contains("chmod 700"));
    }
}
