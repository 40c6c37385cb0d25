//! A client of the API, for the command line and for tests.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Method, Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::api::Problem;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("no manager answers at {}: {error}; start `thruway daemon`, or name its --socket",
        path.display())]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// No TLS with that server.
    #[error("{server}: {why}")]
    Server {
        /// The server.
        server: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The connection broke, or what came is no HTTP.
    #[error("the manager's answer: {0}")]
    Broken(String),
    /// The manager refused.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// A request, but for its method and target.
#[derive(Debug, Clone, Default)]
pub struct Content<'a> {
    /// Header fields.
    pub headers: &'a [(&'static str, &'a str)],
    /// The body.
    pub body: Vec<u8>,
}

/// How long a server on the network may take for connection and handshake.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// A server on the network.
#[derive(Clone)]
pub struct Server {
    /// `HOST:PORT`.
    authority: String,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
    token: Option<String>,
}

impl Server {
    /// From a URL, `https://HOST[:PORT]`; port 443 if it names none.
    ///
    /// # Errors
    /// It is another URL; the text says what is wrong.
    pub fn new(
        url: &str,
        config: Arc<ClientConfig>,
        token: Option<String>,
    ) -> Result<Server, String> {
        let refused = |why: &str| format!("'{url}': {why}; give it as https://HOST:PORT");
        let rest = url.strip_prefix("https://").ok_or_else(|| refused("it is not https"))?;
        let authority: Authority = rest
            .strip_suffix('/')
            .unwrap_or(rest)
            .parse()
            .map_err(|_| refused("it names no host and port"))?;
        if authority.as_str().contains('@') {
            return Err(refused("it has a user in it; a token goes into a file"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|_| refused("it names no host"))?;
        let port = authority.port_u16().unwrap_or(443);
        let authority = format!("{}:{port}", authority.host());
        Ok(Server { authority, name, config, token })
    }

    async fn connect(&self) -> Result<TlsStream<TcpStream>, ClientError> {
        let connected = tokio::time::timeout(CONNECT_TIME_MAX, async {
            let stream = TcpStream::connect(&self.authority).await?;
            TlsConnector::from(Arc::clone(&self.config)).connect(self.name.clone(), stream).await
        });
        let why = match connected.await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => explain(&error),
            Err(_) => format!("no answer in {} s", CONNECT_TIME_MAX.as_secs()),
        };
        Err(ClientError::Server { server: format!("https://{}", self.authority), why })
    }
}

/// Why there is no TLS, and what to do where something can be done.
fn explain(error: &io::Error) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let remedy = match tls {
        Some(rustls::Error::InvalidCertificate(why)) => match why {
            CertificateError::UnknownIssuer => {
                "; name the authority of the manager's certificate with --ca"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "; use a name that the certificate has"
            }
            _ => "",
        },
        Some(rustls::Error::InvalidMessage(_)) => "; is this the manager's port?",
        Some(_) => "",
        None => "; is `thruway daemon --listen` there?",
    };
    format!("{error}{remedy}")
}

/// Where a manager listens.
#[derive(Clone)]
enum Address {
    Socket(PathBuf),
    Server(Server),
}

/// A client; each request has a connection of its own.
#[derive(Clone)]
pub struct Client {
    address: Address,
}

impl Client {
    /// Of the manager that listens at a socket.
    pub fn new(path: &Path) -> Client {
        Client { address: Address::Socket(path.to_owned()) }
    }

    /// Of a manager on the network.
    pub fn of_server(server: Server) -> Client {
        Client { address: Address::Server(server) }
    }

    /// Sends a request, and returns when the head of the answer is there.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`], [`ClientError::Broken`].
    pub async fn open(
        &self,
        method: Method,
        target: &str,
        content: Content<'_>,
    ) -> Result<Response<Incoming>, ClientError> {
        match &self.address {
            Address::Socket(path) => {
                let stream = UnixStream::connect(path).await;
                let unreachable = |error| ClientError::Unreachable { path: path.clone(), error };
                let request = request(method, target, content, None)?;
                send(stream.map_err(unreachable)?, request).await.map_err(|error| broken(&error))
            }
            Address::Server(server) => {
                let request = request(method, target, content, Some(server))?;
                send(server.connect().await?, request).await.map_err(|error| broken(&error))
            }
        }
    }

    /// Sends a request, and returns the whole answer, whatever its status.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`], [`ClientError::Broken`].
    pub async fn call(
        &self,
        method: Method,
        target: &str,
        content: Content<'_>,
    ) -> Result<Answer, ClientError> {
        let (head, body) = self.open(method, target, content).await?.into_parts();
        let body = body.collect().await.map_err(|error| broken(&error))?.to_bytes();
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
    }

    /// Sends a request, and reads the answer as JSON.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        target: &str,
        content: Content<'_>,
    ) -> Result<T, ClientError> {
        let answer = self.call(method, target, content).await?;
        answer.accept()
    }
}

impl Answer {
    /// The body as JSON, if the request was not refused.
    ///
    /// # Errors
    /// [`ClientError::Refused`], [`ClientError::Broken`].
    pub fn accept<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        if self.status >= 400 {
            return Err(self.refusal());
        }
        let read = serde_json::from_slice(&self.body);
        read.map_err(|error| ClientError::Broken(error.to_string()))
    }

    /// Why it was refused.
    pub fn refusal(&self) -> ClientError {
        match serde_json::from_slice(&self.body) {
            Ok(problem) => ClientError::Refused(Box::new(problem)),
            Err(_) => ClientError::Broken(format!("status {}", self.status)),
        }
    }
}

/// The head and the body of a request.
fn request(
    method: Method,
    target: &str,
    content: Content<'_>,
    server: Option<&Server>,
) -> Result<Request<Full<Bytes>>, ClientError> {
    let host = server.map_or("-", |server| server.authority.as_str());
    let mut request = Request::builder().method(method).uri(target).header(header::HOST, host);
    if let Some(token) = server.and_then(|server| server.token.as_deref()) {
        let value = HeaderValue::try_from(format!("Bearer {token}"));
        let mut value = value.map_err(|_| ClientError::Broken("the token is no text".into()))?;
        value.set_sensitive(true);
        request = request.header(header::AUTHORIZATION, value);
    }
    if !content.body.is_empty() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    for (name, value) in content.headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(content.body)));
    request.map_err(|error| ClientError::Broken(error.to_string()))
}

/// Sends a request over a connection of its own, which ends with the answer, or when this future or
/// the answer is dropped.
pub(crate) async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, hyper::Error> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    sender.send_request(request).await
}

/// An error of HTTP, with its cause.
fn broken(error: &hyper::Error) -> ClientError {
    use std::error::Error as _;
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    ClientError::Broken(format!("{error}{cause}"))
}

/// A part of a path, with everything escaped but letters, digits and `-_.~` (RFC 3986 section 2.3).
pub fn escape(part: &str) -> String {
    let mut text = String::new();
    for byte in part.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                text.push(char::from(byte));
            }
            _ => text += &format!("%{byte:02X}"),
        }
    }
    text
}
