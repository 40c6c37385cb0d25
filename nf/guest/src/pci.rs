//! A driver of ivshmem devices as far as one is needed: where the memory of a device is
//! (docs/specs/ivshmem-spec of QEMU; Documentation/PCI/sysfs-pci.rst of Linux).

use std::fs::{read_to_string, write};
use std::path::Path;
use std::time::Duration;

use thruway_region::DeviceMemory;

/// Where the kernel lists devices, and what makes it look for new ones.
const DEVICES: &str = "/sys/bus/pci/devices";
const RESCAN: &str = "/sys/bus/pci/rescan";

/// Vendor and device of ivshmem.
const VENDOR: &str = "0x1af4";
const DEVICE: &str = "0x1110";

/// The BAR with the memory.
const BAR: usize = 2;

/// Looks for a device that the host plugged in, and the time between two.
const LOOKS: u32 = 50;
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Where the memory of the device in a slot is, which must be so long.
pub fn memory(slot: u32, len: u64) -> Result<DeviceMemory, String> {
    let device = Path::new(DEVICES).join(format!("0000:00:{slot:02x}.0"));
    let mut found = memory_of(&device, len);
    for _ in 0..LOOKS {
        match found {
            // Plugged in a moment ago: it is not there yet, or has no addresses.
            Err(Unusable::NotYet(_)) => {}
            other => return other.map_err(Unusable::why),
        }
        std::thread::sleep(LOOK_AGAIN);
        found = memory_of(&device, len);
        if !device.exists() {
            // It is noticed by itself where the kernel has hot-plugging; asking does no harm.
            let _ = write(RESCAN, "1");
        }
    }
    found.map_err(Unusable::why)
}

/// Why a device is of no use.
#[derive(Debug)]
enum Unusable {
    /// It may be soon.
    NotYet(String),
    Never(String),
}

impl Unusable {
    fn why(self) -> String {
        let (Unusable::NotYet(why) | Unusable::Never(why)) = self;
        why
    }
}

fn memory_of(device: &Path, len: u64) -> Result<DeviceMemory, Unusable> {
    let shown = device.display();
    let not_yet =
        |file: &str, error: std::io::Error| Unusable::NotYet(format!("{shown}/{file}: {error}"));
    let read = |file: &str| read_to_string(device.join(file)).map_err(|error| not_yet(file, error));
    let (vendor, kind) = (read("vendor")?, read("device")?);
    if (vendor.trim(), kind.trim()) != (VENDOR, DEVICE) {
        let is = format!("{}:{}", vendor.trim(), kind.trim());
        return Err(Unusable::Never(format!("{shown} is no ivshmem device ({is})")));
    }
    let resources = read("resource")?;
    let bar = resources.lines().nth(BAR).unwrap_or_default();
    let mut numbers = bar
        .split_whitespace()
        .map_while(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    let (Some(first), Some(last)) = (numbers.next(), numbers.next()) else {
        return Err(Unusable::Never(format!("{shown}/resource has no line for BAR {BAR}")));
    };
    if first == 0 {
        return Err(Unusable::NotYet(format!("{shown}: the kernel gave BAR {BAR} no addresses")));
    }
    let has = last.saturating_sub(first).saturating_add(1);
    if has != len {
        let why = format!("{shown}: its BAR {BAR} has {has} bytes, the region has {len}");
        return Err(Unusable::Never(why));
    }
    // Lets the device answer to its addresses; refused until the kernel has claimed them.
    write(device.join("enable"), "1").map_err(|error| not_yet("enable", error))?;
    Ok(DeviceMemory { address: first, len })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(vendor: &str, bar: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        let resources = format!("0x0 0x0 0x0\n0x0 0x0 0x0\n{bar}\n");
        for (file, text) in
            [("vendor", vendor), ("device", "0x1110\n"), ("resource", &resources), ("enable", "0")]
        {
            std::fs::write(dir.path().join(file), text).expect("written");
        }
        dir
    }

    #[test]
    fn a_bar_of_the_right_length_is_taken() {
        let dir = device("0x1af4\n", "0x0000000100000000 0x00000001001fffff 0x000000000014220c");
        let memory = memory_of(dir.path(), 2 << 20).expect("it is right");
        assert_eq!(memory, DeviceMemory { address: 1 << 32, len: 2 << 20 });
        let enabled = std::fs::read_to_string(dir.path().join("enable")).expect("it is there");
        assert_eq!(enabled, "1");
    }

    #[test]
    fn other_devices_and_bars_are_refused_with_a_reason() {
        let right = "0x0000000100000000 0x00000001001fffff 0x000000000014220c";
        for (vendor, bar, len, why) in [
            ("0x8086\n", right, 2 << 20, "no ivshmem device (0x8086:0x1110)"),
            ("0x1af4\n", right, 4 << 20, "has 2097152 bytes, the region has 4194304"),
            ("0x1af4\n", "0x0 0x0 0x0", 4096, "gave BAR 2 no addresses"),
            ("0x1af4\n", "rubbish", 4096, "no line for BAR 2"),
        ] {
            let dir = device(vendor, bar);
            let error = memory_of(dir.path(), len).expect_err("it is wrong").why();
            assert!(error.contains(why), "{error}");
        }
        let none = memory_of(Path::new("/nonexistent"), 4096).expect_err("nothing there").why();
        assert!(none.contains("/nonexistent/vendor"), "{none}");
    }
}
