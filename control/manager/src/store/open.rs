//! Opening the database: made whole or not at all, checked before anything writes to it.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::StoreError;

/// Marks a file as the manager's (`PRAGMA application_id`): "ThrM".
const APPLICATION_ID: i64 = 0x5468_724d;

/// Version of the tables (`PRAGMA user_version`). A new field of a specification needs a new
/// version, too: older programs cannot read it.
pub const SCHEMA_VERSION: i64 = 1 + UPGRADES.len() as i64;

/// What leads from each version to the next, from version 1 on.
const UPGRADES: &[&str] = &[CREDENTIALS, KINDS, FUNCTIONS_OF_CHAINS];

/// Tables of version 1. `head` has the last generation of each chain, `live` is 0 if that is its
/// deletion.
const SCHEMA: &str = "
    CREATE TABLE generation (
        id INTEGER PRIMARY KEY,
        chain TEXT NOT NULL,
        number INTEGER NOT NULL CHECK (number > 0),
        time_ms INTEGER NOT NULL,
        author TEXT NOT NULL,
        spec TEXT,
        checksum INTEGER NOT NULL,
        UNIQUE (chain, number)
    ) STRICT;
    CREATE TABLE head (
        chain TEXT PRIMARY KEY,
        number INTEGER NOT NULL,
        live INTEGER NOT NULL,
        FOREIGN KEY (chain, number) REFERENCES generation (chain, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX head_live ON head (chain) WHERE live = 1;
";

/// Who was given access: since version 2.
const CREDENTIALS: &str = "
    CREATE TABLE credential (
        name TEXT PRIMARY KEY,
        role TEXT NOT NULL,
        kind TEXT NOT NULL,
        hash BLOB NOT NULL CHECK (length(hash) = 32),
        created_ms INTEGER NOT NULL,
        expires_ms INTEGER,
        author TEXT NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";

/// Resources of several kinds: since version 3. What was there are chains.
const KINDS: &str = "
    ALTER TABLE head RENAME TO head_2;
    ALTER TABLE generation RENAME TO generation_2;
    CREATE TABLE generation (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        number INTEGER NOT NULL CHECK (number > 0),
        time_ms INTEGER NOT NULL,
        author TEXT NOT NULL,
        spec TEXT,
        checksum INTEGER NOT NULL,
        UNIQUE (kind, name, number)
    ) STRICT;
    CREATE TABLE head (
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        number INTEGER NOT NULL,
        live INTEGER NOT NULL,
        PRIMARY KEY (kind, name),
        FOREIGN KEY (kind, name, number) REFERENCES generation (kind, name, number)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO generation
        SELECT id, 'chain', chain, number, time_ms, author, spec, checksum FROM generation_2;
    INSERT INTO head SELECT 'chain', chain, number, live FROM head_2;
    DROP TABLE head_2;
    DROP TABLE generation_2;
    CREATE INDEX head_live ON head (kind, name) WHERE live = 1;
";

/// Specifications of chains may have functions: since version 4. The tables are as they were.
const FUNCTIONS_OF_CHAINS: &str = "";

/// How long a call waits for another process that looks into the database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Size that the log is cut to after a checkpoint, in bytes.
const LOG_LEN_MAX: i64 = 4 << 20;

/// An opened database.
pub struct Opened {
    /// The file.
    pub path: PathBuf,
    /// The one connection that writes.
    pub writer: Connection,
    /// A connection that reads, and never waits for the writer.
    pub reader: Connection,
    /// Held for as long as this process uses the directory.
    pub lock: File,
}

/// Opens the database of a state directory; makes both where they are missing.
pub fn open(dir: &Path) -> Result<Opened, StoreError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| StoreError::of_files(dir, &error))?;
    let lock = lock(dir)?;
    let path = dir.join("state.db");
    if !path.try_exists().map_err(|error| StoreError::of_files(&path, &error))? {
        create(dir, &path)?;
    }
    match verify(&path, OpenFlags::SQLITE_OPEN_READ_ONLY) {
        // Of a copy that was not in WAL mode, by a crash when it was brought there: SQLite undoes
        // what was half done.
        Err(StoreError::Database { .. }) if sibling(&path, "-journal").exists() => {
            verify(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        }
        verified => verified?,
    }
    let sql = |error: rusqlite::Error| StoreError::of(&path, &error);
    let writer = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(sql)?;
    prepare(&writer).map_err(sql)?;
    upgrade(&writer).map_err(sql)?;
    let reader = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(sql)?;
    Ok(Opened { path, writer, reader, lock })
}

/// Keeps a second manager out of the directory. The lock ends with the process.
fn lock(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join("lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = file.map_err(|error| StoreError::of_files(&path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse(dir.to_owned())),
        Err(TryLockError::Error(error)) => Err(StoreError::of_files(&path, &error)),
    }
}

/// Makes a new database under another name and renames it. So an empty `state.db` is never a new
/// one: somebody cut it, and [`verify`] refuses it.
fn create(dir: &Path, path: &Path) -> Result<(), StoreError> {
    let log = sibling(path, "-wal");
    if log.exists() {
        let why = format!("it is missing, but its log {} is there", log.display());
        return Err(StoreError::Damaged { path: path.to_owned(), why });
    }
    let new = dir.join("state.db.new");
    for old in ["", "-journal", "-wal", "-shm"].map(|suffix| sibling(&new, suffix)) {
        match std::fs::remove_file(&old) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::of_files(&old, &error));
            }
            _ => {}
        }
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let made = connect(&new, flags).and_then(|connection| {
        connection.execute_batch(&format!(
            "BEGIN; {SCHEMA} {} PRAGMA application_id = {APPLICATION_ID}; \
             PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;",
            UPGRADES.concat()
        ))?;
        // From the beginning: then a crash never leaves a rollback journal beside `state.db`, which
        // a connection that only reads could not undo.
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.close().map_err(|(_, error)| error)
    });
    made.map_err(|error| StoreError::of(&new, &error))?;
    let files = |error: std::io::Error| StoreError::of_files(path, &error);
    // SQLite gives the log and the index the same mode.
    std::fs::set_permissions(&new, Permissions::from_mode(0o600)).map_err(files)?;
    std::fs::rename(&new, path).map_err(files)?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(files)
}

/// Checks a database without writing to it, if the flags say so.
fn verify(path: &Path, flags: OpenFlags) -> Result<(), StoreError> {
    let damaged = |why: String| StoreError::Damaged { path: path.to_owned(), why };
    let sql = |error: rusqlite::Error| StoreError::of(path, &error);
    // SQLite takes an empty file for a new database, and forgets its log.
    let len = std::fs::metadata(path).map_err(|error| StoreError::of_files(path, &error))?.len();
    if len == 0 {
        return Err(damaged("the file is empty".to_owned()));
    }
    let connection = connect(path, flags).map_err(sql)?;
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    if number("application_id").map_err(sql)? != APPLICATION_ID {
        return Err(damaged("it is not a database of Thruway's manager".to_owned()));
    }
    let found = number("user_version").map_err(sql)?;
    if found > SCHEMA_VERSION {
        return Err(StoreError::Newer { path: path.to_owned(), found, known: SCHEMA_VERSION });
    }
    if found < 1 {
        return Err(damaged(format!("schema version {found} does not exist")));
    }
    let told: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(sql)?;
    if told != "ok" {
        return Err(damaged(told));
    }
    Ok(())
}

/// A connection; no URIs, no extensions.
fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

/// Has the writer sync the log at every commit: what is acknowledged survives a power failure.
fn prepare(writer: &Connection) -> rusqlite::Result<()> {
    writer.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    writer.pragma_update(None, "synchronous", "FULL")?;
    writer.pragma_update(None, "foreign_keys", true)?;
    writer.pragma_update_and_check(None, "journal_size_limit", LOG_LEN_MAX, |_| Ok(()))
}

/// Brings the tables of an earlier version up to date, all or nothing.
fn upgrade(writer: &Connection) -> rusqlite::Result<()> {
    let found = writer.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))?;
    let done = usize::try_from(found - 1).unwrap_or(0);
    let missing = UPGRADES.get(done..).unwrap_or_default();
    if missing.is_empty() {
        return Ok(());
    }
    let steps = missing.concat();
    writer.execute_batch(&format!(
        "BEGIN IMMEDIATE; {steps} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    ))
}

/// The file beside it whose name is longer.
fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
