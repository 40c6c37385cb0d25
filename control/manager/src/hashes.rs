//! Hashes of executables, remembered for as long as they are true.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::access::Sha256;
use crate::executable::{self, Fault, Stamp};

/// Hashes that are kept, so that an unchanged executable is read once.
const HASHES_MAX: usize = 1024;

/// By the path, with what reports whether the file is still the same.
#[derive(Debug, Default)]
pub struct Hashes(Mutex<BTreeMap<PathBuf, (Stamp, Sha256)>>);

impl Hashes {
    /// Whether an executable has this hash, and others cannot change it; reads it only if it
    /// changed.
    ///
    /// # Errors
    /// It is not so.
    pub fn verify(&self, path: &Path, sha256: &str) -> Result<(), Fault> {
        executable::compare(path, &self.hash(path)?, sha256)
    }

    fn hash(&self, path: &Path) -> Result<Sha256, Fault> {
        let file = executable::open(path)?;
        let stamp = file.stamp().clone();
        if let Some((_, hash)) = self.0.lock().get(path).filter(|(of, _)| *of == stamp) {
            return Ok(*hash);
        }
        let (hash, is_settled) = file.hash(path)?;
        let mut all = self.0.lock();
        if all.len() >= HASHES_MAX {
            all.clear();
        }
        if is_settled {
            all.insert(path.to_owned(), (stamp, hash));
        }
        Ok(hash)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;
    use crate::access::{hex, sha256};
    use crate::executable::{HASH_DIFFERS, STAMP_AGE_MIN};

    fn executable_one() -> (TempDir, PathBuf) {
        let dir = TempDir::new().expect("a directory");
        let path = dir.path().canonicalize().expect("there").join("ids");
        fs::write(&path, "one").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
        (dir, path)
    }

    /// What a hash that is remembered must not outlive: content of the same length, in place.
    #[test]
    fn a_remembered_hash_is_of_the_content_that_is_there() {
        let (_dir, path) = executable_one();
        let (hashes, one) = (Hashes::default(), hex(&sha256(b"one")));
        let remembered = || hashes.0.lock().contains_key(&path);
        hashes.verify(&path, &one).expect("the declared one");
        assert!(!remembered(), "it is too new to be distinguished from what may be written now");
        std::thread::sleep(STAMP_AGE_MIN + Duration::from_millis(1100));
        hashes.verify(&path, &one).expect("the declared one");
        assert!(remembered());
        hashes.verify(&path, &one).expect("as remembered");
        fs::write(&path, "two").expect("written");
        assert_eq!(hashes.verify(&path, &one).expect_err("another one").reason, HASH_DIFFERS);
    }

    #[test]
    fn hashes_have_a_bound() {
        let (hashes, (_dir, path)) = (Hashes::default(), executable_one());
        let stamp = executable::open(&path).expect("there").stamp().clone();
        for number in 0..HASHES_MAX {
            let one = (stamp.clone(), Sha256::default());
            hashes.0.lock().insert(number.to_string().into(), one);
        }
        hashes.hash(&path).expect("read");
        assert!(hashes.0.lock().len() <= 1);
    }
}
