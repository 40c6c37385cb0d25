//! Which clients keep their places when all are taken: no user or host can lock others out.

use std::net::Ipv4Addr;

use thruway_port::socket::{Address, Connection};

/// Connections at a time.
const CONNECTIONS_MAX: usize = 64;
/// Connections of one peer.
const OF_ONE_MAX: usize = CONNECTIONS_MAX / 2;

/// Owner of a connection, according to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// Of a Unix socket, a user.
    User(u32),
    /// Of TCP another host; this one is one, whichever of its addresses is used.
    Host(Ipv4Addr),
    /// Not known.
    Unknown,
}

impl Peer {
    pub(super) fn of(connection: &Connection, from: Option<&Address>) -> Peer {
        match from {
            Some(Address::Inet(from)) if from.ip().is_loopback() => Peer::Host(Ipv4Addr::LOCALHOST),
            Some(Address::Inet(from)) => Peer::Host(*from.ip()),
            _ => connection.credentials().map_or(Peer::Unknown, |user| Peer::User(user.uid)),
        }
    }
}

/// A client's claim to its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim<W> {
    pub peer: Peer,
    /// It is in the midst of something.
    pub is_busy: bool,
    /// The greater the better.
    pub worth: W,
}

/// What a new client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Free,
    /// If the client of this index goes.
    InsteadOf(usize),
    None,
}

/// The place for another client of a peer.
///
/// Where all places are taken, a client of the peer that has most goes, if that is more than this
/// one has: an idle one, or a busy one if it has at least two more. Else, and where the peer has
/// all that one may have, an idle client of its own goes. Of those that may go it is the least
/// worthy.
pub(super) fn room_for<W: Ord + Copy>(peer: Peer, claims: &[Claim<W>]) -> Admission {
    let has = |peer: Peer| claims.iter().filter(|claim| claim.peer == peer).count();
    let own = has(peer);
    if own < OF_ONE_MAX && claims.len() < CONNECTIONS_MAX {
        return Admission::Free;
    }
    let most = match own {
        OF_ONE_MAX.. => own,
        _ => claims.iter().map(|claim| has(claim.peer)).max().unwrap_or(0),
    };
    let may_go = |claim: &Claim<W>| match claim.peer == peer {
        true => !claim.is_busy,
        false => has(claim.peer) == most && most > own + usize::from(claim.is_busy),
    };
    let least = claims
        .iter()
        .enumerate()
        .filter(|(_, claim)| may_go(claim))
        .min_by_key(|(_, claim)| (has(claim.peer) != most, claim.is_busy, claim.worth));
    least.map_or(Admission::None, |(at, _)| Admission::InsteadOf(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Peer = Peer::User(0);
    const OTHER: Peer = Peer::User(65_534);

    fn claims(peer: Peer, count: usize, is_busy: bool) -> Vec<Claim<usize>> {
        (0..count).map(|worth| Claim { peer, is_busy, worth }).collect()
    }

    #[test]
    fn a_peer_has_half_of_the_places_at_most() {
        let busy = claims(OTHER, OF_ONE_MAX, true);
        assert_eq!(room_for(OTHER, &busy), Admission::None);
        assert_eq!(room_for(OWN, &busy), Admission::Free);
        let mut idle = claims(OTHER, OF_ONE_MAX, false);
        assert_eq!(room_for(OTHER, &idle), Admission::InsteadOf(0));
        idle.extend(claims(OWN, 1, false));
        assert_eq!(room_for(OTHER, &idle), Admission::InsteadOf(0), "its own");
    }

    #[test]
    fn where_several_are_busy_the_greedy_make_room() {
        let mut all = claims(OTHER, OF_ONE_MAX, true);
        all.extend(claims(Peer::User(7), OF_ONE_MAX - 1, true));
        all.extend(claims(OWN, 1, false));
        assert_eq!(all.len(), CONNECTIONS_MAX);
        let some = Admission::InsteadOf(0);
        assert_eq!(room_for(Peer::User(9), &all), some, "of the peer with most connections");
        assert_eq!(room_for(OWN, &all), some, "before its own idle one");
        all[20].is_busy = false;
        assert_eq!(room_for(Peer::User(9), &all), Admission::InsteadOf(20), "an idle one first");
        // Without oscillation: a peer with as many, or one more, keeps its own.
        all[20].is_busy = true;
        assert_eq!(room_for(Peer::User(7), &all), Admission::None);
        assert_eq!(room_for(OTHER, &all), Admission::None);
    }

    #[test]
    fn many_peers_with_one_client_each_take_turns_where_idle() {
        let of = |user| Claim { peer: Peer::User(user), is_busy: false, worth: 100 - user };
        let mut all: Vec<_> = (0..CONNECTIONS_MAX as u32).map(of).collect();
        assert_eq!(room_for(Peer::User(999), &all), Admission::InsteadOf(CONNECTIONS_MAX - 1));
        all.iter_mut().for_each(|claim| claim.is_busy = true);
        assert_eq!(room_for(Peer::User(999), &all), Admission::None);
    }

    #[test]
    fn the_least_worthy_of_the_idle_goes() {
        let mut idle = claims(OTHER, OF_ONE_MAX, false);
        idle[3].worth = 0;
        idle[0].worth = 1;
        assert_eq!(room_for(OTHER, &idle), Admission::InsteadOf(3));
    }
}
