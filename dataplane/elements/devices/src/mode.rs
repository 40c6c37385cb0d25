//! By what means a port uses its interface: AF_XDP or packet sockets (AF_PACKET), and why.

use std::fmt;
use std::sync::Arc;

use thruway_element::{Arg, ArgErrors, Args, Ty};
use thruway_port::af_xdp::{Device, Mode, XdpOptions};
use thruway_port::interface;

/// What the user said of the means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Method {
    /// Nothing: the best one that works.
    Best,
    /// Packet sockets, and why.
    Packet(&'static str),
    /// AF_XDP or none.
    Xdp,
}

/// Whether TCP packets of up to 64 kB that a sender left unsegmented arrive whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Large {
    No,
    Yes,
    /// All elements behind take them: where the interfaces do, too.
    IfPossible,
}

/// How a port is to use its interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PortRequest {
    pub(super) method: Method,
    pub(super) xdp: XdpOptions,
    pub(super) queue: Option<u32>,
    pub(super) large: Large,
    /// By packet sockets: the host's stack is not to see packets.
    pub(super) exclusive: bool,
}

/// What a port uses.
pub(super) enum PortMode {
    Xdp(Arc<Device>),
    /// Packet sockets, and why.
    Packet(String),
}

impl fmt::Display for PortMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortMode::Xdp(device) => f.write_str(&device.describe()),
            PortMode::Packet(why) => write!(f, "AF_PACKET ({why})"),
        }
    }
}

const METHODS: &[&str] = &["LINUX", "PCAP", "XDP"];
const MODES: &[&str] = &["NATIVE", "GENERIC"];
/// Native or nothing, where the user did not ask for AF_XDP: in generic mode the kernel makes a
/// packet of its own all the same, and what it merged is lost.
const BEST: &[Mode] = &[Mode::Native];

pub(super) const METHOD: Arg =
    Arg::keyword("METHOD", Ty::Choice(METHODS), "LINUX or PCAP: packet sockets; XDP: AF_XDP only");
pub(super) const XDP_MODE: Arg = Arg::keyword(
    "XDP_MODE",
    Ty::Choice(MODES),
    "of AF_XDP: NATIVE (in the driver) or GENERIC only",
);
pub(super) const QUEUE: Arg =
    Arg::keyword("QUEUE", Ty::UInt, "of AF_XDP: the interface's queue; all, or a free one");
pub(super) const BUSY_POLL: Arg =
    Arg::keyword("BUSY_POLL", Ty::UInt, "of AF_XDP: microseconds to poll the driver for").or("0");

/// The argument BURST of both directions.
pub(super) fn burst(args: &Args<'_>) -> Result<Option<usize>, ArgErrors> {
    match args.opt("BURST")? {
        Some(0) => Err(args.error("BURST", "must be at least 1").into()),
        burst => Ok(burst),
    }
}

/// Whether all that packets can come to from an input takes large ones. (A program in front of the
/// interface, which OFFLOAD asks for, has the other end send none.)
fn behind_takes_large(args: &Args<'_>) -> bool {
    let behind = args.env().paths.downstream().unwrap_or_default();
    args.choice("OFFLOAD").is_ok_and(|choice| choice == 0)
        && !behind.is_empty()
        && behind.iter().all(|spec| spec.large_packets)
}

impl PortRequest {
    /// Of the arguments that both directions have.
    pub(super) fn of(args: &Args<'_>) -> Result<PortRequest, ArgErrors> {
        let method = match args.opt::<String>("METHOD")?.as_deref() {
            None => Method::Best,
            Some("XDP") => Method::Xdp,
            Some("LINUX" | "PCAP") => Method::Packet("as METHOD says"),
            Some(_) => {
                let why = "write LINUX (packet sockets), XDP (AF_XDP), or leave it";
                return Err(args.error("METHOD", why).into());
            }
        };
        let queue = args.opt("QUEUE")?;
        let xdp = XdpOptions::default();
        let mut request = PortRequest { method, xdp, queue, large: Large::No, exclusive: false };
        request.xdp.receives = false;
        if matches!(request.method, Method::Best) {
            request.xdp.modes = BEST;
        }
        Ok(request)
    }

    /// Of a port that receives.
    pub(super) fn of_input(args: &Args<'_>) -> Result<PortRequest, ArgErrors> {
        let mut request = PortRequest::of(args)?;
        let mode: Option<String> = args.opt("XDP_MODE")?;
        let sniffer: Option<bool> = args.opt("SNIFFER")?;
        let outbound: bool = args.get("OUTBOUND")?;
        let is_plain = sniffer.is_none() && !outbound && request.queue.is_none();
        request.large = match args.opt::<bool>("LARGE")? {
            Some(true) => Large::Yes,
            None if is_plain && behind_takes_large(args) => Large::IfPossible,
            None | Some(false) => Large::No,
        };
        let large = request.large == Large::Yes;
        let is_asked = matches!(request.method, Method::Xdp) || mode.is_some();
        request.method = match (request.method, sniffer) {
            (Method::Packet(why), _) => Method::Packet(why),
            _ if large && is_asked => {
                let why = "AF_XDP has no room for such packets; take METHOD LINUX";
                return Err(args.error("LARGE", why).into());
            }
            _ if large => Method::Packet("as LARGE says"),
            (_, Some(true)) if is_asked => {
                let why = "with AF_XDP the host's stack does not see what is received";
                return Err(args.error("SNIFFER", why).into());
            }
            _ if outbound && is_asked => {
                let why = "with AF_XDP what this host sends is not seen; take METHOD LINUX";
                return Err(args.error("OUTBOUND", why).into());
            }
            (_, Some(true)) => Method::Packet("as SNIFFER says"),
            _ if outbound => Method::Packet("as OUTBOUND says"),
            (_, Some(false)) => Method::Xdp,
            _ if is_asked => Method::Xdp,
            (method, None) => method,
        };
        if matches!(request.method, Method::Xdp) {
            request.large = Large::No;
        }
        request.exclusive = sniffer == Some(false) && matches!(request.method, Method::Packet(_));
        request.xdp = XdpOptions {
            receives: true,
            promiscuous: args.get("PROMISC")?,
            busy_poll_us: args.get("BUSY_POLL")?,
            modes: match (mode.as_deref(), &request.method) {
                (Some("NATIVE"), _) | (None, Method::Best) => BEST,
                (Some(_), _) => &[Mode::Generic],
                (None, _) => &[Mode::Native, Mode::Generic],
            },
            ..request.xdp
        };
        Ok(request)
    }

    /// Whether AF_XDP may be taken where packets of up to 64 kB pass.
    pub(super) fn may_be_xdp(&self) -> bool {
        match self.method {
            Method::Packet(_) => false,
            Method::Xdp => true,
            Method::Best => self.large == Large::No,
        }
    }

    /// The maximum number of threads that can read the interface, as far as known without opening
    /// it: by AF_XDP one for each of its queues, by packet sockets (`None`) any number. Of one that
    /// is not there nothing is known.
    pub(super) fn readers_max(&self, name: &str) -> Option<usize> {
        let is_packet = match self.method {
            Method::Packet(_) => true,
            Method::Xdp => false,
            Method::Best => interface::is_tap(name) || interface::used_by_host(name).is_some(),
        };
        if is_packet || interface::index(name).is_none() {
            return None;
        }
        let queues = self.queue.map_or_else(|| interface::rx_queues(name), |_| Ok(1));
        queues.ok().map(|count| count as usize)
    }

    /// The best working method, or the requested one.
    pub(super) fn choose(&self, name: &str) -> Result<PortMode, String> {
        match self.method {
            Method::Packet(why) => Ok(PortMode::Packet(why.to_owned())),
            Method::Xdp => match Device::open(name, &self.xdp) {
                Ok(device) => Ok(PortMode::Xdp(device)),
                Err(error) => Err(error.to_string()),
            },
            Method::Best if interface::is_tap(name) => Ok(PortMode::Packet(
                "a TAP device, whose segments of up to 64 kB AF_XDP does not take".to_owned(),
            )),
            Method::Best => Ok(match interface::used_by_host(name) {
                Some(use_) => PortMode::Packet(format!(
                    "{use_}, from which AF_XDP would take the packets; METHOD XDP does so"
                )),
                None => match Device::open(name, &self.xdp) {
                    Ok(device) => PortMode::Xdp(device),
                    Err(error) => PortMode::Packet(format!("no AF_XDP: {error}")),
                },
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forced_is_not_chosen() {
        let xdp = XdpOptions::default();
        let request =
            |method| PortRequest { method, xdp, queue: None, large: Large::No, exclusive: false };
        let mode = request(Method::Packet("as SNIFFER says")).choose("lo").expect("no question");
        assert_eq!(mode.to_string(), "AF_PACKET (as SNIFFER says)");
        let mode = request(Method::Best).choose("lo").expect("packet sockets always");
        assert!(mode.to_string().starts_with("AF_PACKET (the host's stack has "), "{mode}");
        let error = request(Method::Xdp).choose("nosuch0").err().expect("there is none");
        assert!(error.contains("no interface 'nosuch0'"), "{error}");
    }
}
