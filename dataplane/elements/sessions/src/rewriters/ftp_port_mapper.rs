//! FTPPortMapper: addresses that FTP clients write into their commands.

use std::fmt::Write as _;

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
    Ty,
};
use thruway_packet::{Batch, Packet};
use thruway_stream::segment::{Parts, finish, tcp};
use thruway_stream::splice;
use thruway_stream::tcp::Seq;
use thruway_wire::flow::FiveTuple;
use thruway_wire::ip_protocol::TCP;

use crate::rewriters::class::Class;
use crate::rewriters::rewriter::Rewriter;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<FtpPortMapper>(
    Spec {
        name: "FTPPortMapper",
        topic: Topic::Rewriters,
        summary: "rewrites the addresses in FTP's PORT commands, with mappings for the connections",
        docs: "Stands in front of CONTROL_REWRITER, a TCPRewriter (or IPRewriter), on the path of \
               FTP's control connections. A client that announces where it waits for data (PORT \
               10,0,0,1,4,1) names an address that its server cannot reach. FTPPortMapper makes a \
               mapping in DATA_REWRITER, as if a packet from there to the server's data port (the \
               control port less one) had come to its input DATA_REWRITER_INPUT, writes the mapped \
               address and port into the command, and has CONTROL_REWRITER shift the connection's \
               sequence numbers by the change in the command's length. It does not change \
               addresses in headers.\n\n\
               A command is seen if it begins its segment and is whole in it, and if \
               CONTROL_REWRITER knows the connection: not in its first segment. Segments with a \
               wrong checksum pass as they are. IPv6 and PASV (which is of the server) are not \
               looked at. Streams (see TCPIn) would find commands across segments, but need a \
               FlowClassifier; this works on packets, so that Click's configurations run as they \
               are. Both rewriters must be run by its thread, and CONTROL_REWRITER by no other: no \
               other thread knows the changes.",
        example: "FromIPSummaryDump(-, STOP true) -> CheckIPHeader -> FTPPortMapper(rw, rw, 0) \
                  -> rw :: TCPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0) -> IPPrint -> Discard",
        args: &[
            Arg::required("CONTROL_REWRITER", Ty::Element, "the TCPRewriter behind"),
            Arg::required("DATA_REWRITER", Ty::Element, "the rewriter that data connections pass"),
            Arg::required(
                "DATA_REWRITER_INPUT",
                Ty::UInt,
                "the input with the pattern that makes mappings",
            ),
        ],
        changes: Changes::Everything,
        cost: &[Operation::HeaderParse.once()],
        replicas: Replicas::OneThread("CONTROL_REWRITER knows its changes in one thread only"),
        ..Spec::DEFAULT
    },
    build,
);

#[derive(Handlers)]
#[handler(sum, field = rewritten, "commands that were rewritten")]
struct FtpPortMapper {
    control: (String, u32),
    data: (String, u32),
    input: usize,
    rewritten: u64,
    /// The rewritten command.
    text: String,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let control: String = args.get("CONTROL_REWRITER")?;
    let data: String = args.get("DATA_REWRITER")?;
    let why = "the changes for its connections are known in one thread only";
    args.other_for_one_thread("CONTROL_REWRITER", &control, why)?;
    args.other_is_here("CONTROL_REWRITER", &control)?;
    args.other_is_here("DATA_REWRITER", &data)?;
    Ok(Box::new(FtpPortMapper {
        control: (control, 0),
        data: (data, 0),
        input: args.get("DATA_REWRITER_INPUT")?,
        rewritten: 0,
        text: String::with_capacity(24),
    }))
}

/// Six numbers of up to 255 with commas between, behind "PORT " and perhaps more blanks, up to the
/// end of the line: an address, a port, and where they are written (RFC 959 section 4.1.2).
fn command(payload: &[u8]) -> Option<(u32, u16, std::ops::Range<usize>)> {
    let word = payload.first_chunk::<5>()?;
    if !word.eq_ignore_ascii_case(b"PORT ") {
        return None;
    }
    let begin = payload.iter().skip(5).position(|byte| *byte != b' ')? + 5;
    let end = begin + payload[begin..].iter().position(|byte| matches!(byte, b'\r' | b'\n'))?;
    let text = std::str::from_utf8(&payload[begin..end]).ok()?;
    let mut numbers = [0_u8; 6];
    let mut words = text.split(',');
    for number in &mut numbers {
        let word = words.next()?;
        let plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        *number = word.parse().ok().filter(|_| plain)?;
    }
    let [a, b, c, d, high, low] = numbers;
    let (addr, port) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([high, low]));
    words.next().is_none().then_some((addr, port, begin..end))
}

impl FtpPortMapper {
    /// Rewrites a command, if the packet is one; `None`: it is not, or cannot be.
    fn rewrite(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Option<()> {
        let parts = Parts::of_tcp(packet).ok()?;
        let payload = packet.data().get(parts.payload..parts.end)?;
        let (addr, port, heap_index) = command(payload)?;
        let payload_len = payload.len();
        if parts.is_ipv6 || packet.network_head::<20>()?[9] != TCP {
            return None;
        }
        parts.verify(packet, TCP).ok()?;
        let control = Class::Tcp.flow(packet)?;
        let end = Seq::new(tcp(packet, &parts)?.seq()) + payload_len as u32;
        let data = FiveTuple {
            src: addr,
            src_port: port,
            dst_port: control.dst_port.wrapping_sub(1),
            ..control
        };
        let (is_reply, number, anno) = self.known(cx, &control)?;
        let (addr, port) = self.mapped(cx, &data, anno)?;
        let ([a, b, c, d], [high, low]) = (addr.to_be_bytes(), port.to_be_bytes());
        self.text.clear();
        // Writing to a string cannot fail; it has room.
        let _ = write!(self.text, "{a},{b},{c},{d},{high},{low}");
        parts.trim(packet);
        let len = parts.end - parts.network - heap_index.len() + self.text.len();
        let at = parts.payload + heap_index.start;
        if len > usize::from(u16::MAX)
            || !splice(packet, at, heap_index.len(), self.text.as_bytes())
        {
            return None;
        }
        let more = self.text.len() as i32 - heap_index.len() as i32;
        let transport = packet.transport_offset()?;
        let payload = transport + parts.payload - parts.transport;
        let network = packet.network_offset()?;
        let parts = Parts { network, transport, payload, end: packet.len(), is_ipv6: false };
        // Its length was found to be right above.
        let _ = finish(packet, &parts, TCP);
        cx.visit(self.control.1, |other, cx| {
            if let Some(other) = other.downcast_mut::<Rewriter>() {
                other.with(cx, |_, store| store.sequences.add(number, is_reply, end, more));
            }
        });
        self.rewritten += 1;
        Some(())
    }

    /// The mapping of a control connection: whether the segment is a reply, the number of its
    /// changes and its annotation.
    fn known(&self, cx: &mut Cx<'_>, flow: &FiveTuple<u32>) -> Option<(bool, u32, u8)> {
        let mut known = None;
        cx.visit(self.control.1, |other, cx| {
            let Some(other) = other.downcast_mut::<Rewriter>() else { return };
            let Some(direction) = other.find_or_begin(cx, flow, None) else { return };
            let store = other.with(cx, |_, store| {
                let rewritten = store.peek(direction)?;
                Some((rewritten.is_reply, store.sequences_of(direction)?, rewritten.anno))
            });
            known = store.flatten();
        });
        known
    }

    /// Address and port that a data connection's client has behind the rewriter.
    fn mapped(&self, cx: &mut Cx<'_>, flow: &FiveTuple<u32>, anno: u8) -> Option<(u32, u16)> {
        let mut mapped = None;
        cx.visit(self.data.1, |other, cx| {
            let Some(other) = other.downcast_mut::<Rewriter>() else { return };
            let Some(reduced) = other.class.reduced(flow) else { return };
            let Some(direction) = other.find_or_begin(cx, &reduced, Some(self.input)) else {
                return;
            };
            let rewritten = other.with(cx, |_, store| {
                *store.anno_mut(direction)? = anno;
                store.peek(direction)
            });
            let keeps_port = reduced.protocol == 0;
            let to = rewritten.flatten().map(|rewritten| rewritten.to);
            mapped = to.map(|to| (to.src, if keeps_port { flow.src_port } else { to.src_port }));
        });
        mapped
    }
}

impl Element for FtpPortMapper {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let wrong = |what: &'static str| move |why: String| format!("{what}: {why}");
        let (node, class) = Rewriter::find(cx, &self.control.0, |other| other.class)
            .map_err(wrong("CONTROL_REWRITER"))?;
        if !matches!(class, Class::Tcp | Class::Ip) {
            return Err(format!("CONTROL_REWRITER: '{}' is no TCPRewriter", self.control.0));
        }
        self.control.1 = node;
        let (node, inputs) = Rewriter::find(cx, &self.data.0, |other| other.inputs.len())
            .map_err(wrong("DATA_REWRITER"))?;
        if self.input >= inputs {
            return Err(format!("DATA_REWRITER_INPUT out of range: there are {inputs}, from 0"));
        }
        self.data.1 = node;
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            // Other packets, and commands that cannot be rewritten, pass unchanged.
            let _ = self.rewrite(cx, packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commands_are_known() {
        let known = |text: &'static str| {
            command(text.as_bytes()).map(|(addr, port, at)| (addr, port, &text[at]))
        };
        let wanted = (0x0a00_0001, 0x0401, "10,0,0,1,4,1");
        assert_eq!(known("PORT 10,0,0,1,4,1\r\n"), Some(wanted));
        assert_eq!(known("port   10,0,0,1,4,1\nNOOP\n"), Some(wanted));
        for wrong in [
            "PORT 10,0,0,1,4,1",
            "PORT 10,0,0,1,4\n",
            "PORT 10,0,0,1,4,1,1\n",
            "PORT 10,0,0,256,4,1\n",
            "PORT 10,0,0,+1,4,1\n",
            "PORT 10,0,,1,4,1\n",
            "PORT \n",
            "PORT ",
            "EPRT 10,0,0,1,4,1\n",
            "",
        ] {
            assert_eq!(known(wrong), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_command_or_none(text in "(PORT |port )?[0-9, ]{0,24}\r?\n?.{0,9}") {
            if let Some((_, _, at)) = command(text.as_bytes()) {
                prop_assert!(text[at].split(',').count() == 6);
            }
        }
    }
}
