//! A table without tests of irrelevant results, and without unreachable ones.

use super::table::{Next, SOFTWARE, Test};

/// Indices of tests, each behind all that it leads to; those only that packets come to.
fn in_order(tests: &[Test], starts: [Next; 3]) -> Vec<Next> {
    let mut order = Vec::new();
    let mut is_seen = vec![false; tests.len()];
    // Each with whether its targets were handled.
    let mut waiting: Vec<(Next, bool)> = starts.iter().map(|start| (*start, false)).collect();
    while let Some((at, is_done)) = waiting.pop() {
        let Some(test) = tests.get(at as usize) else { continue };
        if is_done {
            order.push(at);
        } else if !std::mem::replace(&mut is_seen[at as usize], true) {
            waiting.push((at, true));
            waiting.extend([test.short, test.no, test.yes].map(|next| (next, false)));
        }
    }
    order
}

/// The same table with fewer tests, each before all that it leads to.
pub(super) fn simplified(tests: &[Test], starts: [Next; 3]) -> (Vec<Test>, [Next; 3]) {
    let order = in_order(tests, starts);
    // By index: the effective target of packets that come there.
    let mut instead: Vec<Next> = (0..tests.len() as Next).collect();
    let follow = |instead: &[Next], next: Next| {
        if next & SOFTWARE == 0 { instead[next as usize] } else { next }
    };
    let mut kept = Vec::new();
    for at in order {
        let test = &tests[at as usize];
        let [yes, no, short] = [test.yes, test.no, test.short].map(|next| follow(&instead, next));
        if yes == no && no == short {
            instead[at as usize] = yes;
        } else {
            kept.push((at, Test { yes, no, short, ..*test }));
        }
    }
    kept.reverse();
    let mut index = vec![SOFTWARE; tests.len()];
    for (new, (old, _)) in kept.iter().enumerate() {
        index[*old as usize] = new as Next;
    }
    let renamed = |next: Next| if next & SOFTWARE == 0 { index[next as usize] } else { next };
    let rename = |(_, test): &(Next, Test)| Test {
        yes: renamed(test.yes),
        no: renamed(test.no),
        short: renamed(test.short),
        ..*test
    };
    let starts = starts.map(|start| renamed(follow(&instead, start)));
    (kept.iter().map(rename).collect(), starts)
}

/// Most tests one after the other. The table is a simplified one.
pub(super) fn depth(tests: &[Test], starts: [Next; 3]) -> u32 {
    let mut depths = vec![0_u32; tests.len()];
    let depth = |depths: &[u32], next: Next| depths.get(next as usize).map_or(0, |depth| *depth);
    for at in (0..tests.len()).rev() {
        let test = &tests[at];
        let behind = [test.yes, test.no, test.short].map(|next| depth(&depths, next));
        depths[at] = 1 + behind.into_iter().max().unwrap_or(0);
    }
    starts.into_iter().map(|start| depth(&depths, start)).max().unwrap_or(0)
}
