//! Whether a chain runs, by the API of the manager.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::config::ChainRef;
use crate::error::{CniError, Code};

/// The manager answers at once.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// More than the longest chain that the API takes.
const ANSWER_LEN_MAX: u64 = 64 << 20;
/// A chain that failed for want of its port is tried again after 10 s at the latest.
const READY_TIME_MAX: Duration = Duration::from_secs(15);
/// Time between two questions.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits until a chain runs.
///
/// # Errors
/// It does not in time: then the message has the manager's, and it may be tried again later.
pub fn wait_ready(chain: &ChainRef) -> Result<(), CniError> {
    let begin = Instant::now();
    loop {
        match state(chain) {
            ChainState::Runs => return Ok(()),
            ChainState::Starts(error) if begin.elapsed() < READY_TIME_MAX => {
                drop(error);
                std::thread::sleep(PAUSE);
            }
            ChainState::Starts(error) | ChainState::Unknown(error) => return Err(error),
        }
    }
}

/// Looks whether a chain runs.
///
/// # Errors
/// It does not, or the manager does not answer.
pub fn look(chain: &ChainRef) -> Result<(), CniError> {
    match state(chain) {
        ChainState::Runs => Ok(()),
        ChainState::Starts(error) | ChainState::Unknown(error) => Err(error),
    }
}

/// What is known of a chain.
enum ChainState {
    /// It runs.
    Runs,
    /// It does not run, and may soon.
    Starts(CniError),
    /// The manager has no such chain.
    Unknown(CniError),
}

fn state(chain: &ChainRef) -> ChainState {
    let later = |why: &str| CniError::new(Code::TryAgainLater, why);
    let name = &chain.name;
    let answer = match ask(chain) {
        Ok(answer) => answer,
        Err(error) => {
            let socket = chain.socket.display();
            let why = format!("chain '{name}': the manager does not answer at {socket}: {error}");
            return ChainState::Starts(later(&why));
        }
    };
    match read(&answer) {
        Ok(None) => ChainState::Runs,
        Ok(Some(why)) => ChainState::Starts(later(&format!("chain '{name}' does not run: {why}"))),
        Err(why) => ChainState::Unknown(later(&format!("chain '{name}': {why}"))),
    }
}

fn ask(chain: &ChainRef) -> std::io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(&chain.socket)?;
    stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    stream.set_write_timeout(Some(ANSWER_TIME_MAX))?;
    // RFC 9112: a server of HTTP/1.1 answers a client of 1.0 with the body as it is, and closes.
    let request = format!("GET /v1/chains/{} HTTP/1.0\r\nHost: localhost\r\n\r\n", chain.name);
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_LEN_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

/// Why a chain does not run, by an answer of the API; none if it does. An error is why the manager
/// says nothing of it.
fn read(answer: &[u8]) -> Result<Option<String>, String> {
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n");
    let body = end.and_then(|end| answer.get(end + 4..)).unwrap_or_default();
    let other = || "the answer at the manager's socket is not that of its API".to_owned();
    let body: Value = serde_json::from_slice(body).map_err(|_| other())?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let Some(conditions) = body.pointer("/status/conditions").and_then(Value::as_array) else {
        return Err(body["detail"].as_str().map_or_else(other, str::to_owned));
    };
    Ok(match conditions.iter().find(|one| one["kind"] == "Ready") {
        Some(ready) if ready["holds"] == true => None,
        Some(ready) => Some(format!("{}: {}", text(&ready["reason"]), text(&ready["message"]))),
        None => Some("it has not been started yet".into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> Result<Option<String>, String> {
        read(format!("HTTP/1.1 200 OK\r\na: b\r\n\r\n{body}").as_bytes())
    }

    #[test]
    fn answers_are_read() {
        let ready = r#"{"status": {"conditions": [{"kind": "UpToDate", "holds": false},
            {"kind": "Ready", "holds": true, "reason": "Answers", "message": ""}]}}"#;
        assert_eq!(of(ready), Ok(None));
        let failed = ready.replace("true", "false").replace("Answers", "CrashLoop");
        assert_eq!(of(&failed), Ok(Some("CrashLoop: ".into())));
        let none = of(r#"{"status": {"conditions": []}}"#).expect("an answer");
        assert!(none.is_some_and(|why| why.contains("not been started")));
        assert_eq!(of(r#"{"detail": "no chain"}"#), Err("no chain".into()));
        for other in ["", "[]", "null", "{", "\u{0}"] {
            assert!(of(other).is_err(), "{other}");
        }
        assert!(read(b"SSH-2.0").is_err());
    }
}
