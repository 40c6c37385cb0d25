//! Heads written anew, against lists of lines.

use proptest::prelude::*;
use thruway_stream::http::{
    Asks, Change, Connection, EditError, Framing, Kind, Piece, Reader, Rules, Shown, Step, rewrite,
    with_framing,
};

/// A reader that has read a head.
fn read(kind: Kind, head: &[u8]) -> Reader {
    let mut reader = Reader::new(Rules::STRICT);
    let mut connection = Connection::default();
    if kind == Kind::Response {
        let get = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        reader.step(&mut connection, Kind::Request, get).unwrap();
    }
    let step = reader.step(&mut connection, kind, head);
    assert_eq!(step, Ok(Step::Piece(Piece::Head, head.len())));
    reader
}

fn rewritten(head: &str, changes: &[Change<'_>]) -> Result<String, EditError> {
    let mut out = Vec::new();
    let reader = read(Kind::Request, head.as_bytes());
    rewrite(reader.view(head.as_bytes()), changes, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn framed(kind: Kind, head: &str, framing: Framing) -> String {
    let mut out = Vec::new();
    with_framing(read(kind, head.as_bytes()).view(head.as_bytes()), framing, &mut out);
    // The output is a valid head again.
    read(kind, &out);
    String::from_utf8(out).unwrap()
}

type Lines = Vec<(String, String)>;

/// A change of a list of lines.
fn plainly(lines: &mut Lines, change: &Change<'_>) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let line = |name: &[u8], value: &[u8]| (text(name), text(value));
    let at = |lines: &Lines, name: &[u8]| {
        lines.iter().position(|(found, _)| found.as_bytes().eq_ignore_ascii_case(name))
    };
    match *change {
        Change::Add(name, value) => lines.push(line(name, value)),
        Change::Remove(name) => lines.retain(|(n, _)| !n.as_bytes().eq_ignore_ascii_case(name)),
        Change::Set(name, value) | Change::Replace(name, value) => {
            match at(lines, name) {
                Some(first) => {
                    plainly(lines, &Change::Remove(name));
                    lines.insert(first.min(lines.len()), line(name, value));
                }
                None if matches!(change, Change::Set(..)) => lines.push(line(name, value)),
                None => {}
            };
        }
    }
}

fn write(lines: &Lines) -> String {
    let lines: String = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("GET / HTTP/1.1\r\n{lines}\r\n")
}

proptest! {
    #[test]
    fn a_change_is_that_of_a_list(
        lines in prop::collection::vec(("[a-cA-C]", "[ -~]{0,9}"), 0..8),
        kind in 0..4usize,
        name in "[a-d]",
        value in "[!-~]{0,5}",
    ) {
        let (name, value) = (name.as_bytes(), value.as_bytes());
        let change = [
            Change::Add(name, value),
            Change::Remove(name),
            Change::Set(name, value),
            Change::Replace(name, value),
        ][kind];
        let mut lines = lines;
        lines.insert(0, ("Host".to_owned(), "h".to_owned()));
        let changed = rewritten(&write(&lines), &[change]).unwrap();
        plainly(&mut lines, &change);
        prop_assert_eq!(changed, write(&lines));
    }
}

#[test]
fn the_first_change_of_a_name_decides() {
    let head = "GET / HTTP/1.1\r\nHost: h\r\nA:1\r\na:  2 \r\nB: 3\r\n\r\n";
    let changes = [
        Change::Add(b"A", b"9"),
        Change::Remove(b"a"),
        Change::Set(b"A", b"8"),
        Change::Set(b"C", b"7"),
        Change::Set(b"c", b"6"),
    ];
    let wanted = "GET / HTTP/1.1\r\nHost: h\r\nB: 3\r\nA: 9\r\nC: 7\r\n\r\n";
    assert_eq!(rewritten(head, &changes), Ok(wanted.to_owned()));
    assert_eq!(rewritten(head, &[]), Ok(head.to_owned()));
}

#[test]
fn changes_that_would_break_the_head_are_not_made() {
    let head = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    for (change, why) in [
        (Change::Add(b"", b"x"), EditError::Name),
        (Change::Add(b"A b", b"x"), EditError::Name),
        (Change::Set(b"A", b"x\r\nB: y"), EditError::Value),
        (Change::Replace(b"A", b"\0"), EditError::Value),
        (Change::Remove(b"content-length"), EditError::Framing),
        (Change::Add(b"Transfer-Encoding", b"chunked"), EditError::Framing),
    ] {
        assert_eq!(rewritten(head, &[change]), Err(why));
    }
}

#[test]
fn framing_is_written_anew() {
    let head = "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\nContent-MD5: x\r\nC: d\r\n\r\n";
    assert_eq!(
        framed(Kind::Response, head, Framing::Length(12)),
        "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 12\r\nC: d\r\n\r\n"
    );
    assert_eq!(
        framed(Kind::Response, head, Framing::Chunked),
        "HTTP/1.1 200 OK\r\nA: b\r\nC: d\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    assert_eq!(
        framed(Kind::Response, head, Framing::Close),
        "HTTP/1.1 200 OK\r\nA: b\r\nC: d\r\nConnection: close\r\n\r\n"
    );
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: x\r\n\r\n";
    assert_eq!(
        framed(Kind::Response, head, Framing::Close),
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(
        framed(Kind::Response, head, Framing::Length(0)),
        "HTTP/1.1 200 OK\r\nConnection: x\r\nContent-Length: 0\r\n\r\n"
    );
}

#[test]
fn chunks_make_an_old_response_a_new_one() {
    assert_eq!(
        framed(Kind::Response, "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", Framing::Chunked),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    );
    let head = "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n\r\n";
    assert_eq!(
        framed(Kind::Response, head, Framing::Chunked),
        "HTTP/1.1 200 OK\r\nConnection: Keep-Alive\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
}

#[test]
fn servers_are_asked_for_what_can_be_shown() {
    let head = b"GET / HTTP/1.1\r\nHost: h\r\nTE: gzip\r\naccept-encoding: gzip, br\r\n\
        Range: bytes=3-\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
    let asked = |asks: Asks, closes: bool| {
        let mut out = Vec::new();
        asks.rewrite(read(Kind::Request, head).view(head), (closes, false), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let first = "GET / HTTP/1.1\r\nHost: h\r\n";
    let all = Asks { identity: true, whole: true, stay: true, ..Asks::default() };
    assert_eq!(
        asked(all, true),
        format!("{first}Accept-Encoding: identity\r\nConnection: close\r\n\r\n")
    );
    assert_eq!(
        asked(Asks { whole: true, ..Asks::default() }, false),
        format!(
            "{first}TE: gzip\r\naccept-encoding: gzip, br\r\nUpgrade: x\r\n\
             Connection: upgrade\r\n\r\n"
        )
    );
    assert_eq!(asked(Asks::default(), false).as_bytes(), head);
}

#[test]
fn what_a_head_says() {
    let head =
        b"GET x://u@1.2.3.4:80/p?q#x HTTP/1.1\r\nHost: 1.2.3.4\r\nConnection: x, Keep-Alive\r\n\r\n";
    let reader = read(Kind::Request, head);
    let view = reader.view(head);
    assert_eq!((view.method(), view.version()), (&b"GET"[..], &b"HTTP/1.1"[..]));
    assert_eq!((view.host(), view.path()), (&b"1.2.3.4:80"[..], &b"/p?q#x"[..]));
    assert!(view.lists(b"connection", b"keep-alive") && !view.lists(b"Connection", b"close"));
    assert_eq!((view.status(), view.reason()), (0, &b""[..]));

    let head = b"HTTP/1.1 404 Not here\r\nA:\t b \r\na: c\r\n\r\n";
    let reader = read(Kind::Response, head);
    let view = reader.view(head);
    assert_eq!((view.status(), view.reason(), view.method()), (404, &b"Not here"[..], &b""[..]));
    assert_eq!(view.values(b"A").collect::<Vec<_>>(), [b"b", b"c"]);
}

#[test]
fn bodies_are_shown_by_type() {
    let shows = |types: &str, fields: &str| {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        let reader = read(Kind::Response, head.as_bytes());
        Shown::parse(types).unwrap().shows(reader.view(head.as_bytes()))
    };
    for (fields, is_shown) in [
        ("", true),
        ("Content-Type: text/html; charset=utf-8\r\n", true),
        ("Content-Type: TEXT/plain\r\n", true),
        ("Content-Type: application/vnd.x+JSON\r\n", true),
        ("Content-Type: image/png\r\n", false),
        ("Content-Type: texts/x\r\n", false),
        ("Content-Type: text/html\r\nContent-Encoding: gzip\r\n", false),
        ("Content-Type: text/html\r\nContent-Encoding: identity\r\n", true),
        ("Content-Type: image/png\r\nContent-Type: text/html\r\n", true),
    ] {
        assert_eq!(shows(Shown::TEXT, fields), is_shown, "{fields}");
    }
    assert!(shows("a/b image/*", "Content-Type: image/png\r\n"));
    assert!(shows("*", "Content-Type: image/png\r\n"));
    assert!(!shows("text/html", "") && !shows("", "") && !shows("none", "Content-Type: a/b\r\n"));
    for bad in ["te(t", "text/", "/html", "*/html", "te xt/html/x", "+", "text/ht(ml"] {
        assert!(Shown::parse(bad).is_err(), "{bad}");
    }
    assert!(Shown::parse(&"a/b ".repeat(65)).is_err());
}
