//! EtherSwitch, ListenEtherSwitch: a learning Ethernet switch.

mod vlans;

use std::fmt::Write as _;
use std::sync::Arc;

use thruway_element::text::split_words;
use thruway_element::{
    Alias, ArgErrors, Args, Arguments, Changes, Cost, CostModel, Cx, Element, Entry, HandlerError,
    Handlers, Load, Names, Nanos, Operation, Reason, Replicas, Spec, Topic, Ty, handler_value,
    reasons,
};
use thruway_elements_support::reaching::looking_up;
use thruway_packet::{Batch, Packet};
use thruway_sync::atomic::{AtomicU64, Ordering};
use thruway_table::{AgingTable, Found, Learnt};
use thruway_wire::MacAddr;
use thruway_wire::ethernet::ethertype;

use self::vlans::{Port, Refused};
use super::vlan_tag::{put_tag, tag_of, take_tag};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<EtherSwitch>(Spec {
    name: "EtherSwitch",
    aliases: &[Alias {
        name: "ListenEtherSwitch",
        summary: "has one output more, the last, that gets a copy of every frame",
    }],
    topic: Topic::Ethernet,
    summary: "is a learning Ethernet switch, with VLANs if wanted",
    docs: "Input and output of one number are a port. A frame that comes in shows that its source \
           is there; a frame to an address seen less than TIMEOUT ago goes to that port only (and \
           nowhere, if it came from there), any other to all ports but its own. With a TIMEOUT of \
           0 nothing is learnt. Frames too short for two addresses are dropped. Group addresses \
           are not learnt as sources.\n\n\
           The table has room for CAPACITY addresses and a few more. An address is not learnt if \
           others, none of them old, fill its bucket: its frames go everywhere; \
           unlearnt counts such frames. One table serves all threads, which neither wait for one \
           another nor allocate. Handler add enters an address that does not age and is not \
           learnt elsewhere; with a TIMEOUT of 0 these are all there is.\n\n\
           With arguments PORT the switch is a bridge of IEEE 802.1Q. PORT n ACCESS v has VLAN v \
           only, without tags. PORT n TRUNK v... has several, each a VLAN, a range 10-19, or ALL, \
           with tags (type 0x8100), but for those of the NATIVE VLAN, which go and come without. \
           Ports that are not mentioned have VLAN 1 without tags. Addresses are learnt for each \
           VLAN of their own, frames stay in their VLAN, and a tag keeps its priority. \
           A frame with a tag that has priority only (VLAN 0) is as one without. Frames that the \
           port does not take are dropped, and so are those to the addresses that bridges keep to \
           a link (01-80-C2-00-00-00 to -0F, 802.1Q section 8.6.3). ListenEtherSwitch's last \
           output gets frames as they came.\n\n\
           In add, remove and lookup the VLAN stands first where there are any: \
           write switch.add 10 00-11-22-33-44-55 2.",
    example: "s :: EtherSwitch(PORT 0 ACCESS 10, PORT 1 TRUNK 10 20-29);\n\
              InfiniteSource(\\<000000000002 000000000001 0800>, LIMIT 1, STOP true) -> s;\n\
              Idle -> [1] s; s[0] -> Discard; s[1] -> Print(flooded) -> Discard",
    ports: "-/-",
    processing: "h/h",
    drops: EtherSwitchDrop::DROPS,
    cost: &[
        Operation::HeaderRead.once(),
        Operation::HashLookup.once(),
        Operation::HashLearn.once(),
    ],
    changes: Changes::Frame,
    replicas: Replicas::Sharing("the address table"),
    large_packets: true,
    ..Spec::DEFAULT
})
.with_cost_model::<EtherSwitch>();

reasons! {
    /// Why a frame goes nowhere.
    enum EtherSwitchDrop {
        TooShort = "too-short": "it has less than the 12 bytes of two Ethernet addresses",
        SameNetwork = "same-network": "its destination is on its own port, or its VLAN on no other",
        OtherVlan = "other-vlan": "the port that it came to, or is for, does not have its VLAN",
        Untagged = "untagged": "it has no tag, and the port that it came to no NATIVE VLAN",
        LinkLocal = "link-local": "it is for the other end of its link, and VLANs are configured",
    }
}

/// Largest CAPACITY: 128 MB of table.
const MAX_CAPACITY: usize = 1 << 21;
/// Most ports: a port's number has 16 bits in the table.
const MAX_PORTS: usize = 1 << 16;
/// Set in every key, since the table has no key 0.
const KEY: u64 = 1 << 63;

/// The address table, as all replicas share it.
#[derive(Debug)]
struct StationTable {
    table: AgingTable<1>,
    /// Nanoseconds; 0 to learn nothing.
    timeout: AtomicU64,
}

impl StationTable {
    fn new(capacity: usize, timeout: i64) -> StationTable {
        let table = AgingTable::new(capacity, timeout);
        StationTable { table, timeout: AtomicU64::new(timeout as u64) }
    }

    fn timeout(&self) -> u64 {
        self.timeout.load(Ordering::Relaxed)
    }

    fn set_timeout(&self, timeout: i64) {
        // Relaxed: frames in flight may still use the old one.
        self.timeout.store(timeout as u64, Ordering::Relaxed);
        self.table.set_timeout(timeout);
    }
}

/// The table's key of an address.
#[inline]
fn key(vlan: u16, mac: MacAddr) -> u64 {
    KEY | u64::from(vlan) << 48 | mac.to_u64()
}

/// The key of an entry: VLAN, address, port.
fn entry(found: &Found<1>) -> (u16, MacAddr, usize) {
    let vlan = (found.key >> 48) as u16 & 0xfff;
    (vlan, MacAddr::from_u64(found.key & 0xffff_ffff_ffff), found.value[0] as usize)
}

/// The state of an admitted frame.
#[derive(Debug, Clone, Copy)]
struct Seen {
    from: usize,
    /// 0 where there are none.
    vlan: u16,
    /// Control information of the tag that it came with.
    tci: Option<u16>,
    dst: MacAddr,
    src: MacAddr,
}

#[derive(Arguments, Handlers)]
#[handler(
    read, shared, name = "table", "a line per address: VLAN if any, address, port, 'static'",
    get = self.show(cx.now())
)]
#[handler(
    read, shared, name = "lookup", "the port of [VLAN] ADDRESS; -1 for none",
    read = self.read_lookup(cx, param)
)]
#[handler(read, name = "vlans", "a line per port: number, VLANs", get = self.vlans())]
#[handler(sum, field = unlearnt, "frames with a source address that did not fit in the table")]
#[handler(
    both, shared, name = "timeout", "how long an address counts, in seconds",
    get = (self.stations.timeout() / 1_000_000_000), write = self.write_timeout(value)
)]
#[handler(
    write, shared, name = "add", "enters [VLAN] ADDRESS PORT, which does not age",
    write = self.add(value, cx.now())
)]
#[handler(
    write, shared, name = "remove", "forgets [VLAN] ADDRESS", write = self.write_remove(value)
)]
#[handler(
    write, shared, name = "flush", "removes learnt addresses; VLAN v or PORT n: only those there",
    write = self.flush(value)
)]
struct EtherSwitch {
    /// Output that gets a copy of everything.
    #[new(listener(args)?)]
    listener: Option<usize>,
    #[arg(
        keyword, name = "TIMEOUT", value = i64, via = Nanos::not_negative, or = "300",
        "how long an address counts"
    )]
    #[arg(
        keyword, name = "CAPACITY", value = usize, range = 1..=MAX_CAPACITY, or = "65536",
        "addresses that the table has room for"
    )]
    #[new(args.shared("places", || StationTable::new(capacity, timeout)))]
    stations: Arc<StationTable>,
    /// The VLANs of each port, if there are any.
    #[arg(
        rest, name = "PORT", ty = Ty::Rule("PORT N ACCESS VLAN | PORT N TRUNK VLANS [NATIVE VLAN]"),
        "the VLANs of a port"
    )]
    #[new(vlans::ports(args, args.env().inputs)?)]
    ports: Option<Box<[Port]>>,
    /// Number of ports.
    #[new(args.env().inputs)]
    count: usize,
    /// Frames with a source address that did not fit.
    unlearnt: u64,
    #[new(args.names())]
    names: Names,
}

/// Checks the numbers of ports and gives the listener's.
fn listener(args: &Args<'_>) -> Result<Option<usize>, ArgErrors> {
    let (inputs, outputs) = (args.env().inputs, args.env().outputs);
    let listens = args.class() == "ListenEtherSwitch";
    let networks = if listens { outputs.checked_sub(1) } else { Some(outputs) };
    if networks != Some(inputs) {
        let more =
            if listens { "one output more than inputs" } else { "as many outputs as inputs" };
        let message = format!("{} needs {more}; it has {inputs} and {outputs}", args.class());
        return Err(ArgErrors::whole(message));
    }
    if inputs > MAX_PORTS {
        return Err(ArgErrors::whole(format!("{inputs} ports; there may be {MAX_PORTS}")));
    }
    Ok(listens.then_some(inputs))
}

/// Whether bridges keep frames to this address to one link.
#[inline]
fn is_link_local(mac: MacAddr) -> bool {
    mac.to_u64() & !0xf == 0x0180_c200_0000
}

impl EtherSwitch {
    /// Lets a frame in, or says why not.
    #[inline]
    fn admit(&self, packet: &Packet, from: usize) -> Result<Seen, EtherSwitchDrop> {
        let front = packet.data().first_chunk::<12>().ok_or(EtherSwitchDrop::TooShort)?;
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5] = *front;
        let dst = MacAddr([d0, d1, d2, d3, d4, d5]);
        let src = MacAddr([s0, s1, s2, s3, s4, s5]);
        let mut seen = Seen { from, vlan: 0, tci: None, dst, src };
        if let Some(port) = self.ports.as_ref().and_then(|ports| ports.get(from)) {
            if is_link_local(dst) {
                return Err(EtherSwitchDrop::LinkLocal);
            }
            seen.tci = tag_of(packet, ethertype::VLAN);
            seen.vlan = port.admit(seen.tci).map_err(|refused| match refused {
                Refused::Vlan => EtherSwitchDrop::OtherVlan,
                Refused::Untagged => EtherSwitchDrop::Untagged,
            })?;
        }
        Ok(seen)
    }

    /// Learns from a frame; the port where it goes, `None` for all.
    #[inline]
    fn port_of(&mut self, seen: &Seen, now: i64) -> Option<usize> {
        let StationTable { table, .. } = &*self.stations;
        if self.stations.timeout() != 0 && !seen.src.is_multicast() {
            let learnt = table.learn(key(seen.vlan, seen.src), [seen.from as u64], now);
            self.unlearnt += u64::from(learnt == Learnt::Full);
        }
        if seen.dst.is_multicast() {
            return None;
        }
        table.find(key(seen.vlan, seen.dst), now).map(|[port]| port as usize)
    }

    /// Whether frames of a VLAN go out of a port.
    #[inline]
    fn takes(&self, port: usize, vlan: u16) -> bool {
        let port = self.ports.as_ref().and_then(|ports| ports.get(port));
        port.is_none_or(|port| port.has(vlan))
    }

    /// Gives a frame the tag that it needs at a port, or none; then sends it.
    #[inline]
    fn send(&self, cx: &mut Cx<'_>, to: usize, seen: &Seen, mut packet: Packet) {
        if let Some(port) = self.ports.as_ref().and_then(|ports| ports.get(to)) {
            let tci = seen.tci.unwrap_or(0) & 0xf000 | seen.vlan;
            match (seen.tci, port.tags(seen.vlan)) {
                (Some(had), true) if had != tci => {
                    packet.data_mut()[14..16].copy_from_slice(&tci.to_be_bytes());
                }
                (None, true) if !put_tag(&mut packet, ethertype::VLAN, tci) => {
                    return cx.drop(Reason::NO_MEMORY, packet);
                }
                (Some(_), false) => drop(take_tag(&mut packet, ethertype::VLAN)),
                _ => {}
            }
        }
        cx.emit(to, packet);
    }

    /// A copy for every port that has the VLAN but the one it came from, and for the listener; the
    /// last gets the frame itself.
    fn flood(&self, cx: &mut Cx<'_>, seen: &Seen, packet: Packet) {
        let mut last = None;
        for port in 0..cx.outputs() {
            if port == seen.from || !self.takes(port, seen.vlan) {
                continue;
            }
            if let Some(earlier) = last.replace(port)
                && let Some(copy) = cx.duplicate(&packet)
            {
                self.send(cx, earlier, seen, copy);
            }
        }
        match last {
            Some(port) => self.send(cx, port, seen, packet),
            None => cx.drop(EtherSwitchDrop::SameNetwork, packet),
        }
    }

    #[inline]
    fn forward(&self, cx: &mut Cx<'_>, to: usize, seen: &Seen, packet: Packet) {
        let bad = match () {
            () if to == seen.from => Some(EtherSwitchDrop::SameNetwork),
            () if !self.takes(to, seen.vlan) => Some(EtherSwitchDrop::OtherVlan),
            () => None,
        };
        match (self.listener, bad) {
            (Some(listener), Some(_)) => cx.emit(listener, packet),
            (Some(listener), None) => {
                if let Some(copy) = cx.duplicate(&packet) {
                    cx.emit(listener, copy);
                }
                self.send(cx, to, seen, packet);
            }
            (None, Some(bad)) => cx.drop(bad, packet),
            (None, None) => self.send(cx, to, seen, packet),
        }
    }

    /// A handler's address: `[VLAN] ADDRESS`, and the words behind it.
    fn address<'a>(
        &self,
        name: &str,
        words: &'a [&'a str],
    ) -> Result<(u64, &'a [&'a str]), HandlerError> {
        let refused = |why: String| HandlerError::refused(format!("{name}: {why}"));
        let (vlan, words) = match (&self.ports, words) {
            (None, words) => (0, words),
            (Some(_), [vlan, words @ ..]) => (vlans::vlan(vlan).map_err(refused)?, words),
            (Some(_), []) => return Err(refused("expected VLAN ADDRESS".into())),
        };
        let (mac, words) = words.split_first().ok_or_else(|| refused("missing ADDRESS".into()))?;
        let mac: MacAddr = self.names.parse(mac).map_err(refused)?;
        if mac.is_multicast() {
            return Err(refused(format!("{mac} is a group address, which goes to all ports")));
        }
        Ok((key(vlan, mac), words))
    }

    fn add(&self, value: &str, now: i64) -> Result<(), HandlerError> {
        let refused = |why: String| HandlerError::refused(format!("add: {why}"));
        let words = split_words(value);
        let (key, rest) = self.address("add", &words)?;
        let [port] = rest else { return Err(refused("expected [VLAN] ADDRESS PORT".into())) };
        let port: u16 = self.names.parse(port).map_err(refused)?;
        let vlan = (key >> 48) as u16 & 0xfff;
        if usize::from(port) >= self.count {
            return Err(refused(format!("there is no port {port}; there are {}", self.count)));
        }
        if !self.takes(usize::from(port), vlan) {
            return Err(refused(format!("port {port} does not have VLAN {vlan}")));
        }
        self.stations.table.fix(key, [port.into()], now).map_err(|why| refused(why.into()))
    }

    fn flush(&self, value: &str) -> Result<(), HandlerError> {
        let refused = |why: String| HandlerError::refused(format!("flush: {why}"));
        let table = &self.stations.table;
        match split_words(value)[..] {
            [] => table.retain(|found| found.fixed),
            ["VLAN", vlan] => {
                let vlan = vlans::vlan(vlan).map_err(refused)?;
                table.retain(|found| found.fixed || entry(found).0 != vlan);
            }
            ["PORT", port] => {
                let port: usize = self.names.parse(port).map_err(refused)?;
                table.retain(|found| found.fixed || entry(found).2 != port);
            }
            _ => return Err(refused("expected nothing, VLAN v or PORT n".into())),
        }
        Ok(())
    }

    fn show(&self, now: i64) -> String {
        let mut text = String::new();
        for found in self.stations.table.entries(now) {
            let (vlan, mac, port) = entry(&found);
            let _ = match self.ports {
                Some(_) => write!(text, "{vlan} {} {port}", mac.dashed()),
                None => write!(text, "{} {port}", mac.dashed()),
            };
            text.push_str(if found.fixed { " static\n" } else { "\n" });
        }
        text
    }

    fn read_lookup(&mut self, cx: &mut Cx<'_>, param: &str) -> Result<String, HandlerError> {
        let (key, _) = self.address("lookup", &split_words(param))?;
        let found = self.stations.table.find(key, cx.now());
        Ok(found.map_or("-1".to_owned(), |[port]| port.to_string()))
    }

    fn vlans(&self) -> String {
        let numbered = self.ports.iter().flatten().enumerate();
        numbered.map(|(number, port)| format!("{number} {port}\n")).collect()
    }

    fn write_timeout(&mut self, value: &str) -> Result<(), HandlerError> {
        let refused = |why| HandlerError::refused(format!("timeout: {why}"));
        let timeout = handler_value::<Nanos>("timeout", value)?.not_negative().map_err(refused)?;
        self.stations.set_timeout(timeout);
        Ok(())
    }

    fn write_remove(&mut self, value: &str) -> Result<(), HandlerError> {
        let (key, _) = self.address("remove", &split_words(value))?;
        if !self.stations.table.remove(key) {
            return Err(HandlerError::refused(format!("{} not found", value.trim())));
        }
        Ok(())
    }
}

impl Element for EtherSwitch {
    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        let now = cx.now();
        for packet in batch.drain() {
            let seen = match self.admit(&packet, port) {
                Ok(seen) => seen,
                Err(bad) => {
                    cx.drop(bad, packet);
                    continue;
                }
            };
            match self.port_of(&seen, now) {
                None => self.flood(cx, &seen, packet),
                Some(to) => self.forward(cx, to, &seen, packet),
            }
        }
    }
}

impl CostModel for EtherSwitch {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        let table = &self.stations.table;
        let known = (table.entries(0).len(), table.entry_bytes());
        let look_up = |operation: Operation| looking_up(operation.once(), known, 2.0, load);
        let learnt = (self.stations.timeout() > 0).then(|| look_up(Operation::HashLearn));
        let found = [Operation::HeaderRead.once(), look_up(Operation::HashLookup)];
        Some(found.into_iter().chain(learnt).collect())
    }
}

#[cfg(test)]
mod tests;
