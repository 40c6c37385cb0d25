//! DPDK, as far as it is there.

use super::finding::Finding;
use super::host::Host;

/// Where distributions keep shared libraries.
const LIBRARY_DIRECTORIES: &[&str] = &[
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/lib",
    "usr/local/lib64",
    "usr/local/lib/x86_64-linux-gnu",
];
/// Drivers by which DPDK reaches devices.
const DRIVERS: &[&str] = &["vfio-pci", "uio_pci_generic", "igb_uio"];

/// Its library, and devices that it may have.
pub fn findings(host: &Host) -> Vec<Finding> {
    let libraries = LIBRARY_DIRECTORIES.iter().flat_map(|place| host.list(place));
    let library = libraries.into_iter().find(|name| name.starts_with("librte_eal.so"));
    let bound: Vec<String> = DRIVERS
        .iter()
        .flat_map(|driver| {
            let names = host.list(&format!("sys/bus/pci/drivers/{driver}"));
            // Devices are domain:bus:slot.function.
            let devices = names.into_iter().filter(|name| name.matches(':').count() == 2);
            devices.map(move |device| format!("{device} ({driver})"))
        })
        .collect();
    let library = match library {
        Some(name) => Finding::good("DPDK", name),
        None => Finding::unknown("DPDK", "not installed (Debian: libdpdk-dev); an option"),
    };
    let devices = (!bound.is_empty()).then(|| Finding::good("devices of DPDK", bound.join(", ")));
    std::iter::once(library).chain(devices).collect()
}
