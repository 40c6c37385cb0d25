//! Random and mutated bytes: fuzzing that needs no fuzzer and no luck, as the seed is fixed.

use crate::any_bodies::any_bodies;
use crate::any_bytes::any_bytes;
use crate::packers::{brotli_plain, gzip, raw, zlib, zstd};

/// Inputs of each sort.
const RANDOM: usize = 20_000;
const MUTATED: usize = 60_000;

/// Random numbers, and what is made of them.
pub struct Random(thruway_random::Random);

impl Random {
    pub fn from_seed(seed: u64) -> Random {
        Random(thruway_random::Random::from_seed(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0.index(bound)
    }

    /// Something that has a meaning in messages.
    fn word(&mut self) -> &'static [u8] {
        const WORDS: [&[u8]; 22] = [
            b"\r\n",
            b"\r\n\r\n",
            b"\n",
            b"\r",
            b" ",
            b"\t",
            b":",
            b";",
            b",",
            b"0",
            b"1",
            b"a\r\n",
            b"GET / HTTP/1.1\r\n",
            b"HTTP/1.1 200 OK\r\n",
            b"Host: h\r\n",
            b"Content-Length: ",
            b"Transfer-Encoding: chunked\r\n",
            b"Upgrade: x\r\n",
            b"HEAD * HTTP/1.0\r\n",
            b"CONNECT a:1 HTTP/1.1\r\n",
            b"HTTP/1.0 101 x\r\n",
            b"\0",
        ];
        WORDS[self.below(WORDS.len())]
    }

    pub fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len() + 1);
            match self.below(4) {
                0 => bytes.truncate(at),
                1 => drop(bytes.splice(at..at, self.word().iter().copied())),
                2 if at < bytes.len() => drop(bytes.remove(at)),
                _ if at < bytes.len() => bytes[at] = self.next() as u8,
                _ => bytes.push(self.next() as u8),
            }
        }
    }
}

/// Connections on which nothing is wrong.
pub fn connection(random: &mut Random) -> [&'static [u8]; 2] {
    match random.below(4) {
        0 => [
            b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nA: b\r\n\r\nabc",
        ],
        1 => [
            b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\r\n",
            b"HTTP/1.1 100 \r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na;b\r\n0123456789\r\n0\r\nC: d\r\n\r\n",
        ],
        2 => [
            b"HEAD http://1.1.1.1/ HTTP/1.1\r\nHost: 1.1.1.1\r\n\r\nGET / HTTP/1.0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nHTTP/1.0 200 OK\r\n\r\nto the end",
        ],
        _ => [
            b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: x\r\n\r\n",
            b"HTTP/1.1 101 Now\r\n\r\nno HTTP at all",
        ],
    }
}

/// Policy, where responses begin, steps, and such a connection.
fn seed(random: &mut Random) -> Vec<u8> {
    let streams = connection(random);
    let len = streams[0].len() + streams[1].len();
    let part = (streams[0].len() * 256).div_ceil(len) as u8;
    let front = [random.next() as u8, part, random.next() as u8];
    [&front[..], streams[0], streams[1]].concat()
}

#[test]
fn random_bytes() {
    let mut random = Random::from_seed(0x9e37_79b9_7f4a_7c15);
    for _ in 0..RANDOM {
        let mut bytes: Vec<u8> = (0..4).map(|_| random.next() as u8).collect();
        for _ in 0..random.below(24) {
            bytes.extend(random.word());
        }
        any_bytes(&bytes);
    }
}

#[test]
fn mutated_connections() {
    let mut random = Random::from_seed(0x2545_f491_4f6c_dd1d);
    for _ in 0..MUTATED {
        let mut bytes = seed(&mut random);
        random.mutate(&mut bytes);
        any_bytes(&bytes);
    }
}

#[test]
fn bodies_unpack_alike_in_any_steps() {
    let mut random = Random::from_seed(0x9e37_79b9_7f4a_7c15);
    let text = b"the word is not the word that was the word".repeat(20);
    let packed = [gzip(&text), zlib(&text), raw(&text), brotli_plain(&text), zstd(&text)];
    for round in 0..MUTATED / 20 {
        let coding = [0, 1, 1, 2, 3][round % packed.len()];
        let mut body = packed[round % packed.len()].clone();
        random.mutate(&mut body);
        any_bodies(&[&[coding, random.next() as u8][..], &body].concat());
    }
}
