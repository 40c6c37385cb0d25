//! `daemon`: the manager itself.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use sd_notify::NotifyState;
use thruway::errln;
use thruway_manager::Manager;
use thruway_manager::api::{Context, Listener, router, serve};
use thruway_manager::events::EventLog;
use thruway_manager::store::Store;
use thruway_manager::unsupported::Unsupported;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::check::Build;

/// Threads for calls that wait: for the disk, a check or a data plane.
const CALL_THREADS_MAX: usize = 8;

/// How long such calls may go on at the end.
const GRACE: Duration = Duration::from_secs(3);

/// A runtime of one thread.
pub fn runtime() -> anyhow::Result<Runtime> {
    let runtime =
        Builder::new_current_thread().enable_all().max_blocking_threads(CALL_THREADS_MAX).build();
    runtime.context("no runtime can be started")
}

/// Runs the manager until it is told to end.
pub fn main(state: Option<PathBuf>, socket: &Path) -> anyhow::Result<ExitCode> {
    let state = state.map_or_else(default_state, Ok)?;
    let runtime = runtime()?;
    let ended = runtime.block_on(run(&state, socket));
    // A call that waits for a data plane does not hold up the end.
    runtime.shutdown_timeout(GRACE);
    ended.map(|()| ExitCode::SUCCESS)
}

async fn run(state: &Path, socket: &Path) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
    let store = Store::open(state)?;
    let listener = Listener::bind(socket)?;
    let events = Arc::new(EventLog::default());
    let planes = Arc::new(Unsupported::new(Arc::clone(&events)));
    let manager = Manager::new(store, planes, Arc::new(Build), events)?;
    let (end, ending) = watch::channel(false);
    let served = tokio::spawn(serve(
        listener,
        router(Context::new(Arc::new(manager), ending.clone())),
        ending,
    ));
    errln!("thruway-manager: keeps {}, listens at {}", state.display(), socket.display());
    notify(NotifyState::Ready);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    notify(NotifyState::Stopping);
    end.send_replace(true);
    served.await.context("the server")
}

/// Tells a service manager, if one asked for it (NOTIFY_SOCKET).
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        errln!("warning: NOTIFY_SOCKET: {error}");
    }
}

/// Where what is kept is if nobody says otherwise.
fn default_state() -> anyhow::Result<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(state) = named("THRUWAY_STATE_DIR") {
        return Ok(state);
    }
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/thruway"));
    }
    let home = || named("HOME").map(|home| home.join(".local/state"));
    let base = named("XDG_STATE_HOME").or_else(home);
    Ok(base.context("neither XDG_STATE_HOME nor HOME is set; name --state DIR")?.join("thruway"))
}
