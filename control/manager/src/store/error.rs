//! Why the store did not do what it was asked.

use std::path::{Path, PathBuf};

use crate::kind::ResourceKind;

/// Why the store did not do what it was asked. Whatever it is, what was stored is as it was.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no resource of that name.
    #[error("there is no {kind} '{name}'; {}", listed(*kind, known))]
    NoResource {
        /// Its kind.
        kind: ResourceKind,
        /// The name that was asked for.
        name: String,
        /// Names that there are, the first ones.
        known: Vec<String>,
    },
    /// The resource has no generation of that number.
    #[error("{kind} '{name}' has no generation {generation}; it has 1 to {last}")]
    NoGeneration {
        /// Kind of the resource.
        kind: ResourceKind,
        /// Name of the resource.
        name: String,
        /// The generation that was asked for.
        generation: u64,
        /// The last one that there is.
        last: u64,
    },
    /// That generation is the deletion of the resource.
    #[error(
        "generation {generation} of {kind} '{name}' is its deletion; delete the {kind} instead"
    )]
    Deletion {
        /// Kind of the resource.
        kind: ResourceKind,
        /// Name of the resource.
        name: String,
        /// Number of the deletion.
        generation: u64,
    },
    /// The resource is not at the generation that the change is for.
    #[error("{kind} '{name}' is {}, the change is for {expected}; read it again", at(*current))]
    Stale {
        /// Kind of the resource.
        kind: ResourceKind,
        /// Name of the resource.
        name: String,
        /// What the change is for: `generation 3`, `a new chain`.
        expected: String,
        /// Where the resource is; `None` if it is not there.
        current: Option<u64>,
    },
    /// No more resources of that kind are kept.
    #[error("there are {count} {kind}s, and no more can be declared; delete one")]
    TooMany {
        /// The kind.
        kind: ResourceKind,
        /// How many there are.
        count: u64,
    },
    /// The specification names a resource that is not declared.
    #[error("there is no {kind} '{name}', which it names; {}", listed(*kind, known))]
    Unresolved {
        /// Field that names it: `functions[2]`.
        field: String,
        /// Kind of what is missing.
        kind: ResourceKind,
        /// Name of what is missing.
        name: String,
        /// Names that there are, the first ones.
        known: Vec<String>,
    },
    /// Other resources name this one.
    #[error("{kind} '{name}' is named by {}; change or delete those first", users.join(", "))]
    InUseBy {
        /// Kind of the resource.
        kind: ResourceKind,
        /// Name of the resource.
        name: String,
        /// What names it: `group edge`.
        users: Vec<String>,
    },
    /// A credential has that name.
    #[error("there is a token or certificate '{0}'; revoke it first, or use another name")]
    NameTaken(String),
    /// No more credentials are kept.
    #[error("there are {0} tokens and certificates, and no more can be made; revoke one")]
    TooManyCredentials(usize),
    /// Another process has the store.
    #[error("{} is in use by another manager; end that one, or use another directory", .0.display())]
    InUse(PathBuf),
    /// The file is none of this program's, or its bytes were changed.
    #[error("{path} is damaged: {why}. Nothing was changed. {remedy}", path = path.display(),
        remedy = recovery(path))]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A later version of the program wrote it.
    #[error("{} has schema version {found}, this program knows up to {known}. Nothing was changed. \
        Use the version of Thruway that wrote it, or a later one", path.display())]
    Newer {
        /// The database.
        path: PathBuf,
        /// Version that it has.
        found: i64,
        /// Latest version that this program can read.
        known: i64,
    },
    /// No room is left on the disk.
    #[error("the disk with {} is full; the old state is kept. Free some space and try again",
        .0.display())]
    Full(PathBuf),
    /// The file system failed.
    #[error("{}: {why}", path.display())]
    Files {
        /// The file.
        path: PathBuf,
        /// What happened.
        why: String,
    },
    /// SQLite failed in another way.
    #[error("{}: {why}", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// In SQLite's words.
        why: String,
    },
}

impl StoreError {
    /// What became of a call of SQLite.
    pub(super) fn of(path: &Path, error: &rusqlite::Error) -> StoreError {
        use rusqlite::ErrorCode;
        let (path, why) = (path.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full(path),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                StoreError::Damaged { path, why }
            }
            _ => StoreError::Database { path, why },
        }
    }

    /// What became of a call of the file system.
    pub(crate) fn of_files(path: &Path, error: &std::io::Error) -> StoreError {
        let path = path.to_owned();
        match error.kind() {
            std::io::ErrorKind::StorageFull => StoreError::Full(path),
            _ => StoreError::Files { path, why: error.to_string() },
        }
    }
}

/// `the chains are: a, b`.
fn listed(kind: ResourceKind, known: &[String]) -> String {
    match known {
        [] => format!("no {kind} is declared"),
        names => format!("the {kind}s are: {}", names.join(", ")),
    }
}

/// Where a resource is.
fn at(current: Option<u64>) -> String {
    current.map_or("not there".to_owned(), |number| format!("at generation {number}"))
}

/// What to do with a damaged database.
fn recovery(path: &Path) -> String {
    let path = path.display();
    format!(
        "Data planes that run are not disturbed. Restore {path} from a copy; or read what is \
         readable with `sqlite3 {path} .recover`; or move {path}, {path}-wal and {path}-shm away \
         to start with no chains"
    )
}
