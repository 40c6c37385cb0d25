//! FromHost: packets that the host sends by an interface with the configuration at its other end.

use std::any::Any;
use std::sync::Arc;

use thruway_element::{
    Arguments, Cx, Element, Entry, Handlers, HotSwap, Ip6Prefix, Operation, Replicas, Run, Spec,
    Threading, Topic, Ty,
};
use thruway_packet::{Batch, MAX_BATCH};
use thruway_port::tap::{Tap, TapOptions};

use super::hosts::Hosts;
use super::tap_link::{Setup, TapLink};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<FromHost>(Spec {
    name: "FromHost",
    topic: Topic::Devices,
    summary: "emits what the host sends by an interface that it makes",
    docs: "Makes the TAP interface DEVNAME with the host's address DST, an IP prefix, and brings \
           it up; it goes away at the end. What the host sends through it is emitted, with \
           Ethernet header, timestamp and packet type. ToHost with the same DEVNAME hands \
           packets to the host by it. An existing interface of that name is \
           used unchanged if DST is missing.\n\
           With GATEWAY the host's default route leads there. The host asks by ARP for the \
           addresses behind the interface: an ARPResponder must answer. Needs the right to \
           administer the network (CAP_NET_ADMIN). HEADROOM is accepted: there are always 128 \
           bytes. KernelTap is the same with both directions in one element.",
    example: "FromHost(fake0, 192.0.2.1/24) -> cl :: Classifier(12/0806, 12/0800); \
              cl[0] -> ARPResponder(0.0.0.0/0 1:1:1:1:1:1) -> ToHost(fake0); \
              cl[1] -> Print(ip) -> Discard",
    ports: "0/1",
    processing: "/h",
    threading: Threading::Task,
    cost: &[Operation::PortReceive.once()],
    replicas: Replicas::Single,
    ..Spec::DEFAULT
})
.with_hot_swap::<FromHost>();

#[derive(Arguments, Handlers)]
#[handler(sum, field = count, "packets from the host")]
#[handler(sum, field = bytes, name = "byte_count", "bytes from the host")]
#[handler(
    read, name = "dev_name", "the interface's name",
    get = self.link.as_ref().map_or("", TapLink::name).to_owned()
)]
struct FromHost {
    #[arg(required, name = "DEVNAME", value = String, via = not_empty, "name of the interface")]
    #[new({
        let hosts = Hosts::of(args);
        hosts.declare(&devname);
        hosts
    })]
    hosts: Arc<Hosts>,
    #[arg(
        optional, name = "DST", unread, ty = Ty::IpPrefix, "address and mask of the host's end"
    )]
    #[arg(
        optional, name = "GATEWAY", unread, ty = Ty::Ip, "the host's default route, within DST"
    )]
    #[arg(optional, name = "HEADROOM", unread, ty = Ty::UInt, or = "128", "accepted")]
    #[arg(
        keyword, name = "DST6", value = Option<Ip6Prefix>,
        "IPv6 address and prefix of the host's end"
    )]
    #[arg(
        keyword, name = "ETHER", unread, ty = Ty::Ether, "Ethernet address of the host's end"
    )]
    #[arg(
        keyword, name = "MTU", value = Option<u16>,
        "largest IP packet; the kernel's choice if not given"
    )]
    #[new({
        let setup = Setup::of(args, "DST", devname)?;
        let options = TapOptions { mtu, ..setup.options };
        Setup { options, address6: dst6, ..setup }
    })]
    setup: Setup,
    /// packets per run; the engine's choice if not given
    #[arg(keyword, range = 1..)]
    burst: Option<usize>,
    /// Of the configuration that this one replaces.
    inherited: Option<Arc<Tap>>,
    link: Option<TapLink>,
    count: u64,
    bytes: u64,
    #[new(Batch::with_room())]
    batch: Batch,
}

/// What survives a hot swap.
struct Handed {
    setup: Setup,
    tap: Arc<Tap>,
}

fn not_empty(name: String) -> Result<String, &'static str> {
    if name.is_empty() { Err("an interface has a name") } else { Ok(name) }
}

impl Element for FromHost {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let name = &self.setup.options.name;
        self.setup.hidden = self.hosts.is_hidden(name)?;
        let tap = match self.inherited.take() {
            Some(tap) => tap,
            None => Arc::new(self.setup.open()?),
        };
        self.hosts.opened(name, &tap);
        let link = TapLink::new(tap);
        link.watch(cx)?;
        self.link = Some(link);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        let Some(link) = &mut self.link else { return Run::Idle };
        let burst = self.burst.unwrap_or_else(|| cx.burst()).min(MAX_BATCH);
        link.fill(cx, burst, &mut self.batch);
        if self.batch.is_empty() {
            return Run::Idle;
        }
        self.count += self.batch.len() as u64;
        self.bytes += self.batch.bytes();
        cx.emit_all(0, &mut self.batch);
        Run::Again
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(link) = self.link.take() {
            link.unwatch(cx);
        }
        Ok(())
    }
}

impl HotSwap for FromHost {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let link = self.link.as_ref()?;
        Some(Box::new(Handed { setup: self.setup.clone(), tap: Arc::clone(link.tap()) }))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(handed) = state.downcast::<Handed>() else { return };
        let hidden = self.hosts.is_hidden(&self.setup.options.name);
        if self.link.is_none()
            && Ok(handed.setup) == hidden.map(|hidden| Setup { hidden, ..self.setup.clone() })
        {
            self.inherited = Some(handed.tap);
        }
    }
}
