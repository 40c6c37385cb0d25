//! What handlers of an isolated function tell and take.

use thruway_element::{HandlerError, Nanos, handler_value};
use thruway_exchange::LinkFigures;

use super::backend::Property;

/// A figure of one thread's links.
pub(super) fn figure(figures: &LinkFigures, name: &str) -> Option<String> {
    let number = match name {
        "packets_in" => figures.put,
        "dropped" => figures.dropped,
        "auxiliary" => figures.aux,
        "injected" => figures.injected,
        "wake_ups" => figures.wake_ups,
        "occupancy_max" => u64::from(figures.occupancy_max),
        _ => return None,
    };
    Some(number.to_string())
}

/// What the function itself is asked for by a handler.
pub(super) fn property(name: &str) -> Option<Property> {
    Some(match name {
        "state" => Property::State,
        "pid" => Property::Pid,
        "interface" => Property::Interface,
        "restarts" => Property::Restarts,
        "peer_faults" => Property::Faults,
        "hangs" => Property::Hangs,
        "cpu_time" => Property::CpuTime,
        "sandbox" => Property::Sandbox,
        "last_error" => Property::LastError,
        "console" => Property::Console,
        "counters" => Property::Counters,
        "sleeps" => Property::Sleeps,
        "aux_full" => Property::AuxFull,
        "injection_full" => Property::InjectionFull,
        _ => return None,
    })
}

/// A threshold that is written, which must leave slots to work with.
pub(super) fn threshold(name: &str, value: &str, slots: u32) -> Result<u32, HandlerError> {
    let threshold: u32 = handler_value(name, value)?;
    if threshold >= slots {
        let why = format!("{name}: {threshold} is not below SLOTS ({slots})");
        return Err(HandlerError::refused(why));
    }
    Ok(threshold)
}

/// An age that is written, in nanoseconds.
pub(super) fn age(name: &str, value: &str) -> Result<u64, HandlerError> {
    let age: Nanos = handler_value(name, value)?;
    u64::try_from(age.0).map_err(|_| HandlerError::refused(format!("{name}: cannot be negative")))
}
