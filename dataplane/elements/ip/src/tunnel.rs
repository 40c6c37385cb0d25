//! The common part of VXLAN and GTP: a header of eight bytes with an identifier.

use thruway_element::{
    ArgErrors, Args, Cx, Element, Handler, HandlerError, Handlers, Operation, Reason, Replicas,
    Spec, Topic, Verdict, handler_value, reasons,
};
use thruway_packet::{Anno, Batch, Packet};

/// Bytes of a header that is put in front.
const HEADER: usize = 8;

/// Identifier of a tunnelled packet, and where its payload begins and ends.
type Inside = (u32, usize, usize);

/// A tunnel type.
pub(super) struct Tunnel {
    /// The argument and handler with the identifier.
    pub(super) argument: &'static str,
    /// The same in lower case.
    pub(super) handler: &'static str,
    /// Largest identifier.
    pub(super) max: u32,
    /// The header for an identifier and a payload length; `None` when that is too long.
    pub(super) header: fn(u32, usize) -> Option<[u8; HEADER]>,
    /// The payload of a packet with such a header.
    pub(super) parse: fn(&[u8]) -> Option<Inside>,
}

reasons! {
    /// Why a packet does not go into a tunnel, or not out of one.
    pub(super) enum TunnelDrop {
        TooLong = "too-long": "it is longer than the header's length field can hold",
        Header = "bad-header": "it does not begin with a header of this tunnel that carries data",
        OtherTunnel = "other-tunnel": "its identifier is not the one that was asked for",
    }
}

/// Declarations of elements that add headers.
pub(super) const ENCAP: Spec = Spec {
    topic: Topic::Ip,
    ports: "1/1-2",
    processing: "a/ah",
    straight: true,
    drops: TunnelDrop::DROPS,
    cost: &[Operation::HeaderWrite.once()],
    replicas: Replicas::Apart("each has its part of the identifications"),
    ..Spec::DEFAULT
};

/// The same of those that take them off.
pub(super) const DECAP: Spec =
    Spec { cost: &[Operation::HeaderMove.once()], replicas: Replicas::Alike, ..ENCAP };

/// The handlers of both ends.
pub(super) const fn handlers(name: &'static str) -> [Handler; 1] {
    [Handler::both(name, "the tunnel's identifier; 0 for that of the annotation, or any")]
}

fn checked(tunnel: &Tunnel, id: u32) -> Result<u32, String> {
    let max = tunnel.max;
    if id <= max { Ok(id) } else { Err(format!("out of range; it must be from 0 to {max}")) }
}

/// Either end of a tunnel.
pub(super) struct End {
    tunnel: &'static Tunnel,
    id: u32,
    /// Packets go in, not out.
    entry: bool,
}

impl End {
    /// The end that puts headers on (`entry`) or takes them off.
    pub(super) fn build(
        args: &Args<'_>,
        tunnel: &'static Tunnel,
        entry: bool,
    ) -> Result<Box<dyn Element>, ArgErrors> {
        let id = checked(tunnel, args.get(tunnel.argument)?);
        let id = id.map_err(|why| args.error(tunnel.argument, why))?;
        Ok(Box::new(End { tunnel, id, entry }))
    }

    #[inline]
    fn encap(&self, packet: &mut Packet) -> Verdict {
        let id = match self.id {
            0 => packet.anno_number(Anno::AGGREGATE) & self.tunnel.max,
            id => id,
        };
        let Some(header) = (self.tunnel.header)(id, packet.len()) else {
            return Verdict::reject(1, TunnelDrop::TooLong);
        };
        if !packet.push(HEADER) {
            return Verdict::Drop(Reason::NO_MEMORY);
        }
        packet.data_mut()[..HEADER].copy_from_slice(&header);
        Verdict::Pass
    }

    #[inline]
    fn decap(&self, packet: &mut Packet) -> Verdict {
        let Some((id, from, to)) = (self.tunnel.parse)(packet.data()) else {
            return Verdict::reject(1, TunnelDrop::Header);
        };
        if self.id != 0 && id != self.id {
            return Verdict::reject(1, TunnelDrop::OtherTunnel);
        }
        packet.set_anno_number(Anno::AGGREGATE, id);
        packet.truncate(to);
        if packet.pull(from) { Verdict::Pass } else { Verdict::reject(1, TunnelDrop::Header) }
    }
}

impl Element for End {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        match self.entry {
            true => cx.filter(batch, |packet| self.encap(packet)),
            false => cx.filter(batch, |packet| self.decap(packet)),
        }
    }
}

impl Handlers for End {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            _ if name == self.tunnel.handler => Ok(self.id.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        if name != self.tunnel.handler {
            return Err(HandlerError::no_write(name));
        }
        let refused = |why| HandlerError::refused(format!("{name}: {why}"));
        self.id = checked(self.tunnel, handler_value(name, value)?).map_err(refused)?;
        Ok(())
    }
}
