//! Messages on the control socket (SOCK_SEQPACKET, one message a datagram): a head, then a body.
//!
//! | kind | from | body | descriptors |
//! |---|---|---|---|
//! | HELLO | Worker | [`Hello`], its [features](crate::features) in the head | |
//! | WELCOME | host | [`Welcome`], features in force in the head, then [roles](role_names) | in order: the control regions, one for each Worker (by [`Welcome::workers`]); the Worker's end of its wake-up line if it asked for one; the group's region if tokens are descriptors; the arena if it asked for scratch and there are sessions; then per link its region and the Worker's end of the line that wakes the Master |
//! | REFUSED | host | text for people | |
//! | CONFIGURE | host | text: what the function is configured with (a `thruway worker`'s graph) | |
//! | READY | Worker | | |
//! | FAILED | Worker | text for people: why it cannot begin | |
//! | READ, WRITE | host | text: `handler parameter` | |
//! | REPLY, ERROR | Worker | text | |
//!
//! HELLO, then WELCOME or REFUSED, then any CONFIGURE, then READY or FAILED; then requests with
//! their replies, matched by `id`, until either side closes. After a request the host changes
//! [`REQUESTS`](crate::control::REQUESTS) and rings the Worker's bell.
//!
//! The head of a message, that HELLO comes first, and REFUSED with its text are the same in all
//! versions, so that two sides that do not understand each other can say so.

use crate::features::{Features, Offer};
use crate::{MAGIC, OLDEST_VERSION, VERSION, stream_need};

/// Descriptor number of the control socket in the Worker.
pub const SOCKET_FD: i32 = 3;

/// Largest message, head included, bytes.
pub const LEN_MAX: usize = 64 << 10;

/// Most links (Master threads) of a Worker: a message carries at most 253 descriptors.
pub const LINKS_MAX: u32 = 120;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the table above")]
pub enum Kind {
    Hello = 1,
    Welcome = 2,
    Refused = 3,
    Configure = 4,
    Ready = 5,
    Failed = 6,
    Read = 7,
    Write = 8,
    Reply = 9,
    Error = 10,
}

impl Kind {
    const ALL: [Kind; 10] = [
        Kind::Hello,
        Kind::Welcome,
        Kind::Refused,
        Kind::Configure,
        Kind::Ready,
        Kind::Failed,
        Kind::Read,
        Kind::Write,
        Kind::Reply,
        Kind::Error,
    ];
}

/// The first bytes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// What it is.
    pub kind: Kind,
    /// Matches a reply to its request.
    pub id: u32,
    /// Of HELLO and WELCOME: see [`features`](crate::features); 0 in others.
    pub features: u32,
}

/// Why bytes are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// Fewer bytes than the message has.
    Short,
    /// Not a message of Thruway.
    Magic,
    /// Another version of the interface: the peer's.
    Version(u32),
    /// No such kind, or a field with a value that it cannot have.
    Value,
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Malformed::Short => f.write_str("the message is too short"),
            Malformed::Magic => f.write_str("the message does not begin as one of Thruway"),
            Malformed::Version(other) => write!(
                f,
                "it speaks version {other} of the function interface, {} than version {VERSION} of \
                 this side: rebuild the function with the library of the Thruway that runs it, or \
                 run it with the Thruway that its library is from",
                if *other > VERSION { "later" } else { "earlier" }
            ),
            Malformed::Value => f.write_str("a field has a value that it cannot have"),
        }
    }
}

impl core::error::Error for Malformed {}

fn word(bytes: &[u8], at: usize) -> Result<u32, Malformed> {
    let word = bytes.get(at..at + 4).ok_or(Malformed::Short)?;
    Ok(u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

fn words<const N: usize>(bytes: &[u8]) -> Result<[u32; N], Malformed> {
    let mut words = [0; N];
    for (i, to) in words.iter_mut().enumerate() {
        *to = word(bytes, 4 * i)?;
    }
    Ok(words)
}

fn put_words(bytes: &mut [u8], words: &[u32]) {
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
}

impl Head {
    /// Bytes of a head: magic (8), version, kind, id, features.
    pub const LEN: usize = 24;

    /// Of a message without features.
    pub const fn new(kind: Kind, id: u32) -> Head {
        Head { kind, id, features: 0 }
    }

    /// As bytes.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        put_words(&mut bytes[8..], &[VERSION, self.kind as u32, self.id, self.features]);
        bytes
    }

    /// The head of a message, and its body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(message: &[u8]) -> Result<(Head, &[u8]), Malformed> {
        let (head, body) = message.split_at_checked(Self::LEN).ok_or(Malformed::Short)?;
        let (magic, rest) = head.split_at(8);
        if magic != MAGIC.to_le_bytes() {
            return Err(Malformed::Magic);
        }
        let [version, kind, id, features] = words::<4>(rest)?;
        // Why the other side does not want this one can be read from any version.
        if !(OLDEST_VERSION..=VERSION).contains(&version) && kind != Kind::Refused as u32 {
            return Err(Malformed::Version(version));
        }
        let kind = Kind::ALL.into_iter().find(|k| *k as u32 == kind).ok_or(Malformed::Value)?;
        Ok((Head { kind, id, features }, body))
    }
}

/// How a Worker waits to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Wake {
    /// A futex on the status word.
    Futex = 0,
    /// A descriptor that becomes readable, for a Worker that waits for other descriptors too.
    Eventfd = 1,
}

/// What a Worker declares of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// How it is to be woken.
    pub wake: Wake,
    /// Outputs that it uses: the element must have as many.
    pub outputs: u32,
    /// Bytes of scratch per session; 0 for none.
    pub scratch_len: u32,
    /// Of a function of streams what it does: see [`stream_need`]; 0 of one
    /// of packets.
    pub stream: u32,
    /// Features that it knows and needs; in the head of its HELLO.
    pub offer: Offer,
    /// Its name for people, NUL-padded UTF-8.
    pub name: [u8; 32],
}

impl Hello {
    /// Bytes of the body.
    pub const LEN: usize = 48;

    /// The head of its message.
    pub const fn head(&self) -> Head {
        Head { features: self.offer.to_word(), ..Head::new(Kind::Hello, 0) }
    }

    /// The body as bytes.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        put_words(&mut bytes, &[self.wake as u32, self.outputs, self.scratch_len, self.stream]);
        bytes[16..].copy_from_slice(&self.name);
        bytes
    }

    /// A message, checked.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(head: Head, body: &[u8]) -> Result<Hello, Malformed> {
        let [wake, outputs, scratch_len, stream] = words::<4>(body)?;
        let wake = match wake {
            0 => Wake::Futex,
            1 => Wake::Eventfd,
            _ => return Err(Malformed::Value),
        };
        let is_need = stream & !(stream_need::STREAM | stream_need::ALL) == 0;
        if outputs > 256 || scratch_len > 1 << 20 || !is_need {
            return Err(Malformed::Value);
        }
        let name = body.get(16..Self::LEN).ok_or(Malformed::Short)?;
        let name = name.try_into().map_err(|_| Malformed::Short)?;
        let offer = Offer::from_word(head.features);
        Ok(Hello { wake, outputs, scratch_len, stream, offer, name })
    }

    /// The name as text, as far as it is text.
    pub fn name(&self) -> &str {
        let len = self.name.iter().position(|&b| b == 0).unwrap_or(self.name.len());
        core::str::from_utf8(&self.name[..len]).unwrap_or("?")
    }

    /// A name cut to what fits.
    pub fn name_from(text: &str) -> [u8; 32] {
        let mut name = [0; 32];
        let mut len = text.len().min(32);
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        name[..len].copy_from_slice(&text.as_bytes()[..len]);
        name
    }
}

/// How a Worker behaves when no tokens wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum WaitMode {
    /// It sleeps at once (the paper's).
    Block = 0,
    /// It never sleeps.
    Poll = 1,
    /// It looks for `spin_ns`, then sleeps.
    Hybrid = 2,
}

/// What the host answers: what the descriptors are and how to behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    /// Links, one per Master thread: 1 to [`LINKS_MAX`].
    pub links: u32,
    /// Inputs and outputs of the element.
    pub inputs: u32,
    /// See `inputs`.
    pub outputs: u32,
    /// What to do when nothing waits.
    pub wait: WaitMode,
    /// [`WaitMode::Hybrid`]: how long to look before sleeping, nanoseconds.
    pub spin_ns: u32,
    /// Slots after which the Worker publishes `W.prod` (WORKER_PKT_THRESHOLD); at least 1.
    pub worker_threshold: u32,
    /// Sessions that the arena has room for; 0 without an arena.
    pub sessions: u32,
    /// 1 when the group's region follows.
    pub has_group: bool,
    /// 1 when the Worker begins again after a failure: its arena holds what it had.
    pub restarted: bool,
    /// Features in force; in the head of its WELCOME.
    pub features: Features,
    /// Workers that share out the links, 1 to `links`: see [`worker_of`]. More than one only with
    /// [`Features::WORKERS`] in force; in the head of its WELCOME, less one.
    pub workers: u32,
}

/// The Worker that serves a link, of `workers` that share out `links` of them: links that follow
/// each other, so that each Worker's sessions are one part of the arena. No Worker has more than
/// one link more than another.
pub const fn worker_of(link: u32, links: u32, workers: u32) -> u32 {
    (link as u64 * workers as u64 / links as u64) as u32
}

/// The first link of a Worker, see [`worker_of`]; `links` for the Worker behind the last one.
pub const fn first_link_of(worker: u32, links: u32, workers: u32) -> u32 {
    (worker as u64 * links as u64).div_ceil(workers as u64) as u32
}

/// The roles that outputs lead to, from the body of a WELCOME: a name for each output, with a line
/// feed between two; empty for an output without a role. Hosts of earlier versions send none, and
/// Workers of earlier versions read none.
///
/// # Errors
/// [`Malformed`].
pub fn role_names(body: &[u8]) -> Result<&str, Malformed> {
    let names = body.get(Welcome::LEN..).ok_or(Malformed::Short)?;
    core::str::from_utf8(names).map_err(|_| Malformed::Value)
}

impl Welcome {
    /// Bytes of the body, but for the roles.
    pub const LEN: usize = 36;

    /// The head of its message.
    pub const fn head(&self) -> Head {
        let more = self.workers.saturating_sub(1) << 16;
        Head { features: self.features.bits() as u32 | more, ..Head::new(Kind::Welcome, 0) }
    }

    /// The body as bytes.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let words = [
            self.links,
            self.inputs,
            self.outputs,
            self.wait as u32,
            self.spin_ns,
            self.worker_threshold,
            self.sessions,
            u32::from(self.has_group),
            u32::from(self.restarted),
        ];
        put_words(&mut bytes, &words);
        bytes
    }

    /// A message, checked.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(head: Head, body: &[u8]) -> Result<Welcome, Malformed> {
        let [links, inputs, outputs, wait, spin_ns, worker_threshold, sessions, group, restarted] =
            words::<9>(body)?;
        let wait = match wait {
            0 => WaitMode::Block,
            1 => WaitMode::Poll,
            2 => WaitMode::Hybrid,
            _ => return Err(Malformed::Value),
        };
        let features = Features::from_bits(head.features as u16);
        let workers = (head.features >> 16) + 1;
        if workers > 1 && !features.contains(Features::WORKERS) || workers > links {
            return Err(Malformed::Value);
        }
        if links == 0 || links > LINKS_MAX || worker_threshold == 0 || group > 1 || restarted > 1 {
            return Err(Malformed::Value);
        }
        Ok(Welcome {
            links,
            inputs,
            outputs,
            wait,
            spin_ns,
            worker_threshold,
            sessions,
            has_group: group == 1,
            restarted: restarted == 1,
            features,
            workers,
        })
    }
}
