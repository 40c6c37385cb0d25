//! Rows of the database.

use std::hash::Hasher as _;
use std::time::{Duration, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension as _, Params, Row, ffi, params};
use twox_hash::XxHash64;

use super::generation::Generation;

/// What a generation is read from.
const COLUMNS: &str = "g.chain, g.number, g.time_ms, g.author, g.spec, g.checksum";

/// The last generation of a chain.
pub fn head(connection: &Connection, chain: &str) -> rusqlite::Result<Option<Generation>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM head h JOIN generation g USING (chain, number) WHERE h.chain = ?1"
    );
    connection.prepare_cached(&sql)?.query_row([chain], read).optional()
}

/// A generation of a chain.
pub fn generation(
    connection: &Connection,
    chain: &str,
    number: u64,
) -> rusqlite::Result<Option<Generation>> {
    // SQLite's integers have 63 bits.
    let Ok(number) = i64::try_from(number) else { return Ok(None) };
    let sql = format!("SELECT {COLUMNS} FROM generation g WHERE chain = ?1 AND number = ?2");
    connection.prepare_cached(&sql)?.query_row(params![chain, number], read).optional()
}

/// Generations of a chain before one, the last one first.
pub fn generations(
    connection: &Connection,
    chain: &str,
    before: Option<u64>,
    limit: usize,
) -> rusqlite::Result<Vec<Generation>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM generation g WHERE chain = ?1 AND number < ?2 \
         ORDER BY number DESC LIMIT ?3"
    );
    all(connection, &sql, params![chain, bounded(before.unwrap_or(u64::MAX)), count_of(limit)])
}

/// Chains that are asked for, by name, behind one.
pub fn live(
    connection: &Connection,
    after: &str,
    limit: usize,
) -> rusqlite::Result<Vec<Generation>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM head h JOIN generation g USING (chain, number) \
         WHERE h.live = 1 AND h.chain > ?1 ORDER BY h.chain LIMIT ?2"
    );
    all(connection, &sql, params![after, count_of(limit)])
}

/// Names of chains that are asked for.
pub fn names(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection
        .prepare_cached("SELECT chain FROM head WHERE live = 1 ORDER BY chain LIMIT ?1")?;
    statement.query_map([count_of(limit)], |row| row.get(0))?.collect()
}

/// Names of chains that were asked for once.
pub fn deleted(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement =
        connection.prepare_cached("SELECT chain FROM head WHERE live = 0 ORDER BY chain")?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// How many chains are asked for.
pub fn count(connection: &Connection) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached("SELECT count(*) FROM head WHERE live = 1")?;
    statement.query_row([], |row| row.get::<_, i64>(0)).map(i64::cast_unsigned)
}

/// Writes the next generation of a chain.
pub fn insert(connection: &Connection, new: &Generation) -> rusqlite::Result<()> {
    let spec = new.spec.as_ref().map(serde_json::to_string).transpose();
    let spec = spec.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let since = new.time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let record = Record {
        chain: &new.name,
        number: bounded(new.number),
        time_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        author: &new.author,
        spec: spec.as_deref(),
    };
    connection
        .prepare_cached(
            "INSERT INTO generation (chain, number, time_ms, author, spec, checksum) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            record.chain,
            record.number,
            record.time_ms,
            record.author,
            record.spec,
            record.checksum()
        ])?;
    connection
        .prepare_cached("INSERT OR REPLACE INTO head (chain, number, live) VALUES (?1, ?2, ?3)")?
        .execute(params![record.chain, record.number, record.spec.is_some()])?;
    Ok(())
}

/// A row as it stands in the table.
struct Record<'a> {
    chain: &'a str,
    number: i64,
    time_ms: i64,
    author: &'a str,
    spec: Option<&'a str>,
}

impl Record<'_> {
    /// SQLite checks the structure of its pages, not the text in them.
    fn checksum(&self) -> i64 {
        let mut hash = XxHash64::with_seed(0);
        for text in [Some(self.chain), Some(self.author), self.spec] {
            hash.write_u64(text.map_or(u64::MAX, |text| text.len() as u64));
            hash.write(text.unwrap_or_default().as_bytes());
        }
        hash.write_i64(self.number);
        hash.write_i64(self.time_ms);
        hash.finish().cast_signed()
    }
}

/// Reads a row of [`COLUMNS`].
fn read(row: &Row<'_>) -> rusqlite::Result<Generation> {
    let text = |column| -> rusqlite::Result<Option<&str>> {
        row.get_ref(column)?.as_str_or_null().map_err(|error| damaged(&error.to_string()))
    };
    let chain = text(0)?.unwrap_or_default();
    let author = text(3)?.unwrap_or_default();
    let (number, time_ms): (i64, i64) = (row.get(1)?, row.get(2)?);
    let record = Record { chain, number, time_ms, author, spec: text(4)? };
    if record.checksum() != row.get::<_, i64>(5)? {
        return Err(damaged(&format!("the checksum of generation {number} of '{chain}' is wrong")));
    }
    let spec = record.spec.map(serde_json::from_str).transpose();
    let spec =
        spec.map_err(|error| damaged(&format!("generation {number} of '{chain}': {error}")))?;
    Ok(Generation {
        name: chain.to_owned(),
        number: number.cast_unsigned(),
        time: UNIX_EPOCH + Duration::from_millis(u64::try_from(time_ms).unwrap_or(0)),
        author: author.to_owned(),
        spec,
    })
}

/// What SQLite would say of a damaged page.
fn damaged(why: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), Some(why.to_owned()))
}

fn all(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> rusqlite::Result<Vec<Generation>> {
    connection.prepare_cached(sql)?.query_map(params, read)?.collect()
}

fn bounded(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn count_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
