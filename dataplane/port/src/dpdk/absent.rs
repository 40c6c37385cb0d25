//! What stands here where the program was built without DPDK: it says so.

use super::{About, Counters, FlowRule, Link, PortConfig};
use crate::error::PortError;
use std::ops::Range;
use std::sync::Arc;
use thruway_packet::Batch;

/// Says how to get DPDK.
///
/// # Errors
/// Always.
pub fn start(_arguments: &[String]) -> Result<String, PortError> {
    let what = "this program was built without DPDK; install its files (Debian: apt-get install \
                libdpdk-dev dpdk) and build with it: cargo build --release --features dpdk -p \
                thruway";
    Err(PortError::Dpdk { what: what.to_owned() })
}

/// The NUMA node of a card: not asked, since it cannot be used.
pub fn node(_name: &str) -> Option<usize> {
    None
}

/// What a device's end would have done with packets; there is none.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Packets put into the batch.
    pub packets: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Dropped because no frame has room for them.
    pub too_long: usize,
    /// Dropped because the port found the checksum of an IPv4 header wrong.
    pub bad_checksum: usize,
}

/// What a device's end would have sent; there is none.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Packets handed to the driver.
    pub packets: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Dropped here.
    pub refused: usize,
    /// Packets that the driver has not taken yet.
    pub pending: usize,
}

/// A port that runs: there is none.
#[derive(Debug)]
pub enum Device {}

/// Of no port.
#[derive(Debug)]
pub enum Receiver {}

/// Of no port.
#[derive(Debug)]
pub enum Sender {}

/// A rule of no port.
#[derive(Debug)]
pub enum Flow {}

impl Flow {
    /// Of a port that runs: never called.
    pub fn packets(&self) -> Option<u64> {
        match *self {}
    }
}

impl Device {
    /// Of a port that runs: never called.
    ///
    /// # Errors
    /// None.
    pub fn check_flow(&self, _rule: &FlowRule) -> Result<(), String> {
        match *self {}
    }

    /// Of a port that runs: never called.
    ///
    /// # Errors
    /// None.
    pub fn make_flow(self: &Arc<Device>, _rule: &FlowRule) -> Result<Flow, String> {
        match **self {}
    }

    /// Says how to get DPDK.
    ///
    /// # Errors
    /// Always.
    pub fn open(_name: &str, _wish: &PortConfig) -> Result<Arc<Device>, PortError> {
        start(&[]).and(Err(PortError::Dpdk { what: String::new() }))
    }

    /// Of a port that runs: never called.
    ///
    /// # Errors
    /// None.
    pub fn receiver(self: &Arc<Device>, _queues: Range<u16>) -> Result<Receiver, PortError> {
        match **self {}
    }

    /// Of a port that runs: never called.
    ///
    /// # Errors
    /// None.
    pub fn sender(self: &Arc<Device>, _queue: Option<u16>) -> Result<Sender, PortError> {
        match **self {}
    }

    /// Of a port that runs: never called.
    pub fn rest(&self) {
        match *self {}
    }

    /// Of a port that runs: never called.
    pub fn about(&self) -> &About {
        match *self {}
    }

    /// Of a port that runs: never called.
    pub fn describe(&self) -> String {
        match *self {}
    }

    /// Of a port that runs: never called.
    pub fn link(&self) -> Link {
        match *self {}
    }

    /// Of a port that runs: never called.
    pub fn counters(&self) -> Counters {
        match *self {}
    }

    /// Of a port that runs: never called.
    pub fn extended(&self) -> Vec<(String, u64)> {
        match *self {}
    }
}

impl Receiver {
    /// Of a port that runs: never called.
    pub fn read_marks(&mut self, _reads: bool) {
        match *self {}
    }

    /// Of a port that runs: never called.
    pub fn receive(&mut self, _max: usize, _now: i64, _batch: &mut Batch) -> Received {
        match *self {}
    }

    /// Of a port that runs: never called.
    pub fn device(&self) -> &Arc<Device> {
        match *self {}
    }

    /// Of a port that runs: never called.
    pub fn queues(&self) -> Range<u16> {
        match *self {}
    }
}

impl Sender {
    /// Of a port that runs: never called.
    pub fn send(&mut self, _batch: &mut Batch) -> Sent {
        match *self {}
    }

    /// Of a port that runs: never called.
    pub fn close(self) -> usize {
        match self {}
    }

    /// Of a port that runs: never called.
    pub fn device(&self) -> &Arc<Device> {
        match *self {}
    }

    /// Of a port that runs: never called.
    pub fn queue(&self) -> u16 {
        match *self {}
    }
}
