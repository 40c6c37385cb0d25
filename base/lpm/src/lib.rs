//! Longest prefix match: DIR-24-8, poptrie, routing information base.
#![forbid(unsafe_code)]
