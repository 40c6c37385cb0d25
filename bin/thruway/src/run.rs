//! `thruway run`: runs a configuration and reports what every element did.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thruway_element::Purpose;

use indicatif::{ProgressBar, ProgressStyle};
use thruway_engine::{Control, Layout, Options, Outcome, Router};
use thruway_lang::{Diagnostics, ElementDecl, Source, Variables};
use thruway_packet::{DEFAULT_SMALL, Memory};
use thruway_region::Pages;
use thruway_sync::atomic::{AtomicBool, Ordering};

use crate::config_args::{libraries, report};
use crate::distress::no_thread;
use crate::instance;
use crate::load::{self, Origin};
use crate::run_args::RunArgs;
use crate::signals::Receiver;
use crate::summary::{Summary, packets_in};
use crate::swap::{Build, Reload, Swap, reason, sentence};
use crate::table::thousands;

/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the command.
pub fn main(args: &RunArgs) -> anyhow::Result<ExitCode> {
    if args.own_session {
        rustix::process::setsid().map_err(|why| anyhow::anyhow!("--own-session: {why}"))?;
    }
    args.log.begin();
    let (source, given) = args.config.read()?;
    let variables = with_file(given.clone(), args.variables_file.as_deref())?;
    let (threads, cores) = args.threads_and_cores()?;
    if args.huge_pages {
        Memory::configure(DEFAULT_SMALL, Pages::Huge)?;
    }
    crate::distress::reserve()?;
    let mut options = Options {
        threads,
        cores,
        spread: true,
        placement: args.placement.placement(),
        burst: usize::from(args.burst),
        drain: true,
        clock: args.clock.kind(),
        idle: args.idle.idle(),
        ..Options::default()
    };
    args.log.apply(&mut options);
    let (mut router, warnings) = match load::build(source, &variables, &libraries(), &options) {
        Ok(built) => built,
        Err(failure) => {
            report(&failure.pretty);
            return Ok(ExitCode::FAILURE);
        }
    };
    report(&warnings);
    if router.layout().graph.elements.is_empty() {
        anyhow::bail!("the configuration has no elements");
    }
    let signals = Receiver::new().map_err(no_thread)?;
    let files = args.config.named_file().map(|file| (file, args.variables_file.clone()));
    let reload = files.map(|files| reload(files, given, &options));
    let build = args.allow_reconfigure.then(|| build_next(variables, options.clone()));
    let swap = Swap::new(build, reload, &options);
    swap.offer(router.control());
    if let Err(failure) = load::initialize(&mut router) {
        report(&failure.pretty);
        return Ok(ExitCode::FAILURE);
    }
    let watched = Arc::new(Watched::new(&router));
    let watch = watch(&watched, args)?;
    let wish =
        instance::ControlOptions { control: args.control.as_deref(), files: args.files.as_deref() };
    let outcome = run(&mut router, &swap, &watched, (&signals, wish));
    watched.over.store(true, Ordering::Release);
    if let Some(watch) = watch {
        watch.thread().unpark();
        // The thread ends itself when the run is over; the runtime would report its panic.
        let _ = watch.join();
    }
    let outcome = outcome?;
    let graph = &router.layout().graph;
    report(&load::explain(graph, &outcome.errors, Diagnostics::about(&graph.sources)).pretty);
    if args.json {
        outln!("{:#}", Summary::of(&mut router, &outcome).json());
    } else if !args.quiet {
        out!("{}", Summary::of(&mut router, &outcome).text());
    }
    Ok(if outcome.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs to the stop, and on with whatever configurations replace it.
fn run(
    router: &mut Router,
    swap: &Swap,
    watched: &Watched,
    (signals, wish): (&Receiver, instance::ControlOptions<'_>),
) -> anyhow::Result<Outcome> {
    signals.follow(router.control())?;
    let mut instance = instance::open(router, wish)?;
    loop {
        let mut outcome = router.run_threads();
        if !swap.goes_on(router, &outcome) {
            instance::close(instance);
            outcome.errors.extend(router.finish());
            return Ok(outcome);
        }
        instance::follow(&mut instance, router);
        watched.follow(router);
        if let Err(error) = signals.follow(router.control()) {
            errln!("cannot handle signals: {error}");
        }
    }
}

/// How another configuration is made: as the first one was.
fn build_next(variables: Variables, options: Options) -> Build {
    Arc::new(move |text, threads| {
        let source = Source::new("hotconfig", text);
        // A text that is written is whole as it is: it need not mention them.
        let variables = variables.clone().or_unknown();
        let options = threads.applied(&options);
        let built = load::build(source, &variables, &libraries(), &options);
        built.map(|(router, _)| router).map_err(|failure| reason(&failure))
    })
}

/// The variables of the command line and those of a file; the file's win.
fn with_file(mut variables: Variables, file: Option<&Path>) -> anyhow::Result<Variables> {
    let Some(path) = file else { return Ok(variables) };
    let text = std::fs::read_to_string(path).map_err(anyhow::Error::from);
    let values = text.and_then(|text| Ok(serde_json::from_str(&text)?));
    let values: BTreeMap<String, String> =
        values.map_err(|why| anyhow::anyhow!("--variables-file {}: {why}", path.display()))?;
    for (name, value) in values {
        if name.contains('=') || !variables.assign(&format!("{name}={value}")) {
            anyhow::bail!("--variables-file {}: '{name}' is no name", path.display());
        }
    }
    Ok(variables)
}

/// How the configuration file is read again: with the variables of the command line, and those that
/// the file of variables has then.
fn reload(
    (file, values): (&str, Option<PathBuf>),
    variables: Variables,
    options: &Options,
) -> Reload {
    let origin = Origin::File(file.to_owned());
    let (file, options) = (file.to_owned(), options.clone());
    Arc::new(move |threads| {
        let options = threads.applied(&options);
        let read = origin
            .read()
            .and_then(|source| Ok((source, with_file(variables.clone(), values.as_deref())?)));
        let built = read.map_err(|error| error.to_string()).and_then(|(source, variables)| {
            let built = load::build(source, &variables, &libraries(), &options);
            built.map(|(router, _)| router).map_err(|failure| sentence(&failure))
        });
        match &built {
            Ok(_) => tracing::info!(file, "configuration read again"),
            Err(reason) => tracing::error!(file, reason, "reload refused; nothing changed"),
        }
        built
    })
}

/// What the progress is about: another configuration after a hot swap.
struct Watched {
    now: Mutex<(Arc<Control>, Arc<Layout>)>,
    over: AtomicBool,
}

impl Watched {
    fn new(router: &Router) -> Watched {
        let now = Mutex::new((Arc::clone(router.control()), Arc::clone(router.layout())));
        Watched { now, over: AtomicBool::new(false) }
    }

    fn follow(&self, router: &Router) {
        let now = (Arc::clone(router.control()), Arc::clone(router.layout()));
        *self.now.lock() = now;
    }

    fn now(&self) -> (Arc<Control>, Arc<Layout>) {
        self.now.lock().clone()
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// Watches the run from a thread of its own: the progress bar, and the end of `--duration`.
fn watch(
    watched: &Arc<Watched>,
    args: &RunArgs,
) -> anyhow::Result<Option<std::thread::JoinHandle<()>>> {
    let limit = match args.duration {
        Some(seconds) if seconds > 0.0 && seconds < 1e9 => Some(Duration::from_secs_f64(seconds)),
        Some(seconds) => anyhow::bail!("--duration {seconds}: must be above 0"),
        None => None,
    };
    if args.quiet && limit.is_none() {
        return Ok(None);
    }
    let (watched, quiet) = (Arc::clone(watched), args.quiet);
    let thread = std::thread::Builder::new().name("progress".into());
    let spawned = thread.spawn(move || {
        let begin = Instant::now();
        let files = captures(&watched.now().1);
        let bar = if quiet { ProgressBar::hidden() } else { bar(!files.is_empty()) };
        while !watched.is_over() {
            let (control, layout) = watched.now();
            if limit.is_some_and(|limit| begin.elapsed() >= limit) {
                control.end();
            }
            show(&bar, &control, &layout, &captures(&layout));
            // The end of the run ends the wait.
            std::thread::park_timeout(LOOK);
        }
        bar.finish_and_clear();
    });
    Ok(Some(spawned.map_err(no_thread)?))
}

/// Elements that read a file and say how far they are.
fn captures(layout: &Layout) -> Vec<String> {
    let is_interface = |decl: &ElementDecl| {
        let port = decl.args.first().map_or("", |arg| arg.text.trim_matches('"'));
        decl.spec.purpose == Purpose::ReceiveFromDevice && !port.starts_with("pcap:")
    };
    let elements = layout.graph.elements.iter();
    let files = elements.filter(|one| one.spec.handler("filepos").is_some() && !is_interface(one));
    files.map(|decl| decl.name.clone()).collect()
}

fn bar(known: bool) -> ProgressBar {
    let (bar, template) = if known {
        (ProgressBar::new(0), "{elapsed:>4} [{bar:40}] {percent:>3}% {msg}")
    } else {
        (ProgressBar::new_spinner(), "{spinner} {elapsed:>4} {msg}  (Ctrl-C ends)")
    };
    // The templates are constants: a wrong one shows in the first run.
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn show(bar: &ProgressBar, control: &Control, layout: &Layout, files: &[String]) {
    let ask = |name: &str, handler: &str| -> u64 {
        let answer = control.read(&format!("{name}.{handler}"));
        answer.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    if !bar.is_hidden() && !files.is_empty() {
        bar.set_length(files.iter().map(|name| ask(name, "filesize")).sum());
        bar.set_position(files.iter().map(|name| ask(name, "filepos")).sum());
    } else {
        bar.tick();
    }
    bar.set_message(format!("{} packets", thousands(packets_in(layout, control.stats()))));
}
