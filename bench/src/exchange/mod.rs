//! `thruway-bench exchange`: the evaluation of the exchange's paper (Cerrato et al., JPDC 114,
//! 2018, section 6), redone: every figure, both baselines, and every choice of section 5 as a
//! switch.
//!
//! The Master is a plain loop ([`drive`]) over lanes ([`lane`]), one per Worker and transport;
//! Workers are processes or threads ([`workers`]). Every measurement also checks that no packet was
//! lost or came out of order, and that the Workers computed what the packets' bytes give
//! ([`cell`]).

mod bounds;
mod cell;
mod chart;
mod drive;
mod duty;
mod figures;
mod goals;
mod lane;
mod options;
mod run;
mod source;
mod table;
mod worker;
mod workers;

pub use duty::WorkerArgs;
pub use figures::list as figure_list;
pub use options::Options;
pub use run::run;
pub use workers::worker_main;

#[cfg(test)]
mod tests;
