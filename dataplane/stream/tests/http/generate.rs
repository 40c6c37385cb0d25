//! Connections assembled from known pieces.

use proptest::prelude::*;

use crate::feeder::{Part, Parts, append};

/// A body, and how its end is reported.
#[derive(Debug, Clone)]
pub enum Body {
    None,
    Length(Vec<u8>),
    /// Chunks (those without data are left out), extensions, trailer fields, digits in capitals.
    Chunked(Vec<Vec<u8>>, u8, Vec<(String, String)>, bool),
    UntilClose(Vec<u8>),
}

/// A request and its answer.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub method: &'static str,
    pub is_old: bool,
    pub has_blank: bool,
    pub fields: Vec<(String, String)>,
    pub body: Body,
    pub interim: u8,
    pub status: u16,
    pub answer_fields: Vec<(String, String)>,
    pub answer: Body,
    /// By direction: the body is of a type that is not shown.
    pub is_hidden: [bool; 2],
}

impl Exchange {
    /// Whether its answer has no body, whatever its head says.
    pub fn is_bare(&self) -> bool {
        self.method == "HEAD" || [204, 304].contains(&self.status)
    }
}

/// What ends a connection as one of HTTP.
#[derive(Debug, Clone)]
pub struct Switch {
    pub is_connect: bool,
    pub then: [Vec<u8>; 2],
}

/// All that happens on a connection.
#[derive(Debug, Clone)]
pub struct Script {
    pub exchanges: Vec<Exchange>,
    pub switch: Option<Switch>,
}

/// Both directions: what they are made of, and how far each may be ahead of the other.
#[derive(Debug, Default)]
pub struct Built {
    pub parts: [Parts; 2],
    pub bytes: [Vec<u8>; 2],
    /// (bytes of requests, bytes of responses): so many bytes of requests must have come before
    /// more than so many of responses do.
    pub answers: Vec<(usize, usize)>,
    /// The same in the opposite direction, for the bytes after a change of protocol.
    pub switched: Option<(usize, usize)>,
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    // Bytes that look like framing, and words.
    let odd = (0..8usize).prop_map(|pick| b"\r\n0;: ab"[pick]);
    prop::collection::vec(prop_oneof![1 => any::<u8>(), 3 => odd], 0..40)
}

fn fields() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec(("x-[a-z]{1,8}", "[ -~\\xe9]{0,20}"), 0..4)
}

fn chunked() -> impl Strategy<Value = Body> {
    let chunks = prop::collection::vec(bytes(), 0..5);
    (chunks, 0..4u8, fields(), any::<bool>()).prop_map(|(chunks, extension, trailer, big)| {
        Body::Chunked(chunks, extension, trailer, big)
    })
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![Just(Body::None), bytes().prop_map(Body::Length), chunked()]
}

fn answer() -> impl Strategy<Value = Body> {
    prop_oneof![
        bytes().prop_map(Body::Length),
        chunked(),
        bytes().prop_map(Body::UntilClose),
        Just(Body::Length(Vec::new())),
    ]
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let method = prop::sample::select(vec!["GET", "POST", "HEAD", "PUT", "OPTIONS", "M-SEARCH"]);
    let status = prop::sample::select(vec![200, 200, 200, 204, 206, 304, 404, 500]);
    let request = (method, any::<bool>(), any::<bool>(), fields(), body());
    let response = (0..3u8, status, fields(), answer());
    (request, response, any::<[bool; 2]>()).prop_map(|(request, response, is_hidden)| {
        let (method, is_old, has_blank, fields, body) = request;
        let (interim, status, answer_fields, answer) = response;
        let body = match body {
            Body::Chunked(chunks, ..) if is_old => Body::Length(chunks.concat()),
            body => body,
        };
        let interim = if is_old { 0 } else { interim };
        let answer = match answer {
            Body::Chunked(chunks, ..) if is_old => Body::Length(chunks.concat()),
            answer => answer,
        };
        let mut fields = [fields, answer_fields];
        for (fields, _) in fields.iter_mut().zip(is_hidden).filter(|(_, is_hidden)| *is_hidden) {
            fields.push(("Content-Type".to_owned(), "image/png".to_owned()));
        }
        let [fields, answer_fields] = fields;
        Exchange {
            method,
            is_old,
            has_blank,
            fields,
            body,
            interim,
            status,
            answer_fields,
            answer,
            is_hidden,
        }
    })
}

fn switch() -> impl Strategy<Value = Switch> {
    (any::<bool>(), [bytes(), bytes()]).prop_map(|(is_connect, then)| Switch { is_connect, then })
}

/// Any connection on which nothing is wrong.
pub fn script() -> impl Strategy<Value = Script> {
    let exchanges = prop::collection::vec(exchange(), 0..6);
    (exchanges, prop::option::of(switch())).prop_map(|(mut exchanges, switch)| {
        // Only the last body may end with the connection.
        let last = if switch.is_some() { usize::MAX } else { exchanges.len().wrapping_sub(1) };
        for (index, one) in exchanges.iter_mut().enumerate() {
            if let Body::UntilClose(bytes) = &one.answer
                && index != last
            {
                one.answer = Body::Length(bytes.clone());
            }
        }
        Script { exchanges, switch }
    })
}

fn head(first: &str, fields: &[(String, String)], body: &Body) -> Vec<u8> {
    let mut text = format!("{first}\r\n");
    let line = |(name, value): &(String, String)| format!("{name}: {value}\r\n");
    // Fields of length stand between others.
    let (before, behind) = fields.split_at(fields.len() / 2);
    text.extend(before.iter().map(line));
    match body {
        Body::Length(bytes) => text += &format!("Content-Length:{}\r\n", bytes.len()),
        Body::Chunked(..) => text += "transfer-ENCODING: Chunked\t\r\n",
        Body::None | Body::UntilClose(_) => {}
    }
    text.extend(behind.iter().map(line));
    (text + "\r\n").into_bytes()
}

impl Built {
    fn add(&mut self, dir: usize, part: Part, bytes: &[u8]) {
        if !bytes.is_empty() || part == Part::End {
            append(&mut self.parts[dir], part, bytes);
        }
        self.bytes[dir].extend(bytes);
    }

    fn body(&mut self, dir: usize, body: &Body) {
        match body {
            Body::None => {}
            Body::Length(bytes) | Body::UntilClose(bytes) => self.add(dir, Part::Body, bytes),
            Body::Chunked(chunks, extension, trailer, big) => {
                let extension = ["", ";a", ";b=c", "; d = \"e;f\""][usize::from(*extension)];
                for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
                    let size = chunk.len();
                    let size = if *big { format!("{size:03X}") } else { format!("{size:x}") };
                    self.add(dir, Part::Framing, format!("{size}{extension}\r\n").as_bytes());
                    self.add(dir, Part::Body, chunk);
                    self.add(dir, Part::Framing, b"\r\n");
                }
                self.add(dir, Part::Framing, format!("0{extension}\r\n").as_bytes());
                let line = |(name, value): &(String, String)| format!("{name}:{value}\r\n");
                let fields: String = trailer.iter().map(line).collect();
                self.add(dir, Part::Trailer, format!("{fields}\r\n").as_bytes());
            }
        }
    }

    fn request(&mut self, one: &Exchange) {
        if one.has_blank {
            self.add(0, Part::Framing, b"\r\n");
        }
        let version = if one.is_old { "1.0" } else { "1.1" };
        let first = format!("{} /a?b={} HTTP/{version}\r\nHost: h", one.method, one.status);
        self.add(0, Part::Head, &head(&first, &one.fields, &one.body));
        self.body(0, &one.body);
        self.add(0, Part::End, b"");
    }

    fn response(&mut self, one: &Exchange) {
        for status in ["100 Continue", "103 "].iter().take(usize::from(one.interim)) {
            self.add(1, Part::Head, &head(&format!("HTTP/1.1 {status}"), &[], &Body::None));
            self.add(1, Part::End, b"");
        }
        let version = if one.is_old { "1.0" } else { "1.1" };
        let first = format!("HTTP/{version} {} So it is", one.status);
        let declared = if one.status == 204 { &Body::None } else { &one.answer };
        self.add(1, Part::Head, &head(&first, &one.answer_fields, declared));
        if !one.is_bare() {
            self.body(1, &one.answer);
        }
        self.add(1, Part::End, b"");
    }

    fn switch(&mut self, switch: &Switch) {
        let (first, answer) = if switch.is_connect {
            ("CONNECT h:1 HTTP/1.1\r\nHost: h:1", "HTTP/1.1 200 ")
        } else {
            ("GET / HTTP/1.1\r\nUpgrade: x\r\nHost: h", "HTTP/1.1 101 Now")
        };
        self.add(0, Part::Head, &head(first, &[], &Body::None));
        self.add(0, Part::End, b"");
        self.answers.push((self.bytes[0].len(), self.bytes[1].len()));
        self.add(1, Part::Head, &head(answer, &[], &Body::None));
        self.switched = Some((self.bytes[0].len(), self.bytes[1].len()));
        for (dir, bytes) in switch.then.iter().enumerate() {
            self.add(dir, Part::Opaque, bytes);
        }
    }
}

impl Script {
    /// Its bytes.
    pub fn build(&self) -> Built {
        let mut built = Built::default();
        for one in &self.exchanges {
            built.request(one);
            built.answers.push((built.bytes[0].len(), built.bytes[1].len()));
            built.response(one);
        }
        if let Some(switch) = &self.switch {
            built.switch(switch);
        }
        built
    }
}
