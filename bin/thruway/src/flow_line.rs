//! A line of the handler `flows` of a FlowClassifier, which `thruway ctl flows` prints, as JSON.

use serde_json::{Map, Value, json};

/// Words in front of the pairs: protocol, state, seconds left.
const LEADING: usize = 3;

/// The session that a line reports on; none where it is not of the form
/// `PROTOCOL STATE SECONDS KEY=VALUE... [reply KEY=VALUE...] idle=S session="..." class="..."`.
pub fn parse(line: &str) -> Option<Value> {
    // A class is the user's own text, and the last.
    let (rest, class) = line.split_once(" class=\"")?;
    let (rest, session) = rest.split_once(" session=\"")?;
    let (ends, idle) = rest.rsplit_once(" idle=")?;
    let mut words = ends.splitn(LEADING + 1, ' ');
    let (protocol, state, left) = (words.next()?, words.next()?, words.next()?);
    let pairs = words.next().unwrap_or("");
    let (forward, reply) = match pairs.split_once("reply ") {
        Some((forward, reply)) => (forward, Some(ends_of(reply)?)),
        None => (pairs, None),
    };
    Some(json!({
        "protocol": protocol, "state": state,
        "seconds_left": left.parse::<u64>().ok()?, "seconds_idle": idle.parse::<u64>().ok()?,
        "forward": ends_of(forward)?, "reply": reply,
        "session": session.strip_suffix('"')?, "class": class.strip_suffix('"')?,
    }))
}

/// Addresses as text, ports as numbers.
fn ends_of(pairs: &str) -> Option<Value> {
    let mut ends = Map::new();
    for pair in pairs.split_whitespace() {
        let (key, value) = pair.split_once('=')?;
        let (key, value) = match key {
            "src" | "dst" => (key, json!(value)),
            "sport" => ("src_port", json!(value.parse::<u16>().ok()?)),
            "dport" => ("dst_port", json!(value.parse::<u16>().ok()?)),
            _ => return None,
        };
        ends.insert(key.to_owned(), value);
    }
    Some(ends.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn translated_sessions_have_both_ends() {
        let line = "udp open 297 src=10.0.0.3 dst=198.51.100.3 sport=3000 dport=53 reply \
                    src=198.51.100.3 dst=192.0.2.1 sport=53 dport=2889 idle=2 \
                    session=\"connection\" class=\"dst port \"53\" reply class=\"x\"\"";
        let expected = json!({
            "protocol": "udp", "state": "open", "seconds_left": 297, "seconds_idle": 2,
            "forward": { "src": "10.0.0.3", "dst": "198.51.100.3", "src_port": 3000, "dst_port": 53 },
            "reply": { "src": "198.51.100.3", "dst": "192.0.2.1", "src_port": 53, "dst_port": 2889 },
            "session": "connection", "class": "dst port \"53\" reply class=\"x\"",
        });
        assert_eq!(parse(line), Some(expected));
    }

    #[test]
    fn what_a_class_fixes_is_left_out() {
        let session =
            parse("- new 3 dst=fd00::1 idle=0 session=\"dst\" class=\"\"").expect("a line");
        assert_eq!(
            (&session["forward"], &session["reply"]),
            (&json!({"dst": "fd00::1"}), &Value::Null)
        );
        let session = parse("- new 3  idle=0 session=\"\" class=\"\"").expect("a line");
        assert_eq!(session["forward"], json!({}));
    }

    #[test]
    fn what_is_no_session_is_refused() {
        for line in [
            "",
            "udp",
            "udp open x src=10.0.0.3 idle=2 session=\"c\" class=\"c\"",
            "udp open 1 src idle=2 session=\"c\" class=\"c\"",
            "udp open 1 colour=red idle=2 session=\"c\" class=\"c\"",
            "udp open 1 sport=65536 idle=2 session=\"c\" class=\"c\"",
            "udp open 1 src=10.0.0.3 idle=-1 session=\"c\" class=\"c\"",
            "udp open 1 src=10.0.0.3 idle=1 session=\"c\" class=\"c",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
