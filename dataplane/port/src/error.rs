//! What may go wrong with a port, each with the thing's name and the remedy.

use crate::capture::LinkType;
use crate::interface_exists::exists;
use std::io;
use std::sync::Arc;

/// A capture that cannot be read or written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be opened or created.
    #[error("cannot {action} '{path}': {source}")]
    Open {
        /// "open" or "create".
        action: &'static str,
        /// The file.
        path: Arc<str>,
        /// What the kernel said.
        source: Arc<io::Error>,
    },
    /// The file starts with nothing that a capture starts with.
    #[error(
        "'{path}' is not a capture: it starts with {first}; pcap and pcapng files are read \
         (uncompress a compressed one first)"
    )]
    NotACapture {
        /// The file.
        path: Arc<str>,
        /// Its first bytes, in hexadecimal, or that there are none.
        first: String,
    },
    /// The file ends inside a record. All records before it were delivered.
    #[error(
        "'{path}' is truncated: record {record} at byte {offset} has {present} of \
         {needed} bytes; {record} complete records before it"
    )]
    Truncated {
        /// The file.
        path: Arc<str>,
        /// Frames delivered before.
        record: u64,
        /// Where the record starts, in bytes from the file's start.
        offset: u64,
        /// Bytes that the record claims.
        needed: u64,
        /// Bytes that are there.
        present: u64,
    },
    /// A record that contradicts itself or the format.
    #[error("'{path}' is damaged at byte {offset}, after {record} whole records: {what}")]
    Malformed {
        /// The file.
        path: Arc<str>,
        /// Frames delivered before.
        record: u64,
        /// Where the record starts, in bytes from the file's start.
        offset: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Frames of a link type that the reader of the capture has no use for.
    #[error("'{path}' has frames of {link}; {wanted} can be used here")]
    LinkType {
        /// The file.
        path: Arc<str>,
        /// Their type.
        link: LinkType,
        /// The types that would do.
        wanted: String,
    },
    /// Reading failed.
    #[error("cannot read '{path}' at byte {offset}: {source}")]
    Read {
        /// The file.
        path: Arc<str>,
        /// Bytes read before.
        offset: u64,
        /// What the kernel said.
        source: Arc<io::Error>,
    },
    /// Writing failed: a full disk, a closed pipe. What is in the file is whole.
    #[error("cannot write '{path}': {source}; {bytes} bytes ({records} whole records) are in it")]
    Write {
        /// The file.
        path: Arc<str>,
        /// Bytes in the file, a whole number of records.
        bytes: u64,
        /// Records in the file.
        records: u64,
        /// What the kernel said.
        source: Arc<io::Error>,
    },
}

/// An interface that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// There is no interface of that name.
    #[error("no interface '{name}'; there are: {existing}")]
    NoSuchInterface {
        /// The name given.
        name: String,
        /// The names there are, separated by commas.
        existing: String,
    },
    /// The process may not do that.
    #[error(
        "no permission to {what}: it needs {capability}; run as root, or: \
         setcap {setcap}+ep PROGRAM"
    )]
    Permission {
        /// What was tried.
        what: String,
        /// The capability's name.
        capability: &'static str,
        /// The same as setcap writes it.
        setcap: &'static str,
    },
    /// The interface exists and is down.
    #[error("interface '{name}' is down; bring it up: ip link set {name} up")]
    Down {
        /// The interface.
        name: String,
    },
    /// The interface existed and does not any more.
    #[error("interface '{name}' disappeared")]
    Gone {
        /// The interface.
        name: String,
    },
    /// An argument that cannot be right.
    #[error("interface '{name}': {what}")]
    BadArgument {
        /// The interface.
        name: String,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// DPDK, or a device of it, cannot be used.
    #[error("{what}")]
    Dpdk {
        /// What is wrong, with the device and the remedy.
        what: String,
    },
    /// A system call refused.
    #[error("interface '{name}': {step} failed: {source}")]
    System {
        /// The interface.
        name: String,
        /// The system call and what it was for.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl PortError {
    /// The error of a system call on `name`: missing rights are distinguished, with what gives
    /// them.
    pub(crate) fn system(name: &str, step: &'static str, source: io::Error) -> PortError {
        Self::with_capability(name, step, source, ("CAP_NET_RAW", "cap_net_raw"))
    }

    /// As [`PortError::system`], for what needs the right to configure the network.
    pub(crate) fn admin(name: &str, step: &'static str, source: io::Error) -> PortError {
        Self::with_capability(name, step, source, ("CAP_NET_ADMIN", "cap_net_admin"))
    }

    /// As [`PortError::system`], for what AF_XDP needs.
    pub(crate) fn xdp(name: &str, step: &'static str, source: io::Error) -> PortError {
        let all = ("CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF", "cap_net_raw,cap_net_admin,cap_bpf");
        Self::with_capability(name, step, source, all)
    }

    /// Something about the interface is as it must not be: what, and the remedy.
    pub(crate) fn unfit(name: &str, what: impl Into<String>) -> PortError {
        PortError::BadArgument { name: name.to_owned(), what: what.into() }
    }

    /// What is wrong, where the interface's name is known already.
    pub(crate) fn reason(&self) -> String {
        match self {
            PortError::BadArgument { what, .. } => what.clone(),
            other => other.to_string(),
        }
    }

    fn with_capability(
        name: &str,
        step: &'static str,
        source: io::Error,
        (capability, setcap): (&'static str, &'static str),
    ) -> PortError {
        // Sockets of an interface that goes get an error at first which says that it is down.
        const DEVICE_ERRORS: [i32; 3] = [libc::ENETDOWN, libc::ENXIO, libc::ENODEV];
        let is_of_device = |code| DEVICE_ERRORS.contains(&code);
        if source.raw_os_error().is_some_and(is_of_device) && !exists(name) {
            return PortError::Gone { name: name.to_owned() };
        }
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => PortError::Permission {
                what: format!("use interface '{name}' ({step})"),
                capability,
                setcap,
            },
            Some(libc::ENETDOWN) => PortError::Down { name: name.to_owned() },
            _ => PortError::System { name: name.to_owned(), step, source },
        }
    }
}
