//! One binary: run, check, graph, bench, click.
#![forbid(unsafe_code)]
fn main() {}
