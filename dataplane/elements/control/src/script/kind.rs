//! When a script runs: the argument TYPE.

use rustix::process::Signal;
use thruway_element::{ArgError, Args};

use super::signal;

/// When a script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Active,
    Passive,
    Packet,
    Proxy,
    Driver,
    Signal,
}

/// The TYPE of these arguments, and the signals that it names.
///
/// # Errors
/// One that is unknown, or does not fit the ports.
pub fn kind(args: &Args<'_>) -> Result<(Kind, Vec<Signal>), ArgError> {
    let ports = args.env().inputs + args.env().outputs > 0;
    let words: Vec<&str> = args.text("TYPE").unwrap_or("").split_whitespace().collect();
    let kind = match words[..] {
        [] if args.class() == "DriverManager" => Kind::Driver,
        [] if ports => Kind::Packet,
        [] | ["ACTIVE"] => Kind::Active,
        ["PASSIVE"] => Kind::Passive,
        ["PACKET" | "PUSH"] => Kind::Packet,
        ["PROXY"] => Kind::Proxy,
        ["DRIVER"] => Kind::Driver,
        ["SIGNAL", _, ..] => Kind::Signal,
        ["SIGNAL"] => return Err(args.error("TYPE", "SIGNAL needs the names of signals")),
        _ => {
            return Err(
                args.error("TYPE", "must be ACTIVE, PASSIVE, PACKET, PROXY, DRIVER, SIGNAL")
            );
        }
    };
    let signals =
        words.iter().skip(1).filter(|_| kind == Kind::Signal).map(|word| signal::parse(word));
    let signals: Result<Vec<Signal>, String> = signals.collect();
    let signals = signals.map_err(|error| args.error("TYPE", error))?;
    let whole = |message: &str| ArgError { index: None, message: message.to_owned() };
    match kind {
        Kind::Packet if args.env().inputs == 0 => Err(whole("a PACKET script must have inputs")),
        Kind::Packet => Ok((kind, signals)),
        _ if ports => Err(whole("only PACKET scripts have ports")),
        _ => Ok((kind, signals)),
    }
}
