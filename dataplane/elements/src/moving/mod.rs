//! Queues, schedulers, switches, tees, paint.

mod bandwidth_shaper;
mod paint;
mod paint_switch;
mod paint_tee;
mod prio_sched;
mod queue;
mod random_sample;
mod rated_unqueue;
mod round_robin_sched;
mod round_robin_switch;
mod switch;
mod tee;
mod unqueue;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &bandwidth_shaper::ENTRY,
    &queue::FRONT_DROP,
    &queue::MIXED,
    &paint::ENTRY,
    &paint_switch::ENTRY,
    &paint_tee::ENTRY,
    &prio_sched::ENTRY,
    &queue::ENTRY,
    &random_sample::ENTRY,
    &rated_unqueue::ENTRY,
    &round_robin_sched::ENTRY,
    &round_robin_switch::ENTRY,
    &switch::ENTRY,
    &tee::ENTRY,
    &unqueue::ENTRY,
];
