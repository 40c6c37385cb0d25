//! Pieces of whole connections, however their bytes come.

use proptest::prelude::*;
use thruway_stream::http::{Connection, Finish, Kind, Rules};

use crate::feeder::Feeder;
use crate::generate::{Built, script};

/// Delivers both directions in steps, each a direction and a number of bytes, as far as one may be
/// ahead of the other; what is left comes in large steps.
pub fn deliver(built: &Built, steps: &[(bool, usize)], mut each: impl FnMut(Kind, &[u8])) {
    let mut fed = [0, 0];
    let rest = [(false, usize::MAX), (true, usize::MAX)];
    for (is_response, most) in steps.iter().copied().chain(rest.into_iter().cycle().take(100)) {
        let dir = usize::from(is_response);
        let until = most.min(allowed(built, fed, dir) - fed[dir]) + fed[dir];
        let kind = [Kind::Request, Kind::Response][dir];
        each(kind, &built.bytes[dir][fed[dir]..until]);
        fed[dir] = until;
        if fed == [built.bytes[0].len(), built.bytes[1].len()] {
            return;
        }
    }
    panic!("it does not come to an end");
}

fn feed(feeder: &mut Feeder, built: &Built, steps: &[(bool, usize)]) {
    deliver(built, steps, |kind, bytes| {
        let all = String::from_utf8_lossy(&built.bytes[kind as usize]).into_owned();
        assert_eq!(feeder.feed(kind, bytes), Ok(()), "{all:?}");
    });
}

/// Up to where a direction may come.
fn allowed(built: &Built, fed: [usize; 2], dir: usize) -> usize {
    let all = built.bytes[dir].len();
    if dir == 1 {
        let mut waits = built.answers.iter().filter(|(requests, _)| fed[0] < *requests);
        return waits.next().map_or(all, |(_, responses)| *responses);
    }
    match built.switched {
        Some((requests, responses)) if fed[1] < responses => requests,
        _ => all,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn pieces_are_those_that_were_put_together(
        script in script(),
        steps in prop::collection::vec((any::<bool>(), 0..60usize), 0..60),
    ) {
        let built = script.build();
        let mut feeder = Feeder::new(Rules::STRICT);
        feed(&mut feeder, &built, &steps);
        let is_opaque = script.switch.is_some();
        prop_assert_eq!(feeder.connection.direction(Kind::Request).is_opaque(), is_opaque);
        for kind in [Kind::Request, Kind::Response] {
            let finish = feeder.finish(kind);
            prop_assert!(matches!(finish, Ok(Finish::Clean | Finish::End)), "{:?}", finish);
        }
        prop_assert_eq!(&feeder.parts, &built.parts);
        prop_assert_eq!(feeder.connection.pending(), 0);
        prop_assert!(feeder.reader.take_tolerated().is_empty());
    }

    #[test]
    fn every_byte_alone(script in script()) {
        let built = script.build();
        let mut feeder = Feeder::new(Rules::LENIENT);
        let count = built.bytes.iter().map(Vec::len).max().unwrap_or(0);
        let steps: Vec<(bool, usize)> = (0..count * 2).map(|n| (n % 2 == 1, 1)).collect();
        feed(&mut feeder, &built, &steps);
        prop_assert!(feeder.finish(Kind::Response).is_ok());
        prop_assert_eq!(&feeder.parts, &built.parts);
    }

    /// What is remembered is plain data: any bytes of it are worked with.
    #[test]
    fn no_memory_makes_it_panic(
        memory in prop::collection::vec(any::<u8>(), size_of::<Connection>()),
        bytes in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let mut feeder = Feeder::new(Rules::LENIENT);
        feeder.connection = zerocopy::FromBytes::read_from_bytes(&memory).unwrap();
        for kind in [Kind::Request, Kind::Response] {
            let _ = feeder.feed(kind, &bytes);
            let _ = feeder.finish(kind);
        }
    }
}
