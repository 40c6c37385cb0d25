//! `thruway nf new`: writes a project for a network function.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand, ValueEnum};

mod library;

/// The checkout that this program was built from, but for a program that is given to others.
const CHECKOUT: Option<&str> = option_env!("THRUWAY_CHECKOUT");

/// What `thruway nf` does.
#[derive(Subcommand)]
pub enum Command {
    /// Create a project for a network function that builds, passes its test and runs
    New(New),
}

/// Arguments of `thruway nf new`.
#[derive(Args)]
pub struct New {
    /// Name of the function and of the new folder
    name: String,
    /// Language of the function
    #[arg(long, value_enum)]
    lang: Lang,
    /// Path of the Thruway checkout to build against [default: the one this program was built
    /// from; if it is gone, as --own-library]
    #[arg(long, value_name = "CHECKOUT")]
    sdk: Option<PathBuf>,
    /// Write the library's sources into the new folder, and build against those
    #[arg(long, conflicts_with = "sdk")]
    own_library: bool,
}

/// What a project is built against.
#[derive(Debug, PartialEq, Eq)]
enum Library {
    Checkout(PathBuf),
    /// Its own copy, in [`OWN`].
    Own,
}

/// The folder of a project's own copy of the library.
const OWN: &str = "sdk";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lang {
    /// Rust 2024
    Rust,
    /// C11, also for C++
    C,
}

/// A file of a project: path, template, whether it can be run.
type File = (&'static str, &'static str, bool);

macro_rules! template {
    ($path:literal) => {
        include_str!(concat!("../../../nf/sdk/templates/", $path))
    };
}

const RUST: &[File] = &[
    ("Cargo.toml", template!("rust/Cargo.toml.txt"), false),
    ("src/main.rs", template!("rust/main.rs"), false),
    ("README.md", template!("rust/README.md.txt"), false),
    ("{{NAME}}.click", template!("function.click.txt"), false),
    (".gitignore", "target/\nout.pcap\n", false),
];

const C: &[File] = &[
    ("function.c", template!("c/function.c"), false),
    ("build.sh", template!("c/build.sh.txt"), true),
    ("README.md", template!("c/README.md.txt"), false),
    ("{{NAME}}.click", template!("function.click.txt"), false),
    (".gitignore", "/{{NAME}}\n/target\nout.pcap\n", false),
];

/// Runs `thruway nf`.
pub fn main(command: &Command) -> anyhow::Result<ExitCode> {
    let Command::New(new) = command;
    let folder = new.write(Path::new("."))?;
    outln!("{}", new.farewell(&folder));
    Ok(ExitCode::SUCCESS)
}

impl New {
    fn write(&self, into: &Path) -> anyhow::Result<PathBuf> {
        check_name(&self.name)?;
        let library = self.library(CHECKOUT.map(Path::new))?;
        let folder = into.join(&self.name);
        // Fails when there is anything of this name: nothing is overwritten.
        fs::create_dir(&folder).with_context(|| {
            let shown = folder.display();
            format!("cannot make the folder '{shown}'; give a name that is free here")
        })?;
        let files = if self.lang == Lang::Rust { RUST } else { C };
        for (path, template, is_program) in files {
            let path = folder.join(self.fill(path, &library));
            write(&path, &self.fill(template, &library), *is_program)?;
        }
        let checkout = library.path(&folder);
        if library == Library::Own {
            library::write(&checkout)
                .with_context(|| format!("cannot write '{}'", checkout.display()))?;
        }
        if self.lang == Lang::Rust {
            // The versions that the checkout is tested with; cargo leaves out what is not needed.
            let lock = checkout.join("Cargo.lock");
            fs::copy(&lock, folder.join("Cargo.lock"))
                .with_context(|| format!("cannot copy '{}'", lock.display()))?;
        }
        Ok(folder)
    }

    /// What the project is built against; `built_from` is the checkout of this program, if it is
    /// still there.
    fn library(&self, built_from: Option<&Path>) -> anyhow::Result<Library> {
        let built_from = built_from.filter(|path| is_checkout(path) && !self.own_library);
        match (self.sdk.as_deref(), built_from) {
            (Some(path), _) if !is_checkout(path) => {
                bail!("'{}' is not a checkout of Thruway; name one: --sdk CHECKOUT", path.display())
            }
            (Some(path), _) | (None, Some(path)) => checkout(path),
            (None, None) => Ok(Library::Own),
        }
    }

    fn fill(&self, template: &str, library: &Library) -> String {
        // The project's files name its own copy from where they are.
        let checkout = library.path(Path::new("")).display().to_string();
        let program = match self.lang {
            Lang::Rust => format!("target/release/{}", self.name),
            Lang::C => format!("./{}", self.name),
        };
        // Its lock file names the packages of all of Thruway: cargo takes out what is not there.
        let locked = if *library == Library::Own { "" } else { "--locked " };
        template
            .replace("{{NAME}}", &self.name)
            .replace("{{PROGRAM}}", &program)
            .replace("{{CAPTURE}}", &format!("pcap:{checkout}/examples/captures/lan.pcap"))
            .replace("{{SDK}}", &format!("\"{checkout}/nf/sdk\""))
            .replace("{{CHECKOUT}}", &format!("'{checkout}'"))
            .replace("{{LOCKED}}", locked)
    }

    fn farewell(&self, folder: &Path) -> String {
        let name = &self.name;
        let library = match self.library(CHECKOUT.map(Path::new)) {
            Ok(Library::Checkout(path)) => format!("the library in {}", path.display()),
            _ => format!("its own copy of the library, in {OWN}"),
        };
        let build = match self.lang {
            Lang::Rust => "cargo test\n  cargo build --release",
            Lang::C => "./build.sh",
        };
        let folder = folder.display();
        format!(
            "made {folder}, which is built against {library}. Next:\n  \
             cd {folder}\n  {build}\n  thruway run {name}.click"
        )
    }
}

impl Library {
    /// Its folder, for a project in `folder`.
    fn path(&self, folder: &Path) -> PathBuf {
        match self {
            Library::Checkout(path) => path.clone(),
            Library::Own => folder.join(OWN),
        }
    }
}

fn is_checkout(path: &Path) -> bool {
    ["nf/sdk/Cargo.toml", "nf/sdk-c/include/thruway_nf.h", "Cargo.lock"]
        .iter()
        .all(|file| path.join(file).is_file())
}

/// A checkout by a path that files of a project can name.
fn checkout(path: &Path) -> anyhow::Result<Library> {
    let path = fs::canonicalize(path)?;
    match path.to_str() {
        Some(text) if !text.contains(['"', '\\', '\'', '$', '`', '\n']) => {
            Ok(Library::Checkout(path))
        }
        _ => bail!("'{}' has characters that files of a project cannot name", path.display()),
    }
}

/// A name that is one for cargo, for files and within EXEC.
fn check_name(name: &str) -> anyhow::Result<()> {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !is_plain || !begins || name.len() > 64 {
        bail!(
            "'{name}' cannot be a function's name: it begins with a letter, has letters, digits, \
             '-' and '_', and at most 64 of them"
        );
    }
    if TAKEN.contains(&name) {
        bail!("'{name}' cannot be a function's name: Rust uses it; try '{name}-nf'");
    }
    Ok(())
}

/// Words that cargo does not take for a package.
#[rustfmt::skip]
const TAKEN: &[&str] = &[
    "abstract", "alloc", "as", "async", "await", "become", "box", "break", "build", "const",
    "continue", "core", "crate", "deps", "do", "dyn", "else", "enum", "examples", "extern", "false",
    "final", "fn", "for", "gen", "if", "impl", "in", "incremental", "let", "loop", "macro", "match",
    "mod", "move", "mut", "override", "priv", "proc-macro", "proc_macro", "pub", "ref", "return",
    "self", "std", "struct", "super", "test", "thruway-nf", "thruway_nf", "trait", "true", "try",
    "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

fn write(path: &Path, text: &str, is_program: bool) -> anyhow::Result<()> {
    let write = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)?;
        if is_program {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
        }
        Ok::<_, std::io::Error>(())
    };
    write().with_context(|| format!("cannot write '{}'", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(name: &str, lang: Lang) -> New {
        New { name: name.into(), lang, sdk: None, own_library: false }
    }

    #[test]
    fn nothing_is_overwritten_and_wrong_names_are_refused() {
        let into = tempfile::tempdir().unwrap();
        fs::write(into.path().join("file"), "kept").unwrap();
        let folder = new("twice", Lang::C).write(into.path()).unwrap();
        fs::write(folder.join("function.c"), "mine").unwrap();
        for name in ["twice", "file"] {
            let error = new(name, Lang::Rust).write(into.path()).unwrap_err();
            assert!(format!("{error:#}").contains("give a name that is free"), "{error:#}");
        }
        assert_eq!(fs::read_to_string(folder.join("function.c")).unwrap(), "mine");
        assert!(!folder.join("Cargo.toml").exists());
        for name in ["", "../x", "a/b", "1st", "fn", "a b", "thruway-nf", &"x".repeat(65)] {
            assert!(new(name, Lang::Rust).write(into.path()).is_err(), "{name}");
        }
        let wrong = New { sdk: Some("/nowhere".into()), ..new("a", Lang::C) };
        let error = wrong.write(into.path()).unwrap_err().to_string();
        assert_eq!(error, "'/nowhere' is not a checkout of Thruway; name one: --sdk CHECKOUT");
    }

    #[test]
    fn without_a_checkout_a_project_has_its_own_library() {
        let gone = Path::new("/nowhere");
        assert_eq!(new("a", Lang::C).library(Some(gone)).unwrap(), Library::Own);
        assert!(matches!(
            new("a", Lang::C).library(CHECKOUT.map(Path::new)).unwrap(),
            Library::Checkout(_)
        ));
        let into = tempfile::tempdir().unwrap();
        let own = New { own_library: true, ..new("own", Lang::C) };
        let folder = own.write(into.path()).unwrap();
        assert!(is_checkout(&folder.join(OWN)));
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        for name in ["build.sh", "own.click", "sdk/nf/sdk/Cargo.toml", "sdk/Cargo.toml"] {
            let text = read(name);
            assert!(!text.contains("{{") && !text.contains("dev-dependencies"), "{name}: {text}");
            assert!(!text.contains("/../.."), "{name}: {text}");
        }
        assert!(own.farewell(&folder).contains("its own copy of the library, in sdk"));
    }
}
