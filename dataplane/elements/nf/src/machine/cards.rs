//! The network cards of a machine.

use std::fmt::Write as _;
use std::sync::Arc;

use thruway_element::{ArgError, Args, Cx};
use thruway_elements_support::virtio_link::VirtioLink;
use thruway_nf_host::{VmReporter, Wire};
use thruway_packet::Batch;
use thruway_sync::atomic::{AtomicU32, Ordering};
use thruway_vhost::{Address, Port, PortEvent, private_listener};

/// The ports of all cards of a machine.
pub type Ports = Vec<Arc<Port>>;

/// Opens the ports of a machine's cards. What is given besides connects them to a machine, each
/// time anew.
///
/// # Errors
/// What the system refuses.
pub fn open(cards: usize, name: &str, reporter: &VmReporter) -> Result<(Ports, Wire), String> {
    // A bit for each card that its driver uses.
    let used = Arc::new(AtomicU32::new(0));
    let all = (1_u32 << cards) - 1;
    let mut ports = Ports::new();
    for number in 0..cards {
        let (used, reporter, bit) = (Arc::clone(&used), reporter.clone(), 1 << number);
        let on_event = move |event: PortEvent| match event {
            PortEvent::Ready => {
                if used.fetch_or(bit, Ordering::AcqRel) | bit == all {
                    reporter.ready();
                }
            }
            PortEvent::Down => drop(used.fetch_and(!bit, Ordering::AcqRel)),
            PortEvent::Fault(why) => reporter.fault(format!("card {number}: {why}")),
        };
        let name = format!("{name} card {number}");
        let port = Port::open_with(&name, Address::Attached, Box::new(on_event))?;
        ports.push(Arc::new(port));
    }
    let wired = ports.clone();
    let wire = move || {
        let attach = |port: &Arc<Port>| {
            let (listener, handle) = private_listener()?;
            port.attach(listener);
            Ok(handle)
        };
        wired.iter().map(attach).collect()
    };
    Ok((ports, Box::new(wire)))
}

/// The cards of a machine, one for each input and output.
pub struct Cards {
    links: Vec<VirtioLink>,
}

impl Cards {
    /// Cards without a machine.
    ///
    /// # Errors
    /// What is wrong with an argument of theirs.
    pub fn of(args: &Args<'_>, count: usize) -> Result<Cards, ArgError> {
        let links = (0..count).map(|_| VirtioLink::of(args)).collect::<Result<_, _>>()?;
        Ok(Cards { links })
    }

    /// Uses these ports.
    pub fn set_ports(&mut self, ports: &Ports) {
        self.each_port(ports).for_each(|(link, port)| link.set_port(port));
    }

    /// Uses these ports in place of others, while packets flow.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn change_ports(&mut self, cx: &mut Cx<'_>, ports: &Ports) -> Result<(), String> {
        self.each_port(ports).try_for_each(|(link, port)| link.change_port(cx, port))
    }

    fn each_port(&mut self, ports: &Ports) -> impl Iterator<Item = (&mut VirtioLink, Arc<Port>)> {
        self.links.iter_mut().zip(ports.iter().map(Arc::clone))
    }

    /// Lets the thread's sleep end when a card has something to do.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn watch(&self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.links.iter().try_for_each(|link| link.watch(cx))
    }

    /// Gives packets to the guest by a card.
    #[inline]
    pub fn send(&mut self, cx: &mut Cx<'_>, card: usize, batch: &mut Batch) {
        self.links[card].send(cx, batch);
    }

    /// Does what waits: packets for the guest, and of the guest. Whether there were any.
    #[inline]
    pub fn run(&mut self, cx: &mut Cx<'_>, burst: usize, batch: &mut Batch) -> bool {
        let mut is_busy = false;
        for (card, link) in self.links.iter_mut().enumerate() {
            is_busy |= link.resume(cx);
            link.receive(cx, burst, batch);
            if !batch.is_empty() {
                is_busy = true;
                cx.emit_all(card, batch);
            }
        }
        is_busy
    }

    /// Whether packets wait for the guest.
    #[inline]
    pub fn are_waiting(&self) -> bool {
        self.links.iter().any(VirtioLink::is_waiting)
    }

    /// Packets that were given to the guest.
    pub fn sent(&self) -> u64 {
        self.links.iter().map(VirtioLink::sent).sum()
    }

    /// Packets that the guest sent.
    pub fn received(&self) -> u64 {
        self.links.iter().map(VirtioLink::received).sum()
    }

    /// A line for each card.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for (card, link) in self.links.iter().enumerate() {
            let of = |name| link.read(name).unwrap_or_default();
            let _ = writeln!(
                text,
                "{card} {} from-guest {} packets {} bytes to-guest {} packets {} bytes",
                of("state"),
                of("count"),
                of("byte_count"),
                of("sent"),
                of("sent_bytes"),
            );
        }
        text
    }

    /// The run ends.
    pub fn finish(&mut self, cx: &mut Cx<'_>) {
        self.links.iter_mut().for_each(|link| link.finish(cx));
    }
}
