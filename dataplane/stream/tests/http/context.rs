//! The context: whole pipelines through its beginning, a function, and its end, against the same
//! done to whole messages.

use proptest::prelude::*;
use thruway_payload::flag;
use thruway_stream::content::HasContent;
use thruway_stream::http::{Asks, Enter, Fault, Kind, OnEncoded, OnRefused, Rules, Settings};

use crate::chain::{Chain, Edit, settings};
use crate::feeder::{Feeder, Part, Parts};
use crate::generate::{Body, Exchange, Script, script};
use crate::pipelines::deliver;

/// Heads without what framing changes, each with its body.
fn messages(parts: &Parts) -> Vec<(Vec<String>, Vec<u8>)> {
    let mut messages: Vec<(Vec<String>, Vec<u8>)> = Vec::new();
    for (part, bytes) in parts {
        match part {
            Part::Head => messages.push((comparable(bytes), Vec::new())),
            Part::Body => messages.last_mut().expect("a head").1.extend(bytes),
            Part::Opaque => messages.push((vec!["opaque".to_owned()], bytes.clone())),
            Part::Framing | Part::Trailer | Part::End => {}
        }
    }
    messages
}

fn comparable(head: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(head).replace("HTTP/1.0", "HTTP/1.1");
    let changes = ["content-length:", "transfer-encoding:", "connection:"];
    let stays = |line: &&str| !changes.iter().any(|name| line.to_lowercase().starts_with(name));
    text.split("\r\n").filter(stays).map(str::to_owned).collect()
}

fn content_of(body: &Body) -> Vec<u8> {
    match body {
        Body::None => Vec::new(),
        Body::Length(bytes) | Body::UntilClose(bytes) => bytes.clone(),
        Body::Chunked(chunks, ..) => chunks.concat(),
    }
}

/// The bodies that should leave, in the order of [`messages`].
fn bodies(script: &Script, edit: Edit, kind: Kind) -> Vec<Vec<u8>> {
    let edited = |body: &Body, is_bare: bool, is_hidden: bool| {
        let content = content_of(body);
        let has_body = !is_bare && !matches!(body, Body::None) && {
            !(matches!(body, Body::Length(_)) && content.is_empty())
        };
        match (has_body, is_hidden) {
            (false, _) => Vec::new(),
            (true, true) => content,
            (true, false) => edit.plainly(&content),
        }
    };
    let mut bodies = Vec::new();
    for one in &script.exchanges {
        match kind {
            Kind::Request => bodies.push(edited(&one.body, false, one.is_hidden[0])),
            Kind::Response => {
                bodies.extend(vec![Vec::new(); usize::from(one.interim.min(2))]);
                bodies.push(edited(&one.answer, one.is_bare(), one.is_hidden[1]));
            }
        }
    }
    if let Some(switch) = &script.switch {
        bodies.push(Vec::new());
        let then = &switch.then[kind as usize];
        bodies.extend((!then.is_empty()).then(|| then.clone()));
    }
    bodies
}

/// Without clients that do not know chunks.
fn new_only(mut script: Script) -> Script {
    script.exchanges.iter_mut().for_each(|one: &mut Exchange| one.is_old = false);
    script
}

fn edits() -> impl Strategy<Value = Edit> {
    let with = prop::sample::select(vec![&b""[..], b"X", b"**", b"a longer word"]);
    prop_oneof![
        Just(Edit::Look),
        Just(Edit::Mask),
        with.prop_map(Edit::Replace),
        Just(Edit::Append),
    ]
}

fn check(
    script: &Script,
    steps: &[(bool, usize)],
    edit: Edit,
    hold_bytes: usize,
    fin_alone: bool,
) -> Result<(), TestCaseError> {
    let built = script.build();
    let mut chain = Chain::new(edit, settings(), hold_bytes);
    let mut sent = [0, 0];
    deliver(&built, steps, |kind, bytes| {
        sent[kind as usize] += bytes.len();
        let is_end = sent[kind as usize] == built.bytes[kind as usize].len();
        if !bytes.is_empty() {
            chain.send(kind, bytes, kind == Kind::Response && is_end && !fin_alone);
        }
    });
    if fin_alone || built.bytes[1].is_empty() {
        chain.send(Kind::Response, b"", true);
    }
    prop_assert!(!chain.is_closed(), "{:?}", chain.enter.counts);
    let holding = (chain.enter.holding(), chain.stage.holding(), chain.leave.holding());
    prop_assert_eq!(holding, (0, 0, 0));
    chain.check_packets(Kind::Request, false)?;
    chain.check_packets(Kind::Response, true)?;
    // What left is read again, in the order in which it left.
    let mut feeder = Feeder::new(Rules::STRICT);
    for (kind, packet) in &chain.out {
        let text = String::from_utf8_lossy(packet.content()).into_owned();
        prop_assert_eq!(feeder.feed(*kind, packet.content()), Ok(()), "{:?}", text);
    }
    prop_assert!(feeder.finish(Kind::Response).is_ok());
    for kind in [Kind::Request, Kind::Response] {
        if !edit.resizes() {
            // Framing is as it was.
            prop_assert_eq!(chain.bytes(kind).len(), built.bytes[kind as usize].len());
        }
        let (came, left) =
            (messages(&built.parts[kind as usize]), messages(&feeder.parts[kind as usize]));
        let heads = |all: &[(Vec<String>, Vec<u8>)]| -> Vec<Vec<String>> {
            all.iter().map(|(head, _)| head.clone()).collect()
        };
        prop_assert_eq!(heads(&left), heads(&came));
        let got: Vec<Vec<u8>> = left.into_iter().map(|(_, body)| body).collect();
        prop_assert_eq!(got, bodies(script, edit, kind));
    }
    if edit == Edit::Look {
        prop_assert_eq!(chain.bytes(Kind::Request), &built.bytes[0][..]);
        prop_assert_eq!(chain.bytes(Kind::Response), &built.bytes[1][..]);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn whole_messages_are_edited(
        script in script(),
        steps in prop::collection::vec((any::<bool>(), 0..80usize), 0..60),
        edit in edits(),
        fin_alone in any::<bool>(),
    ) {
        check(&script, &steps, edit, 10_000, fin_alone)?;
    }

    /// Bodies of requests are too long to be held: they go on in chunks.
    #[test]
    fn long_requests_are_chunked(
        script in script().prop_map(new_only),
        steps in prop::collection::vec((any::<bool>(), 0..80usize), 0..60),
        edit in edits(),
        hold_bytes in prop::sample::select(vec![0usize, 5, 20]),
    ) {
        check(&script, &steps, edit, hold_bytes, true)?;
    }
}

/// Sends a request, then segments of its answer.
fn answered(edit: Edit, hold_bytes: usize, request: &str, answer: &[&str], fin: bool) -> Chain {
    let mut chain = Chain::new(edit, settings(), hold_bytes);
    chain.send(Kind::Request, request.as_bytes(), false);
    for (index, bytes) in answer.iter().enumerate() {
        chain.send(Kind::Response, bytes.as_bytes(), fin && index + 1 == answer.len());
    }
    chain
}

fn text(chain: &Chain, kind: Kind) -> String {
    String::from_utf8(chain.bytes(kind)).unwrap()
}

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn the_length_of_a_body_in_one_packet_is_fixed() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nxaby";
    let chain = answered(Edit::Replace(b"word"), 0, GET, &[answer], false);
    let wanted = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nxwordy";
    assert_eq!(text(&chain, Kind::Response), wanted);
    assert_eq!(chain.out.len(), 2);
    assert_eq!(chain.leave.counts.lengths, 1);
    // The same length: nothing is changed.
    let chain = answered(Edit::Replace(b"XY"), 0, GET, &[answer], false);
    assert_eq!((chain.leave.counts.lengths, chain.out.len()), (0, 2));
}

#[test]
fn a_body_in_several_packets_is_chunked() {
    let answer = ["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nxa", "b", "yz"];
    let chain = answered(Edit::Replace(b"word"), 0, GET, &answer, false);
    let wanted = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                  1\r\nx\r\n4\r\nword\r\n2\r\nyz\r\n0\r\n\r\n";
    assert_eq!(text(&chain, Kind::Response), wanted);
}

#[test]
fn a_receiver_without_chunks_gets_none() {
    let get = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let answer = ["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nxa", "b", "yz"];
    // It is held until its length is known.
    let chain = answered(Edit::Replace(b"word"), 100, get, &answer, false);
    let wanted = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nxwordyz";
    assert_eq!(text(&chain, Kind::Response), wanted);
    assert_eq!(text(&chain, Kind::Request), "GET / HTTP/1.0\r\nConnection: close\r\n\r\n");
    // It is too long for that.
    let chain = answered(Edit::Replace(b"word"), 3, get, &answer, false);
    let wanted = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nxwordyz";
    assert_eq!(text(&chain, Kind::Response), wanted);
    assert_eq!(chain.leave.counts.until_close, 1);
}

#[test]
fn a_long_body_of_an_old_request_ends_the_connection() {
    let mut chain = Chain::new(Edit::Append, settings(), 3);
    chain.send(Kind::Request, b"POST / HTTP/1.0\r\nContent-Length: 9\r\n\r\n", false);
    chain.edit = Edit::Look;
    chain.send(Kind::Request, b"abcd", false);
    assert!(chain.is_closed());
    assert_eq!(chain.leave.counts.too_long, 1);
}

#[test]
fn a_client_that_waits_for_continue_does_not_wait_for_us() {
    let mut chain = Chain::new(Edit::Replace(b"word"), settings(), 1000);
    let head = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    chain.send(Kind::Request, head.as_bytes(), false);
    let gone = text(&chain, Kind::Request);
    assert!(gone.ends_with("Transfer-Encoding: chunked\r\n\r\n"), "{gone}");
    chain.send(Kind::Response, b"HTTP/1.1 100 Continue\r\n\r\n", false);
    chain.send(Kind::Request, b"ab.", false);
    assert_eq!(text(&chain, Kind::Request)[gone.len()..], *"5\r\nword.\r\n0\r\n\r\n");
}

#[test]
fn trailers_and_extensions_are_left_out() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let pieces = [head, "2;x\r\nab\r\n", "1\r\n.\r\n0\r\nA: b\r\n\r\n"];
    let chain = answered(Edit::Replace(b"word"), 0, GET, &pieces, false);
    let wanted = format!("{head}4\r\nword\r\n1\r\n.\r\n0\r\n\r\n");
    assert_eq!(text(&chain, Kind::Response), wanted);
    // A body in one packet gets a length instead.
    let chain = answered(Edit::Replace(b"word"), 0, GET, &[&pieces.concat()], false);
    let wanted = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nword.";
    assert_eq!(text(&chain, Kind::Response), wanted);
}

#[test]
fn what_is_cut_short_stays_so() {
    let answer = ["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nxa", "b"];
    for fin in [&answer[..], &answer[..1]] {
        let chain = answered(Edit::Replace(b"word"), 0, GET, fin, true);
        let got = text(&chain, Kind::Response);
        assert!(!got.contains("\r\n0\r\n") && !got.contains("Content-Length"), "{got}");
        assert!(got.contains(if fin.len() == 2 { "word" } else { "xa" }), "{got}");
        chain.check_packets(Kind::Response, true).unwrap();
    }
}

#[test]
fn bodies_are_not_put_where_there_can_be_none() {
    let answer = "HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n";
    let chain = answered(Edit::Append, 0, GET, &[answer], false);
    assert_eq!(text(&chain, Kind::Response), answer);
    assert_eq!(text(&chain, Kind::Request), GET);
}

#[test]
fn refused_connections_end_or_are_not_looked_into() {
    let bad = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabab";
    let chain = answered(Edit::Replace(b""), 0, GET, &[bad, "more"], false);
    assert!(chain.is_closed());
    let closed = chain.out.iter().filter(|(_, p)| p.content_mark().has(flag::CLOSE)).count();
    assert_eq!(closed, 2);
    assert_eq!(chain.enter.counts.refused[Fault::ContentLengthsDiffer as usize], 1);

    let mut chain = Chain::new(Edit::Replace(b""), settings(), 0);
    let settings = Settings { on_refused: OnRefused::Pass, resize: true, ..settings() };
    chain.enter = Enter::new(settings);
    chain.send(Kind::Request, GET.as_bytes(), false);
    chain.send(Kind::Response, bad.as_bytes(), false);
    chain.send(Kind::Response, b"ab", true);
    assert_eq!(text(&chain, Kind::Response), format!("{bad}ab"));
    assert!(!chain.is_closed());
    chain.check_packets(Kind::Response, true).unwrap();
}

#[test]
fn encoded_bodies_may_be_refused() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabab";
    for refuse_encoded in [false, true] {
        let encoded = if refuse_encoded { OnEncoded::Refuse } else { OnEncoded::Pass };
        let settings = Settings { encoded, ..settings() };
        let mut chain = Chain::new(Edit::Replace(b""), settings, 0);
        chain.send(Kind::Request, GET.as_bytes(), false);
        chain.send(Kind::Response, answer, false);
        assert_eq!(chain.is_closed(), refuse_encoded);
        assert_eq!(chain.enter.counts.refused[Fault::Encoded as usize], u64::from(refuse_encoded));
        // Nothing of it is taken for text.
        assert_eq!(chain.bytes(Kind::Response), answer);
    }
}

#[test]
fn a_packet_of_too_many_messages_is_refused() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let many = format!("{head}{}0\r\n\r\n", "1\r\na\r\n".repeat(200));
    // With framing taken away it is one range of content.
    let chain = answered(Edit::Replace(b""), 0, GET, &[&many], false);
    let wanted = format!("HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n{}", "a".repeat(200));
    assert_eq!(text(&chain, Kind::Response), wanted);
    let chain = answered(Edit::Look, 0, GET, &[&many], false);
    assert!(chain.is_closed());
    assert_eq!(chain.enter.counts.refused[Fault::TooManyParts as usize], 1);
}

#[test]
fn requests_are_changed_before_functions_see_them() {
    let asks = Asks { identity: true, ..Asks::default() };
    let mut chain = Chain::new(Edit::Look, Settings { asks, ..settings() }, 0);
    for bytes in [&GET[..9], &GET[9..], GET] {
        chain.send(Kind::Request, bytes.as_bytes(), false);
    }
    let wanted = "GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: identity\r\n\r\n";
    assert_eq!(text(&chain, Kind::Request), wanted.repeat(2));
    chain.check_packets(Kind::Request, false).unwrap();
}
