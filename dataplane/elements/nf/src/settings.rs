//! What the arguments of an isolated function say.

use std::path::{Path, PathBuf};
use std::time::Duration;

use thruway_element::{ArgError, ArgErrors, Args, Nanos, Needs, Size, text};
use thruway_flow::SessionDef;
use thruway_nf_abi::message::WaitMode;
use thruway_nf_abi::{LinkShape, Token};
use thruway_nf_host::{Acceleration, Machine};

use super::carried::PREFIX_LEN;
use super::workers::workers;

/// What happens to packets while the function does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnFailure {
    /// They pass unchanged, through output 0.
    Open,
    /// They are dropped.
    Closed,
    /// Those that the function had are dropped, new ones wait for its restart, so long at most.
    Restart(i64),
}

/// All that makes a function what it is: two functions of equal settings are the same, and one can
/// go on for the other when the configuration is replaced.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// The virtual machine that it runs in.
    pub machine: Option<Machine>,
    pub config: String,
    /// Whether packets go with what is known of them (see `carried`).
    pub carry: bool,
    pub inputs: u32,
    pub outputs: u32,
    /// The roles that outputs lead to, by output; empty for one without.
    pub roles: Vec<String>,
    /// Links: threads that reach the element.
    pub threads: u32,
    /// Threads of the function that share out the links.
    pub workers: u32,
    pub shape: LinkShape,
    pub group: Option<Group>,
    pub wait: WaitMode,
    pub spin: Duration,
    pub worker_threshold: u32,
    pub cpus: Vec<usize>,
    pub shares: Shares,
    pub memory_bytes: u64,
    pub hang: Duration,
    pub attach_timeout: Duration,
    /// Whether a process waits to take the function's place.
    pub standby: bool,
    pub strict: bool,
    pub library_dirs: Vec<PathBuf>,
    pub readable: Vec<PathBuf>,
    pub on_failure: OnFailure,
    pub sessions: Option<Sessions>,
    pub stream: Option<Stream>,
}

/// What a function may have of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shares {
    /// At most, of one CPU.
    pub percent: Option<u32>,
    /// Against others.
    pub weight: Option<u32>,
}

impl Shares {
    /// CPU_PERCENT and WEIGHT.
    pub fn of(args: &Args<'_>) -> Result<Shares, ArgError> {
        let bounded = |name, most: u32| match args.opt::<u32>(name)? {
            Some(value) if !(1..=most).contains(&value) => {
                Err(args.error(name, format!("expected 1 to {most}")))
            }
            value => Ok(value),
        };
        let percent = bounded("CPU_PERCENT", 100 * 1024)?;
        Ok(Shares { percent, weight: bounded("WEIGHT", 10_000)? })
    }
}

/// What a function of streams may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stream {
    pub needs: Needs,
    /// How long it may hold bytes back.
    pub hold_ns: i64,
}

/// Sessions that a function keeps scratch of.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sessions {
    pub session: SessionDef,
    /// Most of one thread.
    pub entries: u32,
    pub scratch_len_max: u32,
}

/// A trust group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub name: String,
    pub frames: u32,
}

/// Most inputs or outputs of a function: what a slot's head can say.
const PORTS_MAX: usize = 256;

impl Settings {
    /// Reads the arguments; all that is wrong at once.
    pub fn of(args: &Args<'_>) -> Result<Settings, ArgErrors> {
        let mut errors = Vec::new();
        let mut keep = |error: ArgError| errors.push(error);
        let (program, arguments) = program(args).unwrap_or_else(|error| {
            keep(error);
            Default::default()
        });
        let outputs = outputs(args).unwrap_or_else(|error| {
            keep(error);
            1
        });
        let shape = shape(args).unwrap_or_else(|error| {
            keep(error);
            LinkShape::DEFAULT
        });
        let group = group(args).unwrap_or_else(|error| {
            keep(error);
            None
        });
        let rest = Settings::rest(args, outputs, &shape);
        match rest {
            Ok(rest) if errors.is_empty() => Ok(Settings {
                program,
                arguments,
                shape: LinkShape {
                    token: if group.is_some() { Token::Descriptor } else { Token::Inline },
                    ..shape
                },
                group,
                ..rest
            }),
            Ok(_) => Err(ArgErrors(errors)),
            Err(error) => {
                errors.push(error);
                Err(ArgErrors(errors))
            }
        }
    }

    /// Whether a function of these settings can go on with the scratch of one of the other's.
    pub fn keeps_sessions(&self, other: &Settings) -> bool {
        let of = |all: &Settings| {
            let sessions = all.sessions.as_ref();
            sessions.map(|sessions| (sessions.session.clone(), sessions.entries))
        };
        self.program == other.program
            && self.threads == other.threads
            && of(self) == of(other)
            && self.stream == other.stream
    }

    /// What needs no look at anything else.
    fn rest(args: &Args<'_>, outputs: u32, shape: &LinkShape) -> Result<Settings, ArgError> {
        let env = args.env();
        if env.inputs > PORTS_MAX {
            return Err(args.error("EXEC", format!("a function has at most {PORTS_MAX} inputs")));
        }
        let threshold = |name| below_slots(args, name, shape.slots);
        if args.text("MASTER_THRESHOLD").is_some() {
            threshold("MASTER_THRESHOLD")?;
        }
        let worker_threshold = threshold("WORKER_THRESHOLD")?.max(1);
        Ok(Settings {
            program: PathBuf::new(),
            arguments: Vec::new(),
            machine: machine(args)?,
            config: args.get("CONFIG")?,
            carry: args.get("CARRY")?,
            inputs: env.inputs as u32,
            outputs,
            roles: roles(args)?,
            threads: env.threads.max(1) as u32,
            workers: workers(args)?,
            shape: *shape,
            group: None,
            wait: wait(args)?,
            spin: time(args, "SPIN")?,
            worker_threshold,
            cpus: numbers(args, "CPUS")?,
            shares: Shares::of(args)?,
            memory_bytes: size(args, "MEMORY")?,
            hang: time(args, "HANG")?,
            attach_timeout: attach_timeout(args)?,
            standby: args.get("STANDBY")?,
            strict: args.choice("ISOLATION")? == 0,
            library_dirs: paths(args, "LIBRARIES")?,
            readable: paths(args, "READABLE")?,
            on_failure: on_failure(args)?,
            sessions: sessions(args)?,
            stream: stream(args)?,
        })
    }
}

/// Program and its arguments; the program must be there and executable.
fn program(args: &Args<'_>) -> Result<(PathBuf, Vec<String>), ArgError> {
    let line: String = args.get("EXEC")?;
    let mut words = text::split_words(&line).into_iter().map(text::unquote_text);
    let Some(program) = words.next() else {
        return Err(args.error("EXEC", "is empty: write \"PROGRAM ARGUMENTS\""));
    };
    let program = PathBuf::from(program);
    check_program(&program).map_err(|why| args.error("EXEC", why))?;
    Ok((program, words.collect()))
}

fn check_program(program: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    let shown = program.display();
    let metadata = std::fs::metadata(program).map_err(|error| {
        let text = error.to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        format!("there is no program '{shown}': {text}; give the path of the function's program")
    })?;
    if !metadata.is_file() {
        return Err(format!("'{shown}' is not a file; give the path of the function's program"));
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err(format!("'{shown}' is not executable; chmod +x '{shown}'"));
    }
    Ok(())
}

/// The virtual machine, whose image must be there.
fn machine(args: &Args<'_>) -> Result<Option<Machine>, ArgError> {
    let acceleration = match args.choice("ACCELERATION")? {
        0 => Acceleration::Auto,
        1 => Acceleration::Kvm,
        _ => Acceleration::Emulated,
    };
    let Some(image) = args.opt::<String>("VM")? else {
        return match acceleration {
            Acceleration::Auto => Ok(None),
            _ => Err(args.error("ACCELERATION", "is of a virtual machine: give VM")),
        };
    };
    let machine = Machine { image: PathBuf::from(image), acceleration };
    machine.check().map_err(|why| args.error("VM", why))?;
    Ok(Some(machine))
}

/// ATTACH_TIMEOUT where it is not given: a process is there in milliseconds, a machine that is
/// emulated on a busy host boots for some seconds.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(5);
const MACHINE_ATTACH_TIMEOUT: Duration = Duration::from_secs(60);

fn attach_timeout(args: &Args<'_>) -> Result<Duration, ArgError> {
    match (args.text("ATTACH_TIMEOUT"), args.text("VM")) {
        (Some(_), _) => time(args, "ATTACH_TIMEOUT"),
        (None, Some(_)) => Ok(MACHINE_ATTACH_TIMEOUT),
        (None, None) => Ok(ATTACH_TIMEOUT),
    }
}

fn outputs(args: &Args<'_>) -> Result<u32, ArgError> {
    let connected = args.env().outputs;
    let declared: Option<usize> = args.opt("OUTPUTS")?;
    match declared.unwrap_or(connected.max(1)) {
        outputs if outputs < connected => {
            Err(args.error("OUTPUTS", format!("{connected} outputs are connected; say so many")))
        }
        outputs @ 1..=PORTS_MAX => Ok(outputs as u32),
        other => {
            let why = format!("{other} is not a number of outputs: 1 to {PORTS_MAX}");
            Err(args.error("OUTPUTS", why))
        }
    }
}

/// Longest name of a role, bytes.
const ROLE_LEN_MAX: usize = 32;

/// The roles that outputs lead to: an output that has one is connected, and no other has the same.
fn roles(args: &Args<'_>) -> Result<Vec<String>, ArgError> {
    let Some(line) = args.opt::<String>("ROLES")? else { return Ok(Vec::new()) };
    let connected = args.env().outputs;
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    let mut roles: Vec<String> = Vec::new();
    for (output, name) in line.split_whitespace().enumerate() {
        let wrong = |why: String| Err(args.error("ROLES", why));
        if output >= connected {
            return wrong(format!("'{name}' would be output {output}, which is not connected"));
        }
        if name == "-" {
            roles.push(String::new());
            continue;
        }
        if name.len() > ROLE_LEN_MAX || !name.bytes().all(good) {
            let name = name.escape_debug();
            return wrong(format!(
                "'{name}' is no name of a role: at most {ROLE_LEN_MAX} letters, digits, _ and ."
            ));
        }
        if roles.iter().any(|role| role == name) {
            return wrong(format!("'{name}' stands there twice; a role is one output"));
        }
        roles.push(name.to_owned());
    }
    Ok(roles)
}

/// SLOT_SIZE where it is not given: the longest usual frame; for functions of streams such a
/// packet, what was held back in front of it, and what becomes longer.
const SLOT_SIZE: u32 = 1514;
const STREAM_SLOT_SIZE: u32 = 4096;

/// Bytes of the longest packet, with what goes with it.
fn slot_len(args: &Args<'_>) -> Result<u32, ArgError> {
    let len: u32 = match args.opt("SLOT_SIZE")? {
        Some(len) => len,
        None if args.text("STREAM").is_some() => STREAM_SLOT_SIZE,
        None => SLOT_SIZE,
    };
    let more = if args.get("CARRY")? { PREFIX_LEN as u32 } else { 0 };
    Ok(len.saturating_add(more))
}

fn shape(args: &Args<'_>) -> Result<LinkShape, ArgError> {
    let shape = LinkShape {
        slots: args.get("SLOTS")?,
        aux_slots: args.get("AUX_SLOTS")?,
        injection_slots: args.get("INJECTION_SLOTS")?,
        packet_len_max: slot_len(args)?,
        headroom: args.get("HEADROOM")?,
        ..LinkShape::DEFAULT
    };
    use thruway_nf_abi::ShapeError as E;
    shape.layout().map(|_| shape).map_err(|error| {
        let name = match error {
            E::AuxSlots(_) => "AUX_SLOTS",
            E::InjectionSlots(_) => "INJECTION_SLOTS",
            E::PacketLen(_) => "SLOT_SIZE",
            E::Headroom(_) => "HEADROOM",
            _ => "SLOTS",
        };
        args.error(name, error)
    })
}

/// A threshold, which must leave slots to work with.
fn below_slots(args: &Args<'_>, name: &str, slots: u32) -> Result<u32, ArgError> {
    let threshold: u32 = args.get(name)?;
    if threshold < slots {
        return Ok(threshold);
    }
    let power = threshold.saturating_add(1).checked_next_power_of_two().unwrap_or(u32::MAX);
    Err(args.error(
        name,
        format!("{threshold} is not below SLOTS ({slots}): lower it, or give SLOTS {power}"),
    ))
}

fn group(args: &Args<'_>) -> Result<Option<Group>, ArgError> {
    let named: Option<String> = args.opt("GROUP")?;
    match (args.choice("MODE")?, named) {
        (0, None) => Ok(None),
        (0, Some(_)) => Err(args.error("GROUP", "needs MODE group")),
        (_, None) => Err(args.error("MODE", "a member needs the name of its group: GROUP NAME")),
        (_, Some(name)) => {
            let env = args.env();
            let frames = env.addresses.look_up(env.name, &name, |named| named.group_frames);
            let none = || {
                let why = format!(
                    "there is no group '{name}'; declare it: TrustGroup({name}, FRAMES 4096)"
                );
                args.error("GROUP", why)
            };
            Ok(Some(Group { frames: frames.ok_or_else(none)?, name }))
        }
    }
}

fn wait(args: &Args<'_>) -> Result<WaitMode, ArgError> {
    Ok(match args.choice("WAIT")? {
        0 => WaitMode::Block,
        1 => WaitMode::Poll,
        _ => WaitMode::Hybrid,
    })
}

/// Most sessions of a function, over all threads: what a flow manager can number.
const SESSIONS_MAX: u32 = 1 << 26;

fn sessions(args: &Args<'_>) -> Result<Option<Sessions>, ArgError> {
    let named = args.opt::<String>("SESSION")?;
    let streams = args.text("STREAM").is_some();
    if streams && named.as_ref().is_some_and(|text| text.trim() != "connection") {
        return Err(args.error("SESSION", "STREAM is about connections: leave SESSION out"));
    }
    let Some(text) = named.or_else(|| streams.then(|| "connection".into())) else {
        return Ok(None);
    };
    let session = SessionDef::parse(&text).map_err(|error| args.error("SESSION", error.message))?;
    let entries: u32 = args.get("SESSIONS")?;
    let most = SESSIONS_MAX / args.env().threads.max(1) as u32;
    if !(1..=most).contains(&entries) {
        let why = format!("{entries} is not a number of sessions: 1 to {most} for each thread");
        return Err(args.error("SESSIONS", why));
    }
    let scratch_len_max: u32 = args.get("SCRATCH")?;
    if !(1..=1 << 20).contains(&scratch_len_max) {
        return Err(args.error("SCRATCH", "expected 1 to 1048576 bytes"));
    }
    Ok(Some(Sessions { session, entries, scratch_len_max }))
}

/// What STREAM allows: besides that, every function may end connections, as the element does when
/// it loses a packet.
fn stream(args: &Args<'_>) -> Result<Option<Stream>, ArgError> {
    if args.text("STREAM").is_none() {
        return Ok(None);
    }
    let needs = match args.choice("STREAM")? {
        0 => Needs::ORDER,
        1 => Needs::GUARD,
        2 => Needs::CHANGE,
        _ => Needs::RESIZE,
    };
    let needs = Needs { close: true, ..needs };
    let env = args.env();
    if args.choice("MODE")? != 0 {
        return Err(args.error("STREAM", "a function of streams shares no memory: MODE isolated"));
    }
    if args.get("CARRY")? {
        return Err(args.error("CARRY", "a function of streams sees no annotations: leave it out"));
    }
    if env.inputs > env.outputs {
        let why = "what comes in by an input leaves by the output of its number: connect as many";
        return Err(args.error("STREAM", why));
    }
    let hold_ns = time(args, "STREAM_HOLD")?.as_nanos() as i64; // at most a day
    Ok(Some(Stream { needs, hold_ns }))
}

fn on_failure(args: &Args<'_>) -> Result<OnFailure, ArgError> {
    let hold = time(args, "HOLD")?.as_nanos() as i64;
    Ok(match args.choice("ON_FAILURE")? {
        0 => OnFailure::Open,
        1 => OnFailure::Closed,
        _ => OnFailure::Restart(hold),
    })
}

/// Longest time that an argument may say: a day.
const TIME_MAX: u64 = 86_400_000_000_000;

pub(super) fn time(args: &Args<'_>, name: &str) -> Result<Duration, ArgError> {
    let ns = args.get::<Nanos>(name)?.0;
    match u64::try_from(ns) {
        Ok(ns @ ..=TIME_MAX) => Ok(Duration::from_nanos(ns)),
        _ => Err(args.error(name, "must be between 0 and a day")),
    }
}

/// A number of bytes that a process can live on.
pub(super) fn size(args: &Args<'_>, name: &str) -> Result<u64, ArgError> {
    match args.get::<Size>(name)? {
        Size(bytes) if bytes >= 1 << 20 => Ok(bytes),
        _ => Err(args.error(name, "must be at least 1M")),
    }
}

/// Words between blanks.
fn words(args: &Args<'_>, name: &str) -> Result<Vec<String>, ArgError> {
    let line: Option<String> = args.opt(name)?;
    Ok(text::split_words(&line.unwrap_or_default()).into_iter().map(text::unquote_text).collect())
}

fn paths(args: &Args<'_>, name: &str) -> Result<Vec<PathBuf>, ArgError> {
    Ok(words(args, name)?.into_iter().map(PathBuf::from).collect())
}

pub(super) fn numbers(args: &Args<'_>, name: &str) -> Result<Vec<usize>, ArgError> {
    let number = |word: &String| {
        word.parse().ok().filter(|cpu| *cpu < 1024).ok_or_else(|| {
            args.error(name, format!("'{word}' is not the number of a CPU; write CPUS \"1 2\""))
        })
    };
    words(args, name)?.iter().map(number).collect()
}
