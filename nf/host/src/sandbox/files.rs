//! Which files a function may see: its program, the loader and libraries that it needs, and what
//! the order adds. Each is found by its place here, never by what the program says of places.

use super::Program;
use super::elf::{self, Elf};
use crate::error::HostError;
use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Directories of the system's libraries, in the order of the search.
const LIBRARY_DIRS: &[&str] = &[
    #[cfg(target_arch = "x86_64")]
    "/lib/x86_64-linux-gnu",
    #[cfg(target_arch = "x86_64")]
    "/usr/lib/x86_64-linux-gnu",
    #[cfg(target_arch = "aarch64")]
    "/lib/aarch64-linux-gnu",
    #[cfg(target_arch = "aarch64")]
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
];

/// A file or directory that the function may see, at the same path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub path: PathBuf,
    /// The kernel executes it: the program and its loader.
    pub executable: bool,
    pub directory: bool,
}

/// What a function may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grants {
    /// The program first.
    pub files: Vec<Grant>,
    /// Where the loader must look for the libraries.
    pub library_path: Vec<PathBuf>,
}

impl Grants {
    /// Finds everything that a program needs.
    pub fn of(program: &Program) -> Result<Grants, HostError> {
        let path = resolve(&program.path)?;
        let elf = executable(&path)?;
        let mut grants = Grants { files: Vec::new(), library_path: Vec::new() };
        grants.add(Grant { path: path.clone(), executable: true, directory: false });
        if let Some(loader) = &elf.interpreter {
            grants.add_loader(&path, loader)?;
            grants.add_libraries(&path, elf.needed, &program.library_dirs)?;
        }
        for extra in &program.readable {
            let directory = extra.metadata().map_err(|source| HostError::Argument {
                what: "READABLE",
                why: format!("{}: {source}", extra.display()),
            })?;
            let directory = directory.is_dir();
            let path = same_path(extra).map_err(|e| HostError::system("READABLE", e))?;
            grants.add(Grant { path, executable: false, directory });
        }
        Ok(grants)
    }

    fn add(&mut self, grant: Grant) {
        if !self.files.iter().any(|one| one.path == grant.path) {
            self.files.push(grant);
        }
    }

    /// The program names its loader; only one in a directory of the system's libraries is taken,
    /// since naming a file makes it readable.
    fn add_loader(&mut self, program: &Path, loader: &str) -> Result<(), HostError> {
        let path = PathBuf::from(loader);
        let is_known = path.parent().is_some_and(|dir| LIBRARY_DIRS.iter().any(|d| dir == *d));
        if !is_known || path.file_name().is_none() || !path.is_file() {
            let why = format!(
                "its loader {loader:?} is not a file in {}; link the program statically",
                LIBRARY_DIRS.join(", ")
            );
            return Err(HostError::NotExecutable { path: program.into(), why });
        }
        self.add(Grant { path, executable: true, directory: false });
        Ok(())
    }

    /// Finds libraries, and those that they need.
    fn add_libraries(
        &mut self,
        program: &Path,
        needed: Vec<String>,
        own_dirs: &[PathBuf],
    ) -> Result<(), HostError> {
        let system = LIBRARY_DIRS.iter().map(PathBuf::from);
        let dirs: Vec<PathBuf> = own_dirs.iter().cloned().chain(system).collect();
        let mut wanted: VecDeque<String> = needed.into();
        let mut seen = Vec::new();
        while let Some(name) = wanted.pop_front() {
            if seen.contains(&name) {
                continue;
            }
            // The loader itself is a library too, and is there already.
            let Some((dir, elf)) = find(&name, &dirs) else {
                let searched: Vec<String> = dirs.iter().map(|d| d.display().to_string()).collect();
                let (path, searched) = (program.into(), searched.join(", "));
                return Err(HostError::NoLibrary { path, library: name, searched });
            };
            self.add(Grant { path: dir.join(&name), executable: false, directory: false });
            if !self.library_path.contains(dir) {
                self.library_path.push(dir.clone());
            }
            wanted.extend(elf.needed);
            seen.push(name);
        }
        Ok(())
    }
}

/// A library by its name in the first directory that has it for this machine.
fn find<'d>(name: &str, dirs: &'d [PathBuf]) -> Option<(&'d PathBuf, Elf)> {
    // A path would make any file readable.
    if name.is_empty() || name.contains('/') || name == ".." {
        return None;
    }
    dirs.iter().find_map(|dir| Some((dir, elf::read(&File::open(dir.join(name)).ok()?).ok()?)))
}

/// The absolute path of a file that is seen at the same path; one with `..` is seen where it leads.
fn same_path(path: &Path) -> std::io::Result<PathBuf> {
    match path.components().any(|part| part == Component::ParentDir) {
        true => path.canonicalize(),
        false => std::path::absolute(path),
    }
}

fn resolve(path: &Path) -> Result<PathBuf, HostError> {
    path.canonicalize().map_err(|source| HostError::NoProgram { path: path.into(), source })
}

/// The headers of a program that may be executed.
fn executable(path: &Path) -> Result<Elf, HostError> {
    let refuse = |why: String| HostError::NotExecutable { path: path.into(), why };
    let about = path.metadata().map_err(|e| refuse(e.to_string()))?;
    if !about.is_file() {
        return Err(refuse("it is not a file".into()));
    }
    if about.permissions().mode() & 0o111 == 0 {
        return Err(refuse("it is not executable; chmod +x".into()));
    }
    let file = File::open(path).map_err(|e| refuse(format!("{e}; make it readable")))?;
    elf::read(&file).map_err(|not| refuse(not.why().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(path: &Path) -> Result<Grants, HostError> {
        Grants::of(&Program::new(path))
    }

    #[test]
    fn a_program_is_granted_with_its_loader_and_libraries() {
        let program = std::env::current_exe().unwrap();
        let grants = grants(&program).unwrap();
        assert_eq!(grants.files[0].path, program.canonicalize().unwrap());
        let names: Vec<&str> = grants
            .files
            .iter()
            .map(|one| one.path.file_name().unwrap().to_str().unwrap())
            .collect();
        assert!(names.iter().any(|name| name.starts_with("ld-linux")), "{names:?}");
        assert!(names.iter().any(|name| name.starts_with("libc.so")), "{names:?}");
        assert!(grants.files.len() < 10 && !grants.library_path.is_empty(), "{grants:?}");
    }

    #[test]
    fn what_cannot_be_run_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let missing = grants(&dir.path().join("none")).unwrap_err();
        assert!(matches!(missing, HostError::NoProgram { .. }), "{missing}");
        let file = dir.path().join("file");
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        let error = grants(&file).unwrap_err().to_string();
        assert!(error.contains("chmod +x"), "{error}");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        let error = grants(&file).unwrap_err().to_string();
        assert!(error.contains("script"), "{error}");
        let error = grants(dir.path()).unwrap_err().to_string();
        assert!(error.contains("not a file"), "{error}");
    }

    #[test]
    fn a_library_is_a_name_and_never_a_path() {
        let dirs = [PathBuf::from("/lib/../etc"), PathBuf::from("/lib64")];
        assert!(find("../lib64/ld-linux-x86-64.so.2", &dirs).is_none());
        assert!(find("passwd", &dirs).is_none());
    }

    #[test]
    fn a_loader_outside_the_system_s_directories_is_refused() {
        let mut program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let loader = b"/lib64/ld-linux-x86-64.so.2\0";
        let Some(at) = program.windows(loader.len()).position(|part| part == loader) else {
            return; // Another processor: another loader.
        };
        program[at..at + 12].copy_from_slice(b"/etc/passwd\0");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, program).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        let error = grants(&file).unwrap_err().to_string();
        assert!(error.contains("\"/etc/passwd\" is not a file in"), "{error}");
    }
}
