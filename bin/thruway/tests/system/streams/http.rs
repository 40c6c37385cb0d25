//! Pages that functions change on their way from nginx to curl and wrk.

use super::chains::Functions;
use super::content::{Edit, Stream, WORD, whole};
use super::path::{Chain, Faults, Path, SERVERS};
use crate::process::privileged;
use crate::trials::{Trial, undergo};
use crate::web::{Files, fetch_many, fetch_with, load, put_edited};

const MASK: Functions = Functions {
    text: "HTTPIn(IDENTITY true, TYPES none text)
        => [0, 1]WordMatcher(NANANAS, MODE MASK) => [0, 1]HTTPOut",
    edits: &[Edit { word: WORD, with: "*******" }],
};

const REMOVE: Functions = Functions {
    text: "HTTPIn(IDENTITY true, TYPES none text)
        => [0, 1]WordMatcher(NANANAS, MODE REMOVE) => [0, 1]HTTPOut",
    edits: &[Edit { word: WORD, with: "" }],
};

/// What nginx packs is unpacked.
const LONGER: Functions = Functions {
    text: "HTTPIn(TYPES none text)
        => [0, 1]WordMatcher(NANANAS, MODE REPLACE, WITH 'peaches and cream')
        => [0, 1]HTTPOut",
    edits: &[Edit { word: WORD, with: "peaches and cream" }],
};

const TRIALS: &[Trial<Path>] = &[
    ("a connection for each page", pages),
    ("many pages on a connection", in_turn),
    ("pages in chunks", chunked),
    ("an old client", old),
    ("compressed, if anybody wanted it", compressed),
    ("compressed with zstd", packed),
    ("other types", binary),
    ("heads alone, and parts", parts),
    ("pages that are put", puts),
    ("requests", requests),
];

/// Lengths of pages: about a segment, about what is held until its length is known, long.
const LENGTHS: [u64; 12] =
    [0, 1, 7, 100, 1459, 1461, 4096, 16_383, 16_385, 40_000, 100_000, 300_000];

/// A page of about this length, and what is to become of it.
fn page(len: u64, edits: &[Edit]) -> [Vec<u8>; 2] {
    let stream = Stream { seed: len, len, gap: 150 };
    [whole(stream, &[]), whole(stream, edits)]
}

/// Pages, and what is to become of them.
fn edited(path: &Path) -> Files {
    Files::edited(LENGTHS.iter().map(|len| page(*len, &path.edits)))
}

fn pages(path: &Path) {
    let files = edited(path);
    let web = files.serve(path.server(), "server");
    fetch_many(path.client(), &files, SERVERS[0], 120);
    web.content();
}

fn in_turn(path: &Path) {
    let files = edited(path);
    let web = files.serve(path.server(), "server");
    fetch_with(path.client(), &files, (SERVERS[0], 120), &[]);
    web.content();
}

fn chunked(path: &Path) {
    let files = edited(path);
    let web = files.serve(path.server(), "server");
    let address = format!("{}/chunked", SERVERS[0]);
    fetch_with(path.client(), &files, (&address, 36), &[]);
    fetch_many(path.client(), &files, &address, 36);
    web.content();
}

/// It speaks HTTP/1.0, which knows no chunks.
fn old(path: &Path) {
    let files = edited(path);
    let web = files.serve(path.server(), "server");
    for place in ["", "/chunked"] {
        let address = format!("{}{place}", SERVERS[0]);
        fetch_with(path.client(), &files, (&address, 36), &["--http1.0"]);
    }
    web.content();
}

/// The server is asked not to, whatever the client says; or what it packs is unpacked.
fn compressed(path: &Path) {
    let files = edited(path);
    let web = files.serve(path.server(), "server");
    let address = format!("{}/gzip", SERVERS[0]);
    fetch_with(path.client(), &files, (&address, 36), &["--compressed"]);
    web.content();
}

/// What a server packs whatever it is asked for is unpacked, also what repeats from far away.
fn packed(path: &Path) {
    let twice = |len: u64| page(len, &path.edits).map(|content| content.repeat(2));
    let files = Files::edited([1, 1461, 40_000, 600_000].into_iter().map(twice));
    files.pack();
    let web = files.serve(path.server(), "server");
    let address = format!("{}/zstd", SERVERS[0]);
    fetch_with(path.client(), &files, (&address, 8), &["--compressed"]);
    fetch_with(path.client(), &files, (&address, 4), &[]);
    web.content();
}

fn binary(path: &Path) {
    let files = Files::edited(LENGTHS.iter().map(|len| page(*len, &[])));
    let web = files.serve(path.server(), "server");
    fetch_with(path.client(), &files, (&format!("{}/binary", SERVERS[0]), 36), &[]);
    web.content();
}

/// Answers without a body and of a part of one, on a connection on which others follow.
fn parts(path: &Path) {
    let files = Files::edited([4096, 40_000].into_iter().map(|len| page(len, &[])));
    let web = files.serve(path.server(), "server");
    let url = |file| format!("http://{}/binary/{file}", SERVERS[0]);
    let line = format!("curl -sS --fail --max-time 20 -I {} {}", url(0), url(1));
    let heads = path.client().succeed(&line);
    for length in ["Content-Length: 4096", "Content-Length: 40000"] {
        assert!(heads.contains(length), "{heads}");
    }
    let line = format!(
        "curl -sS --fail --max-time 20 -r 100-199 -o /dev/null -o /dev/null \
         -w %{{http_code}}:%{{size_download}}:%{{num_connects}}\\n {} {}",
        url(0),
        url(1)
    );
    assert_eq!(path.client().succeed(&line), "206:100:1\n206:100:0\n");
    web.content();
}

fn puts(path: &Path) {
    let web = edited(path).serve(path.server(), "server");
    for len in LENGTHS {
        let [content, edited] = page(len, &path.edits);
        put_edited(path.client(), &web, SERVERS[0], [&content, &edited]);
    }
    web.content();
}

/// Of pages of the usual sizes, on connections that stay and on ones of their own.
fn requests(path: &Path) {
    let files = edited(path);
    let web = files.serve(path.server(), "server");
    for (file, close) in [(3, false), (3, true), (6, false), (9, false)] {
        load(path.client(), &format!("http://{}/{file}", SERVERS[0]), close);
    }
    web.content();
}

/// All trials on a good path, files on a bad one.
fn carry(test: &str, functions: &Functions) {
    if !privileged(test) {
        return;
    }
    functions.with(|chain| {
        let path = Path::new(chain);
        undergo(&path, TRIALS);
        path.stop();
        let path = Path::new(&Chain { faults: Faults::ROUGH, ..*chain });
        undergo(&path, &TRIALS[..1]);
        path.stop();
    });
}

#[test]
fn words_of_pages_are_masked() {
    carry("words_of_pages_are_masked", &MASK);
}

#[test]
fn words_of_pages_are_removed() {
    carry("words_of_pages_are_removed", &REMOVE);
}

#[test]
fn words_of_pages_grow() {
    carry("words_of_pages_grow", &LONGER);
}
