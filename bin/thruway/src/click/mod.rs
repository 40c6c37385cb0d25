//! `thruway click`: the command line, the exit codes and the output of Click's userlevel driver.

mod options;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use thruway_engine::Router;
use thruway_lang::{Diagnostics, Source};

use crate::load::{self, Failure, Libraries, Origin};
use crate::log::{LogArgs, LogLevel};
use crate::signals::Receiver;
use crate::swap::{Build, Swap, finish, reason};
use options::{Command, Settings};

/// Runs Click's driver with these arguments (without the program's name).
pub fn main(args: Vec<String>) -> ExitCode {
    match options::parse(args) {
        Ok(Command::Help) => {
            out!("{}", options::HELP);
            ExitCode::SUCCESS
        }
        Ok(Command::Version) => {
            outln!("click (Thruway) {}", env!("CARGO_PKG_VERSION"));
            outln!("Speaks the language and the command line of the Click modular router.");
            ExitCode::SUCCESS
        }
        Ok(Command::Run(settings)) => drive(&Arc::from(settings)),
        Err(message) => {
            errln!("click: {message}");
            errln!("Usage: click [OPTION]... [ROUTERFILE]");
            errln!("Try 'click --help' for more information.");
            ExitCode::FAILURE
        }
    }
}

/// The text of the command line's origin.
fn source(settings: &Settings) -> Result<Source, String> {
    let origin = settings.origin.clone().unwrap_or(Origin::File("-".into()));
    let source = origin.read().map_err(|error| error.to_string())?;
    Ok(with_sockets(source, settings))
}

/// The text with the control sockets of the command line added.
fn with_sockets(mut source: Source, settings: &Settings) -> Source {
    for (at, config) in settings.sockets.iter().enumerate() {
        // On a line of its own behind everything: the lines of the user's text keep their numbers.
        let number = if at == 0 { String::new() } else { format!("@{at}") };
        let name = format!("click_driver@@ControlSocket{number}");
        source.text += &format!("\n; {name} :: ControlSocket({config});");
    }
    source
}

fn drive(settings: &Arc<Settings>) -> ExitCode {
    let source = match source(settings) {
        Ok(source) => source,
        Err(message) => {
            errln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    if settings.warnings && settings.sockets.iter().any(|config| config.starts_with("tcp")) {
        errln!(
            "click: warning: -p lets every user of this host use all handlers, as Click does; -u FILE \
             lets in this user alone"
        );
    }
    if let Err(error) = crate::distress::reserve() {
        errln!("{error}");
        return ExitCode::FAILURE;
    }
    let name = source.name.clone();
    let libraries = Libraries::new(&settings.path);
    LogArgs { log_level: LogLevel::Warn, ..LogArgs::default() }.begin();
    let mut router = match load::build(source, &settings.variables, &libraries, &settings.engine) {
        Ok((router, warnings)) => {
            report(&warnings, settings.warnings);
            router
        }
        Err(failure) => return refuse(&failure, settings.warnings),
    };
    let signals = match Receiver::new() {
        Ok(signals) => signals,
        // Nobody could stop the router.
        Err(error) => {
            errln!("{}", crate::distress::no_thread(error));
            return ExitCode::FAILURE;
        }
    };
    let swap = Swap::new(build_next(settings), None, &settings.engine);
    swap.offer(router.control());
    if let Err(failure) = load::initialize(&mut router) {
        return refuse(&failure, settings.warnings);
    }
    let mut code = write_flat(&mut router, settings.output.as_deref());
    if let Some(first) = settings.first_cpu
        && let Err(error) = bind(first, settings.engine.threads)
    {
        errln!(
            "--affinity: cannot bind threads to CPU {first} and the next: {}",
            load::plain(&error)
        );
        return ExitCode::FAILURE;
    }
    let begin = Instant::now();
    if settings.quit {
        // The configuration is only checked and asked.
    } else if router.layout().graph.elements.is_empty() {
        if settings.warnings {
            errln!("{name}: warning: configuration has no elements, exiting");
        }
    } else if !run(&mut router, &swap, &signals) {
        code = 1;
    }
    if settings.time {
        report_time(begin);
    }
    if !print_handlers(&mut router, &settings.handlers) {
        code = 1;
    }
    if let Some(call) = &settings.exit_handler {
        code = exit_value(&mut router, call);
    }
    ExitCode::from(code as u8)
}

/// Runs to the stop, and on with whatever configurations replace it; false when something could
/// not be finished.
fn run(router: &mut Router, swap: &Swap, signals: &Receiver) -> bool {
    // The router runs all the same.
    let follow = |router: &Router| {
        let followed = signals.follow(router.control());
        followed.unwrap_or_else(|error| errln!("cannot handle signals: {error}"));
    };
    follow(router);
    loop {
        let outcome = router.run_threads();
        if swap.goes_on(router, &outcome) {
            follow(router);
            continue;
        }
        crate::swap::report(router, &outcome.errors);
        return finish(router) && outcome.errors.is_empty();
    }
}

/// How another configuration is made, where that is allowed: as the first one was.
fn build_next(settings: &Arc<Settings>) -> Option<Build> {
    let settings = settings.reconfigure.then(|| Arc::clone(settings))?;
    // Its driver has no `reload`, which alone names other cores.
    Some(Arc::new(move |text, _| {
        let source = with_sockets(Source::new("hotconfig", text), &settings);
        let libraries = Libraries::new(&settings.path);
        // Those of the first configuration need not be known to another one.
        let variables = settings.variables.clone().or_unknown();
        let built = load::build(source, &variables, &libraries, &settings.engine);
        built.map(|(router, _)| router).map_err(|failure| reason(&failure))
    }))
}

/// Lets the process run on these processors only: one for each thread, which the engine then binds.
fn bind(first: usize, threads: usize) -> std::io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    let end = first.saturating_add(threads).min(rustix::thread::CpuSet::MAX_CPU);
    (first..end).for_each(|cpu| set.set(cpu));
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

fn report(warnings: &Diagnostics, wanted: bool) {
    if wanted {
        err!("{}", warnings.click());
    }
}

fn refuse(failure: &Failure, warnings: bool) -> ExitCode {
    if failure.click.has_errors() || warnings {
        errln!("{}", reason(failure));
    }
    ExitCode::FAILURE
}

fn write_flat(router: &mut Router, output: Option<&str>) -> i32 {
    let Some(output) = output else { return 0 };
    let text = router.read("flatconfig").unwrap_or_default();
    let written = match output {
        "-" => {
            out!("{text}");
            Ok(())
        }
        file => std::fs::write(file, text),
    };
    match written {
        Ok(()) => 0,
        Err(error) => {
            errln!("{output}: {}", load::plain(&error));
            1
        }
    }
}

fn report_time(begin: Instant) {
    let wall = begin.elapsed();
    outln!("{}:{:05.2}", wall.as_secs() / 60, wall.as_secs_f64() % 60.0);
}

/// Prints read handlers as `-h` asks; false when one failed.
fn print_handlers(router: &mut Router, calls: &[String]) -> bool {
    let mut good = true;
    for call in calls {
        let (found, pattern) = match expand(router, call) {
            Ok(found) => found,
            Err(message) => {
                errln!("{message}");
                good = false;
                continue;
            }
        };
        for one in found {
            good &= print_handler(router, &one, calls.len() > 1 || pattern);
        }
    }
    good
}

/// Prints one handler, under its name where there are several.
fn print_handler(router: &mut Router, call: &str, named: bool) -> bool {
    let answer = match router.read(call) {
        Ok(answer) => answer,
        Err(error) => {
            errln!("{error}");
            return false;
        }
    };
    let end = if answer.is_empty() || answer.ends_with('\n') { "" } else { "\n" };
    if named {
        outln!("{call}:\n{answer}{end}");
    } else {
        out!("{answer}{end}");
    }
    true
}

/// The elements that `ELEMENT.HANDLER` means: a name, a pattern with `*` and `?`, or a class. Says
/// whether it was a pattern or class.
fn expand(router: &Router, call: &str) -> Result<(Vec<String>, bool), String> {
    let layout = router.layout();
    let Some((element, handler)) = call.split_once('.') else {
        return Ok((vec![call.to_owned()], false));
    };
    if layout.find(element).is_some() {
        return Ok((vec![call.to_owned()], false));
    }
    let pattern = element.contains(['*', '?', '[']);
    let name = handler.split_whitespace().next().unwrap_or("");
    let mut any = false;
    let mut calls = Vec::new();
    for decl in &layout.graph.elements {
        if if pattern { glob(element, &decl.name) } else { decl.class == element } {
            any = true;
            if decl.spec.handler(name).is_some_and(|handler| handler.access.readable()) {
                calls.push(format!("{}.{handler}", decl.name));
            }
        }
    }
    match (any, pattern) {
        (true, _) => Ok((calls, true)),
        (false, true) => Err(format!("no element matching '{element}'")),
        (false, false) => Err(format!("no element '{element}'")),
    }
}

/// Whether `name` is of the form `pattern`: `*` any letters, `?` one, `[a-z]` one of these,
/// `[^a-z]` one of the others.
pub fn glob(pattern: &str, name: &str) -> bool {
    let (p, n): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while seen < n.len() {
        if p.get(at) == Some(&'*') {
            star = Some((at, seen));
            at += 1;
        } else if let Some(len) = fits(&p[at..], n[seen]) {
            (at, seen) = (at + len, seen + 1);
        } else if let Some((back, from)) = star {
            star = Some((back, from + 1));
            (at, seen) = (back + 1, from + 1);
        } else {
            return false;
        }
    }
    p[at..].iter().all(|c| *c == '*')
}

/// How many letters at the beginning of a pattern mean this one letter of a name, if they do.
fn fits(pattern: &[char], letter: char) -> Option<usize> {
    let close = pattern.iter().skip(2).position(|c| *c == ']').map(|at| at + 2);
    match (pattern.first()?, close) {
        ('?', _) => Some(1),
        ('[', Some(close)) => {
            let (negated, mut set) = match &pattern[1..close] {
                ['^', rest @ ..] => (true, rest),
                all => (false, all),
            };
            let mut among = false;
            while let [first, rest @ ..] = set {
                (among, set) = match rest {
                    ['-', last, rest @ ..] => (among || (*first..=*last).contains(&letter), rest),
                    _ => (among || *first == letter, rest),
                };
            }
            (among != negated).then_some(close + 1)
        }
        (same, _) => (*same == letter).then_some(1),
    }
}

/// The exit status that handler `-x` gives: a number, or a bool (true is success).
fn exit_value(router: &mut Router, call: &str) -> i32 {
    let answer = match router.read(call) {
        Ok(answer) => answer,
        Err(error) => {
            errln!("{error}");
            return -1;
        }
    };
    let answer = answer.trim();
    if let Ok(value) = answer.parse::<i32>() {
        return value;
    }
    match answer {
        "true" | "yes" => 0,
        "false" | "no" => 1,
        _ => {
            errln!("exit handler value should be integer");
            -1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn globs() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("c*", "counter", true),
            ("c?", "c", false),
            ("*a*b", "xaybzb", true),
            ("[cd]", "d", true),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("[]a]", "]", true),
            ("*[0-9]", "n17", true),
            ("[ab", "[ab", true),
        ] {
            assert_eq!(glob(pattern, name), fits, "{pattern} {name}");
        }
    }
}
