//! The options of Click's userlevel driver.

use thruway_engine::{ClockKind, Options};
use thruway_lang::Variables;

use crate::load::Origin;
use crate::run_args::THREADS_MAX;

/// What `--help` prints.
pub const HELP: &str = "\
'click' runs a Click configuration at user level: it checks the configuration, reports errors on
standard error, and then runs until interrupted.

Usage: click [OPTION]... [ROUTERFILE] [NAME=VALUE]...

Options:
  -f, --file FILE               Read the configuration from FILE.
  -e, --expression EXPR         Use EXPR as the configuration.
  -j, --threads N               Run N threads (default 1).
  -a, --affinity[=CPU]          Bind thread N to CPU (default 0) plus N.
      --no-affinity             Do not bind threads, as by default where there is one.
  -p, --port PORT               Listen for control connections on this TCP port; PORT+ tries
                                the next ones too. Every user of this host may connect.
  -u, --unix-socket FILE        Listen for control connections on this Unix socket.
  -R, --allow-reconfigure       Provide a writable 'hotconfig' handler: another configuration
                                takes over, with the state of elements that keep their name.
  -h, --handler ELEMENT.H       Read handler H of ELEMENT after the run and print it.
  -x, --exit-handler ELEMENT.H  Use the value of that handler as exit status.
  -o, --output FILE             Write the flat configuration to FILE.
  -q, --quit                    Do not run.
  -t, --time                    Print how long the run took.
  -w, --no-warnings             Do not print warnings.
  -C, --clickpath PATH          Look for libraries in these directories.
      --simtime[=SECONDS]       Run in simulated time, which jumps to the next event.
      --simtick NANOSECONDS     FastClick's; accepted without effect.
      --dpdk [ARGUMENT]... --   FastClick's; accepted without effect: DPDKInfo and FromDPDKDevice
                                say what DPDK is to do.
      --                        What follows is no option.
      --help                    Print this and exit.
  -v, -V, --version             Print the version and exit.
";

/// Seconds since the epoch at which simulated time begins, as in Click.
const SIMTIME_START: f64 = 1_000_000_000.0;

/// What the command line asks for.
pub enum Command {
    /// Print the help.
    Help,
    /// Print the version.
    Version,
    /// Run a configuration.
    Run(Box<Settings>),
}

/// How to run.
pub struct Settings {
    pub origin: Option<Origin>,
    pub variables: Variables,
    pub engine: Options,
    pub handlers: Vec<String>,
    pub exit_handler: Option<String>,
    pub output: Option<String>,
    /// Configuration strings of the ControlSockets to add.
    pub sockets: Vec<String>,
    /// The processor of the first thread, if threads are to be bound.
    pub first_cpu: Option<usize>,
    pub path: String,
    pub reconfigure: bool,
    pub quit: bool,
    pub time: bool,
    pub warnings: bool,
}

/// One option: its letter, its long name, and whether it takes a value.
struct Opt {
    short: char,
    long: &'static str,
    value: bool,
}

const fn flag(short: char, long: &'static str) -> Opt {
    Opt { short, long, value: false }
}

const fn valued(short: char, long: &'static str) -> Opt {
    Opt { short, long, value: true }
}

const OPTIONS: &[Opt] = &[
    valued('f', "file"),
    valued('e', "expression"),
    valued('j', "threads"),
    flag('a', "affinity"),
    flag('\0', "no-affinity"),
    valued('p', "port"),
    valued('u', "unix-socket"),
    flag('R', "allow-reconfigure"),
    valued('h', "handler"),
    valued('x', "exit-handler"),
    valued('o', "output"),
    flag('q', "quit"),
    flag('t', "time"),
    flag('w', "no-warnings"),
    flag('\0', "warnings"),
    valued('C', "clickpath"),
    flag('\0', "simtime"),
    valued('\0', "simtick"),
    flag('\0', "help"),
    flag('v', "version"),
    flag('V', "version"),
];

/// Reads the command line.
pub fn parse(args: Vec<String>) -> Result<Command, String> {
    let mut settings = Settings {
        origin: None,
        variables: Variables::new().known_only(),
        engine: Options::default(),
        handlers: Vec::new(),
        exit_handler: None,
        output: None,
        sockets: Vec::new(),
        first_cpu: None,
        path: crate::load::click_path(),
        reconfigure: false,
        quit: false,
        time: false,
        warnings: true,
    };
    let mut args = args.into_iter();
    let mut is_option_possible = true;
    while let Some(arg) = args.next() {
        if is_option_possible && arg == "--" {
            is_option_possible = false;
        } else if is_option_possible && arg == "--dpdk" {
            if !args.any(|arg| arg == "--") {
                return Err("'--dpdk' takes arguments up to '--', which is missing".into());
            }
        } else if is_option_possible && let Some(long) = arg.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let opt = find_long(name)?;
            let value = if opt.value && value.is_none() { args.next() } else { value };
            if let Some(command) = settings.apply(opt.long, value)? {
                return Ok(command);
            }
        } else if is_option_possible && arg.len() > 1 && arg.starts_with('-') {
            if let Some(command) = settings.letters(&arg[1..], &mut args)? {
                return Ok(command);
            }
        } else if settings.variables.assign(&arg) {
            // NAME=VALUE
        } else {
            settings.set_origin(Origin::File(arg))?;
        }
    }
    Ok(Command::Run(Box::new(settings)))
}

/// The option of this name, or of which it is a unique beginning.
fn find_long(name: &str) -> Result<&'static Opt, String> {
    if let Some(opt) = OPTIONS.iter().find(|opt| opt.long == name) {
        return Ok(opt);
    }
    let mut fitting = OPTIONS.iter().filter(|opt| opt.long.starts_with(name) && opt.short != 'V');
    match (fitting.next(), fitting.next()) {
        (Some(opt), None) if !name.is_empty() => Ok(opt),
        (Some(a), Some(b)) => {
            Err(format!("option '--{name}' may be '--{}' or '--{}'", a.long, b.long))
        }
        _ => Err(format!("unrecognized option '--{name}'")),
    }
}

impl Settings {
    /// A group of one-letter options; the value of the last may be attached.
    fn letters(
        &mut self,
        letters: &str,
        args: &mut impl Iterator<Item = String>,
    ) -> Result<Option<Command>, String> {
        for (at, letter) in letters.char_indices() {
            let opt = OPTIONS.iter().find(|opt| opt.short == letter);
            let opt = opt.ok_or_else(|| format!("unrecognized option '-{letter}'"))?;
            if opt.value {
                let rest = &letters[at + letter.len_utf8()..];
                let value = if rest.is_empty() { args.next() } else { Some(rest.to_owned()) };
                return self.apply(opt.long, value);
            }
            if let Some(command) = self.apply(opt.long, None)? {
                return Ok(Some(command));
            }
        }
        Ok(None)
    }

    fn apply(&mut self, option: &str, value: Option<String>) -> Result<Option<Command>, String> {
        let takes = OPTIONS.iter().any(|opt| opt.long == option && opt.value);
        if takes && value.is_none() {
            return Err(format!("option '--{option}' requires an argument"));
        }
        let text = value.clone().unwrap_or_default();
        match option {
            "help" => return Ok(Some(Command::Help)),
            "version" => return Ok(Some(Command::Version)),
            "file" => self.set_origin(Origin::File(text))?,
            "expression" => self.set_origin(Origin::Expression(text))?,
            "handler" => self.handlers.push(text),
            "exit-handler" if self.exit_handler.is_some() => {
                return Err("--exit-handler specified twice".into());
            }
            "exit-handler" => self.exit_handler = value,
            "output" if self.output.is_some() => {
                return Err("output file specified twice".into());
            }
            "output" => self.output = value,
            "port" => {
                let number = text.strip_suffix('+').unwrap_or(&text);
                number.parse::<u16>().map_err(|_| format!("'{text}' is not a TCP port"))?;
                // Click's tools know no tokens.
                self.sockets.push(format!("tcp, {text}, AUTH none"));
            }
            "unix-socket" => {
                self.sockets
                    .push(format!("unix, {}", thruway_element::text::quote(text.as_bytes())));
            }
            "threads" => {
                let threads =
                    text.parse().ok().filter(|n| (1..=usize::from(THREADS_MAX)).contains(n));
                self.engine.threads = threads.ok_or_else(|| {
                    format!("'{text}' is not a number of threads from 1 to {THREADS_MAX}")
                })?;
            }
            "affinity" => {
                let first = value.as_deref().unwrap_or("0").parse().ok();
                let first = first.filter(|cpu| *cpu < 1024);
                self.first_cpu = Some(first.ok_or_else(|| format!("'{text}' is not a CPU"))?);
            }
            "no-affinity" => self.first_cpu = None,
            "clickpath" => self.path = text,
            "allow-reconfigure" => self.reconfigure = true,
            "quit" => self.quit = true,
            "time" => self.time = true,
            "warnings" => self.warnings = true,
            "no-warnings" => self.warnings = false,
            // FastClick's: how far a tick of simulated time goes. Here it jumps to the next event.
            "simtick" if text.parse::<u64>().is_err() => {
                return Err(format!("'{text}' is not a number of nanoseconds"));
            }
            "simtime" => {
                let seconds = match value {
                    None => SIMTIME_START,
                    Some(text) => {
                        let number = text.parse().ok().filter(|s: &f64| (0.0..9e9).contains(s));
                        number.ok_or_else(|| format!("'{text}' is not a time in seconds"))?
                    }
                };
                self.engine.clock = ClockKind::Simulated((seconds * 1e9) as i64);
            }
            _ => {}
        }
        Ok(None)
    }

    fn set_origin(&mut self, origin: Origin) -> Result<(), String> {
        if self.origin.is_some() {
            return Err("router configuration specified twice".into());
        }
        self.origin = Some(origin);
        Ok(())
    }
}
