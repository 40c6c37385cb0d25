//! IPFragmenter: packets that fit the next link.

use thruway_element::{
    Arguments, Cx, Element, Entry, Handlers, Operation, Reason, Replicas, ShortCut, Spec, Topic,
    Ty, reasons,
};
use thruway_elements_support::links::{PortMtu, sent_len};
use thruway_packet::{Anno, Batch, Packet};
use thruway_wire::Header;
use thruway_wire::ipv4::{DONT_FRAGMENT, Ipv4Header, MAX_HEADER_LEN, MORE_FRAGMENTS, OFFSET_MASK};
use thruway_wire::ipv4_option::Ipv4Options;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<IpFragmenter>(Spec {
    name: "IPFragmenter",
    topic: Topic::Ip,
    summary: "fragments IP packets that are longer than the MTU",
    docs: "Expects marked IP headers. Packets of at most MTU bytes, counted from the IP header, \
           pass unchanged, as do those that stand for several (SEGMENTS annotation) if each of \
           these is short enough. Longer ones are cut into fragments (RFC 791 section 3.2), which \
           leave by output 0 in order. The first one keeps all options, the others those whose \
           copied bit is set (RFC 791 section 3.1). A packet that must not be fragmented, or \
           cannot because its header leaves no room, leaves by output 1, or is dropped where there \
           is none; usually an ICMPError(..., unreachable, needfrag) is connected there (RFC \
           1191). With PORT the MTU is at most that of the interface, now and after a change, \
           which is logged. With HONOR_DF false the DF bit is cleared and the packet, whose \
           identification may not be unique, gets a new one.",
    example: "InfiniteSource(\\<450000dc000000004011770f0100000102000002>, LENGTH 220, \
              LIMIT 1, STOP true) -> CheckIPHeader -> IPFragmenter(100) \
              -> Print(ok) -> Discard",
    ports: "1/1-2",
    processing: "h/h",
    drops: IpFragmenterDrop::DROPS,
    cost: &[Operation::HeaderRead.once()],
    replicas: Replicas::Apart("each has its part of the identifications"),
    short_cut: ShortCut::Passes,
    large_packets: true,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet cannot be fragmented.
    enum IpFragmenterDrop {
        DontFragment = "dont-fragment": "it is too long and its DF bit is set",
        NoRoom = "no-room": "its header leaves no room for 8 bytes of data",
        Malformed = "bad-ip-header": "its IP header is wrong, or its data end behind 65535",
    }
}

/// Refused packets that are reported even if not VERBOSE.
const REPORTED_MAX: u64 = 5;

#[derive(Arguments, Handlers)]
struct IpFragmenter {
    /// longest packet in bytes, IP header included
    #[arg(required, range = 8..)]
    mtu: usize,
    /// whether the DF bit is respected
    #[arg(optional, name = "HONOR_DF", or = "true")]
    honor_df: bool,
    /// whether every refused packet is reported
    #[arg(optional, or = "false")]
    verbose: bool,
    #[arg(
        keyword, name = "PORT", ty = Ty::Str,
        "an interface; its MTU holds if it is less"
    )]
    #[new(PortMtu::of(args)?)]
    port: PortMtu,
    /// packets that could not be fragmented
    #[arg(
        keyword, name = "HEADROOM", unread, ty = Ty::UInt, or = "0",
        "accepted for Click; frames have their own"
    )]
    #[handler(sum)]
    drops: u64,
    /// fragments made
    #[handler(sum)]
    fragments: u64,
    /// Identification for packets with a cleared DF bit.
    #[new(crate::outer::first_id(args.env()))]
    id: u16,
    /// Fragments but the first.
    #[new(Batch::new())]
    rest: Batch,
}

/// Bytes of `packet` on the link, from its IP header: of one that stands for several, bytes of the
/// longest of those.
#[inline]
fn link_len(packet: &Packet) -> usize {
    sent_len(packet, packet.network().len())
}

/// The header of the fragments but the first: fixed part and the options that are copied.
struct Template {
    bytes: [u8; MAX_HEADER_LEN],
    len: usize,
}

impl Template {
    fn new(header: &Ipv4Header, options: &[u8]) -> Template {
        let mut bytes = [0; MAX_HEADER_LEN];
        let mut len = Ipv4Header::LEN;
        // A bad option ends the list, as the end option does.
        for option in Ipv4Options::new(options).map_while(Result::ok) {
            if option.is_copied() {
                let from = &options[option.offset..][..option.len()];
                bytes[len..][..from.len()].copy_from_slice(from);
                len += from.len();
            }
        }
        // The list is padded with end options, which are zeros.
        len = len.next_multiple_of(4);
        let mut header = *header;
        // 20 to 60: the options came out of such a header.
        let _ = header.set_header_len(len);
        let _ = header.emit(&mut bytes);
        Template { bytes, len }
    }

    /// The fragment with this payload; `None` when packet memory is used up.
    fn fragment(&self, payload: &[u8], flags_offset: u16) -> Option<Packet> {
        let mut packet = Packet::zeroed(self.len + payload.len())?;
        let (front, back) = packet.data_mut().split_at_mut(self.len);
        front.copy_from_slice(&self.bytes[..self.len]);
        back.copy_from_slice(payload);
        finish(packet.data_mut(), flags_offset);
        packet.set_network(0, self.len);
        Some(packet)
    }
}

/// Sets length, flags and checksum of a fragment.
fn finish(fragment: &mut [u8], flags_offset: u16) {
    let total_len = fragment.len() as u16;
    let Ok((header, _)) = Ipv4Header::view_mut(fragment) else { return };
    header.set_total_len(total_len);
    header.set_flags_offset(flags_offset);
    if let Ok((header, options, _)) = Ipv4Header::parse_with_options_mut(fragment) {
        header.fill_checksum(options);
    }
}

/// The fate of a packet longer than the MTU.
enum Cut {
    /// Only bytes behind its total length were too much.
    Fits,
    /// It is the first fragment now; this many follow or could not be made.
    Into { more: u64, no_memory: usize },
}

/// Cuts `packet` down to its first fragment and puts the others into `rest`. `id` is the new
/// identification when the DF bit is cleared (`None`: it is respected).
fn cut(
    packet: &mut Packet,
    mtu: usize,
    id: Option<u16>,
    rest: &mut Batch,
) -> Result<Cut, IpFragmenterDrop> {
    let at = packet.network_offset().ok_or(IpFragmenterDrop::Malformed)?;
    let parsed = Ipv4Header::parse_with_options(packet.network());
    let (header, options, payload) = parsed.map_err(|_| IpFragmenterDrop::Malformed)?;
    let (mut header, header_len) = (*header, Ipv4Header::LEN + options.len());
    let total_len = header_len + payload.len();
    if total_len <= mtu {
        packet.truncate(at + total_len);
        return Ok(Cut::Fits);
    }
    let first_len = mtu.saturating_sub(header_len) & !7;
    if first_len < 8 {
        return Err(IpFragmenterDrop::NoRoom);
    }
    if header.dont_fragment() {
        header.set_id(id.ok_or(IpFragmenterDrop::DontFragment)?);
    }
    let (had_more, offset) = (header.more_fragments(), header.flags_offset() & OFFSET_MASK);
    if usize::from(offset) * 8 + payload.len() > usize::from(u16::MAX) {
        return Err(IpFragmenterDrop::Malformed);
    }
    let reserved = header.flags_offset() & !(DONT_FRAGMENT | MORE_FRAGMENTS | OFFSET_MASK);
    let template = Template::new(&header, options);
    let step = (mtu - template.len) & !7;
    let (mut from, mut more, mut no_memory) = (first_len, 0, 0);
    while from < payload.len() {
        let end = payload.len().min(from + step);
        let last = end == payload.len() && !had_more;
        let flags = reserved | if last { 0 } else { MORE_FRAGMENTS };
        match template.fragment(&payload[from..end], flags | (offset + (from / 8) as u16)) {
            Some(mut fragment) => {
                fragment.copy_annotations(packet);
                fragment.set_anno_number(Anno::SEGMENTS, 0);
                rest.push(fragment);
                more += 1;
            }
            None => no_memory += 1,
        }
        from = end;
    }
    packet.truncate(at + header_len + first_len);
    packet.set_anno_number(Anno::SEGMENTS, 0);
    let network = packet.network_mut();
    // As long as a header: parsed above.
    let _ = header.emit(network);
    finish(network, reserved | MORE_FRAGMENTS | offset);
    Ok(Cut::Into { more, no_memory })
}

impl IpFragmenter {
    /// Longest packet that goes on, in bytes.
    #[inline]
    fn limit(&self) -> usize {
        self.mtu.min(self.port.get())
    }

    #[cold]
    fn fragment(&mut self, cx: &mut Cx<'_>, mut packet: Packet) {
        self.id = self.id.wrapping_mul(25_173).wrapping_add(13_849);
        let id = (!self.honor_df).then_some(self.id);
        match cut(&mut packet, self.limit(), id, &mut self.rest) {
            Ok(Cut::Fits) => cx.emit(0, packet),
            Ok(Cut::Into { more, no_memory }) => {
                self.fragments += 1 + more;
                if no_memory > 0 {
                    cx.count_drops(Reason::NO_MEMORY, no_memory);
                }
                cx.emit(0, packet);
                cx.emit_all(0, &mut self.rest);
            }
            Err(bad) => {
                if self.verbose || self.drops < REPORTED_MAX {
                    self.report(cx, &packet);
                }
                self.drops += 1;
                cx.reject(1, bad, packet);
            }
        }
    }

    fn report(&self, cx: &mut Cx<'_>, packet: &Packet) {
        if let Ok((header, _)) = Ipv4Header::view(packet.network()) {
            let (src, dst) = (header.src_addr(), header.dst_addr());
            let (mtu, len) = (self.limit(), packet.len());
            cx.log(&format!("IPFragmenter({mtu}) DF {src} {dst} len={len}"));
        }
    }
}

impl Element for IpFragmenter {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.port.open();
        self.port.warn(cx, self.mtu);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let limit = self.limit();
        if self.port.is_news() {
            self.port.warn(cx, self.mtu);
        }
        if cx.is_probe() {
            cx.bound_probe(limit);
        }
        if batch.iter().all(|packet| link_len(packet) <= limit) {
            return;
        }
        for packet in batch.drain() {
            match link_len(&packet) <= limit {
                true => cx.emit(0, packet),
                false => self.fragment(cx, packet),
            }
        }
    }
}

#[cfg(test)]
mod tests;
