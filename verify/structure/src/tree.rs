//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Directories that hold nothing written by hand.
const SKIPPED: &[&str] = &["target", ".git", "corpus", "artifacts"];

/// All files under a root, read once.
#[derive(Debug, Default)]
pub struct Tree {
    /// Path relative to the root (with `/`) and text; files that are not UTF-8 are left out.
    pub files: Vec<(String, String)>,
}

/// A crate of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crate {
    /// Directory relative to the root: `base/wire`.
    pub directory: String,
    /// Package name.
    pub name: String,
    /// Names of the workspace's crates that it depends on.
    pub dependencies: Vec<String>,
}

impl Tree {
    /// The repository that this crate was built in.
    ///
    /// # Panics
    /// When its files cannot be read.
    pub fn of_repository() -> Tree {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Tree::read(&root)
    }

    /// The files under `root`.
    ///
    /// # Panics
    /// When a directory cannot be read.
    pub fn read(root: &Path) -> Tree {
        let mut tree = Tree::default();
        let mut directories = vec![root.to_owned()];
        while let Some(directory) = directories.pop() {
            let entries = fs::read_dir(&directory)
                .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
            for entry in entries {
                tree.enter(root, &entry.expect("a readable directory").path(), &mut directories);
            }
        }
        tree.files.sort();
        tree
    }

    fn enter(&mut self, root: &Path, path: &Path, directories: &mut Vec<PathBuf>) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !SKIPPED.contains(&&*name) {
                directories.push(path.to_owned());
            }
            return;
        }
        let Ok(text) = fs::read_to_string(path) else { return };
        let relative = path.strip_prefix(root).expect("it was found there");
        self.files.push((relative.to_string_lossy().replace('\\', "/"), text));
    }

    /// Text of a file.
    pub fn text(&self, path: &str) -> Option<&str> {
        let at = self.files.binary_search_by(|(name, _)| name.as_str().cmp(path)).ok()?;
        Some(&self.files[at].1)
    }

    /// Path and text of each Rust file.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        let files = self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        files.filter(|(path, _)| path.ends_with(".rs"))
    }

    /// The crates of the workspace: every manifest below the root, but for what the root's leaves
    /// out.
    pub fn crates(&self) -> Vec<Crate> {
        let excluded = self
            .text("Cargo.toml")
            .and_then(|text| text.lines().find_map(|line| line.strip_prefix("exclude = ")));
        let excluded = excluded.unwrap_or_default();
        let manifests = self.files.iter().filter_map(|(path, text)| {
            let directory = path.strip_suffix("/Cargo.toml")?;
            let is_member = !excluded.contains(&format!("\"{directory}\""));
            is_member.then(|| read_manifest(directory, text))
        });
        manifests.collect()
    }
}

/// Reads name and dependencies of a manifest.
fn read_manifest(directory: &str, text: &str) -> Crate {
    let mut section = "";
    let mut found =
        Crate { directory: directory.into(), name: String::new(), dependencies: Vec::new() };
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
            // `[dependencies.NAME]`
            if let Some((table, name)) = section.rsplit_once('.')
                && table.ends_with("dependencies")
            {
                found.depend(name);
            }
        } else if section == "package"
            && let Some(name) = line.strip_prefix("name = ")
        {
            found.name = name.trim_matches('"').into();
        } else if section.ends_with("dependencies") {
            found.depend(line.split([' ', '.', '=']).next().unwrap_or_default());
        }
    }
    found
}

impl Crate {
    fn depend(&mut self, name: &str) {
        if name == "thruway" || name.starts_with("thruway-") {
            self.dependencies.push(name.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read() {
        let text = "[package]\nname = \"thruway-x\"\n\n[dependencies]\nthruway-a.workspace = true\n\
                    rustix = \"1\"\n[dev-dependencies]\nthruway-b = { path = \"../b\" }\n\
                    [target.'cfg(loom)'.dependencies]\nloom = \"0.7\"\n[dependencies.thruway-c]\n";
        let found = read_manifest("base/x", text);
        assert_eq!(found.name, "thruway-x");
        assert_eq!(found.dependencies, ["thruway-a", "thruway-b", "thruway-c"]);
    }

    #[test]
    fn a_tree_is_read_without_build_products() {
        let root = tempfile::tempdir().expect("a directory");
        for file in
            ["a/x/Cargo.toml", "a/x/src/lib.rs", "target/debug/y.rs", "b.bin", "c/Cargo.toml"]
        {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, if file == "b.bin" { &b"\xff\xfe"[..] } else { b"" }).expect("written");
        }
        let tree = Tree::read(root.path());
        let paths: Vec<&str> = tree.files.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["a/x/Cargo.toml", "a/x/src/lib.rs", "c/Cargo.toml"]);
        assert_eq!(tree.crates().len(), 2);
        assert_eq!(tree.text("a/x/src/lib.rs"), Some(""));
        assert_eq!(tree.sources().count(), 1);
    }
}
