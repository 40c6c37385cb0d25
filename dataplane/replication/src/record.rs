//! One record: what happened to a session, or where a transfer of all sessions begins and ends.
//!
//! ```text
//! length of what follows (2) | version (1) | kind (1) | body | CRC-32 of all before it (4)
//! body of a session: level (1) flags (1) life (1) 0 | leaf (2) | idle (4) | key | states
//! body of an end:    level (1) key
//! body of a connection: level (1) flags (1) key | what contexts know of it
//! body of a switchover: number of the term that begins (8)
//! ```
//!
//! A key has 16 bytes for IPv4, 40 for IPv6; a flag says which a session has. Numbers are
//! big-endian. The checksum finds faults of programs and memory; who sends is checked by the
//! stream.

use crate::term::Term;

/// Version of the format of records.
pub const RECORD_VERSION: u8 = 3;
/// Most bytes of a record, its length included.
pub const RECORD_LEN_MAX: usize = 16 << 10;
/// Most bytes of the record of a connection: what contexts of streams know takes some hundred.
pub const CONNECTION_LEN_MAX: usize = 2 << 10;
/// Most bytes of the states of a session's functions in a record.
pub const STATES_LEN_MAX: usize = RECORD_LEN_MAX - HEAD - SESSION_LEN - V6_LEN - SUM;
/// Bytes in front of the body, and behind it.
const HEAD: usize = 4;
const SUM: usize = 4;
/// Bytes of a session's body in front of the key.
const SESSION_LEN: usize = 10;
/// Bytes of keys.
const V4_LEN: usize = 16;
const V6_LEN: usize = 40;
/// Flag: source and destination are exchanged in the key.
const EXCHANGED: u8 = 1;
/// Flag: the key is of IPv6.
const V6: u8 = 2;

/// The key of a session: source, destination, ports, protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionKey {
    /// Of IPv4.
    V4([u32; 4]),
    /// Of IPv6: addresses have four words each.
    V6([u32; 10]),
}

impl SessionKey {
    fn words(&self) -> &[u32] {
        match self {
            SessionKey::V4(words) => words,
            SessionKey::V6(words) => words,
        }
    }

    /// Of that many bytes as they travel.
    fn of_bytes(bytes: &[u8]) -> Option<SessionKey> {
        match bytes.len() {
            V4_LEN => Some(SessionKey::V4(words_of(bytes))),
            V6_LEN => Some(SessionKey::V6(words_of(bytes))),
            _ => None,
        }
    }
}

/// What is known of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session<'a> {
    /// Its level in the flow manager.
    pub level: u8,
    /// Whether source and destination are exchanged in its key.
    pub exchanged: bool,
    /// Its life so far.
    pub life: u8,
    /// The class of its packets.
    pub leaf: u16,
    /// Ticks since its last packet.
    pub idle: u32,
    /// Its key.
    pub key: SessionKey,
    /// The states of functions.
    pub states: &'a [u8],
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A session began, or something new is known of it.
    Session(Session<'a>),
    /// The session of this level and key ended.
    Ended(u8, SessionKey),
    /// What contexts of connections (TCPIn) know of the session of this level and key, which was
    /// sent before.
    Connection(u8, SessionKey, &'a [u8]),
    /// All sessions follow.
    ResyncBegins,
    /// All sessions were sent: those that were not among them are no more.
    ResyncEnds,
    /// This is the last record: the other host has all sessions, and serves from now on, in this
    /// term.
    Switchover(Term),
}

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Bytes are missing.
    #[error("a record is cut short")]
    Truncated,
    /// It cannot be so long.
    #[error("a record of {0} bytes; at most {max} are allowed", max = RECORD_LEN_MAX)]
    TooLong(usize),
    /// Another release's.
    #[error(
        "a record of version {0}, and this release has version {own}: run the same release on \
         both hosts",
        own = RECORD_VERSION
    )]
    Version(u8),
    /// Its bytes are not those that were written.
    #[error("a record with a wrong checksum")]
    Checksum,
    /// A kind that there is not, or a body that does not fit it.
    #[error("a record of kind {0} with a body of {1} bytes, which no kind has")]
    Malformed(u8, usize),
}

impl Record<'_> {
    /// Appends the record; false, and nothing appended, if it is too long.
    pub fn write(&self, out: &mut Vec<u8>) -> bool {
        let begin = out.len();
        out.extend_from_slice(&[0, 0, RECORD_VERSION, self.kind()]);
        match self {
            Record::Session(session) => {
                let exchanged = if session.exchanged { EXCHANGED } else { 0 };
                let family = if matches!(session.key, SessionKey::V6(_)) { V6 } else { 0 };
                let flags = exchanged | family;
                out.extend_from_slice(&[session.level, flags, session.life, 0]);
                out.extend_from_slice(&session.leaf.to_be_bytes());
                out.extend_from_slice(&session.idle.to_be_bytes());
                write_key(&session.key, out);
                out.extend_from_slice(session.states);
            }
            Record::Ended(level, key) => {
                out.push(*level);
                write_key(key, out);
            }
            Record::Connection(level, key, parts) => {
                let family = if matches!(key, SessionKey::V6(_)) { V6 } else { 0 };
                out.extend_from_slice(&[*level, family]);
                write_key(key, out);
                out.extend_from_slice(parts);
            }
            Record::Switchover(term) => out.extend_from_slice(&term.bytes()),
            Record::ResyncBegins | Record::ResyncEnds => {}
        }
        let len = out.len() - begin + SUM;
        let len_max = match self {
            Record::Connection(..) => CONNECTION_LEN_MAX,
            _ => RECORD_LEN_MAX,
        };
        if len > len_max {
            out.truncate(begin);
            return false;
        }
        out[begin..begin + 2].copy_from_slice(&(len as u16 - 2).to_be_bytes());
        let sum = crc32fast::hash(&out[begin..]);
        out.extend_from_slice(&sum.to_be_bytes());
        true
    }

    fn kind(&self) -> u8 {
        match self {
            Record::Session(_) => 1,
            Record::Ended(..) => 2,
            Record::ResyncBegins => 3,
            Record::ResyncEnds => 4,
            Record::Switchover(_) => 5,
            Record::Connection(..) => 6,
        }
    }
}

fn write_key(key: &SessionKey, out: &mut Vec<u8>) {
    key.words().iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
}

/// The words of as many bytes; zeros for what is missing.
fn words_of<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let (words, _) = bytes.as_chunks::<4>();
    std::array::from_fn(|at| words.get(at).copied().map_or(0, u32::from_be_bytes))
}

/// The records of a batch, in order; nothing follows an error.
#[derive(Clone, Debug)]
pub struct Records<'a>(&'a [u8]);

impl<'a> Records<'a> {
    /// Of these bytes.
    pub fn new(bytes: &'a [u8]) -> Records<'a> {
        Records(bytes)
    }

    fn read(&mut self) -> Result<Record<'a>, RecordError> {
        let (len, _) = self.0.split_first_chunk::<2>().ok_or(RecordError::Truncated)?;
        let len = usize::from(u16::from_be_bytes(*len)) + 2;
        if len > RECORD_LEN_MAX {
            return Err(RecordError::TooLong(len));
        }
        let (record, rest) = self.0.split_at_checked(len).ok_or(RecordError::Truncated)?;
        let (summed, sum) = record.split_last_chunk::<SUM>().ok_or(RecordError::Truncated)?;
        let (head, body) = summed.split_first_chunk::<HEAD>().ok_or(RecordError::Truncated)?;
        let [_, _, version, kind] = *head;
        if version != RECORD_VERSION {
            return Err(RecordError::Version(version));
        }
        if crc32fast::hash(summed) != u32::from_be_bytes(*sum) {
            return Err(RecordError::Checksum);
        }
        self.0 = rest;
        parse(kind, body).ok_or(RecordError::Malformed(kind, body.len()))
    }
}

/// A record of its kind and body.
fn parse(kind: u8, body: &[u8]) -> Option<Record<'_>> {
    match (kind, body) {
        (1, _) => {
            let (fixed, rest) = body.split_first_chunk::<SESSION_LEN>()?;
            let [level, flags, life, 0, a, b, c, d, e, f] = *fixed else { return None };
            let key_len = if flags & V6 != 0 { V6_LEN } else { V4_LEN };
            let (key, states) = rest.split_at_checked(key_len)?;
            Some(Record::Session(Session {
                level,
                exchanged: flags & EXCHANGED != 0,
                life,
                leaf: u16::from_be_bytes([a, b]),
                idle: u32::from_be_bytes([c, d, e, f]),
                key: SessionKey::of_bytes(key)?,
                states,
            }))
        }
        (2, [level, key @ ..]) => Some(Record::Ended(*level, SessionKey::of_bytes(key)?)),
        (3, []) => Some(Record::ResyncBegins),
        (4, []) => Some(Record::ResyncEnds),
        (6, _) if HEAD + body.len() + SUM > CONNECTION_LEN_MAX => None,
        (6, [level, flags @ (0 | V6), rest @ ..]) => {
            let key_len = if flags & V6 != 0 { V6_LEN } else { V4_LEN };
            let (key, parts) = rest.split_at_checked(key_len)?;
            Some(Record::Connection(*level, SessionKey::of_bytes(key)?, parts))
        }
        (5, term) => Term::parse(term).map(Record::Switchover),
        _ => None,
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.0 = &[];
        }
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn session(states: &[u8]) -> Record<'_> {
        let key = SessionKey::V4([0x0a00_0001, 0xc000_0201, 0x1234_0050, 6]);
        let (level, exchanged, life, leaf, idle) = (2, true, 3, 0x1ff, 70_000);
        Record::Session(Session { level, exchanged, life, leaf, idle, key, states })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            states in prop::collection::vec(any::<u8>(), 0..STATES_LEN_MAX + 1),
            v4: [u32; 4],
            v6: [u32; 10],
        ) {
            let (v4, v6) = (SessionKey::V4(v4), SessionKey::V6(v6));
            let of_v6 = match session(&states) {
                Record::Session(session) => Record::Session(Session { key: v6, ..session }),
                other => other,
            };
            let parts = &states[..states.len().min(CONNECTION_LEN_MAX - 60)];
            let written = [
                Record::ResyncBegins,
                session(&states),
                of_v6,
                Record::Ended(7, v4),
                Record::Ended(8, v6),
                Record::Connection(0, v4, parts),
                Record::Connection(1, v6, parts),
                Record::ResyncEnds,
                Record::Switchover(Term::default().next()),
            ];
            let mut bytes = Vec::new();
            prop_assert!(written.iter().all(|record| record.write(&mut bytes)));
            let read: Result<Vec<Record<'_>>, RecordError> = Records::new(&bytes).collect();
            prop_assert_eq!(read.as_deref(), Ok(&written[..]));
        }

        /// Every change of one byte is found, and never a panic.
        #[test]
        fn a_changed_byte_is_found(at in 0usize..60, by in 1u8.., cut in 0usize..60) {
            let mut bytes = Vec::new();
            session(&[1, 2, 3]).write(&mut bytes);
            let cut = cut % bytes.len();
            prop_assert!(cut == 0 || Records::new(&bytes[..cut]).any(|record| record.is_err()));
            let at = at % bytes.len();
            bytes[at] ^= by;
            prop_assert!(Records::new(&bytes).any(|record| record.is_err()));
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            Records::new(&bytes).for_each(drop);
        }
    }

    #[test]
    fn errors_name_the_remedy() {
        let mut bytes = Vec::new();
        session(&[]).write(&mut bytes);
        bytes[2] = 9;
        let error = Records::new(&bytes).next().unwrap().unwrap_err();
        assert_eq!(error, RecordError::Version(9));
        assert!(error.to_string().contains("run the same release"), "{error}");
        let long = Records::new(&[0xff; 4]).next().unwrap().unwrap_err();
        assert_eq!(long, RecordError::TooLong(0x1_0001));
        let len_max = STATES_LEN_MAX + V6_LEN - V4_LEN;
        assert!(session(&vec![0; len_max]).write(&mut Vec::new()));
        assert!(!session(&vec![0; len_max + 1]).write(&mut Vec::new()));
    }

    #[test]
    fn a_connection_is_as_long_as_it_may_be() {
        let parts = [0; CONNECTION_LEN_MAX];
        let len_max = CONNECTION_LEN_MAX - HEAD - 2 - V4_LEN - SUM;
        let connection = |len| Record::Connection(0, SessionKey::V4([7; 4]), &parts[..len]);
        let mut bytes = Vec::new();
        assert!(!connection(len_max + 1).write(&mut bytes));
        assert!(connection(len_max).write(&mut bytes));
        assert_eq!(Records::new(&bytes).next(), Some(Ok(connection(len_max))));
        // A longer one, as another program may write it.
        bytes.truncate(bytes.len() - SUM);
        bytes.push(0);
        let len = bytes.len() + SUM - 2;
        bytes[..2].copy_from_slice(&(len as u16).to_be_bytes());
        let sum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&sum.to_be_bytes());
        let read = Records::new(&bytes).next();
        assert!(matches!(read, Some(Err(RecordError::Malformed(6, _)))), "{read:?}");
    }
}
