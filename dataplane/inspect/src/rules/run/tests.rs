//! Tests of inspectors.
