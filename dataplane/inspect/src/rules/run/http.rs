//! The buffers of a message head.

use std::ops::Range;

use crate::rules::buffer::{Buffer, Side};

/// A message head, taken apart. Its memory is kept for the next one.
#[derive(Debug)]
pub struct HeadParts {
    bytes: Vec<u8>,
    ranges: [Option<(u32, u32)>; Buffer::COUNT],
}

impl Default for HeadParts {
    fn default() -> HeadParts {
        HeadParts { bytes: Vec::new(), ranges: [None; Buffer::COUNT] }
    }
}

/// Buffers that are the value of one header line.
const VALUES: [(&[u8], Buffer); 12] = [
    (b"user-agent", Buffer::HttpUserAgent),
    (b"content-type", Buffer::HttpContentType),
    (b"content-length", Buffer::HttpContentLen),
    (b"referer", Buffer::HttpReferer),
    (b"accept", Buffer::HttpAccept),
    (b"accept-encoding", Buffer::HttpAcceptEnc),
    (b"accept-language", Buffer::HttpAcceptLang),
    (b"connection", Buffer::HttpConnection),
    (b"server", Buffer::HttpServer),
    (b"location", Buffer::HttpLocation),
    (b"cookie", Buffer::HttpCookie),
    (b"set-cookie", Buffer::HttpCookie),
];

impl HeadParts {
    /// What a buffer holds; none where the head has no such thing.
    pub fn get(&self, buffer: Buffer) -> Option<&[u8]> {
        let (from, to) = self.ranges[buffer.index()]?;
        self.bytes.get(from as usize..to as usize)
    }

    /// Takes a head apart: first line, header lines, empty line. Nothing is refused: what is not
    /// as it should be is shown as it is.
    pub fn read(&mut self, side: Side, head: &[u8]) {
        self.bytes.clear();
        self.ranges = [None; Buffer::COUNT];
        let first_len = memchr::memchr(b'\n', head).map_or(head.len(), |at| at + 1);
        let (first, lines) = head.split_at(first_len);
        self.put(Buffer::HttpRawHeader, lines);
        self.header_lines(side, lines);
        match side {
            Side::ToServer => self.request_line(line_end(first)),
            Side::ToClient => self.response_line(line_end(first)),
        }
    }

    fn put(&mut self, buffer: Buffer, bytes: &[u8]) {
        let from = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        self.ranges[buffer.index()] = Some((from, self.bytes.len() as u32));
    }

    /// Changes what was put last.
    fn set_range(&mut self, buffer: Buffer, range: Range<usize>) {
        self.bytes.truncate(range.end);
        self.ranges[buffer.index()] = Some((range.start as u32, range.end as u32));
    }

    fn request_line(&mut self, line: &[u8]) {
        self.put(Buffer::HttpRequestLine, line);
        let (method, rest) = cut(line);
        // The version stands behind the last space, if anything does.
        let last = memchr::memrchr(b' ', rest);
        let (target, version) = last.map_or((rest, &[][..]), |at| (&rest[..at], &rest[at + 1..]));
        self.put(Buffer::HttpMethod, method);
        self.put(Buffer::HttpRawUri, target);
        self.put(Buffer::HttpProtocol, version);
        let (host, path) = without_authority(target);
        let from = self.bytes.len();
        normal_uri(path, &mut self.bytes);
        let to = self.bytes.len();
        self.set_range(Buffer::HttpUri, from..to);
        if let Some(host) = host.filter(|_| self.get(Buffer::HttpRawHost).is_none()) {
            self.host(host);
        }
    }

    fn response_line(&mut self, line: &[u8]) {
        self.put(Buffer::HttpResponseLine, line);
        let (version, rest) = cut(line);
        let (code, message) = cut(rest);
        self.put(Buffer::HttpProtocol, version);
        self.put(Buffer::HttpStatCode, code);
        self.put(Buffer::HttpStatMsg, message);
    }

    fn header_lines(&mut self, side: Side, lines: &[u8]) {
        for line in header_lines(lines) {
            let (name, value) = named(line);
            for (_, buffer) in VALUES.iter().filter(|(known, _)| name.eq_ignore_ascii_case(known)) {
                let is_here = buffer.side().is_none_or(|of| of == side);
                if is_here && self.get(*buffer).is_none() {
                    self.put(*buffer, value);
                }
            }
            if side == Side::ToServer && name.eq_ignore_ascii_case(b"host") {
                self.host(value);
            }
        }
        let from = self.bytes.len();
        for line in header_lines(lines) {
            let (name, value) = named(line);
            if !is_cookie(name) {
                let parts: [&[u8]; 4] = [name, b": ", value, b"\r\n"];
                parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
            }
        }
        let to = self.bytes.len();
        self.set_range(Buffer::HttpHeader, from..to);
    }

    fn host(&mut self, value: &[u8]) {
        self.put(Buffer::HttpRawHost, value);
        let is_port = |at: &usize| value[at + 1..].iter().all(u8::is_ascii_digit);
        let end = memchr::memrchr(b':', value).filter(is_port).unwrap_or(value.len());
        let from = self.bytes.len();
        self.put(Buffer::HttpHost, &value[..end]);
        self.bytes[from..].make_ascii_lowercase();
    }
}

fn is_cookie(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"cookie") || name.eq_ignore_ascii_case(b"set-cookie")
}

/// A line without its end.
fn line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// What stands before the first space, and behind it.
fn cut(line: &[u8]) -> (&[u8], &[u8]) {
    memchr::memchr(b' ', line).map_or((line, &[]), |at| (&line[..at], &line[at + 1..]))
}

/// Lines up to the empty one, without their ends.
fn header_lines(lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines.split_inclusive(|byte| *byte == b'\n').map(line_end).take_while(|line| !line.is_empty())
}

/// Name and value of a header line.
fn named(line: &[u8]) -> (&[u8], &[u8]) {
    memchr::memchr(b':', line)
        .map_or((line, &[]), |at| (line[..at].trim_ascii_end(), line[at + 1..].trim_ascii()))
}

/// A target in absolute form is taken for what it asks of the host.
fn without_authority(target: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let Some(at) = memchr::memmem::find(target, b"://").filter(|at| *at <= 8) else {
        return (None, target);
    };
    if !target[..at].iter().all(u8::is_ascii_alphabetic) {
        return (None, target);
    }
    let rest = &target[at + 3..];
    let end = memchr::memchr3(b'/', b'?', b'#', rest).unwrap_or(rest.len());
    (Some(&rest[..end]), &rest[end..])
}

/// The target as rules want it: escapes resolved once; in the path, backslashes become slashes,
/// several slashes one, and segments `.` and `..` go (RFC 3986, 5.2.4).
fn normal_uri(target: &[u8], out: &mut Vec<u8>) {
    let end = memchr::memchr2(b'?', b'#', target).unwrap_or(target.len());
    let (path, query) = target.split_at(end);
    let start = out.len();
    unescape(path, out);
    normal_path(out, start);
    unescape(query, out);
}

fn unescape(text: &[u8], out: &mut Vec<u8>) {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut at = 0;
    while at < text.len() {
        match (text[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
}

/// Makes the path that begins at `start` normal, in place.
fn normal_path(out: &mut Vec<u8>, start: usize) {
    let (mut read, mut write) = (start, start);
    let is_slash = |byte: u8| byte == b'/' || byte == b'\\';
    while read < out.len() {
        if !is_slash(out[read]) {
            out[write] = out[read];
            (read, write) = (read + 1, write + 1);
            continue;
        }
        let segment = &out[read + 1..];
        let len = segment.iter().position(|byte| is_slash(*byte)).unwrap_or(segment.len());
        let is_last = read + 1 + len == out.len();
        match &segment[..len] {
            b"" | b"." if !is_last => read += 1 + len,
            b"." => out.truncate(read + 1),
            b".." => {
                while write > start && out[write - 1] != b'/' {
                    write -= 1;
                }
                write = write.saturating_sub(1).max(start);
                if is_last {
                    out[write] = b'/';
                    write += 1;
                }
                read += 3;
            }
            _ => {
                out[write] = b'/';
                (read, write) = (read + 1, write + 1);
            }
        }
    }
    out.truncate(write);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn normal(target: &str) -> String {
        let mut out = b"x/".to_vec();
        normal_uri(target.as_bytes(), &mut out);
        String::from_utf8_lossy(&out[2..]).into_owned()
    }

    #[test]
    fn targets_become_normal() {
        for (target, wanted) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("//a///b//", "/a/b/"),
            ("/a/./b/.", "/a/b/"),
            ("/a/../b", "/b"),
            ("/a/b/..", "/a/"),
            ("/../../etc/passwd", "/etc/passwd"),
            ("/%2e%2e/%41?x=%2F..//", "/A?x=/..//"),
            ("/a\\b\\..\\c", "/a/c"),
            ("/100%/%zz", "/100%/%zz"),
            ("*", "*"),
            ("", ""),
            ("/..", "/"),
            ("a/../..", "/"),
        ] {
            assert_eq!(normal(target), wanted, "{target}");
        }
    }

    #[test]
    fn a_request_is_taken_apart() {
        let mut parts = HeadParts::default();
        let head =
            b"GET http://192.0.2.1/a%20b HTTP/1.1\r\nHost: Example.ORG:8080\r\nCookie: a=b\r\n\
                     User-Agent:  x y \r\n\r\n";
        parts.read(Side::ToServer, head);
        let wanted: [(Buffer, &[u8]); 9] = [
            (Buffer::HttpMethod, b"GET"),
            (Buffer::HttpRawUri, b"http://192.0.2.1/a%20b"),
            (Buffer::HttpUri, b"/a b"),
            (Buffer::HttpProtocol, b"HTTP/1.1"),
            (Buffer::HttpHost, b"example.org"),
            (Buffer::HttpRawHost, b"Example.ORG:8080"),
            (Buffer::HttpCookie, b"a=b"),
            (Buffer::HttpUserAgent, b"x y"),
            (Buffer::HttpHeader, b"Host: Example.ORG:8080\r\nUser-Agent: x y\r\n"),
        ];
        for (buffer, bytes) in wanted {
            assert_eq!(parts.get(buffer), Some(bytes), "{buffer:?}");
        }
        assert_eq!(parts.get(Buffer::HttpStatCode), None);
        parts.read(Side::ToClient, b"HTTP/1.1 404 Not Found\r\nServer: z\r\nSet-Cookie: c\r\n\r\n");
        assert_eq!(parts.get(Buffer::HttpStatCode), Some(&b"404"[..]));
        assert_eq!(parts.get(Buffer::HttpStatMsg), Some(&b"Not Found"[..]));
        assert_eq!(parts.get(Buffer::HttpServer), Some(&b"z"[..]));
        assert_eq!(parts.get(Buffer::HttpCookie), Some(&b"c"[..]));
        assert_eq!(parts.get(Buffer::HttpUri), None);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_fail(head in proptest::collection::vec(any::<u8>(), 0..200), response: bool) {
            let mut parts = HeadParts::default();
            parts.read(Side::of(usize::from(response)), &head);
            for buffer in Buffer::ALL {
                let _ = parts.get(*buffer);
            }
        }

        /// Segment by segment, with a stack.
        #[test]
        fn paths_are_those_of_a_stack(path in "(/[.a]{0,3}){0,6}") {
            let segments: Vec<&str> = path.split('/').skip(1).collect();
            let mut stack = Vec::new();
            for segment in &segments {
                match *segment {
                    "" | "." => {}
                    ".." => drop(stack.pop()),
                    segment => stack.push(segment),
                }
            }
            let ends = matches!(segments.last(), Some(&("" | "." | "..")));
            let mut wanted: String = stack.iter().map(|segment| format!("/{segment}")).collect();
            if ends {
                wanted.push('/');
            }
            prop_assert_eq!(normal(&path), wanted);
        }
    }
}
