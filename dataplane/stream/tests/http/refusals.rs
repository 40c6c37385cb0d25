//! What is refused, under which name, and what a lenient policy puts up with.

use thruway_stream::http::{Fault, Finish, Kind, MAX_PENDING, Rules};

use crate::feeder::Feeder;

/// A policy's answer to bytes: the fault, or those that it tolerated.
fn judged(rules: Rules, kind: Kind, bytes: &[u8]) -> Result<Vec<Fault>, Fault> {
    let mut feeder = Feeder::new(rules);
    if kind == Kind::Response {
        feeder.feed(Kind::Request, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")?;
    }
    feeder.feed(kind, bytes)?;
    feeder.finish(kind)?;
    Ok(feeder.reader.take_tolerated().iter().collect())
}

/// A strict policy refuses for the fault; a lenient one also, or it notes that it was there.
#[track_caller]
fn refused(kind: Kind, cases: &[(Fault, &[u8])]) {
    for (fault, bytes) in cases {
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(judged(Rules::STRICT, kind, bytes), Err(*fault), "{text}");
        match judged(Rules::LENIENT, kind, bytes) {
            Ok(noted) => assert!(noted.contains(fault) && fault.is_tolerable(), "{text}"),
            Err(other) => assert_eq!(other, *fault, "{text}"),
        }
    }
}

/// A lenient policy reads it to the end.
#[track_caller]
fn put_up_with(kind: Kind, cases: &[(Fault, &[u8])]) {
    refused(kind, cases);
    for (fault, bytes) in cases {
        let text = String::from_utf8_lossy(bytes);
        assert!(judged(Rules::LENIENT, kind, bytes).is_ok(), "{fault:?} {text}");
    }
}

#[test]
fn lines_and_fields_of_requests() {
    put_up_with(
        Kind::Request,
        &[
            (Fault::BareLf, b"GET / HTTP/1.1\nHost: h\r\n\r\n"),
            (Fault::BareLf, b"GET / HTTP/1.1\r\nHost: h\n\r\n"),
            (Fault::BareLf, b"GET / HTTP/1.1\r\nHost: h\r\n\n"),
            (Fault::BareLf, b"\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"),
            (Fault::BareCr, b"GET / HTTP/1.1\r\nHost: h\r\nA: b\rContent-Length: 3\r\n\r\n"),
            (Fault::ControlByte, b"GET / HTTP/1.1\r\nHost: h\r\nA: \x0bb\r\n\r\n"),
            (Fault::ObsFold, b"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n"),
            (Fault::SpaceBeforeColon, b"GET / HTTP/1.1\r\nHost: h\r\nA : b\r\n\r\n"),
            (Fault::BadFieldName, b"GET / HTTP/1.1\r\nHost: h\r\nA(: b\r\n\r\n"),
            (Fault::BadFieldName, b"GET / HTTP/1.1\r\nHost: h\r\n: b\r\n\r\n"),
            (Fault::NoColon, b"GET / HTTP/1.1\r\nHost: h\r\nAb\r\n\r\n"),
            (Fault::BlankLines, b"\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"),
            (Fault::BadStartLine, b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n"),
            (Fault::BadStartLine, b"GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n"),
            (Fault::BadStartLine, b"GET / HTTP/1.1 \r\nHost: h\r\n\r\n"),
            (Fault::BadTarget, b"GET /\xe9 HTTP/1.1\r\nHost: h\r\n\r\n"),
            (Fault::OddVersion, b"GET / HTTP/1.2\r\nHost: h\r\n\r\n"),
            (Fault::NoHost, b"GET / HTTP/1.1\r\n\r\n"),
            (Fault::TwoHosts, b"GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n"),
            (Fault::BadHost, b"GET / HTTP/1.1\r\nHost: h/x\r\n\r\n"),
            (Fault::HostDiffers, b"GET http://1.1.1.1/ HTTP/1.1\r\nHost: b\r\n\r\n"),
        ],
    );
    refused(
        Kind::Request,
        &[
            (Fault::Nul, b"GET / HTTP/1.1\r\nHost: h\r\nA: \0\r\n\r\n"),
            (Fault::Nul, b"GET / HTTP/1.1\r\nHost: h\r\nA\0: b\r\n\r\n"),
            (Fault::BinaryStartLine, b"GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n"),
            (Fault::BinaryStartLine, b"SSH\x01"),
            (Fault::BadStartLine, b"SSH-2.0-x\r\n"),
            (Fault::BadVersion, b"GET /\r\n"),
            (Fault::LeadingSpace, b"GET / HTTP/1.1\r\n Host: h\r\n\r\n"),
            (Fault::BadStartLine, b"GET / a HTTP/1.1\r\nHost: h\r\n\r\n"),
            (Fault::BadStartLine, b"GET\r\nHost: h\r\n\r\n"),
            (Fault::BadMethod, b"G(T / HTTP/1.1\r\nHost: h\r\n\r\n"),
            (Fault::BadMethod, b"\x16\x03\x01"),
            (Fault::BadVersion, b"GET /\r\n\r\n"),
            (Fault::BadVersion, b"GET / HTTP/2.0\r\nHost: h\r\n\r\n"),
            (Fault::BadVersion, b"GET / http/1.1\r\nHost: h\r\n\r\n"),
            (Fault::BadVersion, b"GET / HTTP/1.10\r\nHost: h\r\n\r\n"),
            (Fault::BadVersion, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
            (Fault::HeadCutShort, b"GET / HTTP/1.1\r\nHost: h\r\n"),
        ],
    );
}

#[test]
fn lines_and_fields_of_responses() {
    put_up_with(
        Kind::Response,
        &[
            (Fault::BareLf, b"HTTP/1.1 200 OK\nContent-Length: 0\n\n"),
            (Fault::ControlByte, b"HTTP/1.1 200 OK\r\nA: \x7f\r\n\r\n"),
            (Fault::ObsFold, b"HTTP/1.1 200 OK\r\nA: b\r\n\tc\r\n\r\n"),
            (Fault::BlankLines, b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            (Fault::BodyNotAllowed, b"HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\n"),
            (Fault::BodyNotAllowed, b"HTTP/1.1 100 \r\nTransfer-Encoding: chunked\r\n\r\n"),
        ],
    );
    refused(
        Kind::Response,
        &[
            (Fault::BinaryStartLine, b"HTTP/1.1 200 O\x01K\r\nContent-Length: 0\r\n\r\n"),
            (Fault::BadStatus, b"HTTP/1.1 20 OK\r\n"),
            (Fault::BadStatus, b"HTTP/1.1 2000 OK\r\n\r\n"),
            (Fault::BadStatus, b"HTTP/1.1 099 OK\r\n\r\n"),
            (Fault::BadStatus, b"HTTP/1.1  200 OK\r\n\r\n"),
            (Fault::BadStatus, b"HTTP/1.1\r\n\r\n"),
            (Fault::BadVersion, b"HTTP/2 200 OK\r\n\r\n"),
            (Fault::BadVersion, b"ICY 200 OK\r\n\r\n"),
            (Fault::BadVersion, b"<html>"),
            (Fault::LeadingSpace, b"HTTP/1.1 200 OK\r\n A: b\r\n\r\n"),
            (Fault::UnaskedSwitch, b"HTTP/1.1 101 Now\r\nUpgrade: x\r\n\r\n"),
        ],
    );
}

/// Lengths: what begins so and goes on with `LENGTH` fields, and a body.
fn with_lengths(kind: Kind, fields: &str) -> Vec<u8> {
    let first = match kind {
        Kind::Request => "POST / HTTP/1.1\r\nHost: h",
        Kind::Response => "HTTP/1.1 200 OK",
    };
    format!("{first}\r\n{fields}\r\n\r\n0\r\n\r\n").into_bytes()
}

#[test]
fn lengths() {
    let both = "Content-Length: 5\r\nTransfer-Encoding: chunked";
    let cases = [
        (Fault::BadContentLength, "Content-Length: +5"),
        (Fault::BadContentLength, "Content-Length: 5 5"),
        (Fault::BadContentLength, "Content-Length: 0x5"),
        (Fault::BadContentLength, "Content-Length: "),
        (Fault::BadContentLength, "Content-Length: 5,"),
        (Fault::BadContentLength, "Content-Length: 1000000000000000000000"),
        (Fault::ContentLengthRepeated, "Content-Length: 5\r\ncontent-length: 5"),
        (Fault::ContentLengthRepeated, "Content-Length: 5, 5"),
        (Fault::ContentLengthsDiffer, "Content-Length: 5\r\nContent-Length: 6"),
        (Fault::ContentLengthsDiffer, "Content-Length: 5, 6"),
        (Fault::LengthAndEncoding, both),
        (Fault::BadTransferEncoding, "Transfer-Encoding: "),
        (Fault::BadTransferEncoding, "Transfer-Encoding: chunked,"),
        (Fault::BadTransferEncoding, "Transfer-Encoding: \"chunked\""),
        (Fault::BadTransferEncoding, "Transfer-Encoding: chunked;q=1"),
        (Fault::ChunkedTwice, "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
        (Fault::ChunkedTwice, "Transfer-Encoding: chunked, chunked"),
        (Fault::ChunkedNotLast, "Transfer-Encoding: chunked, gzip"),
        (Fault::ChunkedNotLast, "Transfer-Encoding: identity"),
        (Fault::TransferCoded, "Transfer-Encoding: identity, chunked"),
        (Fault::TransferCoded, "Transfer-Encoding: gzip, chunked"),
        (Fault::ChunkedNotLast, "Transfer-Encoding: xchunked"),
    ];
    for kind in [Kind::Request, Kind::Response] {
        for (fault, fields) in cases {
            refused(kind, &[(fault, &with_lengths(kind, fields))]);
        }
        put_up_with(kind, &[(Fault::LengthAndEncoding, &with_lengths(kind, both))]);
        assert_eq!(
            judged(Rules::LENIENT, kind, &with_lengths(kind, "Transfer-Encoding: gzip, chunked")),
            Ok(vec![Fault::TransferCoded])
        );
    }
    // The end of a request is undecidable if its last coding is not chunked.
    let bytes = with_lengths(Kind::Request, "Transfer-Encoding: gzip");
    assert_eq!(judged(Rules::LENIENT, Kind::Request, &bytes), Err(Fault::ChunkedNotLast));
    let bytes = with_lengths(Kind::Response, "Transfer-Encoding: gzip");
    put_up_with(Kind::Response, &[(Fault::ChunkedNotLast, &bytes)]);
    put_up_with(
        Kind::Request,
        &[(
            Fault::TransferEncodingIn10,
            b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        )],
    );
}

#[test]
fn chunks() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let long = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(300));
    let cases: [(Fault, &str); 19] = [
        (Fault::BadChunkSize, "\r\n"),
        (Fault::BadChunkSize, "0x1\r\na\r\n0\r\n\r\n"),
        (Fault::BadChunkSize, "-1\r\na\r\n0\r\n\r\n"),
        (Fault::BadChunkSize, " 1\r\na\r\n0\r\n\r\n"),
        (Fault::BadChunkSize, "1g\r\na\r\n0\r\n\r\n"),
        (Fault::BadChunkSize, "1000000000000000\r\na\r\n0\r\n\r\n"),
        (Fault::BadChunkSize, "0000000000000001\r\na\r\n0\r\n\r\n"),
        (Fault::BadChunkLine, "1 \r\na\r\n0\r\n\r\n"),
        (Fault::BadChunkLine, "1\t;x\r\na\r\n0\r\n\r\n"),
        (Fault::ChunkExtensionTooLong, &long),
        (Fault::BadChunkExtension, "1;\x01\r\na\r\n0\r\n\r\n"),
        (Fault::BareLf, "1\na\r\n0\r\n\r\n"),
        (Fault::BareLf, "1;x\na\r\n0\r\n\r\n"),
        (Fault::BareLf, "1\r\na\n0\r\n\r\n"),
        (Fault::BareCr, "1\ra\r\n0\r\n\r\n"),
        (Fault::BadChunkEnd, "1\r\nab\r\n0\r\n\r\n"),
        (Fault::BadChunkEnd, "1\r\na\rb0\r\n\r\n"),
        (Fault::TrailerField, "0\r\nContent-Length: 3\r\n\r\n"),
        (Fault::ObsFold, "0\r\nA: b\r\n c\r\n\r\n"),
    ];
    for (fault, text) in cases {
        refused(Kind::Response, &[(fault, format!("{head}{text}").as_bytes())]);
    }
}

#[test]
fn limits() {
    let rules = Rules { head_bytes: 64, fields: 3, ..Rules::STRICT };
    let fit = b"GET /12345678901 HTTP/1.1\r\nHost: h\r\nA: b\r\nC: 12345678901234567\r\n\r\n";
    assert_eq!(fit.len(), 66);
    assert_eq!(judged(rules, Kind::Request, fit), Err(Fault::HeadTooLong));
    assert_eq!(judged(rules, Kind::Request, &fit[..62]), Err(Fault::HeadCutShort));
    assert_eq!(judged(rules, Kind::Request, &[b'a'; 64]), Err(Fault::HeadTooLong));
    // Bytes after the longest head in the same packet change nothing.
    let behind = [&[b'a'; 64][..], b"\0"].concat();
    assert_eq!(judged(rules, Kind::Request, &behind), Err(Fault::HeadTooLong));
    let fields = b"GET / HTTP/1.1\r\nHost: h\r\nA:\r\nB:\r\nC:\r\n\r\n";
    assert_eq!(judged(rules, Kind::Request, fields), Err(Fault::TooManyFields));
    let fields = b"GET / HTTP/1.1\r\nHost: h\r\nA:\r\nB:\r\n\r\n";
    assert_eq!(judged(rules, Kind::Request, fields), Ok(vec![]));
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn answers_belong_to_requests() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let mut feeder = Feeder::new(Rules::STRICT);
    assert_eq!(feeder.feed(Kind::Response, answer), Err(Fault::Unasked));
    // It stays refused, in both directions.
    assert_eq!(feeder.feed(Kind::Request, GET), Err(Fault::Unasked));
    assert_eq!(feeder.connection.refused(), Some(Fault::Unasked));
    feeder.connection.make_opaque();
    assert_eq!(feeder.feed(Kind::Request, GET), Ok(()));
    assert_eq!(feeder.bodies(Kind::Request), Vec::<Vec<u8>>::new());

    let mut feeder = Feeder::new(Rules::STRICT);
    for _ in 0..MAX_PENDING {
        assert_eq!(feeder.feed(Kind::Request, GET), Ok(()));
    }
    assert_eq!(feeder.connection.pending(), MAX_PENDING);
    assert_eq!(feeder.feed(Kind::Response, answer), Ok(()));
    assert_eq!(feeder.feed(Kind::Request, GET), Ok(()));
    assert_eq!(feeder.feed(Kind::Request, GET), Err(Fault::TooManyPending));
}

#[test]
fn protocols_change_only_without_other_pending_requests() {
    let upgrade = b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: x\r\n\r\n";
    let connect = b"CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n";
    let posted = b"POST / HTTP/1.1\r\nHost: h\r\nUpgrade: x\r\nContent-Length: 5\r\n\r\nab";
    let (now, fine) = (b"HTTP/1.1 101 Now\r\n\r\n".as_slice(), b"HTTP/1.1 200 \r\n\r\n".as_slice());
    for (requests, answer, outcome) in [
        ([upgrade.as_slice(), b""], now, Ok(())),
        ([connect, b""], fine, Ok(())),
        ([upgrade, b"held"], now, Ok(())),
        ([upgrade, GET], now, Err(Fault::EarlySwitch)),
        ([connect, GET], fine, Err(Fault::EarlySwitch)),
        ([posted, b""], now, Err(Fault::EarlySwitch)),
    ] {
        let mut feeder = Feeder::new(Rules::STRICT);
        for request in requests {
            assert_eq!(feeder.feed(Kind::Request, request), Ok(()));
        }
        assert_eq!(feeder.feed(Kind::Response, answer), outcome);
        let is_opaque = feeder.connection.direction(Kind::Request).is_opaque();
        assert_eq!(is_opaque, outcome.is_ok());
    }
    // A tunnel that is refused is none.
    let mut feeder = Feeder::new(Rules::STRICT);
    feeder.feed(Kind::Request, connect).unwrap();
    feeder.feed(Kind::Response, b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert!(!feeder.connection.direction(Kind::Response).is_opaque());
}

#[test]
fn bodies_may_be_cut_short() {
    for bytes in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n",
    ] {
        let mut feeder = Feeder::new(Rules::STRICT);
        feeder.feed(Kind::Request, GET).unwrap();
        feeder.feed(Kind::Response, bytes).unwrap();
        assert_eq!(feeder.finish(Kind::Response), Ok(Finish::CutShort));
        assert_eq!(feeder.finish(Kind::Request), Ok(Finish::Clean));
    }
}
