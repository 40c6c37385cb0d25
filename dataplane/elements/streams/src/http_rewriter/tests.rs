//! Bodies against one replacement of the whole text.

use proptest::prelude::*;
use regex::bytes::Regex;
use thruway_element::{StreamCursor, StreamFunction};
use thruway_payload::{About, Next};

use super::rewriting::{Page, Rewriting, SessionState};
use super::rules::Rules;

fn rewriting(rules: &[&str], span: usize) -> Rewriting {
    let mut all = Rules::default();
    rules.iter().for_each(|rule| all.add(rule).unwrap());
    let page = Page { head: Vec::new(), body: Vec::new(), elsewhere: Vec::new() };
    Rewriting::new(all.ready().unwrap(), page, span)
}

/// The text as it leaves, of a message that comes in these parts.
fn rewritten(rewriting: &mut Rewriting, parts: &[Vec<u8>]) -> Vec<u8> {
    let (mut kept, mut out) = (Vec::new(), Vec::new());
    let mut state = SessionState::default();
    for (at, part) in parts.iter().enumerate() {
        let mut pieces = vec![kept.clone(), part.clone()];
        let is_last = at + 1 == parts.len();
        let mut data = StreamCursor::new(&mut pieces, About { is_last, ..About::default() });
        let next = rewriting.process(&mut state, &mut data);
        let left = if next == Next::NeedMore && !is_last { data.remaining() } else { 0 };
        let all = pieces.concat();
        out.extend_from_slice(&all[..all.len() - left]);
        kept = all[all.len() - left..].to_vec();
    }
    out
}

proptest! {
    #[test]
    fn as_one_replacement_of_the_whole(
        parts in prop::collection::vec(prop::collection::vec(b'a'..=b'd', 0..9), 1..8),
        (rule, selector, with) in prop::sample::select(vec![
            ("body replace ab LONGER", "ab", "LONGER"),
            ("body remove re '[bc]+a'", "[bc]{1,7}a", ""),
            ("body insert-before re 'a.?d' <", "a.?d", "<$0"),
            ("body insert-after cc >", "cc", "$0>"),
            ("body replace re 'b+' -", "b+", "-"),
        ]),
    ) {
        let whole = parts.concat();
        let with = if with.contains('$') { with.replace("$0", "${0}") } else { with.to_owned() };
        // The program looks at 1,024 bytes behind a place: the whole text, here.
        let selector = if rule.contains("[bc]+a") { "[bc]+a" } else { selector };
        let plain = Regex::new(selector).unwrap().replace_all(&whole, with.as_bytes()).into_owned();
        prop_assert_eq!(rewritten(&mut rewriting(&[rule], 1024), &parts), plain);
    }

    #[test]
    fn short_selectors_need_a_short_span(
        parts in prop::collection::vec(prop::collection::vec(b'a'..=b'c', 0..9), 1..12),
    ) {
        let whole = parts.concat();
        let plain = Regex::new("abca").unwrap().replace_all(&whole, &b"-"[..]).into_owned();
        prop_assert_eq!(rewritten(&mut rewriting(&["body replace abca -"], 4), &parts), plain);
    }
}
