//! Instantiates a graph and runs it: threads, dispatch, timers.
#![forbid(unsafe_code)]
