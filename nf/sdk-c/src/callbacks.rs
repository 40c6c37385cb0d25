//! A function made of C's callbacks.

use std::ffi::{CString, c_char, c_int, c_void};

use thruway_nf::{Batch, Counter, Cx, Function, Session, Start, Timer};

use crate::handle::{About, Phase, Thruway};

type OnHandle = unsafe extern "C" fn(*mut Thruway<'_, '_>, *mut c_void);
type OnStart = unsafe extern "C" fn(*mut Thruway<'_, '_>, *mut c_void) -> c_int;
type OnSession = unsafe extern "C" fn(*mut Thruway<'_, '_>, u32, *mut c_void);
type OnTimer = unsafe extern "C" fn(*mut Thruway<'_, '_>, u64, *mut c_void);
type OnRequest =
    unsafe extern "C" fn(*const c_char, *const c_char, *mut c_char, usize, *mut c_void) -> c_int;

/// Bytes that an answer may have.
const ANSWER_LEN: usize = 32 << 10;

/// `thruway_config` of the header.
#[repr(C)]
pub struct CConfig {
    pub api: u32,
    pub outputs: u32,
    pub scratch_len: u32,
    pub batch_len_max: u32,
    pub prefetch: u32,
    pub stream: u32,
    pub name: *const c_char,
    user: *mut c_void,
    start: Option<OnStart>,
    batch: Option<OnHandle>,
    timer: Option<OnTimer>,
    read: Option<OnRequest>,
    write: Option<OnRequest>,
    drain: Option<OnHandle>,
    new_session: Option<OnSession>,
    released_session: Option<OnSession>,
}

/// The callbacks, before the function is made.
#[derive(Clone, Copy)]
pub struct Callbacks {
    user: *mut c_void,
    start: Option<OnStart>,
    batch: OnHandle,
    timer: Option<OnTimer>,
    read: Option<OnRequest>,
    write: Option<OnRequest>,
    drain: Option<OnHandle>,
    new_session: Option<OnSession>,
    released_session: Option<OnSession>,
}

// JUSTIFICATION: each Worker of a function makes its own of the same callbacks.
// SAFETY: functions, and an address that is only handed on. The header says that threads may use
// them at once where the program asks for several Workers.
unsafe impl Sync for Callbacks {}

impl Callbacks {
    /// Those of a configuration, if it has the one that it must have.
    pub fn of(config: &CConfig) -> Option<Callbacks> {
        Some(Callbacks {
            user: config.user,
            start: config.start,
            batch: config.batch?,
            timer: config.timer,
            read: config.read,
            write: config.write,
            drain: config.drain,
            new_session: config.new_session,
            released_session: config.released_session,
        })
    }

    /// Calls `start`.
    pub fn start(mut self, start: &mut Start<'_>) -> Result<CFunction, String> {
        let about = About { welcome: *start.welcome(), worker: start.worker() };
        let outside = start.counter("packets-outside");
        if let Some(callback) = self.start {
            let mut handle = Thruway::new(Phase::Start(start), about, None);
            // JUSTIFICATION: the program's own code.
            // SAFETY: it is called as the header declares it, with a handle that lives meanwhile.
            let problem = unsafe { callback(&mut handle, self.user) };
            if problem != 0 {
                return Err(handle.problem.unwrap_or_else(|| "its start callback failed".into()));
            }
            self.user = handle.user.unwrap_or(self.user);
        }
        Ok(CFunction { callbacks: self, about, outside })
    }
}

/// The function.
pub struct CFunction {
    callbacks: Callbacks,
    about: About,
    outside: Counter,
}

impl Function for CFunction {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        let mut handle = Thruway::new(Phase::Batch(batch), self.about, Some(&self.outside));
        // JUSTIFICATION: the program's own code.
        // SAFETY: as in `Callbacks::start`.
        unsafe { (self.callbacks.batch)(&mut handle, self.callbacks.user) };
        handle.close();
    }

    fn new_session(&mut self, session: &mut Session<'_>) {
        self.notify(self.callbacks.new_session, session);
    }

    fn released_session(&mut self, session: &mut Session<'_>) {
        self.notify(self.callbacks.released_session, session);
    }

    fn timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        if let Some(callback) = self.callbacks.timer {
            let mut handle = Thruway::new(Phase::Cx(cx), self.about, None);
            // JUSTIFICATION: the program's own code.
            // SAFETY: as in `Callbacks::start`.
            unsafe { callback(&mut handle, timer.number(), self.callbacks.user) };
        }
    }

    fn read(&mut self, handler: &str, parameter: &str) -> Result<String, String> {
        self.request(self.callbacks.read, handler, parameter)
    }

    fn write(&mut self, handler: &str, value: &str) -> Result<(), String> {
        self.request(self.callbacks.write, handler, value).map(drop)
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        if let Some(callback) = self.callbacks.drain {
            let mut handle = Thruway::new(Phase::Cx(cx), self.about, None);
            // JUSTIFICATION: the program's own code.
            // SAFETY: as in `Callbacks::start`.
            unsafe { callback(&mut handle, self.callbacks.user) };
        }
    }
}

impl CFunction {
    fn notify(&self, callback: Option<OnSession>, session: &mut Session<'_>) {
        let Some(callback) = callback else { return };
        let number = session.number();
        let mut handle = Thruway::new(Phase::Session(session), self.about, None);
        // JUSTIFICATION: the program's own code.
        // SAFETY: as in `Callbacks::start`.
        unsafe { callback(&mut handle, number, self.callbacks.user) };
    }

    fn request(
        &self,
        callback: Option<OnRequest>,
        handler: &str,
        value: &str,
    ) -> Result<String, String> {
        let callback = callback.ok_or("this function has no such handlers")?;
        let string = |text| CString::new(text).map_err(|_| "a handler's text has no NUL bytes");
        let (handler, value) = (string(handler)?, string(value)?);
        let mut answer = vec![0_u8; ANSWER_LEN];
        let at: *mut c_char = answer.as_mut_ptr().cast();
        let user = self.callbacks.user;
        // JUSTIFICATION: the program's own code.
        // SAFETY: it is called as the header declares it: two strings, and so many bytes that it
        // may write.
        let problem = unsafe { callback(handler.as_ptr(), value.as_ptr(), at, ANSWER_LEN, user) };
        let len = answer.iter().position(|byte| *byte == 0).unwrap_or(ANSWER_LEN);
        let text = String::from_utf8_lossy(&answer[..len]).into_owned();
        if problem == 0 { Ok(text) } else { Err(text) }
    }
}
