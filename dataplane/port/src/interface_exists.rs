//! Whether an interface is there.

use crate::system::{self, IfRequest};

/// Queries the driver of an interface (`<linux/ethtool.h>`).
pub(crate) const ETHTOOL_GDRVINFO: u32 = 0x03;
/// Words of the answer, `struct ethtool_drvinfo`.
pub(crate) const DRVINFO_WORDS: usize = 49;

/// Whether there is an interface `name`. Where one is going it is waited for: the kernel answers
/// under the lock under which interfaces go.
pub(crate) fn exists(name: &str) -> bool {
    let Ok(socket) = system::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) else { return true };
    let mut words = [0; DRVINFO_WORDS];
    words[0] = ETHTOOL_GDRVINFO;
    let Some(mut request) = IfRequest::of(name) else { return false };
    match request.ethtool_words(&socket, &mut words) {
        Err(error) => error.raw_os_error() != Some(libc::ENODEV),
        Ok(()) => true,
    }
}
