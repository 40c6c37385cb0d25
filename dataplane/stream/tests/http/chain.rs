//! A chain for one connection: the beginning of the context, a function, its end.

use proptest::prelude::*;
use thruway_packet::Packet;
use thruway_payload::{Content, Layer, Next, StreamCursor, flag};
use thruway_stream::content::HasContent;
use thruway_stream::http::{
    Asks, Enter, EnterState, Kind, Leave, LeaveState, OnEncoded, OnRefused, Rules, Settings, Shown,
};
use thruway_stream::stage::{Hold, Memory, Stage};

const FIN: u8 = 1;
const ACK: u8 = 0x10;

/// A segment as TCPIn hands it on, over Ethernet.
fn segment(seq: u32, flags: u8, payload: &[u8]) -> Packet {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend((payload.len() as u16 + 40).to_be_bytes());
    frame.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([3, 232, 0, 80]);
    frame.extend(seq.to_be_bytes());
    frame.extend([0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    frame.extend(payload);
    let mut packet = Packet::new(&frame).expect("packet memory");
    packet.set_mac_offset(0);
    packet.set_network(14, 20);
    packet.set_fcb(7);
    let mut mark = Content::new(Layer::Tcp, 40, payload.len() as u16);
    mark.flags = if flags & FIN != 0 { flag::LAST } else { 0 };
    mark.conn = 3;
    packet.set_content_mark(mark);
    packet
}

fn seq_of(packet: &Packet) -> u32 {
    u32::from_be_bytes(packet.data()[38..42].try_into().unwrap())
}

/// What stands between the beginning and the end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Edit {
    /// Nothing: framing is left as it is.
    Look,
    /// Every `a` becomes `*`, in place.
    Mask,
    /// Every `ab` becomes something else.
    Replace(&'static [u8]),
    /// Everything is held back until the message ends, and `!` follows it.
    Append,
}

impl Edit {
    pub fn resizes(self) -> bool {
        matches!(self, Edit::Replace(_) | Edit::Append)
    }

    /// Changes every `a` where it is.
    fn mask(data: &mut StreamCursor<'_>) -> Next {
        while let Some(byte) = data.next() {
            if byte == b'a' {
                data.mask_back(1, b'*');
            }
        }
        Next::Continue
    }

    fn process(self, data: &mut StreamCursor<'_>) -> Next {
        let with = match self {
            Edit::Look => return Next::Continue,
            Edit::Append if data.is_last() => {
                data.skip_all();
                data.insert(b"!");
                return Next::Continue;
            }
            Edit::Append => return Next::NeedMore,
            Edit::Mask => return Edit::mask(data),
            Edit::Replace(with) => with,
        };
        let mut last = 0;
        while let Some(byte) = data.next() {
            if last == b'a' && byte == b'b' {
                data.replace_back(2, with);
                last = 0;
            } else {
                last = byte;
            }
        }
        if last == b'a' && !data.is_last() {
            data.back(1);
            return Next::NeedMore;
        }
        Next::Continue
    }

    /// The same to a whole body.
    pub fn plainly(self, body: &[u8]) -> Vec<u8> {
        let with = match self {
            Edit::Look => return body.to_vec(),
            Edit::Append => return [body, b"!"].concat(),
            Edit::Mask => return body.iter().map(|b| if *b == b'a' { b'*' } else { *b }).collect(),
            Edit::Replace(with) => with,
        };
        let (mut out, mut at) = (Vec::new(), 0);
        while at < body.len() {
            let is_word = body[at..].starts_with(b"ab");
            out.extend_from_slice(if is_word { with } else { &body[at..=at] });
            at += if is_word { 2 } else { 1 };
        }
        out
    }
}

/// A chain for one connection.
pub struct Chain {
    pub enter: Enter,
    entered: (Memory, EnterState),
    pub stage: Stage,
    kept: Memory,
    pub edit: Edit,
    pub leave: Leave,
    left: (Memory, LeaveState),
    next: [u32; 2],
    /// What a function that only looks was shown, each message's head, body and the rest for
    /// itself.
    pub shown: Vec<(Kind, Vec<u8>)>,
    /// What left, in order.
    pub out: Vec<(Kind, Packet)>,
}

impl Chain {
    pub fn new(edit: Edit, settings: Settings, hold_bytes: usize) -> Chain {
        let mut leave = Leave::new(hold_bytes, 128);
        leave.set_resize(edit.resizes());
        Chain {
            enter: Enter::new(Settings { resize: edit.resizes(), ..settings }),
            entered: Default::default(),
            stage: Stage::new(Hold::default()),
            kept: Memory::default(),
            edit,
            leave,
            left: Default::default(),
            next: [1000, 2000],
            shown: Vec::new(),
            out: Vec::new(),
        }
    }

    /// A segment goes through.
    pub fn send(&mut self, kind: Kind, payload: &[u8], fin: bool) {
        let dir = kind as usize;
        let packet = segment(self.next[dir], if fin { FIN | ACK } else { ACK }, payload);
        self.next[dir] += payload.len() as u32;
        let was_holding = self.enter.holding() > 0;
        let mut inside = Vec::new();
        let (memory, state) = &mut self.entered;
        self.enter.packet((memory, state), (dir, 1), packet, &mut inside);
        let mut rest = &mut inside[..];
        while !rest.is_empty() {
            let pairs = rest.windows(2).take_while(|pair| Stage::continues(&pair[0], &pair[1]));
            let n = if rest[0].content_mark().is_shown() { pairs.count() + 1 } else { 1 };
            let (run, behind) = rest.split_at_mut(n);
            if run[0].content_mark().is_shown() {
                let edit = self.edit;
                check_heads(run);
                note(&mut self.shown, kind, run);
                let mut show = |data: &mut StreamCursor<'_>| edit.process(data);
                self.stage.run(&mut self.kept, run, (0, dir, 1), &mut show);
            }
            rest = behind;
        }
        let mut out = Vec::new();
        let (memory, state) = &mut self.left;
        let parts = inside.len();
        for packet in inside {
            self.leave.packet((memory, state), (dir, 1), packet, &mut out);
        }
        let reframes = self.edit.resizes() || self.enter.settings().looks;
        if !reframes && !was_holding && self.enter.holding() == 0 {
            // Parts of what was one packet are one again.
            assert_eq!(out.len(), 1, "of {parts}");
        }
        self.out.extend(out.into_iter().map(|packet| (kind, packet)));
    }

    /// Payloads that left in a direction.
    pub fn bytes(&self, kind: Kind) -> Vec<u8> {
        let these = self.out.iter().filter(|(of, _)| *of == kind);
        these.flat_map(|(_, packet)| packet.content().to_vec()).collect()
    }

    pub fn is_closed(&self) -> bool {
        self.out.iter().any(|(_, packet)| packet.content_mark().has(flag::CLOSE))
    }

    /// What TCP counts on: numbers follow each other, nothing is lost, the end is the last.
    pub fn check_packets(&self, kind: Kind, fin: bool) -> Result<(), TestCaseError> {
        let mut at = [1000, 2000][kind as usize];
        let these: Vec<&Packet> =
            self.out.iter().filter(|(of, _)| *of == kind).map(|(_, packet)| packet).collect();
        for (index, packet) in these.iter().enumerate() {
            let mark = packet.content_mark();
            let is_last = fin && index + 1 == these.len();
            prop_assert_eq!((mark.layer(), mark.conn, packet.fcb()), (Layer::Tcp, 3, 7));
            prop_assert_eq!((mark.start, mark.suffix), (40, 0));
            prop_assert_eq!(mark.has(flag::LAST), is_last);
            prop_assert!(!mark.has(flag::HEAD | flag::FIRST | flag::LATE));
            prop_assert_eq!(packet.data()[47] & FIN != 0 && mark.has(flag::LAST), is_last);
            if mark.took > 0 || is_last {
                prop_assert_eq!(seq_of(packet), at);
            }
            at += u32::from(mark.took);
        }
        prop_assert_eq!(at, self.next[kind as usize]);
        Ok(())
    }
}

/// Notes what is shown.
fn note(shown: &mut Vec<(Kind, Vec<u8>)>, kind: Kind, run: &[Packet]) {
    for packet in run {
        if packet.content_mark().has(flag::FIRST) || shown.last().is_none_or(|(of, _)| *of != kind)
        {
            shown.push((kind, Vec::new()));
        }
        if let Some((_, bytes)) = shown.last_mut() {
            bytes.extend_from_slice(packet.content());
        }
    }
}

/// A head is whole where it is said to be there.
fn check_heads(run: &[Packet]) {
    for packet in run {
        let mark = packet.content_mark();
        if mark.has(flag::HEAD) {
            let head = &packet.data()[54..packet.content_range().start];
            assert!(mark.has(flag::FIRST) && head.ends_with(b"\n"));
            assert!(head.windows(7).any(|bytes| bytes == b"HTTP/1."));
        }
    }
}

pub fn settings() -> Settings {
    Settings {
        rules: Rules::STRICT,
        shown: Shown::parse(Shown::TEXT).unwrap(),
        resize: false,
        asks: Asks::default(),
        looks: false,
        encoded: OnEncoded::Pass,
        on_refused: OnRefused::Close,
    }
}
