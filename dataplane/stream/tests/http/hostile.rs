//! Any bytes through the context: accepted bytes are never lost.

use thruway_stream::http::{Enter, Kind, OnRefused, Rules, Settings};

use crate::chain::{Chain, Edit, settings};
use crate::smoke::{Random, connection};

/// Connections that are tried.
const TRIED: usize = 6_000;

/// A chain that lets what it refuses go on.
fn chain(edit: Edit, lenient: bool) -> Chain {
    let rules = Rules { head_bytes: 256, fields: 8, extension_bytes: 16, lenient };
    let settings =
        Settings { rules, on_refused: OnRefused::Pass, resize: edit.resizes(), ..settings() };
    let mut chain = Chain::new(edit, settings.clone(), 100);
    chain.enter = Enter::new(settings);
    chain
}

/// Sends both directions in segments as they come, then their ends.
fn send(chain: &mut Chain, streams: [&[u8]; 2], random: &mut Random) {
    let mut left = streams;
    while left.iter().any(|bytes| !bytes.is_empty()) {
        let dir = random.below(2);
        let bound = [4, 90, 90, 300][random.below(4)];
        let most = 1 + random.below(bound);
        let (now, later) = left[dir].split_at(most.min(left[dir].len()));
        if !now.is_empty() {
            chain.send([Kind::Request, Kind::Response][dir], now, false);
        }
        left[dir] = later;
    }
    chain.send(Kind::Request, b"", true);
    chain.send(Kind::Response, b"", true);
}

#[test]
fn nothing_is_lost() {
    let mut random = Random::from_seed(0x1234_5678_9abc_def1);
    let (mut refused, mut closed) = (0, 0);
    for number in 0..TRIED {
        let [mut requests, mut responses] = connection(&mut random).map(<[u8]>::to_vec);
        random.mutate(&mut requests);
        random.mutate(&mut responses);
        let edit = [Edit::Look, Edit::Replace(b"word")][number % 2];
        let mut chain = chain(edit, random.below(2) == 0);
        send(&mut chain, [&requests, &responses], &mut random);
        refused += chain.enter.counts.refused.iter().sum::<u64>();
        if chain.is_closed() {
            assert!(edit.resizes());
            closed += 1;
            continue;
        }
        let holding = (chain.enter.holding(), chain.stage.holding(), chain.leave.holding());
        assert_eq!(holding, (0, 0, 0));
        for (kind, came) in [(Kind::Request, &requests), (Kind::Response, &responses)] {
            let left = chain.bytes(kind);
            if edit == Edit::Look {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                assert_eq!(text(&left), text(came));
            }
            chain.check_packets(kind, true).unwrap();
        }
    }
    // All sorts were there.
    assert!((TRIED as u64 / 10..TRIED as u64).contains(&refused), "{refused} of {TRIED}");
    assert!((1..TRIED / 10).contains(&closed), "{closed}");
}
