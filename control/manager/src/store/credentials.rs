//! Who was given access: kept with what is declared, in a table of its own.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, Row, TransactionBehavior, params};

use super::Store;
use super::error::StoreError;
use super::rows::{checksum, damaged};
use crate::ChainName;
use crate::access::{CREDENTIALS_MAX, Credential, Proof, Sha256};

impl Store {
    /// Keeps a new credential.
    ///
    /// # Errors
    /// [`StoreError::NameTaken`], [`StoreError::TooManyCredentials`], or the disk's.
    pub fn grant(&self, one: &Credential) -> Result<(), StoreError> {
        let mut writer = self.writer.lock();
        let transaction =
            self.sql(writer.transaction_with_behavior(TransactionBehavior::Immediate))?;
        let all = self.sql(all(&transaction))?;
        if all.iter().any(|other| other.name == one.name) {
            return Err(StoreError::NameTaken(one.name.to_string()));
        }
        if all.len() >= CREDENTIALS_MAX {
            return Err(StoreError::TooManyCredentials(all.len()));
        }
        self.sql(insert(&transaction, one))?;
        self.sql(transaction.commit())
    }

    /// Removes a credential; whether there was one.
    ///
    /// # Errors
    /// The disk's.
    pub fn revoke(&self, name: &ChainName) -> Result<bool, StoreError> {
        let sql = "DELETE FROM credential WHERE name = ?1";
        Ok(self.sql(self.writer.lock().execute(sql, [name.as_str()]))? > 0)
    }

    /// All credentials, by name.
    ///
    /// # Errors
    /// The disk's.
    pub fn credentials(&self) -> Result<Vec<Credential>, StoreError> {
        self.sql(all(&self.reader.lock()))
    }
}

fn all(connection: &Connection) -> rusqlite::Result<Vec<Credential>> {
    let sql = "SELECT name, role, kind, hash, created_ms, expires_ms, author, checksum \
               FROM credential ORDER BY name";
    connection.prepare_cached(sql)?.query_map([], read)?.collect()
}

fn insert(connection: &Connection, one: &Credential) -> rusqlite::Result<()> {
    let (created, expires) = (milliseconds(one.created), one.expires.map(milliseconds));
    let texts = [one.name.as_str(), one.role.as_str(), one.proof.kind(), &one.author];
    let sum = sum(texts, one.proof.hash(), created, expires);
    let sql = "INSERT INTO credential VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let [name, role, kind, author] = texts;
    let row = params![name, role, kind, one.proof.hash(), created, expires, author, sum];
    connection.execute(sql, row).map(drop)
}

/// SQLite does not check what is in a row, and a flipped bit of a role is one too many.
fn sum(texts: [&str; 4], hash: &Sha256, created: i64, expires: Option<i64>) -> i64 {
    let [name, role, kind, author] = texts;
    let parts: [&[u8]; 5] =
        [name.as_bytes(), role.as_bytes(), kind.as_bytes(), author.as_bytes(), hash];
    checksum(parts.map(Some), [created, expires.unwrap_or(-1)])
}

fn read(row: &Row<'_>) -> rusqlite::Result<Credential> {
    let text = |column| row.get::<_, String>(column);
    let (name, role, kind, author) = (text(0)?, text(1)?, text(2)?, text(6)?);
    let hash: Sha256 = row.get(3)?;
    let (created, expires): (i64, Option<i64>) = (row.get(4)?, row.get(5)?);
    let wrong = |what: &str| damaged(&format!("credential '{name}': its {what} is wrong"));
    if sum([&name, &role, &kind, &author], &hash, created, expires) != row.get::<_, i64>(7)? {
        return Err(wrong("checksum"));
    }
    let proof = match kind.as_str() {
        "token" => Proof::Token(hash),
        "certificate" => Proof::Certificate(hash),
        _ => return Err(wrong("kind")),
    };
    Ok(Credential {
        role: role.parse().map_err(|_| wrong("role"))?,
        proof,
        created: time(created),
        expires: expires.map(time),
        author,
        name: ChainName::new(&name).map_err(|_| wrong("name"))?,
    })
}

fn milliseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn time(milliseconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}
