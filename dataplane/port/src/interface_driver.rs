//! What an interface's driver says of it (ethtool).

use crate::error::PortError;
use crate::interface_exists::{DRVINFO_WORDS, ETHTOOL_GDRVINFO};
use crate::interface_request::{control_socket, request_about};

// Commands of <linux/ethtool.h>.
const ETHTOOL_GTSO: u32 = 0x1E;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GCHANNELS: u32 = 0x3C;
/// VLAN tags are taken out of received frames, and kept beside them.
const ETH_FLAG_RXVLAN: u32 = 1 << 8;

/// Where the texts of 32 bytes of `struct ethtool_drvinfo` begin.
const DRIVER_AT: usize = 1;
const BUS_AT: usize = 25;
/// Words of `struct ethtool_channels`: the command, four limits, four counts.
const CHANNELS_WORDS: usize = 9;
const RX_AT: usize = 5;
const COMBINED_AT: usize = 8;

/// The receive queues of `name`; 1 where the driver does not report.
///
/// # Errors
/// The name is no name.
pub fn rx_queues(name: &str) -> Result<u32, PortError> {
    let socket = control_socket(name)?;
    let mut words = [0; CHANNELS_WORDS];
    words[0] = ETHTOOL_GCHANNELS;
    let is_reported = request_about(name)?.ethtool_words(&socket, &mut words).is_ok();
    let count = words[RX_AT].saturating_add(words[COMBINED_AT]);
    Ok(if is_reported { count.max(1) } else { 1 })
}

/// The driver of `name` and its address on a bus, empty for one that has no hardware; `None` where
/// nobody reports.
fn driver(name: &str) -> Option<(String, String)> {
    let socket = control_socket(name).ok()?;
    let mut words = [0; DRVINFO_WORDS];
    words[0] = ETHTOOL_GDRVINFO;
    request_about(name).ok()?.ethtool_words(&socket, &mut words).ok()?;
    Some((text(&words[DRIVER_AT..]), text(&words[BUS_AT..])))
}

/// Whether `name` is a TUN or TAP device.
pub fn is_tap(name: &str) -> bool {
    driver(name).is_some_and(|(driver, _)| driver == "tun")
}

/// Whether `name` is an interface without hardware (veth, TAP); its frames may come straight
/// from a stack that left their checksums to hardware. Those that lack a driver to ask are.
pub fn is_virtual(name: &str) -> bool {
    driver(name).is_none_or(|(driver, bus)| bus.is_empty() || driver == "tun")
}

/// Whether `name` is an interface without hardware that leaves it to the other end to cut TCP
/// packets of up to 64 kB (`ethtool -k`: tcp-segmentation-offload).
pub fn is_for_large_packets(name: &str) -> bool {
    let (Ok(socket), Ok(mut request)) = (control_socket(name), request_about(name)) else {
        return false;
    };
    is_virtual(name) && request.ethtool(&socket, ETHTOOL_GTSO, 0).is_ok_and(|value| value != 0)
}

/// Whether the driver of `name` takes VLAN tags out of what it receives, or may hand over frames
/// whose tags were taken out before.
pub fn strips_tags(name: &str) -> bool {
    let (Ok(socket), Ok(mut request)) = (control_socket(name), request_about(name)) else {
        return false;
    };
    request.ethtool(&socket, ETHTOOL_GFLAGS, 0).is_ok_and(|flags| flags & ETH_FLAG_RXVLAN != 0)
}

/// A text of 32 bytes that begins there.
fn text(words: &[u32]) -> String {
    let bytes = words.iter().take(8).flat_map(|word| word.to_ne_bytes());
    let bytes: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
