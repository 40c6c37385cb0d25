//! `daemon`: the manager itself.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use rustls::ServerConfig;
use sd_notify::NotifyState;
use thruway::errln;
use thruway_manager::api::{Context, Listener, NetworkListener, router, serve, serve_network};
use thruway_manager::audit::{Audit, AuditLimits};
use thruway_manager::events::EventLog;
use thruway_manager::otlp::{self, Collector, Pace};
use thruway_manager::planes::{Supervisor, SupervisorConfig};
use thruway_manager::store::Store;
use thruway_manager::tls::{self, Identity};
use thruway_manager::unsupported::Unsupported;
use thruway_manager::{DataPlanes, Event, Manager};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::check::Build;

/// Threads for blocking calls: disk, checks and data planes.
const CALL_THREADS_MAX: usize = 8;

/// Time limit of such calls at shutdown.
const GRACE: Duration = Duration::from_secs(3);

/// Arguments of `daemon`.
#[derive(Args)]
pub struct DaemonArgs {
    /// State directory [default: $THRUWAY_STATE_DIR, else /var/lib/thruway for root,
    /// $XDG_STATE_HOME/thruway or ~/.local/state/thruway for others]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Program that runs a chain [default: thruway, beside this program]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Also serve the API at this address over TLS: 192.0.2.1:8443
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Certificate chain of this server (PEM), for --listen
    #[arg(long, value_name = "FILE", requires = "listen")]
    certificate: Option<PathBuf>,
    /// Key of the certificate (PEM), private to this user (mode 0600), for --listen
    #[arg(long, value_name = "FILE", requires = "listen")]
    key: Option<PathBuf>,
    /// Push metrics and events to a collector (OTLP over HTTP): http://127.0.0.1:4318
    #[arg(long, value_name = "URL", value_parser = Collector::new)]
    otlp: Option<Collector>,
}

/// What the manager does besides its socket.
struct Sides {
    network: Option<Network>,
    collector: Option<Collector>,
}

/// The manager's network listener.
struct Network {
    address: SocketAddr,
    config: Arc<ServerConfig>,
}

impl Network {
    /// As the arguments ask for; nothing listens without TLS.
    fn of(args: &DaemonArgs) -> anyhow::Result<Option<Network>> {
        let Some(address) = args.listen else { return Ok(None) };
        let (Some(certificate), Some(key)) = (args.certificate.clone(), args.key.clone()) else {
            bail!(
                "--listen {address} needs --certificate FILE and --key FILE: the API is never \
                 served in the clear. `openssl req -x509 -newkey ec -pkeyopt \
                 ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -days 365 -subj \
                 /CN=thruway -addext basicConstraints=critical,CA:FALSE -addext \
                 subjectAltName=IP:{}` makes them",
                address.ip()
            );
        };
        let config = tls::server(&Identity { certificate, key })?;
        Ok(Some(Network { address, config }))
    }
}

/// A runtime of one thread.
pub fn runtime() -> anyhow::Result<Runtime> {
    let runtime =
        Builder::new_current_thread().enable_all().max_blocking_threads(CALL_THREADS_MAX).build();
    runtime.context("no runtime can be started")
}

/// Runs the manager until it is asked to end.
pub fn main(args: DaemonArgs, socket: &Path) -> anyhow::Result<ExitCode> {
    let sides = Sides { network: Network::of(&args)?, collector: args.otlp };
    let state = args.state.map_or_else(default_state, Ok)?;
    let program = args.program.map_or_else(beside, Ok)?;
    let runtime = runtime()?;
    let ended = runtime.block_on(run((&state, &program), socket, sides));
    // A call that waits for a data plane does not hold up the end.
    runtime.shutdown_timeout(GRACE);
    ended.map(|()| ExitCode::SUCCESS)
}

async fn run((state, program): (&Path, &Path), socket: &Path, sides: Sides) -> anyhow::Result<()> {
    let ends = || Ok((signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?));
    let (mut terminate, mut interrupt) =
        thruway::with_signals_held(ends).context("SIGTERM and SIGINT")?;
    let store = Store::open(state)?;
    let audit = Audit::open(state, AuditLimits::DEFAULT).context("the audit log")?;
    let listener = Listener::bind(socket)?;
    let network = match sides.network {
        None => None,
        Some(Network { address, config }) => {
            let bound = NetworkListener::bind(address, config).await;
            Some(bound.with_context(|| format!("--listen {address}"))?)
        }
    };
    let events = Arc::new(EventLog::default());
    let (planes, observed) = planes((state, program), &store, &events)?;
    let manager = Arc::new(Manager::new(store, planes, Arc::new(Build), events)?);
    follow(&manager, observed)?;
    let (end, ending) = watch::channel(false);
    let context = Context::new(manager, ending.clone()).audited(audit);
    let router = router(context.clone());
    let mut served = JoinSet::new();
    let (state, path) = (state.display(), socket.display());
    errln!("thruway-manager: keeps {state}, listens at {path}");
    if let Some(network) = network {
        errln!("thruway-manager: listens at https://{}", network.address().context("--listen")?);
        served.spawn(serve_network(network, router.clone(), context.clone()));
    }
    if let Some(collector) = sides.collector {
        let log = |line: &str| errln!("thruway-manager: {line}");
        served.spawn(otlp::push(context, collector, Pace::DEFAULT, log));
    }
    served.spawn(serve(listener, router, ending));
    notify(NotifyState::Ready);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    notify(NotifyState::Stopping);
    end.send_replace(true);
    while let Some(ended) = served.join_next().await {
        ended.context("the server")?;
    }
    Ok(())
}

/// Passes observations of chains to the manager. The thread ends with the manager and does
/// not keep it alive.
fn follow(manager: &Arc<Manager>, observed: mpsc::Receiver<Event>) -> anyhow::Result<()> {
    let manager = Arc::downgrade(manager);
    let take = move || {
        for event in observed {
            match manager.upgrade() {
                Some(manager) => manager.observed(event),
                None => return,
            }
        }
    };
    std::thread::Builder::new().name("events".into()).spawn(take).context("a thread")?;
    Ok(())
}

/// The runner of chains and its observations: processes of `program`. Without the program no chain
/// runs, and the status of each reports it.
fn planes(
    (state, program): (&Path, &Path),
    store: &Store,
    events: &Arc<EventLog>,
) -> anyhow::Result<(Arc<dyn DataPlanes>, mpsc::Receiver<Event>)> {
    let (sender, receiver) = mpsc::channel();
    if !program.is_file() {
        errln!("warning: there is no {}: chains are kept, and not run", program.display());
        return Ok((Arc::new(Unsupported::new(Arc::clone(events))), receiver));
    }
    let supervisor = Supervisor::start(SupervisorConfig::new(state, program), sender);
    let supervisor = supervisor.with_context(|| state.display().to_string())?;
    // The manager may have been killed between a deletion and what follows from it.
    for name in store.deleted()? {
        if supervisor.end(&name) {
            errln!("thruway-manager: ends chain '{name}', which was deleted");
        }
    }
    Ok((Arc::new(supervisor), receiver))
}

/// The program `thruway` in the directory of this one.
fn beside() -> anyhow::Result<PathBuf> {
    Ok(std::env::current_exe().context("this program")?.with_file_name("thruway"))
}

/// Notifies the service manager, if it set NOTIFY_SOCKET.
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        errln!("warning: NOTIFY_SOCKET: {error}");
    }
}

/// The default state directory.
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
