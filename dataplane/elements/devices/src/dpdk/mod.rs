//! Ports of DPDK: what the elements of a configuration that use them know of each other.

mod marks;
mod offload;
mod ports;
mod queues;

pub(super) use marks::Marks;
pub(super) use offload::{OFFLOAD, Offload};
pub(super) use ports::{Input, Output, Ports};
pub(super) use queues::{N_QUEUES, QUEUE, part, shares, wanted};

use std::sync::Arc;

use thruway_element::{Arg, HandlerError, Handlers, Ty};
use thruway_port::dpdk::{Counters, Device};

pub(super) const PORT: Arg = Arg::required(
    "PORT",
    Ty::Str,
    "PCI address, virtual device (\"net_tap0,iface=x\"), or DPDK's number of it",
);
pub(super) const MTU: Arg =
    Arg::keyword("MTU", Ty::UInt, "longest packet without its Ethernet header; as it is");
pub(super) const NDESC: Arg =
    Arg::keyword("NDESC", Ty::UInt, "slots of a queue; as the driver likes");
pub(super) const VERBOSE: Arg =
    Arg::keyword("VERBOSE", Ty::Str, "accepted and ignored: a line says what is used");

/// What both directions know of their port, and the handlers that show it.
#[derive(Default, Handlers)]
#[handler(read, name = "link", "up or down, and how fast", read = self.ask(name, param))]
#[handler(read, name = "carrier", "1 if the link is up, else 0", read = self.ask(name, param))]
#[handler(read, name = "speed", "of the link, Mbit/s; 0 if unknown", read = self.ask(name, param))]
#[handler(read, name = "driver", "the port's driver", read = self.ask(name, param))]
#[handler(read, name = "mac", "the port's Ethernet address", read = self.ask(name, param))]
#[handler(
    read, name = "device", "the port's device, and how it is used", read = self.ask(name, param)
)]
#[handler(
    read, name = "xstats", "the driver's statistics, a line each; of one, if it is named",
    read = self.ask(name, param)
)]
pub(super) struct OpenPort {
    /// Also when the run has ended.
    pub(super) device: Option<Arc<Device>>,
}

impl OpenPort {
    /// The port's counters.
    pub(super) fn counters(&self) -> Counters {
        self.device.as_ref().map(|device| device.counters()).unwrap_or_default()
    }

    /// The run is over.
    pub(super) fn rest(&self) {
        if let Some(device) = &self.device {
            device.rest();
        }
    }

    /// What a handler shows.
    pub(super) fn ask(&self, name: &str, param: &str) -> Result<String, HandlerError> {
        self.device.as_ref().map_or_else(|| Ok("-".to_owned()), |device| read(device, name, param))
    }
}

fn read(device: &Device, name: &str, param: &str) -> Result<String, HandlerError> {
    let about = device.about();
    match name {
        "link" => {
            let link = device.link();
            let duplex = if link.is_full_duplex { "full" } else { "half" };
            Ok(match (link.is_up, link.mbps) {
                (false, _) => "down".to_owned(),
                (true, 0) => "up".to_owned(),
                (true, mbps) => format!("up {mbps} Mbit/s {duplex} duplex"),
            })
        }
        "carrier" => Ok(u8::from(device.link().is_up).to_string()),
        "speed" => Ok(device.link().mbps.to_string()),
        "driver" => Ok(about.driver.clone()),
        "mac" => Ok(about.mac.map(|byte| format!("{byte:02x}")).join(":")),
        "offloads" => Ok(match (about.can_check, about.checks) {
            (false, _) => "none".to_owned(),
            (true, true) => "IPv4 header checksum: used".to_owned(),
            (true, false) => "IPv4 header checksum: not used".to_owned(),
        }),
        "device" => Ok(format!("{}: {}", about.name, device.describe())),
        "xstats" => {
            let all = device.extended();
            if param.is_empty() {
                return Ok(all.iter().map(|(name, value)| format!("{name} {value}\n")).collect());
            }
            let one = all.iter().find(|(name, _)| name == param);
            let one = one.map(|(_, value)| value.to_string());
            one.ok_or_else(|| HandlerError::refused(format!("the driver has no '{param}'")))
        }
        _ => Err(HandlerError::no_read(name)),
    }
}
