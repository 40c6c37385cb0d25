//! The control region: the wake-up word, commands, what a Worker reports on itself.

use core::cell::Cell;
use core::time::Duration;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::thread::futex;
use thruway_nf_abi::control::{
    COMMAND, COUNTER_LEN, COUNTER_NAME_LEN, COUNTERS, COUNTERS_MAX, FIGURES, Figure, HEARTBEAT,
    LEN, REQUESTS, STATUS, WAITING, WORKER_THRESHOLD,
};
use thruway_nf_abi::{MAGIC, VERSION};
use thruway_region::{Pages, Region, RegionError, SharedBytes};
use thruway_sync::atomic::{AtomicU32, Ordering};

use crate::bell::{Bell, SleepWord};
use crate::wake::WakeLine;

/// A Worker's control region, as either side sees it. Clones are the same region.
#[derive(Debug, Clone)]
pub struct Control {
    region: Arc<Region>,
}

impl Control {
    /// Makes one, for the host.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn create() -> Result<Control, RegionError> {
        let region = Region::new(LEN as usize, Pages::Normal)?.guarded();
        let head = region.bytes(0, 16)?;
        head.write_word(0, MAGIC);
        head.write_word(8, u64::from(VERSION));
        Ok(Control { region: Arc::new(region) })
    }

    /// Opens the one that the host handed over, for the Worker.
    ///
    /// # Errors
    /// When it cannot be mapped or is too short.
    pub fn open(fd: OwnedFd) -> Result<Control, RegionError> {
        let region = Region::open(fd)?;
        region.bytes(0, LEN as usize)?;
        Ok(Control { region: Arc::new(region) })
    }

    /// The descriptor to hand to the other side.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.region.fd()
    }

    #[inline]
    /// The memory itself, all of which the Worker may write.
    pub fn region(&self) -> &Region {
        &self.region
    }

    fn word(&self, offset: u32) -> &AtomicU32 {
        // `open` and `create` saw to it that the region is long enough; its length is sealed.
        self.region.word(offset as usize).expect("a word of the control region")
    }

    #[inline]
    fn bytes(&self, offset: u32, len: u32) -> SharedBytes<'_> {
        self.region.bytes(offset as usize, len as usize).expect("bytes of the control region")
    }

    /// The wake-up word.
    pub fn status(&self) -> &AtomicU32 {
        self.word(STATUS)
    }

    /// What the host asks: RUN or DRAIN.
    #[inline]
    pub fn command(&self) -> u32 {
        self.word(COMMAND).load(Ordering::Relaxed)
    }

    /// Asks for something; ring the bell afterwards.
    pub fn set_command(&self, command: u32) {
        self.word(COMMAND).store(command, Ordering::Relaxed);
    }

    /// A number that changes whenever the host has sent a request on the socket.
    #[inline]
    pub fn requests(&self) -> u32 {
        self.word(REQUESTS).load(Ordering::Relaxed)
    }

    /// Says that a request was sent on the socket; ring the bell afterwards.
    pub fn count_request(&self) {
        let word = self.word(REQUESTS);
        // Several threads of the host may ask.
        word.fetch_add(1, Ordering::Relaxed);
    }

    /// The threshold that the Worker is to use, if the host has set one.
    pub fn worker_threshold(&self) -> Option<u32> {
        Some(self.word(WORKER_THRESHOLD).load(Ordering::Relaxed)).filter(|set| *set > 0)
    }

    /// Sets the threshold of the Worker; announce it as a request.
    pub fn set_worker_threshold(&self, threshold: u32) {
        self.word(WORKER_THRESHOLD).store(threshold, Ordering::Relaxed);
    }

    /// A number that changes whenever the Worker made progress.
    pub fn heartbeat(&self) -> u32 {
        self.word(HEARTBEAT).load(Ordering::Relaxed)
    }

    /// Says that the Worker made progress.
    #[inline]
    pub fn beat(&self) {
        let word = self.word(HEARTBEAT);
        // One writer: no locked instruction needed.
        word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// A figure that the Worker reports on itself: believed for display only.
    pub fn figure(&self, figure: Figure) -> u64 {
        self.bytes(FIGURES, 64).read_word(8 * figure as usize)
    }

    /// Adds to a figure; the Worker's.
    pub fn add_figure(&self, figure: Figure, n: u64) {
        let bytes = self.bytes(FIGURES, 64);
        let offset = 8 * figure as usize;
        bytes.write_word(offset, bytes.read_word(offset).wrapping_add(n));
    }

    #[inline]
    fn counter_bytes(&self, counter: u32) -> SharedBytes<'_> {
        self.bytes(COUNTERS + (counter % COUNTERS_MAX) * COUNTER_LEN, COUNTER_LEN)
    }

    /// Names a function's counter; what does not fit in the name is cut.
    pub fn name_counter(&self, counter: u32, name: &str) {
        let mut bytes = [0; COUNTER_NAME_LEN as usize];
        let mut len = name.len().min(bytes.len());
        while !name.is_char_boundary(len) {
            len -= 1;
        }
        bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
        self.counter_bytes(counter).copy_from(&bytes);
    }

    /// Sets a function's counter.
    #[inline]
    pub fn set_counter(&self, counter: u32, value: u64) {
        self.counter_bytes(counter).write_word(COUNTER_NAME_LEN as usize, value);
    }

    /// A function's counters by name. Names are what the Worker wrote: those that are no plain
    /// text are left out.
    pub fn counters(&self) -> Vec<(String, u64)> {
        (0..COUNTERS_MAX).filter_map(|counter| self.counter(counter)).collect()
    }

    fn counter(&self, counter: u32) -> Option<(String, u64)> {
        let bytes = self.counter_bytes(counter);
        let mut name = [0; COUNTER_NAME_LEN as usize];
        bytes.copy_to(&mut name);
        let len = name.iter().position(|&b| b == 0).unwrap_or(name.len());
        let name = core::str::from_utf8(&name[..len]).ok()?;
        let is_plain =
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
        is_plain.then(|| (name.to_owned(), bytes.read_word(COUNTER_NAME_LEN as usize)))
    }
}

/// A Master's handle to wake a Worker.
#[derive(Debug, Clone)]
pub struct Doorbell {
    control: Control,
    line: Option<Arc<WakeLine>>,
}

impl Doorbell {
    /// Wakes by futex, or by a line where the Worker asked for one.
    pub fn new(control: Control, line: Option<Arc<WakeLine>>) -> Doorbell {
        Doorbell { control, line }
    }
}

impl Bell for Doorbell {
    #[inline]
    fn status(&self) -> &AtomicU32 {
        self.control.status()
    }

    #[cold]
    fn wake(&self) {
        // A Worker that cannot be woken is found by supervision: it makes no progress.
        match &self.line {
            Some(line) => line.wake_worker(),
            None => drop(futex::wake(self.status(), futex::Flags::empty(), 1)),
        }
    }
}

/// A Worker's handle to sleep on its futex.
#[derive(Debug, Clone)]
pub struct FutexWaiter(pub Control);

/// Shortest and longest nap of a Worker in a virtual machine. PERF: one that has just had packets
/// looks for more after about 0.1 ms; one that has had none for 10 ms wakes 500 times a second.
const NAP_MIN: Duration = Duration::from_micros(50);
const NAP_MAX: Duration = Duration::from_millis(2);

impl FutexWaiter {
    /// Sleeps for a while, where the word is a device's memory, of which the kernel has no futex:
    /// that of a virtual machine's host, whom no system call of this machine reaches. The first
    /// naps are short; without packets each is longer than the one before.
    #[cold]
    fn nap(&self, at_most: Option<Duration>) {
        thread_local! {
            /// Heartbeat at the last nap, and its length.
            static LAST: Cell<(u32, Duration)> = const { Cell::new((0, NAP_MIN)) };
        }
        let (beat, last) = LAST.get();
        let now = self.0.heartbeat();
        let nap = if now == beat { (last + last / 4).min(NAP_MAX) } else { NAP_MIN };
        LAST.set((now, nap));
        std::thread::sleep(at_most.map_or(nap, |most| most.min(nap)));
    }
}

impl SleepWord for FutexWaiter {
    #[inline]
    fn status(&self) -> &AtomicU32 {
        self.0.status()
    }

    fn sleep(&self, at_most: Option<Duration>) {
        let timeout = at_most.and_then(|t| t.try_into().ok());
        // Interrupted, or no longer WAITING: the caller checks again in both cases.
        let slept = futex::wait(self.status(), futex::Flags::empty(), WAITING, timeout.as_ref());
        if slept == Err(Errno::FAULT) {
            self.nap(at_most);
        }
    }
}
