//! Ports of DPDK: found, started with as many queues as are wanted, shared by their users, closed
//! when the last of them is gone.

use super::eal::{self, Eal, control};
use super::mbufs::Table;
use super::messages::{self, logged, wrong};
use super::sys::{self, Counts, LinkState, PortConf, PortInfo, TextBuffer, Xstat};
use super::{About, Counters, Link, PortConfig};
use crate::error::PortError;
use parking_lot::Mutex;
use std::ffi::{CString, c_int};
use std::sync::{Arc, Weak};
use thruway_packet::Frames;

/// What comes in a frame on top of an MTU: head room, Ethernet's header, two VLAN tags.
const AROUND_MTU: usize = 128 + 14 + 2 * 4;
/// Most extended statistics that are reported.
const XSTATS_MAX: usize = 1024;

/// Ports that are open.
static OPEN: Mutex<Vec<Weak<Device>>> = Mutex::new(Vec::new());

/// A port that runs.
pub struct Device {
    port: u16,
    eal: &'static Eal,
    /// Whether its device is there because of us.
    is_made: bool,
    about: About,
    config: PortConfig,
    taken: Mutex<Taken>,
}

/// The queues in use.
struct Taken {
    rx: Vec<bool>,
    tx: Vec<bool>,
    /// Nobody had one: see [`Device::rest`].
    is_resting: bool,
}

impl Device {
    /// Opens a port and starts it as wished, or finds it open so already. `name` is the number of
    /// a port that DPDK has, a PCI address, or the name of a device, with arguments for a virtual
    /// one: `net_tap0,iface=x`.
    ///
    /// # Errors
    /// DPDK does not run; there is no such device, or the kernel has it; it has not as many queues;
    /// its frames are longer than ours; another element uses it with other settings; its driver
    /// refused.
    pub fn open(name: &str, config: &PortConfig) -> Result<Arc<Device>, PortError> {
        let Some(eal) = eal::running() else {
            return Err(wrong("DPDK does not run"));
        };
        let _control = control();
        // What was logged before has nothing to do with this.
        messages::log();
        let (port, is_made) = find(name)?;
        let found = OPEN.lock().iter().filter_map(Weak::upgrade).find(|open| open.port == port);
        if let Some(device) = found {
            return device.check_shared(config).map(|()| device);
        }
        match start(name, port, config, eal) {
            Ok(about) => {
                let taken = Taken {
                    rx: vec![false; config.rx_queues.into()],
                    tx: vec![false; about.tx_queues.into()],
                    is_resting: false,
                };
                let taken = Mutex::new(taken);
                let config = PortConfig { tx_queues: about.tx_queues, ..*config };
                let device = Arc::new(Device { port, eal, is_made, about, config, taken });
                let mut open = OPEN.lock();
                open.retain(|device| device.strong_count() > 0);
                open.push(Arc::downgrade(&device));
                Ok(device)
            }
            Err(error) => {
                if is_made {
                    close(port, true);
                }
                Err(error)
            }
        }
    }

    /// Whether its settings match another user's.
    fn check_shared(&self, config: &PortConfig) -> Result<(), PortError> {
        let have = &self.config;
        // A queue that nobody reads would swallow its share.
        let matches = have.rx_queues == config.rx_queues
            && have.tx_queues >= config.tx_queues.min(self.about.tx_queues_max)
            && (have.promiscuous, have.checks) == (config.promiscuous, config.checks)
            && (config.mtu.is_none() || have.mtu == config.mtu)
            && (config.rx_slots, config.tx_slots) == (have.rx_slots, have.tx_slots);
        if matches {
            return Ok(());
        }
        Err(wrong(format!(
            "DPDK device '{}' is in use with {} queues to receive and {} to send by, and other \
             settings; it can be set up anew when nobody uses it: end the program, or swap to a \
             configuration without it first",
            self.about.name, have.rx_queues, have.tx_queues
        )))
    }

    /// Takes these queues to receive by.
    ///
    /// # Errors
    /// The port was not started with them, or one is in use.
    pub(super) fn take_rx(&self, queues: &std::ops::Range<u16>) -> Result<(), PortError> {
        let mut taken = self.taken.lock();
        let queues_taken = taken.rx.get_mut(usize::from(queues.start)..usize::from(queues.end));
        let Some(queues_taken) = queues_taken.filter(|queues_taken| !queues_taken.is_empty())
        else {
            return Err(self.no_queue("receive", self.config.rx_queues));
        };
        if queues_taken.contains(&true) {
            return Err(wrong(format!(
                "DPDK device '{}': another element receives by queues {}-{}; give each \
                 FromDPDKDevice queues of its own (QUEUE, N_QUEUES)",
                self.about.name,
                queues.start,
                queues.end - 1
            )));
        }
        queues_taken.fill(true);
        self.restart(&mut taken)
    }

    /// Takes this queue to send by, or the first that nobody has.
    ///
    /// # Errors
    /// The port was not started with it, or it is in use.
    pub(super) fn take_tx(&self, queue: Option<u16>) -> Result<u16, PortError> {
        let mut taken = self.taken.lock();
        let free = taken.tx.iter().position(|taken| !taken).map(|at| at as u16);
        let queue = queue.or(free).ok_or_else(|| self.no_queue("send", self.config.tx_queues))?;
        match taken.tx.get_mut(usize::from(queue)) {
            None => return Err(self.no_queue("send", self.config.tx_queues)),
            Some(true) => {
                return Err(wrong(format!(
                    "DPDK device '{}': another element sends by queue {queue}; omit QUEUE, or give \
                     each ToDPDKDevice and thread one of its own",
                    self.about.name
                )));
            }
            Some(free_queue) => *free_queue = true,
        }
        self.restart(&mut taken).map(|()| queue)
    }

    /// Where its mbufs are.
    pub(super) fn mbufs(&self) -> Table {
        self.eal.mbufs.table()
    }

    /// Stops the port if nobody has a queue of it; what it counted can still be asked for. Files of
    /// its driver are closed.
    pub fn rest(&self) {
        let _control = control();
        let mut taken = self.taken.lock();
        let is_used = taken.rx.contains(&true) || taken.tx.contains(&true);
        if !is_used && !std::mem::replace(&mut taken.is_resting, true) {
            // JUSTIFICATION: a function of the shim.
            // SAFETY: the port is open, and nobody has an end of it.
            unsafe { sys::tw_port_stop(self.port) };
            eal::flush();
        }
    }

    /// Lets a port that rests run again.
    fn restart(&self, taken: &mut Taken) -> Result<(), PortError> {
        if !std::mem::take(&mut taken.is_resting) {
            return Ok(());
        }
        // JUSTIFICATION: a function of the shim.
        // SAFETY: the port is open and set up.
        match unsafe { sys::tw_port_restart(self.port) } {
            0 => Ok(()),
            error => Err(wrong(format!(
                "DPDK device '{}' cannot be started again: {}{}",
                self.about.name,
                std::io::Error::from_raw_os_error(-error),
                logged()
            ))),
        }
    }

    fn no_queue(&self, what: &str, count: u16) -> PortError {
        wrong(format!(
            "DPDK device '{}' has {count} queues to {what} by, and they are numbered from 0",
            self.about.name
        ))
    }

    /// Takes queues back.
    pub(super) fn give_rx(&self, queues: std::ops::Range<u16>) {
        self.taken.lock().rx[usize::from(queues.start)..usize::from(queues.end)].fill(false);
    }

    /// Takes a queue back.
    pub(super) fn give_tx(&self, queue: u16) {
        self.taken.lock().tx[usize::from(queue)] = false;
    }

    /// Its number.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// What it is.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// How it works: "DPDK 22.11.11, net_null, 1 queue to receive and 1 to send by".
    pub fn describe(&self) -> String {
        let About { driver, rx_queues, tx_queues, hashes, .. } = &self.about;
        let s = if *rx_queues == 1 { "" } else { "s" };
        let spread = match (*rx_queues > 1, *hashes) {
            (true, true) => ", spread alike for both directions",
            (true, false) => ", spread as the driver likes: it has no hash",
            _ => "",
        };
        format!(
            "{}, driver {driver}, {rx_queues} queue{s} to receive{spread}, {tx_queues} to send",
            self.eal.about
        )
    }

    /// The state of its link.
    pub fn link(&self) -> Link {
        let _control = control();
        let mut state = LinkState::default();
        // JUSTIFICATION: a function of the shim.
        // SAFETY: the port is open; the structure is ours.
        unsafe { sys::tw_port_link(self.port, &mut state) };
        let (is_up, is_full_duplex) = (state.is_up != 0, state.is_full_duplex != 0);
        Link { is_up, mbps: state.mbps, is_full_duplex }
    }

    /// What it has counted.
    pub fn counters(&self) -> Counters {
        let _control = control();
        let mut counts = Counts::default();
        // JUSTIFICATION: a function of the shim.
        // SAFETY: the port is open; the structure is ours.
        unsafe { sys::tw_port_counts(self.port, &mut counts) };
        Counters {
            received: counts.received,
            received_bytes: counts.received_bytes,
            sent: counts.sent,
            sent_bytes: counts.sent_bytes,
            missed: counts.missed,
            receive_errors: counts.receive_errors,
            no_frame: counts.no_mbuf,
            send_errors: counts.send_errors,
        }
    }

    /// Its driver's own statistics, by the driver's names.
    pub fn extended(&self) -> Vec<(String, u64)> {
        let _control = control();
        let mut stats = vec![Xstat { name: [0; 64], value: 0 }; XSTATS_MAX];
        // JUSTIFICATION: a function of the shim.
        // SAFETY: the port is open; there is room for so many.
        let count =
            unsafe { sys::tw_port_xstats(self.port, stats.as_mut_ptr(), XSTATS_MAX as u32) };
        stats.truncate(usize::try_from(count).unwrap_or(0));
        stats.iter().map(|stat| (sys::string(&stat.name), stat.value)).collect()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _control = control();
        close(self.port, self.is_made);
        eal::flush();
    }
}

/// Closes a port that is there because of us; another one is stopped, so that it can be used again.
fn close(port: u16, is_made: bool) {
    if is_made {
        // JUSTIFICATION: a function of the shim.
        // SAFETY: the port is open, and nobody uses it any more.
        unsafe { sys::tw_port_close(port, 1) };
    } else {
        // JUSTIFICATION: a function of the shim.
        // SAFETY: as above.
        unsafe { sys::tw_port_stop(port) };
    }
}

/// The port of a device, and whether it was made now.
fn find(name: &str) -> Result<(u16, bool), PortError> {
    if let Ok(port) = name.parse::<u16>() {
        // JUSTIFICATION: a function of the shim.
        // SAFETY: it has no preconditions.
        if unsafe { sys::tw_port_is_valid(port) } != 0 {
            return Ok((port, false));
        }
        return Err(wrong(format!(
            "DPDK has no port {port}; name the device (a PCI address, or net_tap0,iface=x), or \
             give DPDK one: DPDKInfo(\"--vdev=net_null0\")"
        )));
    }
    let pci = super::pci::address(name);
    let whole = pci.clone().unwrap_or_else(|| with_frames(name));
    let text = CString::new(whole).map_err(|_| wrong("a device's name contains a NUL"))?;
    let short = text.to_bytes().split(|&byte| byte == b',').next().unwrap_or_default();
    let short = CString::new(short).map_err(|_| wrong("a device's name contains a NUL"))?;
    if let Some(port) = port_named(&short) {
        return Ok((port, false));
    }
    if let Some(pci) = &pci {
        super::pci::check(pci)?;
    }
    // JUSTIFICATION: a function of the shim.
    // SAFETY: the name is a string of C.
    let result = unsafe { sys::tw_port_probe(text.as_ptr()) };
    match port_named(&short) {
        Some(port) if result == 0 => Ok((port, true)),
        _ => Err(unknown(name, result)),
    }
}

/// By default, a device by packet sockets has slots longer than our frames.
fn with_frames(name: &str) -> String {
    let is_given = name.contains("framesz=") || name.contains("blocksz=");
    match name.starts_with("net_af_packet") && !is_given {
        // Slots of 1,792 bytes, sixteen in a block of seven pages.
        true => format!("{name},framesz=1792,blocksz=28672"),
        false => name.to_owned(),
    }
}

fn port_named(name: &CString) -> Option<u16> {
    // JUSTIFICATION: a function of the shim.
    // SAFETY: the name is a string of C.
    u16::try_from(unsafe { sys::tw_port_find(name.as_ptr()) }).ok()
}

fn unknown(name: &str, result: c_int) -> PortError {
    let cause = match (logged(), result) {
        (logged, 0) => format!("it gives no Ethernet port{logged}"),
        (logged, _) if logged.is_empty() => std::io::Error::from_raw_os_error(-result).to_string(),
        (logged, _) => logged.trim_matches([' ', '(', ')']).to_owned(),
    };
    wrong(format!(
        "DPDK cannot use '{name}': {cause}; a device is a PCI address bound to vfio-pci, or a \
         virtual one: net_null0, net_tap0,iface=x, net_pcap0,rx_pcap=FILE, net_af_packet0,iface=x"
    ))
}

fn info(port: u16) -> Option<PortInfo> {
    let mut info = std::mem::MaybeUninit::<PortInfo>::zeroed();
    // JUSTIFICATION: a function of the shim.
    // SAFETY: the structure is ours.
    let result = unsafe { sys::tw_port_info(port, info.as_mut_ptr()) };
    // JUSTIFICATION: a structure that C has filled.
    // SAFETY: the shim fills it, and all zeros are a valid one.
    (result == 0).then(|| unsafe { info.assume_init() })
}

fn about(info: &PortInfo, config: &PortConfig) -> About {
    About {
        name: sys::string(&info.name),
        driver: sys::string(&info.driver),
        mac: info.mac,
        rx_queues: info.rx_queues,
        tx_queues: info.tx_queues,
        rx_queues_max: info.rx_queues_max,
        tx_queues_max: info.tx_queues_max,
        mtu: info.mtu,
        mtu_max: info.mtu_max,
        hashes: info.hashes != 0,
        can_check: info.can_check != 0,
        checks: info.can_check != 0 && config.checks,
        node: u16::try_from(info.node).ok(),
    }
}

/// Refuses what the port cannot do.
fn check(name: &str, info: &PortInfo, config: &PortConfig) -> Result<(), PortError> {
    let too_many = |what: &str, wanted: u16, max: u16, remedy: &str| {
        wrong(format!(
            "DPDK device '{name}' (driver {}) has at most {max} queues to {what} by, and {wanted} \
             are wanted: {remedy}",
            sys::string(&info.driver)
        ))
    };
    if config.rx_queues > info.rx_queues_max {
        let remedy = "take fewer (MAXTHREADS or N_QUEUES of FromDPDKDevice, QUEUE), or make the device have \
                      more where it can (net_af_packet0,iface=x,qpairs=2)";
        return Err(too_many("receive", config.rx_queues, info.rx_queues_max, remedy));
    }
    if config.tx_queues_min > info.tx_queues_max {
        let remedy = "each ToDPDKDevice has one, or the one that QUEUE names: let one of them send \
                      for all";
        return Err(too_many("send", config.tx_queues_min, info.tx_queues_max, remedy));
    }
    let mtu_max = (Frames::LEN - AROUND_MTU) as u16;
    let mtu = config.mtu.unwrap_or(info.mtu);
    if mtu > mtu_max {
        return Err(wrong(format!(
            "DPDK device '{name}' has an MTU of {mtu}, which makes frames longer than the {} bytes \
             of ours: set MTU {mtu_max} or less, or use FromDevice and packet sockets for longer \
             packets",
            Frames::LEN
        )));
    }
    Ok(())
}

/// Starts a port as wished.
fn start(name: &str, port: u16, config: &PortConfig, eal: &Eal) -> Result<About, PortError> {
    let gone = || wrong(format!("DPDK device '{name}' is gone"));
    let found = info(port).ok_or_else(gone)?;
    check(name, &found, config)?;
    let conf = PortConf {
        rx_queues: config.rx_queues,
        tx_queues: config.tx_queues.min(found.tx_queues_max),
        rx_slots: config.rx_slots,
        tx_slots: config.tx_slots,
        mtu: config.mtu.unwrap_or(0),
        promiscuous: config.promiscuous.into(),
        checks: config.checks.into(),
    };
    let mut room = TextBuffer::new();
    let (pool, memory) = (eal.mbufs.pool(), eal.mbufs.memory());
    // JUSTIFICATION: a function of the shim.
    // SAFETY: the port exists and nobody uses it; pool and memory live as long as the process.
    let result = unsafe { sys::tw_port_start(port, &conf, pool, memory, room.text()) };
    if result != 0 {
        return Err(wrong(format!(
            "DPDK device '{name}' cannot be started: {}{}",
            room.into_string(),
            logged()
        )));
    }
    info(port).map(|info| about(&info, config)).ok_or_else(gone)
}
