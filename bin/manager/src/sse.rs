//! Server-sent events: what the manager's streams are made of.

use http_body_util::BodyExt as _;
use hyper::Method;
use thruway::errln;
use thruway_manager::client::{Answer, Client, ClientError, Content};

/// Maximum length of an event, in bytes.
const EVENT_LEN_MAX: usize = 1 << 20;

/// Reads a stream to its end: passes the data of each event to `each`, and reports gaps.
pub async fn read(
    client: &Client,
    target: &str,
    headers: &[(&'static str, &str)],
    mut each: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let content = Content { headers, body: Vec::new() };
    let (head, mut body) = client.open(Method::GET, target, content).await?.into_parts();
    let status = head.status.as_u16();
    if status >= 400 {
        let body = body.collect().await?.to_bytes();
        return Err(Answer { status, headers: head.headers, body }.refusal().into());
    }
    let mut bytes: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        bytes.extend_from_slice(&data);
        for message in take(&mut bytes) {
            match message {
                Message::Data(data) => each(&data)?,
                Message::Gap => {
                    errln!("thruway-manager: some of what came before is not kept any more");
                }
            }
        }
        if bytes.len() > EVENT_LEN_MAX {
            return Err(ClientError::Broken("an event is too long".to_owned()).into());
        }
    }
    Ok(())
}

/// The content of an event.
#[derive(Debug, PartialEq, Eq)]
enum Message {
    /// Some events before the next one were lost.
    Gap,
    /// Its data.
    Data(String),
}

/// Removes the complete events from the buffer.
fn take(bytes: &mut Vec<u8>) -> Vec<Message> {
    let mut messages = Vec::new();
    // An event ends with an empty line.
    while let Some(end) = bytes.windows(2).position(|pair| pair == b"\n\n") {
        messages.extend(message(&String::from_utf8_lossy(&bytes[..end])));
        bytes.drain(..end + 2);
    }
    messages
}

/// Parses one event; an event without data is a comment that keeps the connection open.
fn message(text: &str) -> Option<Message> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    match field("event:") {
        Some("gap") => Some(Message::Gap),
        _ => field("data:").map(|data| Message::Data(data.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_whole_however_they_come() {
        let text = b": alive\n\nid: 1\ndata: {\"a\":1}\n\nevent: gap\ndata: {}\n\ndata:x\n\nda";
        for len in 1..text.len() {
            let (mut bytes, mut seen) = (Vec::new(), Vec::new());
            for part in text.chunks(len) {
                bytes.extend_from_slice(part);
                seen.extend(take(&mut bytes));
            }
            let data = |text: &str| Message::Data(text.to_owned());
            assert_eq!(seen, [data("{\"a\":1}"), Message::Gap, data("x")], "{len}");
            assert_eq!(bytes, b"da");
        }
    }
}
