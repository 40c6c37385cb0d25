//! KernelTap: an interface whose other end is the configuration.

use std::net::Ipv4Addr;
use std::process::Command;

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handler, HandlerError, IpPrefix, Operation, Reason,
    Run, Spec, Topic, Ty, reasons,
};
use thruway_packet::{Batch, MAX_BATCH, Packet, PacketKind};
use thruway_port::tap::{Tap, TapKind, TapOptions};
use thruway_wire::MacAddr;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "KernelTap",
        topic: Topic::Traces,
        summary: "makes an interface of this host whose other end is the configuration",
        docs: "Makes a TAP interface with address ADDR/MASK and brings it up; it goes away at the \
               end. What the host sends through it is emitted, with Ethernet header, timestamp and \
               packet type; what enters is handed to the host as received there. Packets come in \
               pushed or are pulled.\n\
               With GATEWAY the host's default route leads there. The host asks by ARP for the \
               addresses behind the interface: an ARPResponder must answer. Needs the right to \
               administer the network (CAP_NET_ADMIN). HEADROOM and IGNORE_QUEUE_OVERFLOWS are \
               accepted: there are always 128 bytes, and overflows are counted, not printed.",
        example: "tap :: KernelTap(192.0.2.1/24) -> Print(host) -> Discard",
        ports: "0-1/0-1",
        processing: "a/h",
        flow: "x/y",
        args: &[
            Arg::optional("ADDR", Ty::IpPrefix, "address and mask of the host's end"),
            Arg::optional("GATEWAY", Ty::Ip, "the host's default route, within ADDR/MASK"),
            Arg::keyword("HEADROOM", Ty::UInt, "accepted").or("128"),
            Arg::keyword("ETHER", Ty::Ether, "Ethernet address of the host's end"),
            Arg::keyword(
                "MTU",
                Ty::UInt,
                "largest IP packet, bytes; the kernel's choice if not \
                          given",
            ),
            Arg::keyword(
                "NAME",
                Ty::Str,
                "name of the interface; the kernel's choice if not \
                          given",
            ),
            Arg::keyword("DEVNAME", Ty::Str, "as NAME"),
            Arg::keyword("IGNORE_QUEUE_OVERFLOWS", Ty::Bool, "accepted").or("false"),
            Arg::keyword("UP_CALL", Ty::Handler, "HANDLER [VALUE]: called when it is up"),
            Arg::keyword(
                "BURST",
                Ty::UInt,
                "packets per scheduling; the engine's choice if not \
                          given",
            ),
        ],
        drops: Lost::DROPS,
        handlers: &[
            Handler::sum("count", "packets from the host"),
            Handler::sum("byte_count", "bytes from the host"),
            Handler::sum("sent", "packets handed to the host"),
            Handler::read("dev_name", "the interface's name").shared(),
        ],
        task: true,
        cost: &[Operation::PortReceive.once()],
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet does not reach the host.
    enum Lost {
        QueueFull = "queue-full": "the host takes no more now",
        Refused = "refused": "shorter than an Ethernet header, or the interface is down",
    }
}

/// Longest frame that is read, bytes.
const FRAME_MAX: usize = 65_536 + 64;

struct KernelTap {
    options: TapOptions,
    gateway: Option<Ipv4Addr>,
    ether: Option<MacAddr>,
    up_call: Option<String>,
    burst: Option<usize>,
    tap: Option<Tap>,
    buffer: Vec<u8>,
    /// An error was told and nothing was handed over since.
    complained: bool,
    count: u64,
    bytes: u64,
    sent: u64,
    batch: Batch,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    if args.env().threads > 1 {
        return Err(ArgErrors::whole("several threads push here; put a Queue in front"));
    }
    let prefix: Option<IpPrefix> = args.opt("ADDR")?;
    let address = match prefix {
        None => None,
        Some(prefix) => {
            let why = "the mask is not contiguous; write ADDRESS/LENGTH";
            let length = prefix.length().ok_or_else(|| args.error("ADDR", why))?;
            Some((prefix.addr, length))
        }
    };
    let gateway: Option<Ipv4Addr> = args.opt("GATEWAY")?;
    let gateway = gateway.filter(|gateway| !gateway.is_unspecified());
    if gateway.is_some_and(|gateway| !prefix.is_some_and(|prefix| prefix.contains(gateway))) {
        return Err(args.error("GATEWAY", "must lie within ADDR/MASK").into());
    }
    let name: Option<String> = args.opt("NAME")?;
    let name = match name {
        Some(name) => Some(name),
        None => args.opt("DEVNAME")?,
    };
    let burst = args.opt("BURST")?;
    if burst == Some(0) {
        return Err(args.error("BURST", "must be at least 1").into());
    }
    Ok(Box::new(KernelTap {
        options: TapOptions {
            name: name.unwrap_or_default(),
            kind: TapKind::Ethernet,
            address,
            mtu: args.opt("MTU")?,
        },
        gateway,
        ether: args.opt("ETHER")?,
        up_call: args.opt("UP_CALL")?,
        burst,
        tap: None,
        buffer: vec![0; FRAME_MAX],
        complained: false,
        count: 0,
        bytes: 0,
        sent: 0,
        batch: Batch::with_room(),
    }))
}

/// Has the system's `ip` command do what it alone does.
fn run_ip(words: &[&str]) -> Result<(), String> {
    let line = || format!("ip {}", words.join(" "));
    let done = Command::new("ip").args(words).output();
    let done = done.map_err(|error| format!("cannot run '{}': {error}", line()))?;
    match done.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&done.stderr);
            Err(format!("'{}' failed: {}", line(), said.trim()))
        }
    }
}

/// A packet of a frame that the host sent.
fn packet_of(frame: &[u8], now: i64) -> Option<Packet> {
    let mut packet = Packet::new(frame)?;
    packet.set_mac_offset(0);
    packet.set_timestamp(now);
    packet.set_kind(match frame {
        [255, 255, 255, 255, 255, 255, ..] => PacketKind::Broadcast,
        [first, ..] if first & 1 == 1 => PacketKind::Multicast,
        _ => PacketKind::Host,
    });
    Some(packet)
}

impl KernelTap {
    fn hand_over(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let Some(tap) = &mut self.tap else { return cx.drop_all(Lost::Refused, batch) };
        for packet in batch.drain() {
            match tap.write(packet.data()) {
                Ok(true) => {
                    self.sent += 1;
                    self.complained = false;
                }
                Ok(false) => cx.drop(Lost::QueueFull, packet),
                Err(error) => {
                    cx.drop(Lost::Refused, packet);
                    if !std::mem::replace(&mut self.complained, true) {
                        cx.chatter(&error.to_string());
                    }
                }
            }
        }
    }

    /// Reads what the host sent; says whether there was any.
    fn take_over(&mut self, cx: &mut Cx<'_>, max: usize) -> bool {
        let Some(tap) = &mut self.tap else { return false };
        let mut error = None;
        for _ in 0..max {
            match tap.read(&mut self.buffer) {
                Ok(Some(frame)) => match packet_of(frame, cx.now()) {
                    Some(packet) => self.batch.push(packet),
                    None => cx.count_drops(Reason::NO_MEMORY, 1),
                },
                Ok(None) => break,
                Err(reading) => {
                    error = Some(reading.to_string());
                    break;
                }
            }
        }
        if let Some(error) = error
            && !std::mem::replace(&mut self.complained, true)
        {
            cx.chatter(&error);
        }
        let made = self.batch.len();
        self.count += made as u64;
        self.bytes += self.batch.bytes();
        if made > 0 {
            cx.emit_all(0, &mut self.batch);
        }
        made > 0
    }
}

impl Element for KernelTap {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let tap = Tap::open(&self.options).map_err(|error| error.to_string())?;
        cx.watch(&tap).map_err(|error| format!("interface '{}': {error}", tap.name()))?;
        if let Some(ether) = self.ether {
            run_ip(&["link", "set", "dev", tap.name(), "address", &ether.to_string()])?;
        }
        if let Some(gateway) = self.gateway {
            let gateway = gateway.to_string();
            run_ip(&["route", "replace", "default", "via", &gateway, "dev", tap.name()])?;
        }
        self.tap = Some(tap);
        if let Some(call) = &self.up_call {
            let (call, value) = call.split_once(' ').unwrap_or((call, ""));
            cx.write_later(call, value.trim());
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        self.hand_over(cx, batch);
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        let burst = self.burst.unwrap_or_else(|| cx.burst()).min(MAX_BATCH);
        let mut pulled = false;
        if cx.inputs() > 0 && cx.is_pull_input(0) {
            let mut batch = std::mem::take(&mut self.batch);
            cx.pull(0, burst, &mut batch);
            pulled = !batch.is_empty();
            self.hand_over(cx, &mut batch);
            self.batch = batch;
        }
        let taken = self.take_over(cx, burst);
        if taken || pulled { Run::Again } else { Run::Idle }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.count.to_string()),
            "byte_count" => Ok(self.bytes.to_string()),
            "sent" => Ok(self.sent.to_string()),
            "dev_name" => Ok(self.tap.as_ref().map_or("", Tap::name).to_owned()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(tap) = self.tap.take() {
            cx.unwatch(&tap);
        }
        Ok(())
    }
}
