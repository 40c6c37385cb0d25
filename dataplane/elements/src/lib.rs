//! The network functions: a crate per topic, one file per element.
//!
//! An element's file holds its [`thruway_element::Entry`] (spec and builder) and its code; beside
//! it stands its golden test, `name.clicktest`. Adding one means: write the file, the test, and a
//! line in the topic's `ELEMENTS` list.
#![forbid(unsafe_code)]

#[cfg(test)]
mod changes;
#[cfg(test)]
mod wants;

use thruway_element::Registry;
pub use thruway_elements_control::Instance;
pub use thruway_elements_nf::{HOST, Host};

/// Every element class there is.
pub static CATALOG: Registry = Registry(&[
    thruway_elements_sources::ELEMENTS,
    thruway_elements_counters::ELEMENTS,
    thruway_elements_control::ELEMENTS,
    thruway_elements_captures::ELEMENTS,
    thruway_elements_devices::ELEMENTS,
    thruway_elements_queueing::ELEMENTS,
    thruway_elements_ethernet::ELEMENTS,
    thruway_elements_ip::ELEMENTS,
    thruway_elements_ip::ip6::ELEMENTS,
    thruway_elements_hops::ELEMENTS,
    thruway_elements_nf::ELEMENTS,
    thruway_elements_sessions::ELEMENTS,
    thruway_elements_sessions::rewriters::ELEMENTS,
    thruway_elements_streams::ELEMENTS,
    thruway_elements_faults::ELEMENTS,
]);
