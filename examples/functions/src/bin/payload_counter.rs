//! Counts the bytes that connections carry, and the most of one connection.
//!
//! `... ~> TCPIn -> Nf(EXEC "payload_counter", STREAM order) -> TCPOut ...`
#![forbid(unsafe_code)]

use std::process::ExitCode;

use thruway_nf::{Counter, Needs, Next, StreamCursor, StreamFunction};

struct PayloadCounter {
    bytes: [Counter; 2],
    most: Counter,
}

impl StreamFunction for PayloadCounter {
    type State = [u64; 2];
    const NEEDS: Needs = Needs::ORDER;

    fn process(&mut self, counts: &mut [u64; 2], data: &mut StreamCursor<'_>) -> Next {
        let (direction, bytes) = (data.direction(), data.remaining() as u64);
        self.bytes[direction].add(bytes);
        counts[direction] += bytes;
        self.most.set(self.most.get().max(counts[0] + counts[1]));
        Next::Continue
    }
}

fn main() -> ExitCode {
    thruway_nf::run_stream("payload-counter", |start| {
        let bytes = ["bytes-out", "bytes-back"].map(|name| start.counter(name));
        Ok(PayloadCounter { bytes, most: start.counter("bytes-most") })
    })
}
