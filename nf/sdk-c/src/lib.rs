//! `thruway_nf` for C and C++: see `include/thruway_nf.h`, which says what each function does and
//! what it asks of its caller.
//!
//! A program that breaks the header's rules harms itself alone: it is a process in a sandbox, and
//! the host believes nothing that it writes.
#![allow(clippy::missing_safety_doc, reason = "the header says what each function needs")]

mod callbacks;
mod handle;
mod packet;

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::process::ExitCode;
use std::time::Duration;

use thruway_nf::{Config, Needs, NotSent, Timer};

use crate::callbacks::{CConfig, Callbacks};
use crate::handle::{Phase, Thruway};
use crate::packet::CPacket;

/// Version of the header.
const API: u32 = 3;

/// Makes functions that C finds by their names.
macro_rules! exported {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block)*)
    => {$(
        $(#[$doc])*
        // JUSTIFICATION: C finds functions by their names.
        // SAFETY: all of them begin with `thruway_`, which no other library uses.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? $body
    )*};
}

exported! {
    /// Runs the function.
    fn thruway_run(config: Option<&CConfig>) -> c_int {
        let run = |settings: &Config, callbacks: Callbacks| {
            thruway_nf::run(settings, |start| callbacks.start(start))
        };
        run_by("thruway_run", config, run)
    }

    /// Runs the function as so many Workers as its element says.
    fn thruway_run_workers(config: Option<&CConfig>) -> c_int {
        let run = |settings: &Config, callbacks: Callbacks| {
            thruway_nf::run_workers(settings, |start| callbacks.start(start))
        };
        run_by("thruway_run_workers", config, run)
    }

    /// The next packet of the batch.
    fn thruway_next(t: Option<&mut Thruway<'_, '_>>) -> *mut CPacket {
        t.map_or(std::ptr::null_mut(), Thruway::next)
    }

    /// Sends a packet in consequence of the one in hand.
    fn thruway_emit(
        t: Option<&mut Thruway<'_, '_>>,
        output: u8,
        front: *const u8,
        front_len: usize,
        bytes_at: *const u8,
        len: usize,
    ) -> c_int {
        // JUSTIFICATION: C has no slices.
        // SAFETY: the header asks for so many readable bytes. They may lie in the packet in hand,
        // to which nothing here makes another reference while it is copied.
        let front = unsafe { bytes(front, front_len) };
        // SAFETY: as above.
        let rest = unsafe { bytes(bytes_at, len) };
        t.map_or(OUTPUT, |t| code(t.emit(output, [front, rest])))
    }

    /// Sends a packet of its own.
    fn thruway_inject(
        t: Option<&mut Thruway<'_, '_>>,
        output: u8,
        bytes_at: *const u8,
        len: usize,
    ) -> c_int {
        // JUSTIFICATION: C has no slices.
        // SAFETY: the header asks for so many readable bytes.
        let packet = unsafe { bytes(bytes_at, len) };
        t.map_or(OUTPUT, |t| code(match &mut t.phase {
            Phase::Batch(batch) => batch.inject(output, packet),
            Phase::Cx(cx) => cx.inject(output, packet),
            Phase::Start(_) | Phase::Session(_) => Err(NotSent::Output),
        }))
    }

    /// A session's scratch.
    fn thruway_scratch(t: Option<&mut Thruway<'_, '_>>, session: u32) -> *mut c_void {
        let scratch = t.and_then(|t| match &mut t.phase {
            Phase::Batch(batch) => batch.scratch_bytes(session),
            Phase::Session(one) => one.scratch_bytes(session),
            Phase::Cx(cx) => cx.scratch_bytes(session),
            Phase::Start(_) => None,
        });
        scratch.map_or(std::ptr::null_mut(), |bytes| bytes.as_mut_ptr().cast())
    }

    /// The time.
    fn thruway_now_ns(t: Option<&mut Thruway<'_, '_>>) -> u64 {
        t.map_or(0, |t| match &mut t.phase {
            Phase::Batch(batch) => batch.now_ns(),
            Phase::Session(session) => session.now_ns(),
            Phase::Cx(cx) => cx.now_ns(),
            Phase::Start(start) => start.now_ns(),
        })
    }

    /// Sets a timer that goes off once.
    fn thruway_after(t: Option<&mut Thruway<'_, '_>>, ns: u64) -> u64 {
        let duration = Duration::from_nanos(ns);
        t.map_or(0, |t| match &mut t.phase {
            Phase::Batch(batch) => batch.after(duration).number(),
            Phase::Cx(cx) => cx.after(duration).number(),
            Phase::Start(start) => start.after(duration).number(),
            Phase::Session(_) => 0,
        })
    }

    /// Sets a timer that goes off every so often.
    fn thruway_every(t: Option<&mut Thruway<'_, '_>>, ns: u64) -> u64 {
        let period = Duration::from_nanos(ns);
        t.map_or(0, |t| match &mut t.phase {
            Phase::Batch(batch) => batch.every(period).number(),
            Phase::Cx(cx) => cx.every(period).number(),
            Phase::Start(start) => start.every(period).number(),
            Phase::Session(_) => 0,
        })
    }

    /// Unsets a timer.
    fn thruway_cancel(t: Option<&mut Thruway<'_, '_>>, timer: u64) -> c_int {
        let timer = Timer::from_number(timer);
        t.map_or(0, |t| c_int::from(match &mut t.phase {
            Phase::Batch(batch) => batch.cancel(timer),
            Phase::Cx(cx) => cx.cancel(timer),
            Phase::Start(start) => start.cancel(timer),
            Phase::Session(_) => false,
        }))
    }

    /// A counter.
    fn thruway_counter(t: Option<&mut Thruway<'_, '_>>, name: *const c_char) -> *mut u64 {
        // JUSTIFICATION: a C string.
        // SAFETY: as in `thruway_run`.
        let name = unsafe { text(name) };
        match t.map(|t| &mut t.phase) {
            Some(Phase::Start(start)) => start.counter(&name).as_ptr(),
            _ => UNSEEN.with(|unseen| unseen.as_ptr()),
        }
    }

    /// The output that leads to a role.
    fn thruway_role(t: Option<&mut Thruway<'_, '_>>, name: *const c_char) -> c_int {
        // JUSTIFICATION: a C string.
        // SAFETY: as in `thruway_run`.
        let name = unsafe { text(name) };
        match t.map(|t| &mut t.phase) {
            Some(Phase::Start(start)) => start.find_role(&name).map_or(-1, c_int::from),
            _ => -1,
        }
    }

    /// The text of CONFIG.
    fn thruway_configuration(t: Option<&mut Thruway<'_, '_>>) -> *const c_char {
        let text = match t.map(|t| &mut t.phase) {
            Some(Phase::Start(start)) => start.configuration().ok(),
            _ => None,
        };
        // Once for each Worker of a process.
        let text = text.and_then(|text| CString::new(text).ok());
        text.map_or(std::ptr::null(), |text| text.into_raw())
    }

    /// The number of this Worker.
    fn thruway_worker(t: Option<&Thruway<'_, '_>>) -> u32 {
        t.map_or(0, |t| t.about.worker)
    }

    /// How many Workers the function is.
    fn thruway_workers(t: Option<&Thruway<'_, '_>>) -> u32 {
        t.map_or(0, |t| t.about.welcome.workers)
    }

    /// What this Worker's callbacks are given.
    fn thruway_set_user(t: Option<&mut Thruway<'_, '_>>, user: *mut c_void) {
        if let Some(t) = t && matches!(t.phase, Phase::Start(_)) {
            t.user = Some(user);
        }
    }

    /// Inputs of the element.
    fn thruway_inputs(t: Option<&Thruway<'_, '_>>) -> u32 {
        t.map_or(0, |t| t.about.welcome.inputs)
    }

    /// Outputs of the element.
    fn thruway_outputs(t: Option<&Thruway<'_, '_>>) -> u32 {
        t.map_or(0, |t| t.about.welcome.outputs)
    }

    /// Whether it begins again.
    fn thruway_restarted(t: Option<&Thruway<'_, '_>>) -> c_int {
        t.map_or(0, |t| c_int::from(t.about.welcome.restarted))
    }

    /// Why it cannot begin.
    fn thruway_fail(t: Option<&mut Thruway<'_, '_>>, why: *const c_char) -> c_int {
        // JUSTIFICATION: a C string.
        // SAFETY: as in `thruway_run`.
        let why = unsafe { text(why) };
        if let Some(t) = t {
            t.problem = Some(why);
        }
        1
    }
}

/// Runs a function by `run`, once its configuration was checked; `name` is what the program called.
fn run_by(
    name: &str,
    config: Option<&CConfig>,
    run: impl FnOnce(&Config, Callbacks) -> ExitCode,
) -> c_int {
    let Some(config) = config else {
        return fail(&format!("{name}: config is NULL"));
    };
    if config.api != API {
        return fail("thruway_nf.h and libthruway_nf_c.a are of different versions");
    }
    let Some(callbacks) = Callbacks::of(config) else {
        return fail(&format!("{name}: the callback `batch` is NULL"));
    };
    // JUSTIFICATION: a C string.
    // SAFETY: the header asks for a NUL-terminated string, or NULL.
    let text = unsafe { text(config.name) };
    let settings = Config {
        // Once in a process.
        name: String::leak(text),
        outputs: config.outputs,
        scratch_len: config.scratch_len,
        batch_len_max: config.batch_len_max,
        prefetch: config.prefetch,
        stream: (config.stream != 0).then(|| Needs::from_bits(config.stream)),
    };
    c_int::from(run(&settings, callbacks) != ExitCode::SUCCESS)
}

thread_local! {
    /// What a program counts that asks for a counter at the wrong time: it does not crash on it.
    static UNSEEN: &'static Cell<u64> = Box::leak(Box::new(Cell::new(0)));
}

/// THRUWAY_OUTPUT.
const OUTPUT: c_int = 3;

fn code(sent: Result<(), NotSent>) -> c_int {
    match sent {
        Ok(()) => 0,
        Err(NotSent::Full) => 1,
        Err(NotSent::Length) => 2,
        Err(NotSent::Output) => OUTPUT,
    }
}

fn fail(why: &str) -> c_int {
    eprintln!("{why}");
    1
}

/// A C string as text; what is no text is replaced. NULL is empty.
///
/// # Safety
/// The pointer is NULL or that of a NUL-terminated string.
unsafe fn text(at: *const c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // JUSTIFICATION: C has no other strings.
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}

/// Bytes that C gives by address and length. NULL is none.
///
/// # Safety
/// The pointer is NULL or that of so many readable bytes, which do not change for `'a`.
unsafe fn bytes<'a>(at: *const u8, len: usize) -> &'a [u8] {
    if at.is_null() || len > isize::MAX as usize {
        return &[];
    }
    // JUSTIFICATION: C has no slices.
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(at, len) }
}
