//! Access to a socket: users of a Unix socket, the token of a TCP port.

use std::fmt::Write as _;
use std::io::Read as _;

use thruway_element::{ArgError, Args};
use thruway_port::run_directory::{SecretFile, token_name};
use thruway_port::socket::{Connection, SocketOptions};

/// Bytes of a token that is made here.
const TOKEN_LEN: usize = 32;
/// Longest token, bytes.
pub(super) const TOKEN_MAX: usize = 512;

/// Rights of a Unix socket's file where nothing else is said.
const MODE: u32 = 0o600;

/// The permitted clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gate {
    mode: u32,
    group: Option<u32>,
    token: Wanted,
}

/// The authentication of a TCP client.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted {
    Nothing,
    /// One that is made when the port is known.
    Made,
    This(String),
}

/// The token of a port, and the file in which this user's tools find it.
#[derive(Debug)]
pub(super) struct Token {
    text: String,
    _file: Option<SecretFile>,
}

impl Gate {
    pub(super) fn of(args: &Args<'_>) -> Result<Gate, ArgError> {
        let mode: Option<String> = args.opt("MODE")?;
        let mode = match mode {
            Some(text) => u32::from_str_radix(&text, 8)
                .ok()
                .filter(|mode| *mode <= 0o777)
                .ok_or_else(|| args.error("MODE", format!("'{text}': octal digits, as 0660")))?,
            None => MODE,
        };
        let group: Option<String> = args.opt("GROUP")?;
        let group = group.map(|name| {
            group_number(&name).ok_or_else(|| args.error("GROUP", format!("no group '{name}'")))
        });
        let auth: String = args.get("AUTH")?;
        let text: Option<String> = args.opt("TOKEN")?;
        let file: Option<String> = args.opt("TOKEN_FILE")?;
        let token = match (auth.to_ascii_lowercase().as_str(), text, file) {
            ("none", None, None) => Wanted::Nothing,
            ("none", ..) => return Err(args.error("AUTH", "none, and yet there is a token")),
            ("token", None, None) => Wanted::Made,
            ("token", Some(_), Some(_)) => {
                return Err(args.error("TOKEN", "give TOKEN or TOKEN_FILE, not both"));
            }
            ("token", Some(text), None) => Wanted::This(text),
            ("token", None, Some(file)) => {
                Wanted::This(read(&file).map_err(|why| args.error("TOKEN_FILE", why))?)
            }
            _ => return Err(args.error("AUTH", format!("'{auth}': write token or none"))),
        };
        if let Wanted::This(text) = &token
            && (text.is_empty() || text.len() > TOKEN_MAX || text.contains(char::is_whitespace))
        {
            let why = format!("a token is one word of 1 to {TOKEN_MAX} bytes");
            return Err(args.error("TOKEN", why));
        }
        Ok(Gate { mode, group: group.transpose()?, token })
    }

    /// A gate for this user alone.
    pub(super) fn own() -> Gate {
        Gate { mode: MODE, group: None, token: Wanted::Nothing }
    }

    /// Options of the listening socket.
    pub(super) fn options(&self) -> SocketOptions {
        SocketOptions { mode: Some(self.mode), group: self.group, ..SocketOptions::default() }
    }

    /// Whether TCP clients need nothing.
    pub(super) fn is_open(&self) -> bool {
        self.token == Wanted::Nothing
    }

    /// The token of a TCP port.
    ///
    /// # Errors
    /// There is nowhere to put it.
    pub(super) fn token(&self, port: u16) -> Result<Option<Token>, String> {
        let text = match &self.token {
            Wanted::Nothing => return Ok(None),
            Wanted::This(text) => return Ok(Some(Token { text: text.clone(), _file: None })),
            Wanted::Made => random().map_err(|error| format!("no random bytes: {error}"))?,
        };
        let file = SecretFile::create(&token_name(port), &text).map_err(|error| {
            let dir = thruway_port::run_directory::path();
            format!(
                "cannot keep the port's token in {}: {error}; set THRUWAY_RUN_DIR, give \
                 TOKEN_FILE, or use a Unix socket",
                dir.display()
            )
        })?;
        Ok(Some(Token { text, _file: Some(file) }))
    }

    /// Whether the process at the other end of a Unix socket may use it: this user's, root's, or
    /// one that MODE and GROUP let in. `None` of TCP.
    pub(super) fn admits(&self, connection: &Connection) -> Option<bool> {
        let peer = connection.credentials()?;
        let own = rustix::process::geteuid().as_raw();
        let group = self.group.unwrap_or_else(|| rustix::process::getegid().as_raw());
        let of_group = self.mode & 0o020 != 0 && peer.groups.contains(&group);
        Some(peer.uid == own || peer.uid == 0 || of_group || self.mode & 0o002 != 0)
    }
}

impl Token {
    /// Whether this is the token, in a time that does not depend on where it differs.
    pub(super) fn is(&self, shown: &str) -> bool {
        let (own, shown) = (self.text.as_bytes(), shown.as_bytes());
        let differ = own.iter().zip(shown).fold(0, |differ, (own, shown)| differ | (own ^ shown));
        std::hint::black_box(differ) == 0 && own.len() == shown.len()
    }
}

fn read(file: &str) -> Result<String, String> {
    let mut text = String::new();
    let open = std::fs::File::open(file);
    let read = open.and_then(|open| open.take(TOKEN_MAX as u64 + 2).read_to_string(&mut text));
    read.map_err(|error| format!("{file}: {error}"))?;
    Ok(text.trim().to_owned())
}

fn random() -> std::io::Result<String> {
    let mut bytes = [0; TOKEN_LEN];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// The number of a group: itself, or by its name in /etc/group.
fn group_number(name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let groups = std::fs::read_to_string("/etc/group").ok()?;
    let mut fields = groups.lines().map(|line| line.split(':'));
    fields.find_map(|mut line| match line.next() {
        Some(found) if found == name => line.nth(1)?.parse().ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_compared_as_wholes() {
        let token = Token { text: "secret".into(), _file: None };
        assert!(token.is("secret"));
        for wrong in ["", "s", "secre", "secrets", "Secret", "secre\0"] {
            assert!(!token.is(wrong), "{wrong:?}");
        }
        let (one, other) = (random().expect("random bytes"), random().expect("random bytes"));
        assert_eq!(one.len(), 2 * TOKEN_LEN);
        assert_ne!(one, other);
    }

    #[test]
    fn groups_have_numbers() {
        assert_eq!(group_number("root"), Some(0));
        assert_eq!(group_number("17"), Some(17));
        assert_eq!(group_number("no such group"), None);
    }
}
