//! KernelTap: an interface with the configuration at its other end.

use std::sync::Arc;

use thruway_element::{
    Arguments, Cx, Element, Entry, Handlers, Operation, Replicas, Run, Spec, Threading, Topic, Ty,
};
use thruway_packet::{Batch, MAX_BATCH};
use thruway_port::tap::TapOptions;

use super::tap_link::{Lost, Setup, TapLink};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<KernelTap>(Spec {
    name: "KernelTap",
    topic: Topic::Devices,
    summary: "makes an interface of this host with the configuration at its other end",
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
    drops: Lost::DROPS,
    threading: Threading::Task,
    cost: &[Operation::PortReceive.once()],
    replicas: Replicas::OneThread(
        "its device sends what comes in one order; a Queue in front does, too",
    ),
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
#[handler(sum, field = count, "packets from the host")]
#[handler(sum, field = bytes, name = "byte_count", "bytes from the host")]
#[handler(sum, field = sent, "packets handed to the host")]
#[handler(
    read, shared, name = "dev_name", "the interface's name",
    get = self.link.as_ref().map_or("", TapLink::name).to_owned()
)]
struct KernelTap {
    #[arg(
        optional, name = "ADDR", unread, ty = Ty::IpPrefix,
        "address and mask of the host's end"
    )]
    #[arg(
        optional, name = "GATEWAY", unread, ty = Ty::Ip,
        "the host's default route, within ADDR/MASK"
    )]
    #[arg(keyword, name = "HEADROOM", unread, ty = Ty::UInt, or = "128", "accepted")]
    #[arg(
        keyword, name = "ETHER", unread, ty = Ty::Ether, "Ethernet address of the host's end"
    )]
    #[arg(
        keyword, name = "MTU", value = Option<u16>,
        "largest IP packet, bytes; the kernel's choice if not given"
    )]
    #[arg(
        keyword, name = "NAME", value = Option<String>,
        "name of the interface; the kernel's choice if not given"
    )]
    #[arg(keyword, name = "DEVNAME", value = Option<String>, "as NAME")]
    #[arg(
        keyword, name = "IGNORE_QUEUE_OVERFLOWS", unread, ty = Ty::Bool, or = "false", "accepted"
    )]
    #[new({
        let setup = Setup::of(args, "ADDR", name.or(devname).unwrap_or_default())?;
        let options = TapOptions { mtu, ..setup.options };
        Setup { options, ..setup }
    })]
    setup: Setup,
    #[arg(
        keyword, name = "UP_CALL", ty = Ty::Handler, "HANDLER [VALUE]: called when it is up"
    )]
    up_call: Option<String>,
    /// packets per scheduling; the engine's choice if not given
    #[arg(keyword, range = 1..)]
    burst: Option<usize>,
    link: Option<TapLink>,
    count: u64,
    bytes: u64,
    sent: u64,
    #[new(Batch::with_room())]
    batch: Batch,
}

impl KernelTap {
    fn hand_over(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        match &mut self.link {
            Some(link) => self.sent += link.hand_over(cx, batch),
            None => cx.drop_all(Lost::Refused, batch),
        }
    }

    /// Reads what the host sent; says whether there was any.
    fn take_over(&mut self, cx: &mut Cx<'_>, max: usize) -> bool {
        let Some(link) = &mut self.link else { return false };
        link.fill(cx, max, &mut self.batch);
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
        let link = TapLink::new(Arc::new(self.setup.open()?));
        link.watch(cx)?;
        self.link = Some(link);
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

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(link) = self.link.take() {
            link.unwatch(cx);
        }
        Ok(())
    }
}
