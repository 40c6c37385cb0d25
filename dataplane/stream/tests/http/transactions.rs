//! Transactions that another project's parser is tested with (libhtp): with `THRUWAY_CORPORA=DIR`,
//! the files in DIR/http/libhtp. They are text in which `>>>` begins what a client sends, and `<<<`
//! what a server does.

use std::io::Write;
use std::path::{Path, PathBuf};

use thruway_stream::http::{Fault, Kind, Rules};

use crate::feeder::Feeder;

/// A folder of the corpora; says that a test is skipped where there are none.
pub fn corpora(test: &str, folder: &str) -> Option<PathBuf> {
    let Some(dir) = std::env::var_os("THRUWAY_CORPORA") else {
        // Not by a macro: the test harness would capture its output.
        let line = format!("SKIPPED: {test}: THRUWAY_CORPORA is not set\n");
        std::io::stderr().write_all(line.as_bytes()).expect("standard error");
        return None;
    };
    Some(Path::new(&dir).join(folder))
}

/// Blocks of a file: each a direction and its bytes, without the line end before the next mark.
fn blocks(text: &[u8]) -> Vec<(Kind, Vec<u8>)> {
    let mut blocks: Vec<(Kind, Vec<u8>)> = Vec::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let kind = match line.trim_ascii_end() {
            b">>>" => Some(Kind::Request),
            b"<<<" => Some(Kind::Response),
            _ => None,
        };
        match (kind, blocks.last_mut()) {
            (Some(kind), last) => {
                if let Some((_, bytes)) = last {
                    bytes.pop_if(|byte| *byte == b'\n');
                    bytes.pop_if(|byte| *byte == b'\r');
                }
                blocks.push((kind, Vec::new()));
            }
            (None, Some((_, bytes))) => bytes.extend(line),
            (None, None) => {}
        }
    }
    blocks
}

/// Messages that were read to their end in each direction, or why not all were.
fn read(text: &[u8], rules: Rules) -> (Result<(), Fault>, [usize; 2]) {
    let mut feeder = Feeder::new(rules);
    let blocks = blocks(text);
    let mut outcome = blocks.iter().try_for_each(|(kind, bytes)| feeder.feed(*kind, bytes));
    if outcome.is_ok() {
        outcome = feeder.finish(Kind::Response).map(|_| ());
    }
    (outcome, [Kind::Request, Kind::Response].map(|kind| feeder.bodies(kind).len()))
}

/// What a strict reader refuses a file for; messages of each direction that a lenient one reads to
/// their end, as far as it comes.
type Expected = (&'static str, Option<Fault>, [usize; 2]);

#[rustfmt::skip]
const EXPECTED: &[Expected] = &[
    ("00-adhoc.t", Some(Fault::BareLf), [1, 1]),
    ("01-get.t", None, [1, 1]),
    ("03-post-urlencoded.t", Some(Fault::TransferEncodingIn10), [2, 2]),
    ("04-post-urlencoded-chunked.t", Some(Fault::NoHost), [1, 1]),
    ("05-expect.t", Some(Fault::BareLf), [0, 2]),
    ("08-not-pipelined-connection.t", Some(Fault::NoHost), [2, 2]),
    ("100-auth-bearer.t", Some(Fault::BareLf), [1, 0]),
    ("11-response-stream-closure.t", None, [1, 1]),
    ("12-connect-request.t", None, [1, 1]),
    ("13-compressed-response-gzip-ct.t", None, [1, 1]),
    ("15-connect-complete.t", None, [1, 0]),
    ("16-connect-extra.t", Some(Fault::BlankLines), [2, 2]),
    ("17-multipart-1.t", None, [1, 1]),
    ("19-urlencoded-test.t", None, [1, 1]),
    ("22-http_1_1-host_missing", Some(Fault::NoHost), [1, 1]),
    ("25-small-chunks.t", Some(Fault::BareLf), [1, 1]),
    ("29-response-trailer-raw.t", Some(Fault::TransferEncodingIn10), [1, 1]),
    ("30-get-ipv6.t", None, [1, 1]),
    ("34-invalid-hostname.t", None, [1, 1]),
    ("37-invalid-request-2-t-e-and-c-l.t", Some(Fault::LengthAndEncoding), [1, 1]),
    ("38-invalid-request-3-invalid-t-e.t", Some(Fault::ChunkedNotLast), [0, 0]),
    ("40-auth-basic.t", None, [1, 0]),
    ("42-unknown-method_only.t", Some(Fault::BadStartLine), [0, 0]),
    ("44-auth-basic-invalid.t", None, [1, 0]),
    ("45-auth-digest-unquoted-username.t", Some(Fault::ObsFold), [1, 0]),
    ("46-auth-digest-invalid-username.t", Some(Fault::ObsFold), [1, 0]),
    ("47-auth-unrecognized.t", None, [1, 0]),
    ("49-invalid-response-headers-2.t", Some(Fault::BadFieldName), [1, 1]),
    ("51-get-ipv6-invalid.t", Some(Fault::HostDiffers), [1, 1]),
    ("56-path-utf8-overlong-3.t", None, [1, 1]),
    ("58-path-utf8-invalid.t", None, [1, 1]),
    ("59-path-utf8-fullwidth.t", None, [1, 1]),
    ("60-request-cookies.t", None, [1, 1]),
    ("61-empty-line-between-requests.t", Some(Fault::NoHost), [2, 2]),
    ("63-post-chunked-invalid-1.t", Some(Fault::NoHost), [0, 1]),
    ("67-long-request-line.t", None, [1, 1]),
    ("71-response-split-chunk.t", Some(Fault::TransferEncodingIn10), [1, 1]),
    ("72-response-split-body.t", None, [1, 1]),
    ("73-response-te-and-cl.t", Some(Fault::TransferEncodingIn10), [1, 1]),
    ("78-response-no-status-headers.t", Some(Fault::BadVersion), [1, 0]),
    ("79-connect-invalid-hostport.t", Some(Fault::BadVersion), [2, 1]),
    ("81-hostname-invalid-2.t", Some(Fault::HostDiffers), [1, 1]),
    ("83-auth-digest-invalid-username-2.t", None, [1, 0]),
    ("85-zero-byte-request-timeout.t", Some(Fault::BareLf), [0, 1]),
    ("86-partial-request-timeout.t", Some(Fault::BareLf), [0, 1]),
    ("87-issue-55-incorrect-host-ambiguous-warning.t", None, [1, 0]),
    ("88-response-multiple-cl-mismatch.t", Some(Fault::ContentLengthsDiffer), [1, 0]),
    ("89-get-whitespace.t", Some(Fault::BadMethod), [0, 0]),
    ("91-request-unexpected-body.t", Some(Fault::BadStartLine), [1, 0]),
    ("93-compressed-response-deflateasgzip.t", None, [1, 1]),
    ("96-compressed-response-lzma.t", None, [1, 1]),
    ("97-requests-cut.t", Some(Fault::NoHost), [2, 0]),
    ("98-responses-cut.t", Some(Fault::NoHost), [1, 2]),
    ("99-expect-100.t", Some(Fault::BareLf), [1, 1]),
];

#[test]
fn other_parsers_transactions() {
    let Some(dir) = corpora("other_parsers_transactions", "http/libhtp") else { return };
    for (name, refused, messages) in EXPECTED {
        let text = std::fs::read(dir.join(name)).expect("a file");
        let (outcome, strictly) = read(&text, Rules::STRICT);
        assert_eq!(outcome.err(), *refused, "{name}");
        let (_, leniently) = read(&text, Rules::LENIENT);
        assert_eq!(leniently, *messages, "{name}");
        assert!(strictly <= leniently, "{name}");
    }
}
