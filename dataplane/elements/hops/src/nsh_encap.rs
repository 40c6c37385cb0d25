//! NSHEncap: a network service header in front.

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handler, HandlerError, Handlers, Operation, Reason,
    Replicas, Spec, Topic, Ty, Verdict, reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::Header;
use thruway_wire::nsh::{DEFAULT_TTL, NshHeader, PATH_MAX};

use crate::inner::{self, Inner};
use crate::metadata::{Form, LEN_MAX, Notes};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "NSHEncap",
        topic: Topic::Hops,
        summary: "puts network service headers in front of packets",
        docs: "Puts a network service header (RFC 8300) in front of every packet: it is on service \
               path PATH, with INDEX functions ahead. PROTOCOL is the first header of the packets: \
               ip (version 4 or 6) or ethernet. HopEncap takes the result to another host; \
               NSHForward and NSHDecap are for that one.\n\n\
               The metadata say what this host knows of the packet: the tag of the class that the \
               next host's FlowClassifier would find (the number TAG, or the VLAN_TCI annotation \
               if there is none), and the annotations AGGREGATE and PAINT. NSHDecap sets the \
               annotations to them. METADATA fixed has them as type 1 (16 bytes; RFC 8300 section \
               2.4), variable as type 2 with class 0xfff6, type 1 (section 2.5); with none there \
               are none. TTL is the number of hosts that may forward the packet. Packets of other \
               protocols leave by output 1, or is dropped where there is none.",
        example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
                  -> NSHEncap(5, 255, TAG 2) -> NSHDecap(5) -> CheckIPHeader -> Print(ok) \
                  -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        straight: true,
        args: &[
            Arg::required("PATH", Ty::UInt, "service path identifier, 0 to 16777215"),
            Arg::required("INDEX", Ty::UInt, "service index, 1 to 255"),
            Arg::keyword("PROTOCOL", Ty::Choice(inner::PLAIN_WORDS), "what packets begin with")
                .or("ip"),
            Arg::keyword("METADATA", Ty::Choice(Form::WORDS), "how metadata are written")
                .or("fixed"),
            Arg::keyword("TAG", Ty::UInt, "tag of the class, 0 to 65535; 0: none"),
            Arg::keyword("TTL", Ty::UInt, "hosts that may forward it, 1 to 63").or("63"),
        ],
        drops: NotEncapsulated::DROPS,
        handlers: &[
            Handler::read("overhead", "bytes that a packet grows by"),
            Handler::both("tag", "tag of the class; empty: that of the annotation"),
        ],
        cost: &[Operation::HeaderWrite.times(2.0)],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<NshEncap>();

reasons! {
    /// Why a packet gets no header.
    enum NotEncapsulated {
        Protocol = "other-protocol": "it does not begin with a header of PROTOCOL",
    }
}

/// The longest header that is written.
const HEADER_MAX: usize = NshHeader::LEN + LEN_MAX;

struct NshEncap {
    template: NshHeader,
    inner: Inner,
    form: Form,
    tag: Option<u16>,
}

/// The argument PATH.
pub(crate) fn path(args: &Args<'_>) -> Result<u32, ArgErrors> {
    match args.get("PATH")? {
        path @ 0..=PATH_MAX => Ok(path),
        _ => Err(args.error("PATH", format!("must be from 0 to {PATH_MAX}")).into()),
    }
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let index = match args.get::<u8>("INDEX")? {
        0 => return Err(args.error("INDEX", "must be from 1 to 255: 0 is dropped").into()),
        index => index,
    };
    let ttl = match args.get::<u8>("TTL")? {
        ttl @ 1..=DEFAULT_TTL => ttl,
        _ => return Err(args.error("TTL", format!("must be from 1 to {DEFAULT_TTL}")).into()),
    };
    let form = Form::ALL[args.choice("METADATA")?];
    let template = NshHeader::new(form.md_type(), form.len(), 0, (path(args)?, index));
    let mut template = template.map_err(|why| ArgErrors::whole(why.to_string()))?;
    template.set_ttl(ttl);
    Ok(Box::new(NshEncap {
        template,
        inner: Inner::ALL[args.choice("PROTOCOL")?],
        form,
        tag: args.opt("TAG")?,
    }))
}

impl NshEncap {
    #[inline]
    fn encap(&self, packet: &mut Packet) -> Verdict {
        let Some(number) = self.inner.next_protocol(packet.data()) else {
            return Verdict::reject(1, NotEncapsulated::Protocol);
        };
        let mut notes = Notes::of(packet);
        notes.tag = self.tag.unwrap_or(notes.tag);
        let len = NshHeader::LEN + self.form.len();
        if !packet.push(len) {
            return Verdict::Drop(Reason::NO_MEMORY);
        }
        let mut header = self.template;
        header.set_next_protocol(number);
        let mut bytes = [0; HEADER_MAX];
        // There is room: HEADER_MAX is the longest.
        if let Ok(metadata) = header.emit(&mut bytes) {
            notes.emit(self.form, metadata);
        }
        packet.data_mut()[..len].copy_from_slice(&bytes[..len]);
        Verdict::Pass
    }
}

impl Element for NshEncap {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.encap(packet));
    }
}

impl Handlers for NshEncap {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "overhead" => Ok((NshHeader::LEN + self.form.len()).to_string()),
            "tag" => Ok(self.tag.map_or(String::new(), |tag| tag.to_string())),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        match name {
            "tag" if value.trim().is_empty() => self.tag = None,
            "tag" => self.tag = Some(thruway_element::handler_value(name, value)?),
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}
