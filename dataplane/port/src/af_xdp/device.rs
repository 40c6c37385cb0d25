//! An interface that is used by AF_XDP: a socket for each of its receive queues.

use super::socket::{self, Binding, FRAME_MAX, Rings, RxEnd, TxEnd};
use super::steering::Steering;
use super::{Mode, XdpOptions};
use crate::af_packet::promiscuous_guard;
use crate::error::PortError;
use crate::interface::{self, Interface};
use crate::interface_driver;
use crate::system;
use parking_lot::Mutex;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Weak};
use thruway_packet::{Lending, Memory};
use thruway_region::Pages;
use thruway_sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Ethernet's header, and two VLAN tags: what comes on top of an MTU.
const LINK_LEN: usize = 14 + 2 * 4;
/// The part of all frames that the fill rings of a device may hold: an eighth.
const FILL_SHARE: usize = 8;

/// Devices that are open, so that both directions of an interface share its sockets.
static OPEN: Mutex<Vec<Weak<Device>>> = Mutex::new(Vec::new());
/// Frames that a driver may still write to: those of a zero-copy socket that was closed, which the
/// kernel unbinds later. They are freed when the queue could be bound again.
static LINGERING: Mutex<Vec<(Key, u32, Lending)>> = Mutex::new(Vec::new());

/// An interface, for as long as it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    /// The network namespace's inode.
    namespace: u64,
    index: u32,
}

/// See the module's description.
pub struct Device {
    steering: Mutex<Option<Arc<Steering>>>,
    queues: Vec<Queue>,
    interface: Interface,
    key: Key,
    mtu: AtomicUsize,
    zero_copy: bool,
    /// Whether frames may have open checksums.
    is_virtual: bool,
    /// Whether VLAN tags may have been stripped from frames, and this was not reported yet.
    strips_tags: AtomicBool,
    options: XdpOptions,
    _promiscuous: Option<OwnedFd>,
}

/// A queue's sockets and those of its ends that nobody has.
struct Queue {
    /// In the order of [`Class::ALL`](crate::classes::Class::ALL): the first also sends.
    sockets: [OwnedFd; 2],
    rx: Mutex<Option<RxEnd>>,
    tx: Mutex<Option<TxEnd>>,
}

impl Device {
    /// Opens `name`, or finds it open already (then with the options that it was opened with).
    ///
    /// # Errors
    /// There is no such interface, it is down, its MTU is larger than a frame, another program has
    /// it, the process may not use AF_XDP, or the kernel refused a step.
    pub fn open(name: &str, options: &XdpOptions) -> Result<Arc<Device>, PortError> {
        let interface = interface::find(name)?;
        if !interface.is_up {
            return Err(PortError::Down { name: name.to_owned() });
        }
        if !interface.is_ethernet {
            return Err(PortError::unfit(name, "AF_XDP needs an Ethernet interface"));
        }
        let key = Key { namespace: namespace(), index: interface.index };
        let mut open = OPEN.lock();
        open.retain(|device| device.strong_count() > 0);
        let found = open.iter().filter_map(Weak::upgrade).find(|device| device.key == key);
        if let Some(device) = found {
            return Ok(device);
        }
        let device = Arc::new(Device::make(interface, key, options)?);
        open.push(Arc::downgrade(&device));
        Ok(device)
    }

    fn make(interface: Interface, key: Key, options: &XdpOptions) -> Result<Device, PortError> {
        let name = &interface.name;
        let mtu = interface::mtu(name)?;
        if mtu + LINK_LEN > FRAME_MAX {
            let what = format!(
                "its MTU of {mtu} makes frames longer than the {FRAME_MAX} bytes of AF_XDP frames; \
                 ip link set {name} mtu {}, or use packet sockets (METHOD LINUX)",
                FRAME_MAX - LINK_LEN
            );
            return Err(PortError::unfit(name, what));
        }
        let count = interface_driver::rx_queues(name)?;
        // First, since drivers want a program before they give zero copy; and it shows soonest
        // whether another program has the interface.
        let steering = match options.receives {
            true => Some(Arc::new(Steering::attach(&interface, count, options.modes)?)),
            false => None,
        };
        let is_native = steering.as_ref().is_some_and(|s| s.mode() == Mode::Native);
        // A device sees physical pages, and of normal ones a frame may need two.
        let may_zero_copy = is_native && Memory::get().small().stats().pages == Pages::Huge;
        let binding = |zero_copy| Binding {
            name,
            interface: interface.index,
            queue: 0,
            shared: None,
            zero_copy,
        };
        let (zero_copy, queues) =
            match may_zero_copy.then(|| bind_all(binding(true), count, options)) {
                Some(Ok(queues)) => (true, queues),
                _ => (false, bind_all(binding(false), count, options)?),
            };
        LINGERING.lock().retain(|(lingering, queue, _)| *lingering != key || *queue >= count);
        let guard = options.promiscuous.then(|| promiscuous_guard(&interface)).transpose()?;
        Ok(Device {
            steering: Mutex::new(steering),
            queues,
            key,
            mtu: AtomicUsize::new(mtu),
            zero_copy,
            is_virtual: interface_driver::is_virtual(name),
            strips_tags: AtomicBool::new(interface_driver::strips_tags(name)),
            options: *options,
            interface,
            _promiscuous: guard,
        })
    }

    /// Whether there is such a queue.
    ///
    /// # Errors
    /// There is not; how many there are.
    pub fn check_queue(&self, queue: Option<u32>) -> Result<(), PortError> {
        let count = self.queues.len() as u32;
        match queue.filter(|queue| *queue >= count) {
            None => Ok(()),
            Some(queue) => {
                let what = format!("there is no queue {queue}; it has {count}, from 0 on");
                Err(PortError::unfit(&self.interface.name, what))
            }
        }
    }

    /// What steers frames to the sockets, attached if nothing does yet.
    ///
    /// # Errors
    /// The steering program cannot be attached.
    pub(super) fn steering(&self) -> Result<Arc<Steering>, PortError> {
        let mut steering = self.steering.lock();
        if steering.is_none() {
            let count = self.queues.len() as u32;
            let attached = Steering::attach(&self.interface, count, self.options.modes)?;
            *steering = Some(Arc::new(attached));
        }
        Ok(steering.clone().expect("just attached"))
    }

    /// Takes the receiving end of the queue of this number, or of all, if nobody has it.
    pub(super) fn take_rx(&self, queue: Option<u32>) -> impl Iterator<Item = (u32, RxEnd)> {
        let free = |number: u32| Some((number, self.queues[number as usize].rx.lock().take()?));
        self.numbers(queue).filter_map(free)
    }

    /// Takes the sending end of the queue of this number, or of the first of which nobody has it.
    pub(super) fn take_tx(&self, queue: Option<u32>) -> Option<(u32, TxEnd)> {
        let mut numbers = self.numbers(queue);
        numbers.find_map(|n| Some((n, self.queues[n as usize].tx.lock().take()?)))
    }

    /// The queue of this number, or all.
    fn numbers(&self, queue: Option<u32>) -> impl Iterator<Item = u32> + use<> {
        let numbers = 0..self.queues.len() as u32;
        numbers.filter(move |&number| queue.is_none_or(|queue| queue == number))
    }

    /// Takes an end back.
    pub(super) fn give_rx(&self, queue: u32, end: RxEnd) {
        *self.queues[queue as usize].rx.lock() = Some(end);
    }

    /// Takes an end back.
    pub(super) fn give_tx(&self, queue: u32, end: TxEnd) {
        *self.queues[queue as usize].tx.lock() = Some(end);
    }

    /// Takes a receiver's share in the steering back; after the last one the host's stack gets the
    /// frames.
    pub(super) fn give_steering(&self, share: Arc<Steering>) {
        let mut steering = self.steering.lock();
        drop(share);
        if steering.as_ref().is_some_and(|steering| Arc::strong_count(steering) == 1) {
            *steering = None;
        }
    }

    /// What steers the frames of an interface that is open in this process.
    pub(crate) fn steering_of(interface: &Interface) -> Option<Weak<Steering>> {
        let key = Key { namespace: namespace(), index: interface.index };
        let device =
            OPEN.lock().iter().filter_map(Weak::upgrade).find(|device| device.key == key)?;
        device.steering.lock().as_ref().map(Arc::downgrade)
    }

    /// The sockets of a queue, in the order of [`Class::ALL`](crate::classes::Class::ALL).
    pub(super) fn sockets(&self, queue: u32) -> &[OwnedFd; 2] {
        &self.queues[queue as usize].sockets
    }

    /// The one of them that sends, and by which the kernel is woken.
    pub(super) fn socket(&self, queue: u32) -> &OwnedFd {
        &self.sockets(queue)[0]
    }

    /// The interface, as it was when the device was opened.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Its MTU, bytes.
    pub(super) fn mtu(&self) -> usize {
        // Relaxed: a number on its own.
        self.mtu.load(Ordering::Relaxed)
    }

    /// Looks whether the interface's MTU is another one now. To be called now and then.
    pub fn refresh(&self) {
        // Of another interface that has its name now the MTU is none of ours.
        let name = &self.interface.name;
        if interface::index(name) == Some(self.interface.index)
            && let Ok(mtu) = interface::mtu(name)
        {
            // Longer frames than these do not fit.
            self.mtu.store(mtu.min(FRAME_MAX - LINK_LEN), Ordering::Relaxed);
        }
    }

    pub(super) fn is_virtual(&self) -> bool {
        self.is_virtual
    }

    /// What is lost of frames, and what helps; the first time it is asked. AF_XDP hands over bytes
    /// alone, so a VLAN tag that was taken out and is kept beside them does not come.
    pub fn warning(&self) -> Option<String> {
        // Relaxed: only one thread must report, nothing else depends on it.
        let is_news = self.strips_tags.swap(false, Ordering::Relaxed);
        let remedy = match self.is_virtual {
            true => {
                "at its other end: ethtool -K PEER txvlan off tx-vlan-stag-hw-insert off".into()
            }
            false => format!("ethtool -K {} rxvlan off", self.interface.name),
        };
        let lost = "VLAN tags stripped by hardware offload are invisible to AF_XDP";
        is_news.then(|| format!("{lost}; to keep them in, {remedy}"))
    }

    pub(super) fn options(&self) -> &XdpOptions {
        &self.options
    }

    /// How it works: "AF_XDP, native mode, copies, 2 queues". (The kernel copies; we never do.)
    pub fn describe(&self) -> String {
        let mode = self.steering.lock().as_ref().map(|steering| steering.describe());
        let mode = mode.unwrap_or("only sends".to_owned());
        let copy = if self.zero_copy { "zero copy" } else { "the kernel copies" };
        let (count, s) = (self.queues.len(), if self.queues.len() == 1 { "" } else { "s" });
        format!("AF_XDP, {mode}, {copy}, {count} queue{s}")
    }
}

/// Two sockets on each of `count` queues; they share the memory that the first one registers.
fn bind_all(
    binding: Binding<'_>,
    count: u32,
    options: &XdpOptions,
) -> Result<Vec<Queue>, PortError> {
    let capacity = Memory::get().small().stats().capacity as usize;
    let frames = (capacity / FILL_SHARE / count as usize).max(1);
    let mut queues: Vec<Queue> = Vec::new();
    for queue in 0..count {
        let shared = queues.first().map(|first| &first.sockets[0]);
        let (socket, rings) = socket::open(Binding { queue, shared, ..binding }, options)?;
        let Rings { received, fill, transmit, done } = rings;
        let beside = Binding { queue, shared: Some(&socket), ..binding };
        let slots = socket::slots_of_others(options, frames.min(fill.slots()));
        let (other, others) = socket::open_beside(beside, slots, options)?;
        let rx = RxEnd::new([received, others], fill, frames);
        let tx = TxEnd { transmit, done, lent: Lending::new() };
        let sockets = [socket, other];
        queues.push(Queue { sockets, rx: Mutex::new(Some(rx)), tx: Mutex::new(Some(tx)) });
    }
    Ok(queues)
}

impl Drop for Device {
    fn drop(&mut self) {
        // No more frames for the sockets: the receivers took them out of the map, the program goes,
        // and what the kernel began before is done. (Closing a socket waits for that, too, but not
        // where a process that is being started has a copy of the descriptor.)
        *self.steering.lock() = None;
        system::wait_for_kernel();
        for (number, queue) in self.queues.drain(..).enumerate() {
            for lent in queue.close() {
                if self.zero_copy {
                    LINGERING.lock().push((self.key, number as u32, lent));
                }
            }
        }
    }
}

impl Queue {
    /// Closes the sockets, and gives the frames that it had: from then on nobody has them (but see
    /// [`LINGERING`]).
    fn close(self) -> Vec<Lending> {
        fn end<T>(binding: Mutex<Option<T>>) -> Option<T> {
            binding.into_inner()
        }
        // Every mapping of a ring keeps the socket open, too; they go here.
        let rx = end(self.rx).map(RxEnd::into_lent);
        let tx = end(self.tx).map(TxEnd::into_lent);
        drop(self.sockets);
        rx.into_iter().chain(tx).collect()
    }
}

/// The inode of this thread's network namespace.
fn namespace() -> u64 {
    std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |file| file.ino())
}
