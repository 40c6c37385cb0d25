//! A test per construct.

use super::catalog::*;

#[test]
fn declarations_and_chains() {
    let g =
        graph("s :: InfiniteSource(LIMIT 5); d, e :: Discard\n t :: Tee s -> t; t[1] -> e; t -> d");
    assert_eq!(
        elements(&g),
        ["s :: InfiniteSource(LIMIT 5)", "d :: Discard", "e :: Discard", "t :: Tee"]
    );
    assert_eq!(edges(&g), ["s[0] -> [0]t", "t[0] -> [0]d", "t[1] -> [0]e"]);
}
