//! Queues, schedulers, switches, tees, paint.

mod limit;
mod paint;
mod paint_switch;
mod paint_tee;
mod prio_sched;
mod queue;
mod random_sample;
mod rated_splitter;
mod rated_unqueue;
mod red;
mod round_robin_sched;
mod round_robin_switch;
mod shaper;
mod switch;
mod tee;
mod unqueue;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &rated_splitter::BANDWIDTH,
    &rated_unqueue::BANDWIDTH,
    &shaper::BANDWIDTH,
    &queue::FRONT_DROP,
    &queue::MIXED,
    &paint::ENTRY,
    &paint_switch::ENTRY,
    &paint_tee::ENTRY,
    &prio_sched::ENTRY,
    &queue::ENTRY,
    &random_sample::ENTRY,
    &rated_splitter::ENTRY,
    &rated_unqueue::ENTRY,
    &red::ENTRY,
    &round_robin_sched::ENTRY,
    &round_robin_switch::ENTRY,
    &shaper::ENTRY,
    &switch::ENTRY,
    &tee::ENTRY,
    &unqueue::ENTRY,
];
