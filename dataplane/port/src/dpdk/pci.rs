//! Devices by PCI address: what the kernel says of them.

use super::messages::wrong;
use crate::error::PortError;
use std::path::Path;

/// Where the kernel lists them.
const DEVICES: &str = "/sys/bus/pci/devices";
/// Kernel drivers by which a program may have a device.
const FOR_PROGRAMS: &[&str] = &["vfio-pci", "mlx5_core", "mlx4_core"];

/// The whole address, with its domain, where a name is one: `0000:02:00.0`, `02:00.0`.
pub fn address(name: &str) -> Option<String> {
    let head = name.split(',').next()?;
    let (bus, function) = head.rsplit_once('.')?;
    let parts: Vec<&str> = bus.split(':').collect();
    let is_hex =
        |text: &str, len: usize| text.len() == len && text.chars().all(|c| c.is_ascii_hexdigit());
    if !is_hex(function, 1) {
        return None;
    }
    match parts[..] {
        [bus, slot] if is_hex(bus, 2) && is_hex(slot, 2) => Some(format!("0000:{name}")),
        [domain, bus, slot] if is_hex(domain, 4) && is_hex(bus, 2) && is_hex(slot, 2) => {
            Some(name.to_owned())
        }
        _ => None,
    }
}

/// The NUMA node that the card of this address is at, if it is one and is at one.
pub fn node(name: &str) -> Option<usize> {
    let address = address(name)?;
    let path = Path::new(DEVICES).join(address.split(',').next()?);
    // -1 of a device that is at none.
    std::fs::read_to_string(path.join("numa_node")).ok()?.trim().parse().ok()
}

/// Refuses an address where there is no device, or one that the kernel uses itself.
pub fn check(address: &str) -> Result<(), PortError> {
    let head = address.split(',').next().unwrap_or(address);
    let path = Path::new(DEVICES).join(head);
    if !path.exists() {
        return Err(wrong(format!(
            "there is no PCI device {head}; dpdk-devbind.py --status (package dpdk) lists those \
             that are network cards"
        )));
    }
    let driver = std::fs::read_link(path.join("driver")).ok();
    let driver = driver.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
    match driver {
        Some(driver) if FOR_PROGRAMS.contains(&&*driver) => Ok(()),
        Some(driver) => Err(wrong(format!(
            "PCI device {head} is bound to the kernel's driver {driver}: give it to programs with \
             dpdk-devbind.py --bind=vfio-pci {head} (its interface goes away), or use its \
             interface with FromDevice"
        ))),
        None => Err(wrong(format!(
            "PCI device {head} is bound to no driver: dpdk-devbind.py --bind=vfio-pci {head}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_distinguished_from_names() {
        assert_eq!(address("0000:02:00.0").as_deref(), Some("0000:02:00.0"));
        assert_eq!(address("02:00.1,arg=1").as_deref(), Some("0000:02:00.1,arg=1"));
        for name in ["net_null0", "net_pcap0,rx_pcap=a.pcap", "2:0.0", "0000:02:00.x", "7", ""] {
            assert_eq!(address(name), None, "{name}");
        }
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let text = check("ffff:fe:1d.7").expect_err("there is none").to_string();
        assert_eq!(node("ffff:fe:1d.7"), None);
        assert!(text.contains("ffff:fe:1d.7") && text.contains("dpdk-devbind.py"), "{text}");
    }
}
