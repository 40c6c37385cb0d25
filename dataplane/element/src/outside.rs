//! Handler calls from outside of the configuration: the caller, its permissions, and how a thread
//! that processes no packets makes them without waiting.

use std::path::PathBuf;
use std::sync::Arc;

use crate::HandlerError;
use crate::spec::Spec;

/// Permissions of a caller outside of the configuration (a client of a control socket).
///
/// The operator wrote the configuration, so its text runs with the process's permissions. A caller
/// outside only chose a value: files that such a value names are confined to [`files`].
///
/// [`files`]: Outside::files
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outside {
    /// Nothing may change: no writes, and no read handlers with effects.
    pub read_only: bool,
    /// Directory of the files that values may name; `None` refuses them all.
    pub files: Option<PathBuf>,
}

/// The caller of a handler; `None` is the configuration itself.
pub type Origin = Option<Arc<Outside>>;

/// A handler call from outside.
#[derive(Debug, Clone)]
pub struct RemoteCall {
    /// `[element.]handler`.
    pub path: String,
    /// Parameter of a read, value of a write.
    pub text: String,
    /// Whether it is a write.
    pub write: bool,
    /// The caller.
    pub outside: Arc<Outside>,
}

/// Called by any thread when an [`Pending`] may have made progress; it must return at once.
pub type Ready = Arc<dyn Fn() + Send + Sync>;

/// How far a call is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Threads are still to do it.
    Waiting,
    /// It was done, or refused.
    Done(Result<String, HandlerError>),
    /// It was not done, and will not be: the threads ended. It may be made again.
    Gone,
}

/// A call in progress. Dropping it cancels the parts that no thread has begun.
pub trait Pending: Send {
    /// How far it is. Never waits; after `Done` it is not asked again.
    fn poll(&mut self) -> Progress;
}

/// Handlers of a router, for threads that run no elements. Nothing here waits for a packet thread.
pub trait Remote: Send + Sync {
    /// Index of the element `name`.
    fn find(&self, name: &str) -> Option<u32>;

    /// Name and class of an element.
    fn describe(&self, node: u32) -> Option<(String, String)>;

    /// The declarations of an element's class.
    fn spec(&self, node: u32) -> Option<&'static Spec>;

    /// Begins a call; `ready` is called when threads did their share.
    fn begin(&self, call: &RemoteCall, ready: &Ready) -> Box<dyn Pending>;

    /// Whether the threads run: all elements are initialised, and ports are open.
    fn is_running(&self) -> bool;

    /// From now on `ready` is called whenever the threads begin to run.
    fn when_running(&self, ready: &Ready);

    /// A line for the user.
    fn log(&self, line: &str);

    /// Asks the driver to stop, as an element does.
    fn stop(&self);
}
