//! HostEtherFilter: what a network card does on reception.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Operation, Replicas,
    Spec, Topic, Ty, Verdict, handler_value, reasons,
};
use thruway_packet::{Batch, Packet, PacketKind};
use thruway_wire::MacAddr;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "HostEtherFilter",
        topic: Topic::Bytes,
        summary: "drops frames sent to other hosts",
        docs: "Acts as the network card of a host with address ETHER: sets the packet type \
               annotation (host, broadcast, multicast or other host) by the frame's destination, \
               and sorts out frames to other hosts, unless DROP_OTHER is false, and with DROP_OWN \
               those whose source is ETHER. What is sorted out goes out of output 1, or is dropped \
               where there is none; so do frames too short for two addresses.",
        example: "InfiniteSource(DATA \\<000000000001 000000000002 0800>, LIMIT 1, STOP true)\n\
                  -> HostEtherFilter(0:0:0:0:0:1) -> Print -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        straight: true,
        args: &[
            Arg::required("ETHER", Ty::Ether, "address of the host"),
            Arg::optional("DROP_OWN", Ty::Bool, "whether frames from ETHER are sorted out")
                .or("false"),
            Arg::optional("DROP_OTHER", Ty::Bool, "whether frames to other hosts are sorted out")
                .or("true"),
            Arg::keyword("OFFSET", Ty::UInt, "where in the packet the Ethernet header begins")
                .or("0"),
        ],
        drops: Refused::DROPS,
        handlers: &[Handler::both("ether", "address of the host")],
        cost: &[Operation::HeaderRead.once()],
        changes: Changes::Nothing,
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet is sorted out.
    enum Refused {
        Own = "own": "this host sent it",
        OtherHost = "other-host": "it is for another host",
        TooShort = "too-short": "it has no room for two Ethernet addresses",
    }
}

struct HostEtherFilter {
    ether: MacAddr,
    drop_own: bool,
    drop_other: bool,
    offset: usize,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(HostEtherFilter {
        ether: args.get("ETHER")?,
        drop_own: args.get("DROP_OWN")?,
        drop_other: args.get("DROP_OTHER")?,
        offset: args.get::<u32>("OFFSET")? as usize,
    }))
}

impl HostEtherFilter {
    #[inline]
    fn judge(&self, packet: &mut Packet) -> Verdict {
        let header = packet.data().get(self.offset..).and_then(|data| data.first_chunk::<12>());
        let Some([a, b, c, d, e, f, source @ ..]) = header else {
            return Verdict::reject(1, Refused::TooShort);
        };
        let destination = MacAddr([*a, *b, *c, *d, *e, *f]);
        if self.drop_own && MacAddr(*source) == self.ether {
            return Verdict::reject(1, Refused::Own);
        }
        let kind = kind_of(destination, self.ether);
        packet.set_kind(kind);
        if kind == PacketKind::OtherHost && self.drop_other {
            return Verdict::reject(1, Refused::OtherHost);
        }
        Verdict::Pass
    }
}

#[inline]
fn kind_of(destination: MacAddr, host: MacAddr) -> PacketKind {
    if destination == host {
        PacketKind::Host
    } else if destination.is_broadcast() {
        PacketKind::Broadcast
    } else if destination.is_multicast() {
        PacketKind::Multicast
    } else {
        PacketKind::OtherHost
    }
}

impl Element for HostEtherFilter {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.sift(batch, |packet| self.judge(packet));
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "ether" => Ok(self.ether.dashed().to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "ether" => {
                self.ether = handler_value(name, value)?;
                Ok(())
            }
            _ => Err(HandlerError::no_write(name)),
        }
    }
}
