//! What a session speaks, by its first bytes and its ports.

/// A protocol over TCP or UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum App {
    /// None that is known.
    #[default]
    Unknown = 0,
    /// HTTP/1.
    Http = 1,
    /// TLS.
    Tls = 2,
    /// SSH.
    Ssh = 3,
    /// SMTP.
    Smtp = 4,
    /// FTP's control connection.
    Ftp = 5,
    /// DNS.
    Dns = 6,
}

impl App {
    const ALL: [App; 7] =
        [App::Unknown, App::Http, App::Tls, App::Ssh, App::Smtp, App::Ftp, App::Dns];

    /// As events call it.
    pub const fn name(self) -> &'static str {
        match self {
            App::Unknown => "failed",
            App::Http => "http",
            App::Tls => "tls",
            App::Ssh => "ssh",
            App::Smtp => "smtp",
            App::Ftp => "ftp",
            App::Dns => "dns",
        }
    }

    pub(super) fn of(number: u8) -> App {
        App::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }

    /// By the first bytes of either direction and the port of the server.
    pub fn recognise(bytes: &[u8], server_port: u16) -> App {
        // Methods of RFC 9110 and WebDAV that are seen; a response's first word.
        const HTTP: [&[u8]; 11] = [
            b"GET ",
            b"POST ",
            b"HEAD ",
            b"PUT ",
            b"DELETE ",
            b"OPTIONS ",
            b"CONNECT ",
            b"TRACE ",
            b"PATCH ",
            b"PROPFIND ",
            b"HTTP/1.",
        ];
        match (bytes, server_port) {
            (_, 53) => App::Dns,
            // A handshake record of any version (RFC 8446, 5.1).
            ([0x16, 0x03, ..], _) => App::Tls,
            (bytes, _) if bytes.starts_with(b"SSH-") => App::Ssh,
            (bytes, _) if HTTP.iter().any(|word| bytes.starts_with(word)) => App::Http,
            (_, 25 | 465 | 587) => App::Smtp,
            (_, 21) => App::Ftp,
            ([b'E' | b'H', b'H' | b'E', b'L', b'O', b' ', ..], _) => App::Smtp,
            _ => App::Unknown,
        }
    }
}
