//! MPLSSwitch: a label switching router.

mod labels;

use std::sync::Arc;

use thruway_element::{
    ArgError, ArgErrors, Args, Arguments, Cost, CostModel, Cx, Element, Entry, HandlerError,
    Handlers, Load, Names, Operation, Reason, Replicas, Spec, Topic, Ty, handler_value, reasons,
};
use thruway_elements_support::reaching::looking_up;
use thruway_packet::{Batch, Packet};
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::ipv6::Ipv6Header;
use thruway_wire::mpls::{MAX_LABELS, MplsLabel};
use thruway_wire::{Header, MacAddr};

use self::labels::{Action, Hop, Labels, Reading};
use super::dispatch::{outcome, punt};
use super::mpls_push::is_stack;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<MplsSwitch>(Spec {
    name: "MPLSSwitch",
    topic: Topic::Ip,
    summary: "switches MPLS packets by a table of labels",
    docs: "Expects Ethernet frames with a label stack (RFC 3032) and applies the table's entry for \
           the top label to each:\n\n\
           LABEL swap OUT PORT ETHER gives it label OUT and sends it out of output PORT to the \
           next hop ETHER, from MAC. LABEL swap OUT push L... PORT ETHER puts further labels on \
           it, the last one on top; LABEL push L... PORT ETHER does so without changing LABEL. \
           LABEL pop PORT ETHER removes the label and sends the packet to the next hop, as the \
           penultimate router of a path does. LABEL pop PORT is for the end of a path: the packet \
           leaves by PORT with the Ethernet addresses that it had, for what routes it on. LABEL \
           pop alone takes the label off and looks up the one below it. At most four labels are \
           put on. Where the last label is taken off, the type becomes that of IP or IPv6 by the \
           packet's first bits (RFC 4928). Traffic classes are kept, and copied to new labels.\n\n\
           The time-to-live of the top label becomes one less; 1 and 0 expire. MODEL (RFC 3443) \
           selects whether the hops of a tunnel count in its payload: uniform copies the \
           time-to-live to pushed labels, and back, if that does not raise it, to the header below \
           a popped label; pipe gives new labels a time-to-live of TTL and leaves the header below \
           a label unchanged. At the end of a path (pop without ETHER) nothing is decremented: the \
           element that processes the packet next does that.\n\n\
           Frames that cannot be switched leave by output PUNT unchanged, or are dropped where \
           that is not given. Put HostEtherFilter in front where frames for other hosts may \
           arrive.\n\n\
           The table is shared by all threads and changed while they look up, without a lock. It \
           has room for CAPACITY labels.",
    example: "InfiniteSource(\\<020000000009 020000000001 8847 00064140 45>, LIMIT 1, STOP true) \
              -> s :: MPLSSwitch(MAC 02:00:00:00:00:09, 100 swap 200 1 02:00:00:00:00:02, \
              101 pop 0) -> Discard; s[1] -> Print(swapped) -> Discard",
    ports: "1/1-",
    processing: "h/h",
    drops: MplsSwitchDrop::DROPS,
    cost: &[
        Operation::HeaderRead.once(),
        Operation::ArrayLookup.once(),
        Operation::TtlDecrement.once(),
        Operation::HeaderWrite.times(2.0),
    ],
    replicas: Replicas::Sharing("the table"),
    ..Spec::DEFAULT
})
.with_cost_model::<MplsSwitch>();

reasons! {
    /// Why a packet is not switched.
    enum MplsSwitchDrop {
        NoStack = "no-stack": "it is no Ethernet frame with a label stack, or that is cut",
        UnknownLabel = "unknown-label": "the table has no entry for its label",
        Expired = "expired": "the time-to-live of a label that was looked up was over",
        TooDeep = "too-deep": "more than 16 of its labels ended here",
        UnknownPayload = "unknown-payload": "the payload of the last label is neither IP nor IPv6",
        NoEnd = "no-end": "its last label is taken off, and the entry has no output",
    }
}

/// Largest CAPACITY: all labels, 36 MB of table.
const MAX_CAPACITY: usize = 1 << 20;

type Table = Result<Labels, String>;

#[derive(Arguments, Handlers)]
#[handler(
    read, shared, name = "table", "a line per label: label, operation, output, next hop",
    get = table(&self.labels)?.show()
)]
#[handler(
    read, shared, name = "lookup", "the operation on a label; empty for none",
    read = self.read_lookup(name, param)
)]
#[handler(
    write, shared, name = "add", "adds an entry; fails if the label has one",
    write = table(&self.labels)?.write(&self.reading(), name, value)
)]
#[handler(
    write, shared, name = "set", "adds an entry or changes it",
    write = table(&self.labels)?.write(&self.reading(), name, value)
)]
#[handler(
    write, shared, name = "remove", "removes the entry of a label",
    write = table(&self.labels)?.write(&self.reading(), name, value)
)]
#[handler(
    write, shared, name = "flush", "removes all entries",
    write = table(&self.labels)?.write(&self.reading(), name, value)
)]
struct MplsSwitch {
    /// source address of frames to next hops
    #[arg(required_keyword)]
    mac: MacAddr,
    #[arg(
        keyword, name = "MODEL", value = String, ty = Ty::Choice(&["uniform", "pipe"]),
        or = "uniform", "treatment of the time-to-live by tunnels"
    )]
    #[arg(
        keyword, name = "TTL", value = u8, or = "255",
        "time-to-live of new labels, where MODEL is pipe"
    )]
    /// Time-to-live of new labels; `None`: that of the packet, and back (the uniform model).
    #[new(ttl_of(args, &model, ttl)?)]
    ttl: Option<u8>,
    #[arg(
        keyword, name = "CAPACITY", value = usize, range = 1..=MAX_CAPACITY, or = "65536",
        "labels that the table has room for"
    )]
    #[arg(
        keyword, name = "PUNT", unread, ty = Ty::UInt,
        "output of frames that cannot be switched"
    )]
    #[new(punt(args)?)]
    punt: Option<usize>,
    #[arg(
        rest, name = "ENTRY", ty = Ty::Rule("LABEL swap|push|pop ..."),
        "what is done with a label"
    )]
    #[new(labels(args, capacity)?)]
    labels: Arc<Table>,
    #[new(args.env().outputs)]
    outputs: usize,
    #[new(args.names())]
    names: Names,
}

/// The entries that are arguments.
fn entries(args: &Args<'_>) -> Result<Vec<(u32, Hop)>, ArgErrors> {
    let names = args.names();
    let reading = Reading { names: &names, outputs: args.env().outputs };
    let (mut entries, mut errors) = (Vec::<(u32, Hop)>::new(), Vec::new());
    let mut seen = std::collections::HashSet::new();
    for (index, text) in args.rest() {
        match reading.entry(text) {
            Ok((label, _)) if !seen.insert(label) => {
                errors.push(args.rest_error(index, format!("label {label} has an entry already")));
            }
            Ok(entry) => entries.push(entry),
            Err(message) => errors.push(args.rest_error(index, message)),
        }
    }
    if errors.is_empty() { Ok(entries) } else { Err(ArgErrors(errors)) }
}

fn ttl_of(args: &Args<'_>, model: &str, ttl: u8) -> Result<Option<u8>, ArgError> {
    match model {
        "uniform" if args.given("TTL") => {
            Err(args.error("TTL", "labels have that of the packet; write MODEL pipe"))
        }
        "uniform" => Ok(None),
        "pipe" => Ok(Some(ttl)),
        other => Err(args.error("MODEL", format!("'{other}' is none; write uniform or pipe"))),
    }
}

fn labels(args: &Args<'_>, capacity: usize) -> Result<Arc<Table>, ArgErrors> {
    let entries = entries(args)?;
    let labels: Arc<Table> = args.shared("labels", || Labels::new(capacity, &entries));
    match &*labels {
        Ok(_) => Ok(labels),
        Err(message) => Err(ArgErrors::whole(message.clone())),
    }
}

/// The result of a walk through the labels that end here.
struct Found {
    /// Where the label that was looked up last stands.
    at: usize,
    entry: MplsLabel,
    /// Its time-to-live, or that of a label above it, if that was less and counts.
    ttl: u8,
    hop: Hop,
}

/// Limits the time-to-live of the label or IP header at `at` to `ttl`; `None` where there is
/// neither label nor IP. Gives its EtherType.
#[inline]
fn expose(data: &mut [u8], at: usize, is_label: bool, ttl: Option<u8>) -> Option<u16> {
    let inside = data.get_mut(at..)?;
    let ttl = ttl.unwrap_or(u8::MAX);
    if is_label {
        let (entry, _) = MplsLabel::view_mut(inside).ok()?;
        entry.set_ttl(entry.ttl().min(ttl));
        return Some(ethertype::MPLS);
    }
    match inside.first()? >> 4 {
        4 => {
            let (header, _) = Ipv4Header::view_mut(inside).ok()?;
            if header.ttl() > ttl {
                header.update_ttl(ttl);
            }
            Some(ethertype::IPV4)
        }
        6 => {
            let (header, _) = Ipv6Header::view_mut(inside).ok()?;
            header.set_hop_limit(header.hop_limit().min(ttl));
            Some(ethertype::IPV6)
        }
        _ => None,
    }
}

impl MplsSwitch {
    /// Follows the labels that end here to the first that leads somewhere.
    #[inline]
    fn walk(&self, labels: &Labels, data: &[u8]) -> Result<Found, MplsSwitchDrop> {
        let (ether, _) = EthernetHeader::view(data).map_err(|_| MplsSwitchDrop::NoStack)?;
        if !is_stack(ether.ethertype()) {
            return Err(MplsSwitchDrop::NoStack);
        }
        let (mut at, mut above) = (EthernetHeader::LEN, u8::MAX);
        for _ in 0..=MAX_LABELS {
            let entry = data.get(at..).and_then(|rest| MplsLabel::view(rest).ok());
            let entry = *entry.ok_or(MplsSwitchDrop::NoStack)?.0;
            let hop = labels.get(entry.label()).ok_or(MplsSwitchDrop::UnknownLabel)?;
            let ttl = entry.ttl().min(above);
            // A path's egress processes the packet itself, and decrements then.
            let least = if hop.mac.is_some() { 2 } else { 1 };
            if ttl < least {
                return Err(MplsSwitchDrop::Expired);
            }
            if hop.port.is_some() {
                return Ok(Found { at, entry, ttl, hop });
            }
            if entry.is_bottom() {
                return Err(MplsSwitchDrop::NoEnd);
            }
            if self.ttl.is_none() {
                above = ttl;
            }
            at += MplsLabel::LEN;
        }
        Err(MplsSwitchDrop::TooDeep)
    }

    /// Does what the table says; the output.
    #[inline]
    fn switch(&self, labels: &Labels, packet: &mut Packet) -> Result<u16, Reason> {
        let Found { at, entry, ttl, hop } = self.walk(labels, packet.data())?;
        let left = if hop.mac.is_some() { ttl - 1 } else { ttl };
        let class = entry.class();
        let (keep, new_type) = match hop.operation {
            Action::Pop => {
                let below = at + MplsLabel::LEN;
                let limit = self.ttl.is_none().then_some(left);
                let exposed = expose(packet.data_mut(), below, !entry.is_bottom(), limit);
                (below, exposed.ok_or(MplsSwitchDrop::UnknownPayload)?)
            }
            Action::Swap | Action::Push => (at, ethertype::MPLS),
        };
        let (swapped, pushed) = match (hop.operation, hop.out()) {
            (Action::Swap, [first, rest @ ..]) => (*first, rest),
            (_, pushed) => (entry.label(), pushed),
        };
        let (ether, _) =
            EthernetHeader::view(packet.data()).map_err(|_| MplsSwitchDrop::NoStack)?;
        let ether = match hop.mac {
            Some(mac) => EthernetHeader::new(mac, self.mac, new_type),
            None => EthernetHeader::new(ether.dst(), ether.src(), new_type),
        };
        let front = EthernetHeader::LEN + MplsLabel::LEN * pushed.len();
        let room =
            if front <= keep { packet.pull(keep - front) } else { packet.push(front - keep) };
        if !room {
            return Err(Reason::NO_MEMORY);
        }
        // The front has just that length, and a label that is kept stands behind it.
        let mut rest = ether.emit(packet.data_mut()).map_err(|_| MplsSwitchDrop::NoStack)?;
        for label in pushed.iter().rev() {
            let new = MplsLabel::new(*label, class, false, self.ttl.unwrap_or(left));
            rest = new.emit(rest).map_err(|_| MplsSwitchDrop::NoStack)?;
        }
        if hop.operation != Action::Pop {
            let top = MplsLabel::new(swapped, class, entry.is_bottom(), left);
            let _ = top.emit(rest);
        }
        packet.set_mac_offset(0);
        Ok(hop.port.unwrap_or(0))
    }

    fn reading(&self) -> Reading<'_> {
        Reading { names: &self.names, outputs: self.outputs }
    }
}

fn table(table: &Table) -> Result<&Labels, HandlerError> {
    table.as_ref().map_err(|message| HandlerError::refused(message.clone()))
}

impl Element for MplsSwitch {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let Ok(labels) = &*self.labels else { return };
        cx.filter(batch, |packet| outcome(self.switch(labels, packet), self.punt));
    }
}

impl MplsSwitch {
    fn read_lookup(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        let label: u32 = handler_value(name, param)?;
        Ok(table(&self.labels)?.get(label).map_or(String::new(), |hop| hop.to_string()))
    }
}

impl CostModel for MplsSwitch {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        let labels = (*self.labels).as_ref().ok()?;
        // A line of the index, then the entry.
        let found = looking_up(Operation::ArrayLookup.once(), labels.size(), 2.0, load);
        let rest = ENTRY.spec.cost.iter().copied();
        let rest = rest.filter(|cost| cost.operation != Operation::ArrayLookup);
        Some(rest.chain([found]).collect())
    }
}

#[cfg(test)]
mod tests;
