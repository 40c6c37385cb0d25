//! ToHost and ToHostSniffers: packets to the host, as received by an interface of FromHost.

use std::sync::Arc;

use thruway_element::{
    Alias, Arg, ArgErrors, Args, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Ty,
};
use thruway_packet::Batch;

use super::hosts::Hosts;
use super::tap_link::{Lost, Setup, TapLink};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<ToHost>(
    Spec {
        name: "ToHost",
        aliases: &[Alias {
            name: "ToHostSniffers",
            summary: "only sniffers see the packets: SNIFFERS is true",
        }],
        topic: Topic::Devices,
        summary: "hands packets to the host, as received by an interface of FromHost",
        docs: "The packets, which have Ethernet headers, go to the host's own stack, as received by \
               the interface DEVNAME, which a FromHost makes; DEVNAME may be left out where there \
               is one FromHost. Give the host packets for its own addresses, broadcasts, and a copy \
               of each ARP reply: others it drops without a word.\n\
               With SNIFFERS packets reach packet sockets on the interface (tcpdump and its like) \
               and nobody else: a program is attached to the interface that drops what goes to the \
               stack (Linux 6.6, CAP_BPF). So ToHost and ToHostSniffers take interfaces of their \
               own; without a FromHost of that DEVNAME, ToHostSniffers makes the interface. \
               ALLOW_NONEXISTENT, TYPE and QUIET are accepted.",
        example: "FromHost(fake0, 192.0.2.1/24) -> ARPResponder(0.0.0.0/0 1:1:1:1:1:1) \
                  -> ToHost(fake0)",
        ports: "1/0",
        processing: "h/",
        args: &[
            Arg::optional("DEVNAME", Ty::Str, "name of the interface"),
            Arg::keyword("SNIFFERS", Ty::Bool, "whether only sniffers see the packets"),
            Arg::keyword("TYPE", Ty::Choice(&["ETHER"]), "what packets begin with").or("ETHER"),
            Arg::keyword("ALLOW_NONEXISTENT", Ty::Bool, "accepted").or("false"),
            Arg::keyword("QUIET", Ty::Bool, "accepted").or("false"),
        ],
        drops: Lost::DROPS,
        cost: &[Operation::PortSend.once()],
        replicas: Replicas::Apart("each hands packets to the device in the order of its thread"),
        ..Spec::DEFAULT
    },
    build,
);

#[derive(Handlers)]
#[handler(sum, field = count, "packets that the host took")]
#[handler(
    read, name = "dev_name", "the interface's name", get = self.device.clone().unwrap_or_default()
)]
struct ToHost {
    device: Option<String>,
    sniffers: bool,
    hosts: Arc<Hosts>,
    link: Option<TapLink>,
    count: u64,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    args.choice("TYPE")?;
    let device: Option<String> = args.opt("DEVNAME")?;
    let sniffers = args.opt("SNIFFERS")?.unwrap_or(args.class() == "ToHostSniffers");
    let hosts = Hosts::of(args);
    hosts.uses(device.as_deref(), sniffers);
    Ok(Box::new(ToHost { device, sniffers, hosts, link: None, count: 0 }))
}

impl Element for ToHost {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        let (device, is_made) = self.hosts.meant(self.device.as_deref())?;
        if !is_made && !self.sniffers {
            return Err(format!("no FromHost has DEVNAME '{device}'; {}", self.hosts.there_are()));
        }
        if !is_made {
            let hidden = self.hosts.is_hidden(&device)?;
            let setup = Setup { hidden, ..Setup::bare(device.clone()) };
            let tap = self.hosts.get_or_open(&device, || setup.open())?;
            self.link = Some(TapLink::new(tap));
        }
        self.device = Some(device);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if self.link.is_none() {
            // The FromHost may have been initialised after this element.
            let tap = self.device.as_deref().and_then(|device| self.hosts.get(device));
            self.link = tap.map(TapLink::new);
        }
        match &mut self.link {
            Some(link) => self.count += link.hand_over(cx, batch),
            None => cx.drop_all(Lost::Refused, batch),
        }
    }
}
