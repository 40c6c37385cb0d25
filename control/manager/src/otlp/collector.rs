//! A collector of OTLP over HTTP, as its client sees it.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode, Uri, header};
use serde_json::Value;
use tokio::net::TcpStream;

use crate::client::send;

/// Longest answer that is read.
const ANSWER_LEN_MAX: usize = 64 << 10;

/// Why a request had no success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// It may have success later.
    Later(String),
    /// It never will.
    Refused(String),
}

/// A collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    /// `HOST:PORT`.
    authority: String,
    /// What stands before `/v1/metrics`.
    path: String,
}

impl Collector {
    /// From a URL, `http://HOST[:PORT][/PATH]`; port 4318 if it names none.
    ///
    /// # Errors
    /// It is another URL; the text says what is wrong and what to do.
    pub fn new(url: &str) -> Result<Collector, String> {
        let refused = |why: &str| {
            format!("'{url}': {why}; name a collector on this host: http://127.0.0.1:4318")
        };
        let uri: Uri = url.parse().map_err(|_| refused("it is no URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(refused("TLS is the affair of a collector here")),
            _ => return Err(refused("it is not http")),
        }
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| refused("it names no host"))?;
        if uri.query().is_some() || uri.authority().is_some_and(|one| one.as_str().contains('@')) {
            return Err(refused("it has more than host, port and path"));
        }
        let authority = format!("{host}:{}", uri.port_u16().unwrap_or(4318));
        Ok(Collector { authority, path: uri.path().trim_end_matches('/').to_owned() })
    }

    /// Sends a body to `/v1/SIGNAL`.
    ///
    /// # Errors
    /// The collector is away, slow, or does not take it.
    pub(super) async fn post(
        &self,
        signal: &str,
        body: &Value,
        limit: Duration,
    ) -> Result<(), Failure> {
        let answer = tokio::time::timeout(limit, self.answer(signal, body));
        let (status, answer) = answer
            .await
            .map_err(|_| Failure::Later(format!("no answer in {} s", limit.as_secs_f32())))??;
        // The specification of OTLP 1, "OTLP/HTTP Response": these alone are tried again.
        match status.as_u16() {
            200..=299 => refused_part(&answer),
            429 | 502 | 503 | 504 => Err(Failure::Later(format!("it answers {status}"))),
            _ => Err(Failure::Refused(format!("it answers {status}"))),
        }
    }

    async fn answer(&self, signal: &str, body: &Value) -> Result<(StatusCode, Bytes), Failure> {
        let later = |error: &dyn std::error::Error| Failure::Later(error.to_string());
        let stream = TcpStream::connect(&self.authority).await.map_err(|error| later(&error))?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}/v1/{signal}", self.path))
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.to_string())));
        let request = request.map_err(|error| Failure::Refused(error.to_string()))?;
        let answer = send(stream, request).await.map_err(|error| later(&error))?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_LEN_MAX).collect().await;
        Ok((head.status, body.map_err(|error| Failure::Later(error.to_string()))?.to_bytes()))
    }
}

/// What a collector that took the rest refused (`partialSuccess`).
fn refused_part(answer: &[u8]) -> Result<(), Failure> {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let partial = &answer["partialSuccess"];
    let count = ["rejectedDataPoints", "rejectedLogRecords"].map(|key| match &partial[key] {
        Value::String(text) => text.parse().unwrap_or(0),
        number => number.as_u64().unwrap_or(0),
    });
    match count.into_iter().max() {
        Some(count) if count > 0 => {
            let why = partial["errorMessage"].as_str().unwrap_or_default();
            Err(Failure::Refused(format!("it refused {count} of what it was sent: {why}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_host_port_and_path() {
        let of = |url| Collector::new(url).map(|one| (one.authority, one.path));
        let is = |authority: &str, path: &str| Ok((authority.to_owned(), path.to_owned()));
        assert_eq!(of("http://127.0.0.1"), is("127.0.0.1:4318", ""));
        assert_eq!(of("http://[::1]:9090/api/otlp/"), is("[::1]:9090", "/api/otlp"));
        for (url, why) in [
            ("https://127.0.0.1", "TLS"),
            ("h:4318", "not http"),
            ("http://", "no URL"),
            ("ftp://127.0.0.1", "not http"),
            (concat!("http:", "//a@127.0.0.1"), "more than"),
            ("http://127.0.0.1/?x=1", "more than"),
        ] {
            let refusal = Collector::new(url).expect_err(url);
            assert!(refusal.contains(why) && refusal.contains("http://127.0.0.1"), "{refusal}");
        }
    }

    #[test]
    fn a_part_that_was_refused_is_a_failure() {
        for good in ["", "{}", "x", r#"{"partialSuccess":{"rejectedDataPoints":"0"}}"#] {
            assert_eq!(refused_part(good.as_bytes()), Ok(()), "{good}");
        }
        for bad in [r#"{"rejectedLogRecords":3}"#, r#"{"rejectedDataPoints":"3"}"#] {
            let answer = format!(r#"{{"partialSuccess":{bad}}}"#);
            let failure = refused_part(answer.as_bytes()).expect_err(bad);
            let why = "it refused 3 of what it was sent: ".to_owned();
            assert_eq!(failure, Failure::Refused(why));
        }
    }
}
