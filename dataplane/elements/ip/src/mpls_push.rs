//! MPLSPush, MPLSPop, MPLSSwap: the top of a label stack.

use thruway_element::{
    Alias, ArgErrors, Args, Arguments, Cx, Element, Entry, HandlerError, Handlers, Operation,
    Reason, Replicas, Spec, Topic, Verdict, handler_value, reasons,
};
use thruway_packet::{Anno, Batch, Packet};
use thruway_wire::Header;
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::mpls::MplsLabel;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<MplsPush>(Spec {
    name: "MPLSPush",
    aliases: &[
        Alias { name: "MPLSPop", summary: "takes the top entry off; takes no LABEL" },
        Alias {
            name: "MPLSSwap",
            summary: "gives the top entry another label and decrements its time-to-live",
        },
    ],
    topic: Topic::Ip,
    summary: "puts MPLS labels on packets, swaps them, takes them off",
    docs: "Works on the label stack (RFC 3032) that packets begin with; with ETHER, on that \
           behind the Ethernet header that they begin with; its type then shows whether there \
           is a stack.\n\n\
           MPLSPush puts an entry with LABEL, TC and TTL on top. It is the bottom of the stack \
           where BOTTOM is true; by default it is, unless ETHER finds a stack there. MPLSSwap \
           gives the top entry LABEL and, where it is given, TC; a time-to-live of 1 or 0 would \
           expire. MPLSPop takes the top entry off and sets the AGGREGATE annotation to its \
           label. With ETHER the type becomes that of IP or IPv6 by the packet's first bits (RFC \
           4928) when it was the bottom entry; without, packets with more entries leave by \
           output 1 if that is connected.\n\n\
           Packets without a stack, expired ones, and what a popped bottom entry leaves that is \
           neither IP nor IPv6 behind an Ethernet header, leave by output 1, or are dropped where \
           there is none.",
    example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
              -> MPLSPush(100) -> MPLSSwap(200) -> MPLSPop -> CheckIPHeader -> Print(ok) \
              -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    straight: true,
    drops: MplsPushDrop::DROPS,
    cost: &[Operation::HeaderWrite.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet keeps the stack it has.
    enum MplsPushDrop {
        NoStack = "no-stack": "it has no label stack where one is expected",
        Expired = "expired": "the time-to-live of its top entry was 1 or 0",
        Unknown = "unknown-payload": "the payload behind the bottom entry is neither IP nor IPv6",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Push,
    Pop,
    Swap,
}

/// Largest label.
pub(super) const MAX_LABEL: u32 = 0xf_ffff;

#[derive(Debug, Clone, Arguments, Handlers)]
#[handler(both, field = label, "the label; 0 for MPLSPop", write = self.write_label(name, value))]
struct MplsPush {
    #[new(operation(args)?)]
    operation: Action,
    /// the label, 0 to 1048575
    #[arg(optional, via = checked_label, else = 0)]
    label: u32,
    /// traffic class, 0 to 7
    #[arg(keyword, name = "TC", via = checked_class)]
    class: Option<u8>,
    /// time-to-live of new entries
    #[arg(keyword, or = "64")]
    ttl: u8,
    /// whether new entries are the bottom of the stack
    #[arg(keyword)]
    bottom: Option<bool>,
    /// whether packets begin with an Ethernet header
    #[arg(keyword, or = "false")]
    ether: bool,
}

fn checked_label(label: u32) -> Result<u32, String> {
    if label <= MAX_LABEL {
        Ok(label)
    } else {
        Err(format!("out of range; it must be from 0 to {MAX_LABEL}"))
    }
}

/// Refuses arguments that the operation does not take.
fn check_given(args: &Args<'_>, operation: Action) -> Result<(), ArgErrors> {
    let (needs_label, foreign): (bool, &[&str]) = match operation {
        Action::Push => (true, &[]),
        Action::Swap => (true, &["TTL", "BOTTOM"]),
        Action::Pop => (false, &["LABEL", "TC", "TTL", "BOTTOM"]),
    };
    if needs_label && !args.given("LABEL") {
        return Err(ArgErrors::whole("missing argument LABEL: the label, 0 to 1048575"));
    }
    match foreign.iter().find(|name| args.given(name)) {
        Some(name) => Err(args.error(name, format!("not for {}", args.class())).into()),
        None => Ok(()),
    }
}

fn checked_class(class: u8) -> Result<u8, &'static str> {
    if class > 7 { Err("out of range; it must be from 0 to 7") } else { Ok(class) }
}

fn operation(args: &Args<'_>) -> Result<Action, ArgErrors> {
    let operation = match args.class() {
        "MPLSPop" => Action::Pop,
        "MPLSSwap" => Action::Swap,
        _ => Action::Push,
    };
    check_given(args, operation)?;
    Ok(operation)
}

/// Moves the Ethernet addresses at the packet's front by four bytes and gives the header a type.
fn close_gap(packet: &mut Packet, from: usize, to: usize, new_type: u16) {
    let data = packet.data_mut();
    data.copy_within(from..from + 12, to);
    data[to + 12..to + 14].copy_from_slice(&new_type.to_be_bytes());
}

pub(super) fn is_stack(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::MPLS | ethertype::MPLS_UPSTREAM)
}

impl MplsPush {
    /// Where the stack begins, and whether there is one as far as can be reported.
    #[inline]
    fn stack_start(&self, packet: &Packet) -> Result<(usize, Option<bool>), MplsPushDrop> {
        if !self.ether {
            return Ok((0, None));
        }
        let (header, _) = EthernetHeader::view(packet.data()).map_err(|_| MplsPushDrop::NoStack)?;
        Ok((EthernetHeader::LEN, Some(is_stack(header.ethertype()))))
    }

    #[inline]
    fn apply(&self, packet: &mut Packet) -> Verdict {
        let (at, stack) = match self.stack_start(packet) {
            Ok(stack_start) => stack_start,
            Err(bad) => return Verdict::reject(1, bad),
        };
        if self.operation == Action::Push {
            return self.push(packet, at, stack);
        }
        let entry = MplsLabel::view(packet.data().get(at..).unwrap_or(&[]));
        let entry = match entry {
            Ok((entry, _)) if stack != Some(false) => *entry,
            _ => return Verdict::reject(1, MplsPushDrop::NoStack),
        };
        match self.operation {
            Action::Swap => self.swap(packet, at, entry),
            _ => self.pop(packet, at, entry),
        }
    }

    #[inline]
    fn push(&self, packet: &mut Packet, at: usize, stack: Option<bool>) -> Verdict {
        if !packet.push(MplsLabel::LEN) {
            return Verdict::Drop(Reason::NO_MEMORY);
        }
        let bottom = self.bottom.unwrap_or(stack != Some(true));
        let entry = MplsLabel::new(self.label, self.class.unwrap_or(0), bottom, self.ttl);
        if self.ether {
            close_gap(packet, MplsLabel::LEN, 0, ethertype::MPLS);
            packet.set_mac_offset(0);
        }
        // There is room: it was just pushed.
        let _ = entry.emit(&mut packet.data_mut()[at..]);
        Verdict::Pass
    }

    #[inline]
    fn swap(&self, packet: &mut Packet, at: usize, entry: MplsLabel) -> Verdict {
        if entry.ttl() <= 1 {
            return Verdict::reject(1, MplsPushDrop::Expired);
        }
        let class = self.class.unwrap_or(entry.class());
        let entry = MplsLabel::new(self.label, class, entry.is_bottom(), entry.ttl() - 1);
        let _ = entry.emit(&mut packet.data_mut()[at..]);
        Verdict::Pass
    }

    #[inline]
    fn pop(&self, packet: &mut Packet, at: usize, entry: MplsLabel) -> Verdict {
        if self.ether {
            let inside = packet.data().get(at + MplsLabel::LEN).map(|first| first >> 4);
            let new_type = match (entry.is_bottom(), inside) {
                (false, _) => ethertype::MPLS,
                (true, Some(4)) => ethertype::IPV4,
                (true, Some(6)) => ethertype::IPV6,
                _ => return Verdict::reject(1, MplsPushDrop::Unknown),
            };
            close_gap(packet, 0, MplsLabel::LEN, new_type);
        }
        packet.set_anno_number(Anno::AGGREGATE, entry.label());
        // The entry is there.
        let _ = packet.pull(MplsLabel::LEN);
        if self.ether {
            packet.set_mac_offset(0);
        }
        if self.ether || entry.is_bottom() { Verdict::Pass } else { Verdict::To(1) }
    }
}

impl Element for MplsPush {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let two = cx.outputs() > 1;
        cx.filter(batch, |packet| match self.apply(packet) {
            Verdict::To(_) if !two => Verdict::Pass,
            verdict => verdict,
        });
    }
}

impl MplsPush {
    fn write_label(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        if self.operation == Action::Pop {
            return Err(HandlerError::refused("label: MPLSPop has none"));
        }
        let refused = |why| HandlerError::refused(format!("label: {why}"));
        self.label = checked_label(handler_value(name, value)?).map_err(refused)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_wire::MacAddr;

    fn element(operation: Action, label: u32, ether: bool) -> MplsPush {
        MplsPush { operation, label, class: None, ttl: 9, bottom: None, ether }
    }

    proptest! {
        #[test]
        fn round_trip(labels in prop::collection::vec(0u32..=MAX_LABEL, 1..5),
                      body in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut bytes = vec![0; 14];
            let mac = MacAddr([1; 6]);
            EthernetHeader::new(mac, MacAddr([2; 6]), ethertype::IPV4).emit(&mut bytes).unwrap();
            bytes.push(0x45);
            bytes.extend(&body);
            let mut packet = Packet::new(&bytes).unwrap();
            for label in &labels {
                let push = element(Action::Push, *label, true);
                prop_assert_eq!(push.apply(&mut packet), Verdict::Pass);
            }
            let stack: Vec<u8> = packet.data()[14..14 + 4 * labels.len()].to_vec();
            prop_assert_eq!(thruway_wire::mpls::skip_labels(&stack).unwrap().1.len(), 0);
            for label in labels.iter().rev() {
                let swap = element(Action::Swap, *label ^ 1, true);
                prop_assert_eq!(swap.apply(&mut packet), Verdict::Pass);
                let pop = element(Action::Pop, 0, true);
                prop_assert_eq!(pop.apply(&mut packet), Verdict::Pass);
                prop_assert_eq!(packet.anno_number(Anno::AGGREGATE), *label ^ 1);
            }
            prop_assert_eq!(packet.data(), &bytes[..]);
        }

        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..24), ether: bool) {
            for operation in [Action::Push, Action::Swap, Action::Pop] {
                let mut packet = Packet::new(&bytes).unwrap();
                let _ = element(operation, 5, ether).apply(&mut packet);
            }
        }
    }
}
