//! Switches off what merges received frames in the driver or the kernel (GRO, LRO), and on again.

use crate::error::PortError;
use crate::system::{self, IfRequest};

// Commands and flags of <linux/ethtool.h>.
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
const ETHTOOL_GGRO: u32 = 0x2B;
const ETHTOOL_SGRO: u32 = 0x2C;
const ETH_FLAG_LRO: u32 = 1 << 15;

/// One offload: its name, the commands to get and to set it, and its bit in their value.
struct Offload {
    name: &'static str,
    get: u32,
    set: u32,
    bit: u32,
}

const OFFLOADS: [Offload; 2] = [
    Offload { name: "gro", get: ETHTOOL_GGRO, set: ETHTOOL_SGRO, bit: 1 },
    Offload { name: "lro", get: ETHTOOL_GFLAGS, set: ETHTOOL_SFLAGS, bit: ETH_FLAG_LRO },
];

/// Offloads that were switched off, and are switched on again on drop.
///
/// A process that is killed cannot do so: `ethtool -K NAME gro on` does.
#[derive(Debug)]
pub(super) struct OffloadGuard {
    interface: String,
    switched_off: Vec<&'static str>,
}

impl OffloadGuard {
    /// Switches off what is on and may be switched off.
    pub(super) fn new(interface: &str) -> Result<OffloadGuard, PortError> {
        let mut guard = OffloadGuard { interface: interface.to_owned(), switched_off: Vec::new() };
        for offload in &OFFLOADS {
            if guard.switch(offload, false)? {
                guard.switched_off.push(offload.name);
            }
        }
        Ok(guard)
    }

    /// The names of what was switched off.
    pub(super) fn switched_off(&self) -> &[&'static str] {
        &self.switched_off
    }

    /// Whether the offload was other than wanted and now is as wanted. A driver that does not know
    /// the offload, or holds it fixed, is no error: frames are segmented in software anyway.
    fn switch(&self, offload: &Offload, on: bool) -> Result<bool, PortError> {
        let socket = system::control_socket(&self.interface)?;
        let mut request = IfRequest::new(&self.interface)?;
        let Ok(before) = request.ethtool(&socket, offload.get, 0) else { return Ok(false) };
        let after = if on { before | offload.bit } else { before & !offload.bit };
        if after == before {
            return Ok(false);
        }
        match request.ethtool(&socket, offload.set, after) {
            Ok(_) => Ok(true),
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
                Err(PortError::admin(&self.interface, "ethtool", e))
            }
            Err(_) => Ok(false),
        }
    }
}

impl Drop for OffloadGuard {
    fn drop(&mut self) {
        for offload in OFFLOADS.iter().filter(|o| self.switched_off.contains(&o.name)) {
            // The interface may be gone by now, and then there is nothing to put back.
            let _ = self.switch(offload, true);
        }
    }
}

#[cfg(test)]
#[path = "../../tests/network/hosts.rs"]
#[allow(dead_code, reason = "the system tests use the rest")]
mod hosts;

#[cfg(test)]
mod tests {
    use super::hosts::{Host, cable, privileged};
    use super::*;

    #[test]
    fn what_was_on_is_off_for_the_time_of_use() {
        if !privileged("what_was_on_is_off_for_the_time_of_use") {
            return;
        }
        let (here, far) = (Host::new(), Host::new());
        let tid = far.tid;
        here.run(move || {
            cable("near", "far", tid);
            let gro = &OFFLOADS[0];
            let manual = OffloadGuard { interface: "near".to_owned(), switched_off: Vec::new() };
            // Off or on before: from here on it is on.
            manual.switch(gro, true).expect("root may");
            assert!(!manual.switch(gro, true).expect("root may"), "it is on");
            let guard = OffloadGuard::new("near").expect("root may");
            assert_eq!(guard.switched_off(), ["gro"]);
            assert!(!manual.switch(gro, false).expect("root may"), "it is off");
            drop(guard);
            assert!(!manual.switch(gro, true).expect("root may"), "it is on again");
        });
    }
}
