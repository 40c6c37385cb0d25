//! Pages by HTTP, through chains that change their text.

use super::content::{Edit, WORD};
use super::path::{Chain, Faults, Path, SERVERS};
use crate::process::privileged;
use crate::traffic::random_bytes;
use crate::trials::{Trial, undergo};
use crate::web::{Files, fetch_all, fetch_many, load, put};

/// What a page's words become.
const WITH: &str = "peaches and cream";

/// Lengths of pages, and of what stands between words: none, few, many.
const PAGES: [(usize, usize); 9] = [
    (0, 10),
    (5, 100),
    (300, 40),
    (1400, 200),
    (20_000, 1500),
    (20_000, 7),
    (100_000, 5000),
    (700_000, 300),
    (700_000, 900_000),
];

/// A page, and what is to arrive of it.
fn page((len, gap): (usize, usize)) -> [Vec<u8>; 2] {
    let [mut page, mut edited] = [Vec::new(), Vec::new()];
    while page.len() < len {
        let noise = random_bytes(gap.min(len));
        for (bytes, word) in [(&mut page, WORD), (&mut edited, WITH)] {
            bytes.extend(&noise);
            bytes.extend(word.as_bytes());
        }
    }
    [page, edited]
}

/// The contexts around a function of HTTP's bodies.
const CHAIN: &str = "input -> there :: FlowClassifier ~> tcp :: TCPIn;
    input[1] -> back :: FlowClassifier ~> [1]tcp;
    tcp => [0, 1]http :: HTTPIn(IDENTITY true)
        => [0, 1]words :: WordMatcher(NANANAS, MODE REPLACE, WITH 'peaches and cream', HOLD 0)
        => [0, 1]end :: HTTPOut => [0, 1]TCPOut => [0, 1]output";

const ALL: &[Trial<Path>] = &[("pages", pages), ("what is put, and much", others)];

/// Pages by connections of their own, several by one, with a length and in chunks, in old HTTP.
fn pages(path: &Path) {
    let files = Files::edited(PAGES.iter().copied().map(page));
    let web = files.serve(path.server(), "server");
    fetch_many(path.client(), &files, SERVERS[0], 90);
    for base in [SERVERS[0], &format!("{}/chunked", SERVERS[0])] {
        for options in [&[][..], &["--http1.0"], &["--compressed"]] {
            fetch_all(path.client(), &files, (base, PAGES.len()), options);
        }
    }
    web.content();
}

/// What has no words arrives as it is, and no request fails.
fn others(path: &Path) {
    let files = Files::new();
    let web = files.serve(path.server(), "server");
    for len in [0, 10, 5000, 500_000, 3_000_000] {
        put(path.client(), &web, SERVERS[0], len);
    }
    let url = format!("http://{}/4", SERVERS[0]);
    load(path.client(), &url, false);
    load(path.client(), &url, true);
    web.content();
}

#[test]
fn pages_grow() {
    if !privileged("pages_grow") {
        return;
    }
    let edits = [Edit { word: WORD, with: WITH }];
    let chain = Chain { text: CHAIN, edits: &edits, ..Chain::CABLE };
    for faults in [Faults::NONE, Faults::ROUGH] {
        let path = Path::new(&Chain { faults, ..chain });
        undergo(&path, ALL);
        let read = |handler| path.control().read(&format!("chain/{handler}")).trim().to_owned();
        assert_eq!(read("http.refused"), "0");
        // Each way to tell where a body ends was taken.
        for handler in ["end.lengths", "end.chunked", "end.until_close"] {
            assert_ne!(read(handler), "0", "{handler}");
        }
        path.stop();
    }
}
