//! `thruway ctl`: asks and tells a running Thruway, through its ControlSocket.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand};

/// Arguments of `thruway ctl`.
#[derive(Args)]
pub struct CtlArgs {
    /// Where a ControlSocket of the running configuration listens: HOST:PORT, PORT, or a file name
    #[arg(value_name = "ADDRESS")]
    address: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print what a handler says: ELEMENT.HANDLER [PARAMETER...]
    Read {
        /// The handler and its parameter
        #[arg(required = true)]
        call: Vec<String>,
    },
    /// Write a handler: ELEMENT.HANDLER [VALUE...]
    Write {
        /// The handler
        handler: String,
        /// What to write
        value: Vec<String>,
    },
    /// List sessions while packets flow, like conntrack -L: protocol, state, seconds left, both ends,
    /// the replies' ends where addresses are translated
    Flows {
        /// Which: `proto tcp src 10.0.0.0/8 dst .. sport .. dport 80 state new|open|closing|closed`
        filter: Vec<String>,
        /// The FlowClassifier to ask (the first one if not given; all share one table)
        #[arg(long, value_name = "NAME")]
        element: Option<String>,
        /// Only print how many there are
        #[arg(long, alias = "count")]
        total: bool,
        /// Show at most so many
        #[arg(long, value_name = "SESSIONS")]
        limit: Option<u64>,
    },
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// A connection to a ControlSocket (Click's protocol, version 1).
pub struct Client {
    stream: BufReader<Box<dyn Stream>>,
}

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer taken: ControlSocket sends no more.
const ANSWER_MAX: u64 = 64 << 20;
const GREETING: &str = "Click::ControlSocket/1.";

impl Client {
    /// Connects to an address as users give it.
    pub fn reach(address: &str) -> anyhow::Result<Client> {
        Client::connect(address).with_context(|| {
            format!(
                "cannot reach a ControlSocket at '{address}'; has the configuration one, such as \
                 ControlSocket(UNIX, /tmp/thruway.sock)?"
            )
        })
    }

    fn connect(address: &str) -> anyhow::Result<Client> {
        let stream: Box<dyn Stream> = if address.contains('/') {
            let stream = UnixStream::connect(address)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Box::new(stream)
        } else {
            let whole = match address.parse::<u16>() {
                Ok(port) => format!("127.0.0.1:{port}"),
                Err(_) => address.to_owned(),
            };
            let stream = TcpStream::connect(whole)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Box::new(stream)
        };
        let mut client = Client { stream: BufReader::new(stream) };
        let greeting = client.line()?;
        if !greeting.starts_with(GREETING) {
            bail!("it greets with '{greeting}': no ControlSocket");
        }
        Ok(client)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = Vec::new();
        (&mut self.stream).take(ANSWER_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            bail!("it closed the connection");
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// Sends a command of one line and takes the status lines of its answer.
    fn command(&mut self, command: &str) -> anyhow::Result<()> {
        if command.contains(['\n', '\r']) {
            bail!("a command is one line");
        }
        self.stream.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
        self.answer()
    }

    /// Writes a handler; the value may be of several lines.
    pub fn write(&mut self, handler: &str, value: &str) -> anyhow::Result<()> {
        if !value.contains(['\n', '\r']) || handler.contains(['\n', '\r']) {
            return self.command(&format!("WRITE {handler} {value}"));
        }
        let head = format!("WRITEDATA {handler} {}\r\n", value.len());
        self.stream.get_mut().write_all(&[head.as_bytes(), value.as_bytes()].concat())?;
        self.answer()
    }

    /// The status lines of an answer.
    fn answer(&mut self) -> anyhow::Result<()> {
        let mut said = Vec::new();
        loop {
            let line = self.line()?;
            let (code, rest) = line.split_at_checked(3).unwrap_or((&line, ""));
            said.push(rest.trim_start_matches([' ', '-']).to_owned());
            if !rest.starts_with('-') {
                return match code {
                    "200" | "220" => Ok(()),
                    _ => Err(anyhow!("{}", said.join("\n"))),
                };
            }
        }
    }

    /// Reads a handler.
    pub fn read(&mut self, call: &str) -> anyhow::Result<String> {
        self.command(&format!("READ {call}"))?;
        let line = self.line()?;
        let len: Option<u64> = line.strip_prefix("DATA ").and_then(|len| len.parse().ok());
        let len = len.filter(|len| *len <= ANSWER_MAX);
        let len = len.ok_or_else(|| anyhow!("it answers '{line}' where its data should begin"))?;
        let mut data = Vec::new();
        (&mut self.stream).take(len).read_to_end(&mut data)?;
        Ok(String::from_utf8_lossy(&data).into_owned())
    }

    /// The first FlowClassifier of the configuration.
    fn classifier(&mut self) -> anyhow::Result<String> {
        let list = self.read("list")?;
        for name in list.lines().skip(1) {
            if self.read(&format!("{name}.class"))?.trim() == "FlowClassifier" {
                return Ok(name.to_owned());
            }
        }
        bail!("the configuration has no FlowClassifier, and so no sessions")
    }
}

/// Pages through all sessions, and hands each line to `show` until it says no.
fn pages(
    client: &mut Client,
    element: &str,
    filter: &str,
    mut show: impl FnMut(&str) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let mut from = Some((0, 0));
    while let Some((level, index)) = from.take() {
        let page = client.read(&format!("{element}.flows {level}:{index} {filter}"))?;
        for line in page.lines() {
            match line.strip_prefix("next ").and_then(|at| at.split_once(':')) {
                Some((level, index)) => {
                    // Threads end at different records: the first place that one of them names.
                    let at = (level.parse::<u64>()?, index.parse::<u64>()?);
                    from = Some(from.map_or(at, |other| at.min(other)));
                }
                None if !show(line)? => return Ok(()),
                None => {}
            }
        }
    }
    Ok(())
}

fn flows(
    client: &mut Client,
    element: &str,
    filter: &str,
    (count, limit): (bool, Option<u64>),
) -> anyhow::Result<()> {
    let mut shown = 0;
    pages(client, element, filter, |line| {
        if limit.is_some_and(|limit| shown >= limit) {
            return Ok(false);
        }
        shown += 1;
        if !count {
            outln!("{line}");
        }
        Ok(true)
    })?;
    if count {
        outln!("{shown}");
    }
    Ok(())
}

/// Runs `thruway ctl`.
pub fn main(args: &CtlArgs) -> anyhow::Result<ExitCode> {
    let mut client = Client::reach(&args.address)?;
    match &args.command {
        Command::Read { call } => outln!("{}", client.read(&call.join(" "))?.trim_end()),
        Command::Write { handler, value } => {
            client.write(handler, &value.join(" "))?;
        }
        Command::Flows { filter, element, total, limit } => {
            let element = match element {
                Some(element) => element.clone(),
                None => client.classifier()?,
            };
            flows(&mut client, &element, &filter.join(" "), (*total, *limit))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
