//! Bodies with a coding, chunk extensions and trailers, where a function looks: what leaves is what
//! it was shown.

use proptest::prelude::*;
use thruway_stream::http::{Bounds, Fault, Kind, OnEncoded, Settings, Shown};

use crate::chain::{Chain, Edit, settings};
use crate::packers::{brotli_plain, gzip, raw, zlib, zstd, zstd_frame};

/// As HTTPIn sets it up where a function looks.
fn looking() -> Settings {
    let shown = Shown::parse(Shown::ALL).unwrap();
    Settings { shown, looks: true, encoded: OnEncoded::Unpack(Bounds::DEFAULT), ..settings() }
}

/// A chain that was asked for something.
fn asked(edit: Edit) -> Chain {
    let mut chain = Chain::new(edit, looking(), 1000);
    chain.send(Kind::Request, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", false);
    chain
}

fn answer(fields: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes(), body].concat()
}

fn text_of(chain: &Chain, kind: Kind) -> String {
    String::from_utf8_lossy(&chain.bytes(kind)).into_owned()
}

/// Content behind a head, without its chunks.
fn content(message: &[u8]) -> Vec<u8> {
    let end = message.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8_lossy(&message[..end]).to_lowercase();
    let mut body = &message[end..];
    if !head.contains("transfer-encoding: chunked") {
        return body.to_vec();
    }
    let mut all = Vec::new();
    loop {
        let line = body.iter().position(|byte| *byte == b'\n').unwrap();
        let digits = String::from_utf8_lossy(&body[..line - 1]).into_owned();
        let len = usize::from_str_radix(&digits, 16).expect("no extension");
        if len == 0 {
            assert_eq!(&body[line + 1..], b"\r\n", "a trailer");
            return all;
        }
        all.extend_from_slice(&body[line + 1..line + 1 + len]);
        body = &body[line + 1 + len + 2..];
    }
}

/// Sends bytes in steps; `true`: the connection was closed.
fn in_steps(chain: &mut Chain, kind: Kind, bytes: &[u8], step: usize) -> bool {
    for piece in bytes.chunks(step) {
        chain.send(kind, piece, false);
        if chain.is_closed() {
            return true;
        }
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What a receiver gets is the content, edited, whatever its coding and framing were.
    #[test]
    fn the_content_goes_on_edited(
        body in prop::collection::vec(b'a'..b'f', 0..60_000),
        (form, chunked, step) in (0..6, any::<bool>(), prop::sample::select(vec![1usize, 7, 100, 1460])),
        edit in prop::sample::select(vec![Edit::Look, Edit::Mask, Edit::Replace(b"LONGER")]),
    ) {
        let (name, packed) = match form {
            0 => ("gzip", gzip(&body)),
            1 => ("deflate", zlib(&body)),
            2 => ("x-gzip", [gzip(b""), gzip(&body)].concat()),
            3 => ("deflate", raw(&body)),
            4 if !body.is_empty() => ("br", brotli_plain(&body)),
            _ => ("zstd", [zstd(&body), zstd(b"")].concat()),
        };
        let message = if chunked {
            let chunks = packed.chunks(500).map(|chunk| {
                [format!("{:x};name=ab\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat()
            });
            let chunks = chunks.collect::<Vec<_>>().concat();
            let fields = format!("Content-Encoding: {name}\r\nTransfer-Encoding: chunked\r\n");
            answer(&fields, &[&chunks[..], b"0;last\r\nX: ab\r\n\r\n"].concat())
        } else {
            let len = packed.len();
            answer(&format!("Content-Encoding: {name}\r\nContent-Length: {len}\r\n"), &packed)
        };
        let step = if message.len() > 5000 { step.max(100) } else { step };
        let mut chain = asked(edit);
        prop_assert!(!in_steps(&mut chain, Kind::Response, &message, step));
        let out = chain.bytes(Kind::Response);
        prop_assert!(!text_of(&chain, Kind::Response).to_lowercase().contains("content-encoding"));
        prop_assert_eq!(content(&out), edit.plainly(&body));
        chain.check_packets(Kind::Response, false)?;
        prop_assert_eq!(chain.enter.unpack_memory(), 0);
        prop_assert_eq!(chain.enter.counts.unpacked, 1);
        // The next message of the connection is one again.
        chain.send(Kind::Request, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", false);
        chain.send(Kind::Response, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", false);
        let wanted = edit.plainly(b"ab");
        prop_assert!(chain.bytes(Kind::Response).ends_with(&wanted));
    }
}

proptest! {
    /// Whatever is wrong with a body, nothing panics, no unpacker is left behind, and what leaves
    /// says nothing of a coding.
    #[test]
    fn wrong_bodies_leave_nothing_behind(
        body in prop::collection::vec(b'a'..b'f', 0..3000),
        wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        coding in prop::sample::select(vec!["gzip", "deflate", "br", "zstd"]),
        (step, fin) in (1..900usize, any::<bool>()),
    ) {
        let mut packed = match coding {
            "deflate" => zlib(&body),
            "zstd" => zstd(&body),
            _ => gzip(&body),
        };
        for (at, byte) in wrong {
            let at = at.index(packed.len());
            packed[at] = byte;
        }
        let fields = format!("Content-Encoding: {coding}\r\nContent-Length: {}\r\n", packed.len());
        let message = answer(&fields, &packed);
        let cut = if fin { message.len() / 2 } else { message.len() };
        let mut chain = asked(Edit::Replace(b"x"));
        in_steps(&mut chain, Kind::Response, &message[..cut], step);
        if !chain.is_closed() {
            chain.send(Kind::Response, b"", true);
        }
        prop_assert_eq!(chain.enter.unpack_memory(), 0);
        let heads = text_of(&chain, Kind::Response);
        prop_assert!(chain.is_closed() || !heads.contains("Content-Encoding"));
    }
}

/// What stands beside chunks is shown behind their body, for itself; it does not go on, and what
/// functions make of it neither.
#[test]
fn extensions_and_trailers_are_shown_and_left_out() {
    let body = b"3;a=\"x y\";b\r\nab \r\n2\r\ncd\r\n0;end=ab\r\nX: ab\r\nY: z\r\n\r\n";
    let aside = b"a=\"x y\";b\r\nend=ab\r\nX: ab\r\nY: z\r\n\r\n";
    for edit in [Edit::Look, Edit::Mask, Edit::Replace(b"LONGER"), Edit::Append] {
        for step in [1, 2, 3, 7, 1000] {
            let mut chain = asked(edit);
            let message = answer("Transfer-Encoding: chunked\r\n", body);
            assert!(!in_steps(&mut chain, Kind::Response, &message, step));
            if edit == Edit::Look {
                let shown: Vec<&[u8]> = chain.shown[1..].iter().map(|(_, b)| &b[..]).collect();
                assert_eq!(shown, [&b"ab cd"[..], aside], "{step}");
            }
            assert_eq!(content(&chain.bytes(Kind::Response)), edit.plainly(b"ab cd"), "{step}");
            assert_eq!((chain.enter.counts.asides, chain.enter.unpack_memory()), (1, 0));
            chain.check_packets(Kind::Response, false).unwrap();
            chain.send(Kind::Request, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", false);
            let more = answer("Transfer-Encoding: chunked\r\n", b"1;c=d\r\na\r\n0\r\n\r\n");
            chain.send(Kind::Response, &more, true);
            chain.check_packets(Kind::Response, true).unwrap();
            let text = text_of(&chain, Kind::Response);
            assert!(!text.contains("c=d") && text.matches("HTTP/1.1").count() == 2, "{text}");
        }
    }
}

/// More than a packet's is shown in one run; too much of it is refused, and a body that is cut
/// short is not made a whole one by what stood beside it.
#[test]
fn long_and_cut_asides() {
    let chunk = format!("1;{}\r\na\r\n", "x".repeat(200));
    let answer_of = |n: usize, end: &str| {
        answer("Transfer-Encoding: chunked\r\n", (chunk.repeat(n) + end).as_bytes())
    };
    let mut chain = asked(Edit::Look);
    assert!(!in_steps(&mut chain, Kind::Response, &answer_of(40, "0\r\n\r\n"), 1460));
    assert_eq!(chain.shown.last().unwrap().1, ("x".repeat(200) + "\r\n").repeat(40).as_bytes());
    assert_eq!(content(&chain.bytes(Kind::Response)), [b'a'; 40]);
    let mut chain = asked(Edit::Look);
    assert!(in_steps(&mut chain, Kind::Response, &answer_of(100, "0\r\n\r\n"), 1460));
    assert_eq!(chain.enter.counts.refused[Fault::ChunkExtensionTooLong as usize], 1);
    assert_eq!(chain.enter.unpack_memory(), 0);
    let mut chain = asked(Edit::Look);
    chain.send(Kind::Response, &answer_of(3, ""), true);
    assert!(!text_of(&chain, Kind::Response).contains("\r\n0\r\n"));
    assert_eq!(chain.enter.unpack_memory(), 0);
}

#[test]
fn a_body_until_the_end_and_a_request() {
    let mut chain = asked(Edit::Mask);
    let message = answer("Content-Encoding: gzip\r\n", &gzip(b"abc abc"));
    chain.send(Kind::Response, &message, true);
    assert!(text_of(&chain, Kind::Response).ends_with("\r\n\r\n*bc *bc"));
    let mut chain = Chain::new(Edit::Mask, looking(), 1000);
    let packed = gzip(b"abc abc");
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\nDigest: x\r\n";
    let head = format!("{head}Content-Length: {}\r\n\r\n", packed.len());
    in_steps(&mut chain, Kind::Request, &[head.as_bytes(), &packed].concat(), 20);
    let text = text_of(&chain, Kind::Request);
    assert!(text.ends_with("Content-Length: 7\r\n\r\n*bc *bc"), "{text}");
    assert!(!text.contains("Digest"));
}

/// What is refused, and why.
#[test]
fn what_cannot_be_shown_is_refused() {
    let text = b"the forbidden word";
    let packed = gzip(text);
    let cut = &packed[..packed.len() - 3];
    let bomb = gzip(&vec![0; 8 << 20]);
    let long = zstd_frame(0, 0x71, &[(0, b"word", 4)]);
    let with_dictionary = zstd_frame(0x21, 7, &[]);
    let cases: [(&str, &[u8], Fault); 15] = [
        ("Content-Encoding: x", text, Fault::Encoded),
        ("Content-Encoding: zstd", text, Fault::BadCoding),
        ("Content-Encoding: zstd", &long, Fault::BadCoding),
        ("Content-Encoding: zstd", &with_dictionary, Fault::BadCoding),
        ("Content-Encoding: zstd, gzip", &packed, Fault::Encoded),
        ("Content-Encoding: gzip, gzip", &packed, Fault::Encoded),
        ("Content-Encoding: gzip\r\nContent-Encoding: br", &packed, Fault::Encoded),
        ("Content-Encoding: gzip", text, Fault::BadCoding),
        ("Content-Encoding: br", text, Fault::BadCoding),
        ("Content-Encoding: deflate", text, Fault::BadCoding),
        ("Content-Encoding: gzip", cut, Fault::BadCoding),
        ("Content-Encoding: gzip", &bomb, Fault::Bomb),
        ("Transfer-Encoding: identity, chunked", b"4\r\nword\r\n0\r\n\r\n", Fault::TransferCoded),
        ("Transfer-Encoding: gzip, chunked", b"4\r\nword\r\n0\r\n\r\n", Fault::TransferCoded),
        ("Transfer-Encoding: chunked, chunked", b"0\r\n\r\n", Fault::ChunkedTwice),
    ];
    for (field, body, fault) in cases {
        let mut fields = format!("{field}\r\n");
        if !field.starts_with("Transfer") {
            fields += &format!("Content-Length: {}\r\n", body.len());
        }
        let mut chain = asked(Edit::Look);
        assert!(in_steps(&mut chain, Kind::Response, &answer(&fields, body), 1460), "{field}");
        assert_eq!(chain.enter.counts.refused[fault as usize], 1, "{field} {fault:?}");
        assert_eq!(chain.enter.unpack_memory(), 0, "{field}");
    }
    let upgrade = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
    let mut stays = looking();
    stays.asks.stay = true;
    let mut chain = Chain::new(Edit::Look, stays, 1000);
    chain.send(Kind::Request, upgrade, false);
    assert!(!text_of(&chain, Kind::Request).contains("Upgrade:"));
    chain.send(Kind::Response, b"HTTP/1.1 101 Now\r\nUpgrade: x\r\n\r\nword", false);
    assert_eq!(chain.enter.counts.refused[Fault::UnaskedSwitch as usize], 1);
    let mut tunnel = Settings { looks: true, ..looking() };
    tunnel.asks.stay = true;
    let mut chain = Chain::new(Edit::Look, tunnel, 1000);
    chain.send(Kind::Request, b"CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n", false);
    assert_eq!(chain.enter.counts.refused[Fault::Tunnel as usize], 1);
}

/// Requests do not ask for codings that cannot be inspected.
#[test]
fn requests_ask_for_what_is_known() {
    for (asked, asks) in [
        (
            "Accept-Encoding: gzip, deflate, br, zstd, dcz\r\nTE: gzip\r\n",
            "Accept-Encoding: gzip, deflate, br, zstd\r\n",
        ),
        ("Accept-Encoding: br;q=0.5,ZSTD\r\n", "Accept-Encoding: br;q=0.5,ZSTD\r\n"),
        ("", ""),
    ] {
        let mut settings = looking();
        settings.asks.known = true;
        let mut chain = Chain::new(Edit::Look, settings, 1000);
        let request = format!("GET / HTTP/1.1\r\nHost: h\r\n{asked}\r\n");
        chain.send(Kind::Request, request.as_bytes(), false);
        let wanted = format!("GET / HTTP/1.1\r\nHost: h\r\n{asks}\r\n");
        assert_eq!(text_of(&chain, Kind::Request), wanted);
    }
}
