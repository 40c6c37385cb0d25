//! HTTP/1.1 as it passes by: pieces of generated pipelines, refusals, heads written anew, other
//! projects' transactions.

mod any_bodies;
mod any_bytes;
mod captures;
mod chain;
mod coded;
mod context;
mod edits;
mod feeder;
mod generate;
mod hostile;
mod packers;
mod pipelines;
mod refusals;
mod smoke;
mod transactions;
