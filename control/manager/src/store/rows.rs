//! Rows of the database.

use std::hash::Hasher as _;
use std::time::{Duration, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension as _, Params, Row, ffi, params};
use twox_hash::XxHash64;

use super::generation::Generation;
use crate::kind::{ResourceKind, Spec};

/// What a generation is read from.
const COLUMNS: &str = "g.name, g.number, g.time_ms, g.author, g.spec, g.checksum";

/// The last generation of a resource.
pub fn head<S: Spec>(
    connection: &Connection,
    name: &str,
) -> rusqlite::Result<Option<Generation<S>>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM head h JOIN generation g USING (kind, name, number) \
         WHERE h.kind = ?1 AND h.name = ?2"
    );
    connection.prepare_cached(&sql)?.query_row([S::KIND.as_str(), name], read).optional()
}

/// A generation of a resource.
pub fn generation<S: Spec>(
    connection: &Connection,
    name: &str,
    number: u64,
) -> rusqlite::Result<Option<Generation<S>>> {
    // SQLite's integers have 63 bits.
    let Ok(number) = i64::try_from(number) else { return Ok(None) };
    let sql =
        format!("SELECT {COLUMNS} FROM generation g WHERE kind = ?1 AND name = ?2 AND number = ?3");
    let key = params![S::KIND.as_str(), name, number];
    connection.prepare_cached(&sql)?.query_row(key, read).optional()
}

/// Generations of a resource before one, the last one first.
pub fn generations<S: Spec>(
    connection: &Connection,
    name: &str,
    before: Option<u64>,
    limit: usize,
) -> rusqlite::Result<Vec<Generation<S>>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM generation g WHERE kind = ?1 AND name = ?2 AND number < ?3 \
         ORDER BY number DESC LIMIT ?4"
    );
    let before = bounded(before.unwrap_or(u64::MAX));
    all(connection, &sql, params![S::KIND.as_str(), name, before, count_of(limit)])
}

/// Resources of a kind that are asked for, by name, behind one.
pub fn live<S: Spec>(
    connection: &Connection,
    after: &str,
    limit: usize,
) -> rusqlite::Result<Vec<Generation<S>>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM head h JOIN generation g USING (kind, name, number) \
         WHERE h.live = 1 AND h.kind = ?1 AND h.name > ?2 ORDER BY h.name LIMIT ?3"
    );
    all(connection, &sql, params![S::KIND.as_str(), after, count_of(limit)])
}

/// Names of resources that are asked for.
pub fn names(
    connection: &Connection,
    kind: ResourceKind,
    limit: usize,
) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare_cached(
        "SELECT name FROM head WHERE live = 1 AND kind = ?1 ORDER BY name LIMIT ?2",
    )?;
    statement.query_map(params![kind.as_str(), count_of(limit)], |row| row.get(0))?.collect()
}

/// Names of resources that were asked for once.
pub fn deleted(connection: &Connection, kind: ResourceKind) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection
        .prepare_cached("SELECT name FROM head WHERE live = 0 AND kind = ?1 ORDER BY name")?;
    statement.query_map([kind.as_str()], |row| row.get(0))?.collect()
}

/// How many resources of a kind are asked for.
pub fn count(connection: &Connection, kind: ResourceKind) -> rusqlite::Result<u64> {
    let mut statement =
        connection.prepare_cached("SELECT count(*) FROM head WHERE live = 1 AND kind = ?1")?;
    statement.query_row([kind.as_str()], |row| row.get::<_, i64>(0)).map(i64::cast_unsigned)
}

/// Whether a resource is asked for.
pub fn is_live(connection: &Connection, kind: ResourceKind, name: &str) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM head WHERE live = 1 AND kind = ?1 AND name = ?2")?
        .exists([kind.as_str(), name])
}

/// Writes the next generation of a resource.
pub fn insert<S: Spec>(connection: &Connection, new: &Generation<S>) -> rusqlite::Result<()> {
    let spec = new.spec.as_ref().map(serde_json::to_string).transpose();
    let spec = spec.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let since = new.time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let record = Record {
        kind: S::KIND,
        name: &new.name,
        number: bounded(new.number),
        time_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        author: &new.author,
        spec: spec.as_deref(),
    };
    connection
        .prepare_cached(
            "INSERT INTO generation (kind, name, number, time_ms, author, spec, checksum) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            record.kind.as_str(),
            record.name,
            record.number,
            record.time_ms,
            record.author,
            record.spec,
            record.checksum()
        ])?;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO head (kind, name, number, live) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![
            record.kind.as_str(),
            record.name,
            record.number,
            record.spec.is_some()
        ])?;
    Ok(())
}

/// A row as it stands in the table.
struct Record<'a> {
    kind: ResourceKind,
    name: &'a str,
    number: i64,
    time_ms: i64,
    author: &'a str,
    spec: Option<&'a str>,
}

impl Record<'_> {
    /// SQLite checks the structure of its pages, not the text in them.
    fn checksum(&self) -> i64 {
        let texts = [Some(self.name), Some(self.author), self.spec];
        let [name, author, spec] = texts.map(|text| text.map(str::as_bytes));
        let numbers = [self.number, self.time_ms];
        match self.kind {
            // As before there were other kinds, so that rows of that time are right.
            ResourceKind::Chain => checksum([name, author, spec], numbers),
            other => checksum([name, author, spec, Some(other.as_str().as_bytes())], numbers),
        }
    }
}

/// A checksum of parts, some of which may be missing, and numbers.
pub(super) fn checksum<const N: usize, const M: usize>(
    parts: [Option<&[u8]>; N],
    numbers: [i64; M],
) -> i64 {
    let mut hash = XxHash64::with_seed(0);
    for part in parts {
        hash.write_u64(part.map_or(u64::MAX, |part| part.len() as u64));
        hash.write(part.unwrap_or_default());
    }
    numbers.into_iter().for_each(|number| hash.write_i64(number));
    hash.finish().cast_signed()
}

/// Reads a row of [`COLUMNS`].
fn read<S: Spec>(row: &Row<'_>) -> rusqlite::Result<Generation<S>> {
    let text = |column| -> rusqlite::Result<Option<&str>> {
        row.get_ref(column)?.as_str_or_null().map_err(|error| damaged(&error.to_string()))
    };
    let name = text(0)?.unwrap_or_default();
    let author = text(3)?.unwrap_or_default();
    let (number, time_ms): (i64, i64) = (row.get(1)?, row.get(2)?);
    let record = Record { kind: S::KIND, name, number, time_ms, author, spec: text(4)? };
    if record.checksum() != row.get::<_, i64>(5)? {
        let why = format!("the checksum of generation {number} of {} '{name}' is wrong", S::KIND);
        return Err(damaged(&why));
    }
    let spec = record.spec.map(serde_json::from_str).transpose();
    let spec =
        spec.map_err(|error| damaged(&format!("generation {number} of '{name}': {error}")))?;
    Ok(Generation {
        name: name.to_owned(),
        number: number.cast_unsigned(),
        time: UNIX_EPOCH + Duration::from_millis(u64::try_from(time_ms).unwrap_or(0)),
        author: author.to_owned(),
        spec,
    })
}

/// What SQLite would say of a damaged page.
pub(super) fn damaged(why: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), Some(why.to_owned()))
}

fn all<S: Spec>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> rusqlite::Result<Vec<Generation<S>>> {
    connection.prepare_cached(sql)?.query_map(params, read)?.collect()
}

fn bounded(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn count_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
