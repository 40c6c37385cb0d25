//! HopEncap: the headers of a hop to another host.

use std::net::IpAddr;

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handler, HandlerError, Handlers, Operation, Reason,
    Replicas, Spec, Topic, Ty, UdpPort, Verdict, reasons,
};
use thruway_flow::hash::Hasher;
use thruway_packet::{Anno, Batch, Packet};

use crate::entropy::source_port;
use crate::inner::{self, Inner};
use crate::overlay::{self, Overlay, VNI_MAX};
use crate::underlay::{IpFields, NotPushed, Underlay, addresses};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "HopEncap",
        topic: Topic::Hops,
        summary: "puts the headers of a hop to another host in front of packets",
        docs: "Puts a header of NETWORK, a UDP and an IP header in front of every packet, marks \
               the last and sets the destination annotation to DST. NETWORK is vxlan-gpe \
               (draft-ietf-nvo3-vxlan-gpe) or geneve (RFC 8926); PROTOCOL is the first header of \
               the packets: nsh (NSHEncap makes it), ip (version 4 or 6) or ethernet. SRC and DST \
               are of one version of IP. HopDecap is the other end.\n\n\
               The UDP source port is a hash of the flow inside, from 49152 on, so that routers \
               between the hosts can spread flows over their paths; the packets of a flow, and its \
               fragments, have one port. The UDP checksum is 0 over IPv4 and computed over IPv6, \
               unless CHECKSUM overrides this. Over IPv6, use 0 only if nothing on the path \
               changes headers undetected (RFC 6936); the receiving HopDecap needs \
               ZERO_CHECKSUM.\n\n\
               Over IPv4 the DF bit is set, unless DF is false. What is too long for the path is \
               to be refused or cut before: IPFragmenter with MTU less 'overhead' (a handler) in \
               front of this element. With TAG, which needs geneve, the VLAN_TCI annotation goes \
               along as an option: the tag of the packet's class for a FlowClassifier with \
               TAG_ANNO; NSHEncap has it in its metadata. Packets that do not begin with what \
               PROTOCOL says, or would grow beyond 65,535 bytes, leave by output 1, or are dropped \
               where there is none.",
        example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
                  -> HopEncap(192.0.2.1, 192.0.2.2, VNI 7, PROTOCOL ip) \
                  -> HopDecap(VNI 7, PROTOCOL ip) -> CheckIPHeader -> Print(ok) -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        straight: true,
        args: &[
            Arg::required("SRC", Ty::Str, "source address, IPv4 or IPv6"),
            Arg::required("DST", Ty::Str, "destination address, of the same version"),
            NETWORK,
            Arg::keyword("VNI", Ty::UInt, "the network, 0 to 16777215").or("0"),
            Arg::keyword("PROTOCOL", Ty::Choice(inner::WORDS), "what packets begin with").or("nsh"),
            Arg::keyword("DPORT", Ty::Port, "destination port; that of NETWORK if not given"),
            Arg::keyword("CHECKSUM", Ty::Bool, "UDP checksum; true for IPv6 if not given"),
            Arg::keyword("DF", Ty::Bool, "whether IPv4 packets must not be fragmented").or("true"),
            Arg::keyword("TTL", Ty::UInt, "time to live, or hop limit").or("64"),
            Arg::keyword("DSCP", Ty::UInt, "differentiated services, 0 to 63").or("0"),
            Arg::keyword("TAG", Ty::Bool, "whether the class's tag goes along").or("false"),
        ],
        drops: NoHop::DROPS,
        handlers: &[
            Handler::read("overhead", "bytes that a packet grows by, IP header included"),
            Handler::read("dst", "destination address"),
        ],
        cost: &[Operation::HeaderParse.once(), Operation::HeaderWrite.times(3.0)],
        replicas: Replicas::Apart("each has its part of the identifications"),
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<HopEncap>();

/// The argument of both ends.
pub(crate) const NETWORK: Arg =
    Arg::keyword("NETWORK", Ty::Choice(overlay::WORDS), "header between UDP and the payload")
        .or("vxlan-gpe");

reasons! {
    /// Why a packet does not go.
    enum NoHop {
        Protocol = "other-protocol": "it does not begin with a header of PROTOCOL",
        Oversize = "too-long": "with its new headers it would have more than 65,535 bytes",
    }
}

/// The argument VNI, if it is one.
pub(crate) fn vni(args: &Args<'_>) -> Result<Option<u32>, ArgErrors> {
    match args.opt::<u32>("VNI")? {
        Some(vni) if vni > VNI_MAX => {
            Err(args.error("VNI", format!("must be from 0 to {VNI_MAX}")).into())
        }
        vni => Ok(vni),
    }
}

/// A number of one byte, from `least` to `most`.
fn byte(args: &Args<'_>, name: &str, least: u8, most: u8) -> Result<u8, ArgErrors> {
    match args.get::<u32>(name)? {
        n if (u32::from(least)..=u32::from(most)).contains(&n) => Ok(n as u8),
        _ => Err(args.error(name, format!("must be from {least} to {most}")).into()),
    }
}

struct HopEncap {
    underlay: Underlay,
    overlay: Overlay,
    vni: u32,
    inner: Inner,
    is_tagged: bool,
    hasher: Hasher,
    dst: IpAddr,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let (src, dst) = addresses(args)?;
    let overlay = Overlay::ALL[args.choice("NETWORK")?];
    let is_tagged = args.get("TAG")?;
    if is_tagged && overlay != Overlay::Geneve {
        let why = "needs NETWORK geneve: VXLAN-GPE has no options; use NSHEncap, which \
                   carries the tag in its metadata";
        return Err(args.error("TAG", why).into());
    }
    let fields = IpFields {
        ttl: byte(args, "TTL", 1, 255)?,
        dscp: byte(args, "DSCP", 0, 63)?,
        dont_fragment: args.get("DF")?,
    };
    let port = args.opt("DPORT")?.map_or(overlay.port(), |UdpPort(port)| port);
    let has_checksum = args.opt("CHECKSUM")?.unwrap_or(dst.is_ipv6());
    let env = args.env();
    let first_id = (65_536 / env.threads.max(1) * env.rank) as u16;
    Ok(Box::new(HopEncap {
        underlay: Underlay::new((src, dst), port, fields, has_checksum, first_id),
        overlay,
        vni: vni(args)?.unwrap_or(0),
        inner: Inner::ALL[args.choice("PROTOCOL")?],
        is_tagged,
        hasher: Hasher::new([0; 2]),
        dst,
    }))
}

impl HopEncap {
    #[inline]
    fn encap(&mut self, packet: &mut Packet) -> Verdict {
        let Some(number) = self.inner.next_protocol(packet.data()) else {
            return Verdict::reject(1, NoHop::Protocol);
        };
        let src_port = source_port(&self.hasher, number, packet.data());
        let tag = self.is_tagged.then(|| packet.anno_number(Anno::VLAN_TCI) as u16);
        let header = self.overlay.write(self.vni, number, tag);
        match self.underlay.push(packet, src_port, header.bytes()) {
            Ok(()) => Verdict::Pass,
            Err(NotPushed::Oversize) => Verdict::reject(1, NoHop::Oversize),
            Err(NotPushed::NoMemory) => Verdict::Drop(Reason::NO_MEMORY),
        }
    }
}

impl Element for HopEncap {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.encap(packet));
    }
}

impl Handlers for HopEncap {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "overhead" => Ok((self.underlay.len() + self.overlay.len(self.is_tagged)).to_string()),
            "dst" => Ok(self.dst.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }
}
