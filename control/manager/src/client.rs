//! A client of the API, for the command line and for tests.

use std::io;
use std::path::{Path, PathBuf};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{HeaderMap, Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

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

/// A client; each request has a connection of its own.
#[derive(Debug, Clone)]
pub struct Client {
    path: PathBuf,
}

impl Client {
    /// Of the manager that listens at a socket.
    pub fn new(path: &Path) -> Client {
        Client { path: path.to_owned() }
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
        let stream = UnixStream::connect(&self.path)
            .await
            .map_err(|error| ClientError::Unreachable { path: self.path.clone(), error })?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| broken(&error))?;
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(target).header(header::HOST, "-");
        if !content.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        for (name, value) in content.headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(content.body)));
        let request = request.map_err(|error| ClientError::Broken(error.to_string()))?;
        sender.send_request(request).await.map_err(|error| broken(&error))
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
