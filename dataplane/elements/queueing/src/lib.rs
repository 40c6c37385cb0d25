//! Queues, schedulers, switches, tees, paint.
#![forbid(unsafe_code)]

mod block;
mod burster;
mod bypass;
mod check_length;
mod check_paint;
mod cpu_switch;
mod delay_shaper;
mod delay_unqueue;
mod drr_sched;
mod duplicate;
mod hash_switch;
mod held;
mod hub;
mod limit;
mod link_unqueue;
mod meter;
mod paint;
mod paint_switch;
mod paint_tee;
mod pipeliner;
mod prio_sched;
mod pull_switch;
mod queue;
mod random_sample;
mod random_switch;
mod rated_splitter;
mod rated_unqueue;
mod red;
mod round_robin_sched;
mod round_robin_switch;
mod router_link;
mod set_anno_byte;
mod shaper;
mod stride_sched;
mod stride_switch;
mod strides;
mod suppressor;
mod switch;
mod tee;
mod time_sorted_sched;
mod unqueue;
mod unqueue2;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &meter::BANDWIDTH,
    &rated_splitter::BANDWIDTH,
    &rated_unqueue::BANDWIDTH,
    &shaper::BANDWIDTH,
    &block::ENTRY,
    &burster::ENTRY,
    &bypass::ENTRY,
    &check_length::ENTRY,
    &check_paint::ENTRY,
    &cpu_switch::ENTRY,
    &delay_shaper::ENTRY,
    &delay_unqueue::ENTRY,
    &drr_sched::ENTRY,
    &duplicate::ENTRY,
    &cpu_switch::EXACT,
    &queue::FRONT_DROP,
    &hash_switch::ENTRY,
    &hub::ENTRY,
    &link_unqueue::ENTRY,
    &meter::ENTRY,
    &queue::MIXED,
    &paint::ENTRY,
    &paint_switch::ENTRY,
    &paint_tee::ENTRY,
    &pipeliner::ENTRY,
    &prio_sched::ENTRY,
    &pull_switch::ENTRY,
    &tee::PULL,
    &queue::ENTRY,
    &random_sample::ENTRY,
    &random_switch::ENTRY,
    &rated_splitter::ENTRY,
    &rated_unqueue::ENTRY,
    &red::ENTRY,
    &round_robin_sched::ENTRY,
    &round_robin_switch::ENTRY,
    &router_link::ENTRY,
    &set_anno_byte::ENTRY,
    &shaper::ENTRY,
    &pull_switch::FIXED,
    &switch::FIXED,
    &stride_sched::ENTRY,
    &stride_switch::ENTRY,
    &suppressor::ENTRY,
    &switch::ENTRY,
    &tee::ENTRY,
    &time_sorted_sched::ENTRY,
    &unqueue::ENTRY,
    &unqueue2::ENTRY,
];
