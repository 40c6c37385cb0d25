//! What elements of a configuration know of its links: when one was lost, and how long a packet an
//! interface takes (docs/adr/0035-lost-links-and-mtus.md).

use std::sync::Arc;

use parking_lot::Mutex;
use thruway_element::{ArgErrors, Args, Cx};
use thruway_packet::Packet;
use thruway_sync::atomic::{AtomicUsize, Ordering};

/// Called when a link was lost.
type Listener = Box<dyn Fn() + Send + Sync>;

/// The links of a configuration, shared by its elements.
#[derive(Default)]
pub struct Links {
    listeners: Mutex<Vec<Listener>>,
    mtus: Mutex<Vec<(String, Arc<Mtu>)>>,
}

/// The longest packet that an interface takes, in bytes without the link's header.
pub struct Mtu(AtomicUsize);

impl Links {
    /// Those of the configuration that is being built.
    pub fn of(args: &Args<'_>) -> Arc<Links> {
        // The empty name is no element's.
        args.env().shared.get("", "links", Links::default).expect("one type per key")
    }

    /// Has `listener` called when any link is lost, in the thread of the port that saw it.
    pub fn on_loss(&self, listener: Listener) {
        self.listeners.lock().push(listener);
    }

    /// A link was lost: another station may be on it when it comes back.
    pub fn lost(&self) {
        self.listeners.lock().iter().for_each(|listener| listener());
    }

    /// The MTU of the interface of this name, which need not be there (yet): no bound then.
    pub fn mtu(&self, interface: &str) -> Arc<Mtu> {
        let mut all = self.mtus.lock();
        if let Some((_, mtu)) = all.iter().find(|(name, _)| name == interface) {
            return Arc::clone(mtu);
        }
        let mtu = Arc::new(Mtu(AtomicUsize::new(usize::MAX)));
        all.push((interface.to_owned(), Arc::clone(&mtu)));
        mtu
    }
}

impl Mtu {
    /// The MTU now, in bytes; `usize::MAX` where none is known.
    #[inline]
    pub fn get(&self) -> usize {
        // Relaxed: a number by itself.
        self.0.load(Ordering::Relaxed)
    }

    /// Asks the system for the MTU of `interface`; one that is not there bounds nothing.
    pub fn refresh(&self, interface: &str) {
        let mtu = thruway_port::interface::mtu(interface).unwrap_or(usize::MAX);
        self.0.store(mtu, Ordering::Relaxed);
    }
}

/// Bytes that the longest packet has, of those that are sent in place of this one, where `len`
/// bytes of this one count: the same but for one that stands for several (FromDevice, LARGE).
#[inline]
pub fn sent_len(packet: &Packet, len: usize) -> usize {
    match packet.segments() {
        1 => len,
        segments => segment_len(packet, len, segments),
    }
}

#[cold]
fn segment_len(packet: &Packet, len: usize, segments: usize) -> usize {
    let tcp = packet.transport();
    let header_len = tcp.get(12).map_or(usize::MAX, |byte| usize::from(byte >> 4) * 4);
    match tcp.len().checked_sub(header_len) {
        Some(payload_len) => len.saturating_sub(payload_len) + payload_len.div_ceil(segments),
        None => len,
    }
}

/// The argument PORT of an element that bounds or reports lengths.
pub struct PortMtu {
    interface: String,
    mtu: Option<Arc<Mtu>>,
    /// As of the last warning.
    seen: usize,
}

impl PortMtu {
    /// The argument of the element that is being built.
    pub fn of(args: &Args<'_>) -> Result<PortMtu, ArgErrors> {
        let interface: Option<String> = args.opt("PORT")?;
        let mtu = interface.as_ref().map(|interface| Links::of(args).mtu(interface));
        Ok(PortMtu { interface: interface.unwrap_or_default(), mtu, seen: usize::MAX })
    }

    /// Asks for the MTU; ports ask again now and then. A capture in the interface's place has none.
    pub fn open(&self) {
        if let Some(mtu) = &self.mtu {
            mtu.refresh(&self.interface);
        }
    }

    /// The MTU, in bytes; `usize::MAX` for none.
    #[inline]
    pub fn get(&self) -> usize {
        self.mtu.as_ref().map_or(usize::MAX, |mtu| mtu.get())
    }

    /// Whether it is another one than [`warn`](PortMtu::warn) saw last.
    #[inline]
    pub fn is_news(&self) -> bool {
        self.get() != self.seen
    }

    /// Informs the user of an interface that takes less than the element is configured for.
    #[cold]
    pub fn warn(&mut self, cx: &mut Cx<'_>, configured: usize) {
        self.seen = self.get();
        if self.seen < configured {
            let (name, mtu) = (&self.interface, self.seen);
            let what = format!(
                "warning: interface '{name}' has an MTU of {mtu}, less than {configured} as \
                 configured: {mtu} counts; raise it (ip link set {name} mtu {configured}), or \
                 lower the configuration's"
            );
            crate::notice::warn(cx, &what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_a_packet_stands_for_the_longest_counts() {
        let lens = |segments: usize, header_len: u8| {
            let mut packet = Packet::zeroed(14 + 20 + 20 + 3000).expect("memory");
            packet.set_network(14, 20);
            packet.data_mut()[34 + 12] = header_len << 2;
            assert!(packet.set_segments(segments));
            sent_len(&packet, packet.len())
        };
        assert_eq!(lens(1, 20), 3054);
        assert_eq!(lens(3, 20), 1054);
        assert_eq!(lens(7, 20), 54 + 429);
        // A header that is longer than the packet's own bytes is none.
        let mut short = Packet::zeroed(30).expect("memory");
        assert!(short.set_segments(4));
        assert_eq!(sent_len(&short, 30), 30);
    }

    #[test]
    fn a_loss_is_heard_and_an_mtu_is_that_of_the_interface() {
        let (links, heard) = (Links::default(), Arc::new(AtomicUsize::new(0)));
        let counter = Arc::clone(&heard);
        links.on_loss(Box::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        }));
        links.lost();
        links.lost();
        assert_eq!(heard.load(Ordering::Relaxed), 2);
        let mtu = links.mtu("lo");
        assert_eq!(mtu.get(), usize::MAX);
        mtu.refresh("lo");
        assert!((1280..=65_536).contains(&links.mtu("lo").get()), "{}", mtu.get());
        mtu.refresh("nosuch0");
        assert_eq!(mtu.get(), usize::MAX);
    }
}
