//! Files by HTTP: nginx as the server, curl and wrk as the clients.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;

use crate::network::Namespace;
use crate::process::{Running, need, run};
use crate::traffic::{listening, random_bytes, sha256};

/// Lengths of files: empty, about a segment of 1,460 bytes, longer than windows and queues.
const LENGTHS: [usize; 12] =
    [0, 1, 100, 1459, 1460, 1461, 4096, 14_600, 14_601, 65_536, 100_000, 300_000];

/// Files of random bytes, with their hashes.
pub struct Files {
    dir: Arc<TempDir>,
    hashes: Vec<String>,
}

impl Files {
    /// A file of each length; their names are numbers.
    pub fn new() -> Files {
        Files::edited(LENGTHS.iter().map(|len| [random_bytes(*len), random_bytes(*len)]))
    }

    /// Files, each with what is to arrive of it.
    pub fn edited(contents: impl Iterator<Item = [Vec<u8>; 2]>) -> Files {
        let dir = tempfile::tempdir().expect("a directory");
        let make = |(number, [content, edited]): (usize, [Vec<u8>; 2])| {
            let path = dir.path().join(number.to_string());
            fs::write(&path, edited).expect("room for a file");
            let hash = sha256(&path);
            fs::write(&path, content).expect("room for a file");
            hash
        };
        let hashes = contents.enumerate().map(make).collect();
        Files { dir: Arc::new(dir), hashes }
    }

    /// Packs each as `zstd/N`, as a server does that does not know how much follows.
    pub fn pack(&self) {
        need("zstd", "zstd");
        let dir = self.dir.path().join("zstd");
        fs::create_dir(&dir).expect("room for a directory");
        for number in 0..self.hashes.len() {
            let number = number.to_string();
            let plain = fs::File::open(self.dir.path().join(&number)).expect("a file");
            let packed = fs::File::create(dir.join(&number)).expect("room for a file");
            let mut command = Command::new("zstd");
            command.args(["-q", "-c", "-12", "--long=23"]).stdin(plain).stdout(packed);
            assert!(command.status().expect("zstd runs").success());
        }
    }

    /// A server of them in `host`, at port 80.
    pub fn serve(&self, host: &Namespace, name: &str) -> Web {
        self.serve_with(host, name, "access_log off;")
    }

    /// One that writes down when each request was answered: see [`Web::times`].
    pub fn serve_and_log(&self, host: &Namespace, name: &str) -> Web {
        self.serve_with(host, name, "log_format times '$msec $status'; access_log DIR/times times;")
    }

    fn serve_with(&self, host: &Namespace, name: &str, log: &str) -> Web {
        need("nginx", "nginx");
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("nginx.conf");
        let log = log.replace("DIR", &dir.path().display().to_string());
        let text = configuration(dir.path(), self.dir.path(), name);
        let text = text.replace("access_log off;", &log);
        fs::write(&file, text).expect("room for a configuration");
        let mut command = host.command("nginx");
        command.args(["-e", "stderr", "-c"]).arg(&file);
        let process = Running::start(&mut command);
        listening(host, "80");
        Web { process, dir, _files: Arc::clone(&self.dir) }
    }
}

/// A server: `/N` is a file, `/binary/N` the same as bytes of no known type, `/chunked/N` in
/// chunks, `/gzip/N` compressed if the client likes, `/zstd/N` as [`Files::pack`] packed it; `/who`
/// tells the client's address and the server's name, what is put under `/put/` is kept.
pub struct Web {
    process: Running,
    dir: TempDir,
    _files: Arc<TempDir>,
}

impl Web {
    /// The hash of a file that a client put there.
    pub fn hash(&self, name: &str) -> String {
        sha256(&self.dir.path().join("put").join(name))
    }

    /// When requests were answered with a file, in seconds since 1970.
    pub fn times(&self) -> Vec<f64> {
        let text = fs::read_to_string(self.dir.path().join("times")).expect("a log");
        let time = |line: &str| line.strip_suffix(" 200")?.parse().ok();
        text.lines().filter_map(time).collect()
    }

    /// Asserts that the server had nothing to complain of.
    #[track_caller]
    pub fn content(&self) {
        assert_eq!(self.process.stderr(), "");
    }
}

/// One process without a master, nothing of which lies outside `dir` but the files.
fn configuration(dir: &Path, files: &Path, name: &str) -> String {
    let mut text = String::from("daemon off; master_process off;\n");
    let (dir, files) = (dir.display(), files.display());
    write!(text, "pid {dir}/pid; events {{ worker_connections 4096; }}\nhttp {{\n").unwrap();
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        writeln!(text, "{kind}_temp_path {dir}/{kind};").unwrap();
    }
    text += "access_log off; client_max_body_size 64m; keepalive_requests 1000000;\n";
    write!(
        text,
        "server {{ listen 80 backlog=4096; root {files};
         location = /who {{ return 200 \"$remote_addr {name}\"; }}
         location /put/ {{ root {dir}; dav_methods PUT; create_full_put_path on; }}
         location /binary/ {{ alias {files}/; default_type application/octet-stream; }}
         location /chunked/ {{ alias {files}/; ssi on; ssi_types *; }}
         location /zstd/ {{ alias {files}/zstd/; add_header Content-Encoding zstd; }}
         location /gzip/ {{ alias {files}/; gzip on; gzip_types *; gzip_min_length 1; }} }} }}\n"
    )
    .unwrap();
    text
}

/// What curl gets from `url` with these words in front; it must succeed.
#[track_caller]
pub fn get(client: &Namespace, url: &str) -> String {
    need("curl", "curl");
    client.succeed(&format!("curl -sS --fail --connect-timeout 5 --max-time 20 {url}"))
}

/// Fetches files by `count` connections, 32 at a time; every body must be right.
#[track_caller]
pub fn fetch_many(client: &Namespace, files: &Files, address: &str, count: usize) {
    let parallel = ["--parallel", "--parallel-immediate", "--parallel-max", "32"];
    let options = [&parallel[..], &["-H", "Connection: close"]].concat();
    fetch_with(client, files, (address, count), &options);
}

/// Fetches files `count` times by curl with these options; every body must be right.
#[track_caller]
pub fn fetch_with(
    client: &Namespace,
    files: &Files,
    (address, count): (&str, usize),
    options: &[&str],
) {
    need("curl", "curl");
    let dir = tempfile::tempdir().expect("a directory");
    let (mut urls, mut sums) = (String::new(), String::new());
    for number in 0..count {
        let file = number % files.hashes.len();
        let copy = dir.path().join(number.to_string());
        let copy = copy.display();
        write!(urls, "url = \"http://{address}/{file}\"\noutput = \"{copy}\"\n").unwrap();
        writeln!(sums, "{}  {copy}", files.hashes[file]).unwrap();
    }
    let (list, expected) = (dir.path().join("urls"), dir.path().join("sums"));
    fs::write(&list, urls).expect("room for a list");
    fs::write(&expected, sums).expect("room for a list");
    let mut command = client.command("curl");
    command.args(["-sS", "--fail", "--max-time", "25"]).args(options).arg("-K").arg(list);
    let done = run(&mut command);
    assert_eq!(done.code(), 0, "{done:#?}");
    let mut check = Command::new("sha256sum");
    let done = run(check.args(["--check", "--quiet"]).arg(expected));
    assert_eq!((done.code(), &*done.stdout), (0, ""), "{done:#?}");
}

/// Puts a file of random bytes; it must be kept as it was.
#[track_caller]
pub fn put(client: &Namespace, web: &Web, address: &str, len: usize) {
    put_edited(client, web, address, [&random_bytes(len); 2]);
}

/// Puts a file, of which something else may arrive: the second one.
#[track_caller]
pub fn put_edited(client: &Namespace, web: &Web, address: &str, [content, edited]: [&Vec<u8>; 2]) {
    need("curl", "curl");
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    fs::write(file.path(), content).expect("room for a file");
    let line = format!("curl -sS --fail --max-time 20 http://{address}/put/file -T");
    client.succeed(&format!("{line} {}", file.path().display()));
    fs::write(file.path(), edited).expect("room for a file");
    assert_eq!(web.hash("file"), sha256(file.path()));
}

/// A second of wrk on 32 connections, each of one request if `close`. No request may fail; how many
/// there are is for how busy the machine is.
#[track_caller]
pub fn load(client: &Namespace, url: &str, close: bool) {
    need("wrk", "wrk");
    let mut command = client.command("wrk");
    command.args(["-t", "1", "-c", "32", "-d", "1s", "--timeout", "10s"]);
    if close {
        command.args(["-H", "Connection: close"]);
    }
    let done = run(command.arg(url)).expect(0);
    let bad = ["Socket errors", "Non-2xx"].iter().any(|word| done.stdout.contains(word));
    assert!(!bad, "{}", done.stdout);
    let requests = done.stdout.lines().find(|line| line.contains(" requests in "));
    let count = requests.and_then(|line| line.split_whitespace().next()?.parse().ok());
    assert!(count.is_some_and(|count: u64| count > 0), "{}", done.stdout);
}

/// Waits until curl's connection to `url` is refused or gets no answer.
#[track_caller]
pub fn expect_unreachable(client: &Namespace, url: &str) {
    let done = client.run(&format!("curl -sS --connect-timeout 0.5 {url}"));
    assert!([7, 28].contains(&done.code()), "{url}: {done:#?}");
}
