//! The life of a session: its state according to its packets, and its timeouts.
//!
//! All that is remembered are eight bits, each set by a packet of one direction: so the two threads
//! that may serve the two directions only ever add bits.

use crate::fcb::Direction;
use crate::tcp_flags::{TCP_ACK, TCP_FIN, TCP_RST, TCP_SYN, UNSOUND};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Life(pub u8);

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Packets of one direction only, or a TCP handshake that is not complete: embryonic.
    New = 0,
    /// Both directions have spoken.
    Open = 1,
    /// TCP: one side has sent FIN.
    Closing = 2,
    /// TCP: both sides have sent FIN, or one a RST.
    Closed = 3,
}

/// The protocol group that decides a session's timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    Tcp = 0,
    /// UDP.
    Udp = 1,
    /// Queries of ICMP.
    Icmp = 2,
    /// All others, and sessions that several protocols share.
    Other = 3,
}

impl Life {
    const REPLIED: u8 = 1 << 0;
    /// TCP: the opening side has acknowledged the reply.
    const CONFIRMED: u8 = 1 << 1;
    const FIN_FORWARD: u8 = 1 << 2;
    const FIN_REPLY: u8 = 1 << 3;
    const RESET: u8 = 1 << 4;
    /// TCP: its first packet was no SYN.
    const PICKED_UP: u8 = 1 << 5;
    const TRANSPORT_SHIFT: u8 = 6;

    /// For a session with a first packet of this protocol, with these TCP flags, in this direction:
    /// a reply if another thread has seen the session's beginning.
    pub fn begin(protocol: u8, tcp_flags: u8, direction: Direction) -> Life {
        Life::fresh(protocol, tcp_flags).after(direction, tcp_flags)
    }

    /// The same before any effect of its first packet.
    pub fn fresh(protocol: u8, tcp_flags: u8) -> Life {
        let transport = match protocol {
            TCP => Transport::Tcp,
            UDP => Transport::Udp,
            1 | 58 => Transport::Icmp,
            _ => Transport::Other,
        };
        let life = Life((transport as u8) << Life::TRANSPORT_SHIFT);
        let midway = transport == Transport::Tcp && tcp_flags & TCP_SYN == 0;
        let picked_up = if midway { Life::PICKED_UP } else { 0 };
        Life(life.0 | picked_up)
    }

    /// For a session that one side alone can establish: one of one direction that has had more than
    /// one packet, or one that others link to.
    #[must_use]
    pub fn opened(self) -> Life {
        Life(self.0 | Life::REPLIED | Life::CONFIRMED)
    }

    /// TCP: whether it was not seen from its beginning.
    pub fn is_picked_up(self) -> bool {
        self.0 & Life::PICKED_UP != 0
    }

    /// Whether a packet came in the other direction than the first: of TCP, the end that opened it
    /// may take the connection for established.
    #[inline]
    pub fn is_replied(self) -> bool {
        self.0 & Life::REPLIED != 0
    }

    /// The protocol's sort.
    pub fn transport(self) -> Transport {
        match self.0 >> Life::TRANSPORT_SHIFT {
            0 => Transport::Tcp,
            1 => Transport::Udp,
            2 => Transport::Icmp,
            _ => Transport::Other,
        }
    }

    /// The protocol, if its sort implies it.
    pub fn protocol(self, is_ipv6: bool) -> Option<u8> {
        match self.transport() {
            Transport::Tcp => Some(TCP),
            Transport::Udp => Some(UDP),
            Transport::Icmp => Some(if is_ipv6 { 58 } else { 1 }),
            Transport::Other => None,
        }
    }

    /// After one more packet. `tcp_flags` are ignored unless it is TCP.
    #[inline]
    #[must_use]
    pub fn after(self, direction: Direction, tcp_flags: u8) -> Life {
        let mut bits = self.0;
        if direction == Direction::Reply {
            bits |= Life::REPLIED;
        }
        if bits >> Life::TRANSPORT_SHIFT == Transport::Tcp as u8 {
            let forward = direction == Direction::Forward;
            if forward && bits & Life::REPLIED != 0 && tcp_flags & (TCP_ACK | TCP_SYN) == TCP_ACK {
                bits |= Life::CONFIRMED;
            }
            if tcp_flags & TCP_FIN != 0 {
                bits |= if forward { Life::FIN_FORWARD } else { Life::FIN_REPLY };
            }
            if tcp_flags & TCP_RST != 0 {
                bits |= Life::RESET;
            }
        }
        Life(bits)
    }

    /// Where it is.
    #[inline]
    pub fn phase(self) -> Phase {
        const FINS: u8 = Life::FIN_FORWARD | Life::FIN_REPLY;
        let tcp = self.0 >> Life::TRANSPORT_SHIFT == Transport::Tcp as u8;
        let open = if tcp { Life::REPLIED | Life::CONFIRMED } else { Life::REPLIED };
        if self.0 & Life::RESET != 0 || self.0 & FINS == FINS {
            Phase::Closed
        } else if self.0 & FINS != 0 {
            Phase::Closing
        } else if self.0 & open == open {
            Phase::Open
        } else {
            Phase::New
        }
    }

    /// Whether a packet that carries these flags begins another session under the same key: a SYN
    /// alone after the last one was closed (RFC 9293 section 3.6.1).
    #[inline]
    pub fn begins_anew(self, tcp_flags: u8) -> bool {
        let syn = tcp_flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN | UNSOUND) == TCP_SYN;
        syn && self.transport() == Transport::Tcp && self.phase() == Phase::Closed
    }
}

/// How long sessions without packets are kept, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// By [`Transport`], then by [`Phase`].
    pub seconds: [[u32; 4]; 4],
}

impl Default for Timeouts {
    /// TCP: RFC 5382 section 5 (2 h 4 min open, 4 min in transition, embryonic less). UDP: RFC 4787
    /// section 4.3 (5 min; 2 min at least). ICMP: RFC 5508 section 3.2 (60 s).
    fn default() -> Timeouts {
        Timeouts {
            seconds: [
                [30, 7440, 240, 10],
                [120, 300, 300, 300],
                [60, 60, 60, 60],
                [60, 600, 600, 600],
            ],
        }
    }
}

impl Timeouts {
    /// How long a session of this life is kept.
    #[inline]
    pub fn of(&self, life: Life) -> u32 {
        self.seconds[life.transport() as usize][life.phase() as usize]
    }
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// No packet for too long.
    TimedOut,
    /// Its protocol closed it (RST, FIN in both directions), or a new one began under its key.
    Closed,
    /// Another needed its place.
    Evicted,
    /// By a handler, or a new configuration has no place for it.
    Removed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Forward, Reply};

    #[test]
    fn a_tcp_connection_lives_and_dies() {
        let life = Life::begin(6, TCP_SYN, Forward);
        assert_eq!((life.phase(), life.transport()), (Phase::New, Transport::Tcp));
        let life = life.after(Forward, TCP_SYN).after(Reply, TCP_SYN | TCP_ACK);
        assert_eq!(life.phase(), Phase::New);
        let life = life.after(Forward, TCP_ACK);
        assert_eq!(life.phase(), Phase::Open);
        assert!(!life.begins_anew(TCP_SYN));
        let life = life.after(Reply, TCP_FIN | TCP_ACK);
        assert_eq!(life.phase(), Phase::Closing);
        let life = life.after(Forward, TCP_FIN | TCP_ACK);
        assert_eq!(life.phase(), Phase::Closed);
        assert!(life.begins_anew(TCP_SYN) && !life.begins_anew(TCP_SYN | TCP_ACK));
    }

    #[test]
    fn a_scan_stays_embryonic() {
        let refused = Life::begin(6, TCP_SYN, Forward).after(Reply, TCP_RST | TCP_ACK);
        assert_eq!(refused.phase(), Phase::Closed);
        let flood =
            (0..9).fold(Life::begin(6, TCP_SYN, Forward), |life, _| life.after(Forward, TCP_SYN));
        assert_eq!(flood.phase(), Phase::New);
    }

    #[test]
    fn others_are_open_once_answered() {
        for (protocol, transport) in [
            (17, Transport::Udp),
            (1, Transport::Icmp),
            (58, Transport::Icmp),
            (47, Transport::Other),
        ] {
            let life = Life::begin(protocol, 0xff, Forward);
            assert_eq!((life.phase(), life.transport()), (Phase::New, transport));
            assert_eq!(life.after(Reply, 0xff).phase(), Phase::Open);
        }
        let timeouts = Timeouts::default();
        assert_eq!(timeouts.of(Life::begin(17, 0, Forward)), 120);
        assert_eq!(timeouts.of(Life::begin(17, 0, Forward).after(Reply, 0)), 300);
    }
}
