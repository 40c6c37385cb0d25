//! What the messages of a function mean, and in which order they may come.

use thruway_nf_abi::features::Features;
use thruway_nf_abi::message::{Head, Hello, Kind, Wake};
use thruway_nf_abi::stream_need;

/// A stranger's text for people: printable, and not too long.
pub(crate) fn plain(bytes: &[u8]) -> String {
    const KEPT: usize = 16 << 10;
    let text = String::from_utf8_lossy(bytes.get(..KEPT).unwrap_or(bytes));
    let harmless = |c: char| if c.is_control() && !"\n\t".contains(c) { '\u{fffd}' } else { c };
    text.chars().map(harmless).collect()
}

/// Why a function that does `does` to streams cannot stand where `may` is allowed; bits of
/// [`stream_need`].
pub(crate) fn misfit(may: u32, does: u32) -> Option<&'static str> {
    match (may & stream_need::STREAM != 0, does & stream_need::STREAM != 0) {
        (false, true) => Some(
            "it is a function of streams: say what it does, STREAM order, guard, change or resize",
        ),
        (true, false) => Some("it is a function of packets: leave STREAM out"),
        _ if does & !may == 0 => None,
        _ => Some(
            "it does more to streams than STREAM allows: order reads, guard decides what the \
             receiver gets, change keeps the length, resize does all",
        ),
    }
}

/// Why a function cannot be so many Workers.
pub(crate) fn too_many_workers(workers: u32, hello: &Hello, in_force: Features) -> Option<String> {
    if workers <= 1 {
        return None;
    }
    if !in_force.contains(Features::WORKERS) {
        return Some(format!(
            "it is one Worker, and its element says WORKERS {workers}: build it with run_workers \
             (in C thruway_run_workers) of this Thruway's library, or leave WORKERS out"
        ));
    }
    let waits_for_more = hello.wake != Wake::Futex;
    waits_for_more.then(|| {
        format!(
            "it waits for other descriptors, which is for one Worker, and its element says WORKERS \
             {workers}: leave WORKERS out"
        )
    })
}

/// Where the handshake stands, and what a message means there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Handshake {
    #[default]
    AwaitsHello,
    AwaitsReady,
    Done,
}

/// What a message means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It wants to attach: answer with WELCOME or REFUSED.
    Hello(Hello),
    /// It begins.
    Ready,
    /// It cannot begin, and why.
    Failed(String),
    /// An answer to a request.
    Reply { id: u32, answer: Result<String, String> },
}

impl Handshake {
    /// Takes in a message.
    ///
    /// # Errors
    /// Why the function is not to be trusted further, for people.
    pub fn on(&mut self, head: Head, body: &[u8]) -> Result<Meaning, String> {
        match (*self, head.kind) {
            (Handshake::AwaitsHello, Kind::Hello) => {
                let hello = Hello::parse(head, body).map_err(|error| error.to_string())?;
                *self = Handshake::AwaitsReady;
                Ok(Meaning::Hello(hello))
            }
            (_, Kind::Hello) => {
                Err("it attached twice: a program calls the library's run() once, \
                                     and forks no other that does"
                    .into())
            }
            (Handshake::AwaitsReady, Kind::Ready) => {
                *self = Handshake::Done;
                Ok(Meaning::Ready)
            }
            (Handshake::AwaitsReady, Kind::Failed) => Ok(Meaning::Failed(plain(body))),
            (Handshake::Done, Kind::Reply) => {
                Ok(Meaning::Reply { id: head.id, answer: Ok(plain(body)) })
            }
            (Handshake::Done, Kind::Error) => {
                Ok(Meaning::Reply { id: head.id, answer: Err(plain(body)) })
            }
            (_, kind) => Err(format!("it sent {kind:?} where it does not belong")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_nf_abi::features::Offer;
    use thruway_nf_abi::message::Wake;

    fn head(kind: Kind) -> Head {
        Head::new(kind, 3)
    }

    #[test]
    fn functions_of_streams_stand_where_they_may() {
        let stream = stream_need::STREAM;
        for (may, does, fits) in [
            (0, 0, true),
            (stream | 7, stream | 5, true),
            (stream | 7, stream | 8, false),
            (stream | 7, 0, false),
            (0, stream, false),
        ] {
            assert_eq!(misfit(may, does).is_none(), fits, "{may:x} {does:x}");
        }
    }

    #[test]
    fn one_that_is_one_worker_is_not_several() {
        let hello = |wake| Hello {
            wake,
            outputs: 1,
            scratch_len: 0,
            stream: 0,
            offer: Offer::ALL,
            name: [0; 32],
        };
        let (futex, other) = (hello(Wake::Futex), hello(Wake::Eventfd));
        let old = Features::ROLES;
        assert!(too_many_workers(1, &other, old).is_none());
        assert!(too_many_workers(3, &futex, Features::ALL).is_none());
        let why = too_many_workers(3, &futex, old).unwrap();
        assert!(why.contains("WORKERS 3") && why.contains("leave WORKERS out"), "{why}");
        let why = too_many_workers(2, &other, Features::ALL).unwrap();
        assert!(why.contains("other descriptors"), "{why}");
    }

    #[test]
    fn the_handshake_goes_one_way_once() {
        let hello = Hello {
            wake: Wake::Futex,
            outputs: 1,
            scratch_len: 0,
            stream: 0,
            offer: Offer::ALL,
            name: [0; 32],
        };
        let mut handshake = Handshake::default();
        assert!(handshake.on(head(Kind::Ready), b"").is_err());
        let bytes = hello.to_bytes();
        assert_eq!(handshake.on(hello.head(), &bytes), Ok(Meaning::Hello(hello)));
        let twice = handshake.on(head(Kind::Hello), &bytes).unwrap_err();
        assert!(twice.contains("attached twice"), "{twice}");
        assert!(handshake.on(head(Kind::Reply), b"").is_err());
        assert_eq!(handshake.on(head(Kind::Ready), b""), Ok(Meaning::Ready));
        let answer = Meaning::Reply { id: 3, answer: Ok("5\u{fffd}".into()) };
        assert_eq!(handshake.on(head(Kind::Reply), b"5\x1b"), Ok(answer));
        assert!(handshake.on(head(Kind::Welcome), b"").is_err());
    }

    proptest! {
        /// Any bytes from a function are a message or not, and mean something or not.
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200), valid: bool) {
            let mut bytes = bytes;
            if valid && bytes.len() >= Head::LEN {
                let kind = if bytes[23] % 2 == 0 { Kind::Hello } else { Kind::Reply };
                bytes[..Head::LEN].copy_from_slice(&head(kind).to_bytes());
            }
            if let Ok((head, body)) = Head::parse(&bytes) {
                for mut at in [Handshake::AwaitsHello, Handshake::AwaitsReady, Handshake::Done] {
                    let _ = at.on(head, body);
                }
            }
        }
    }
}
