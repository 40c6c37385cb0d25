//! Ports of DPDK: what the elements of a configuration that use them know of each other.

mod ports;
mod queues;

pub(super) use ports::{Input, Output, Ports};
pub(super) use queues::{N_QUEUES, QUEUE, part, shares, wanted};

use std::sync::Arc;

use thruway_element::{Arg, Handler, HandlerError, Ty};
use thruway_port::dpdk::Device;

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

/// The handlers of both directions.
pub(super) const LINK: Handler = Handler::read("link", "up or down, and how fast");
pub(super) const CARRIER: Handler = Handler::read("carrier", "1 if the link is up, else 0");
pub(super) const SPEED: Handler = Handler::read("speed", "of the link, Mbit/s; 0 if unknown");
pub(super) const DRIVER: Handler = Handler::read("driver", "the port's driver");
pub(super) const MAC: Handler = Handler::read("mac", "the port's Ethernet address");
pub(super) const DEVICE: Handler = Handler::read("device", "the port's device, and how it is used");
pub(super) const XSTATS: Handler =
    Handler::read("xstats", "the driver's statistics, a line each; of one, if it is named");

/// Reads one of the handlers of both directions.
pub(super) fn read(
    device: Option<&Arc<Device>>,
    name: &str,
    param: &str,
) -> Result<String, HandlerError> {
    let Some(device) = device else { return Ok("-".to_owned()) };
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
