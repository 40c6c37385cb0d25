//! A CNI plugin that attaches pods to ports of chains (CNI specification 0.3.0 to 1.1.0).
//!
//! A container runtime, or Multus, runs the program `thruway-cni` with a verb in the environment
//! and a configuration on standard input (docs/cluster.md). A *port* is an interface of the host
//! that a chain reads and writes. It stays while pods come and go (ADR 92).
//!
//! All state is the kernel's: each interface has its attachment in its alias.
#![forbid(unsafe_code)]

mod add;
mod call;
mod chain;
mod config;
mod error;
mod host;
mod identity;
mod ipam;
mod lock;
mod mac;
mod netlink;
mod plug;
mod pod;
mod port;
mod result;
mod tool;
mod verbs;
mod version;

use std::io::Read;

use serde_json::{Value, json};

use call::{Call, Verb};
use config::Network;
pub use error::{CniError, Code};
pub use tool::{Cli, print};
use version::Version;

/// Answers a runtime's call: what is to be printed, if anything.
///
/// # Errors
/// What is to be printed when the call failed, with the version that the caller understands.
pub fn answer(
    variable: impl Fn(&str) -> Option<String>,
    input: impl Read,
) -> Result<Option<Value>, Value> {
    let latest = |error: CniError| error.printed(Version::LATEST.word());
    let call = Call::read(variable).map_err(latest)?;
    let text = read(input).map_err(latest)?;
    if call.verb == Verb::Version {
        let asked: Option<Value> = serde_json::from_slice(&text).ok();
        let asked = asked.as_ref().and_then(|asked| asked.get("cniVersion")?.as_str());
        return Ok(Some(version::answer(asked)));
    }
    let network = Network::read(&text).map_err(latest)?;
    serve(&call, &network).map_err(|error| error.printed(network.version.word()))
}

fn serve(call: &Call, network: &Network) -> Result<Option<Value>, CniError> {
    let since = match call.verb {
        Verb::Check => Version::V040,
        Verb::Gc | Verb::Status => Version::V110,
        _ => Version::V030,
    };
    if network.version < since {
        let (verb, since) = (call.verb.word(), since.word());
        let why = format!("{verb} needs cniVersion {since} or later");
        return Err(CniError::new(Code::IncompatibleVersion, why));
    }
    match call.verb {
        Verb::Add => add::add(call, network).map(|result| Some(json!(result))),
        Verb::Del => verbs::del(call, network).map(|()| None),
        Verb::Check => verbs::check(call, network).map(|()| None),
        Verb::Gc => verbs::gc(call, network).map(|()| None),
        Verb::Status => verbs::status(call, network).map(|()| None),
        Verb::Version => Ok(None),
    }
}

fn read(input: impl Read) -> Result<Vec<u8>, CniError> {
    let mut text = Vec::new();
    let done = input.take(config::LEN_MAX + 1).read_to_end(&mut text);
    done.map_err(|error| CniError::io("standard input", error))?;
    if text.len() as u64 > config::LEN_MAX {
        let why = format!("the configuration is longer than {} bytes", config::LEN_MAX);
        return Err(CniError::new(Code::Decoding, why));
    }
    Ok(text)
}
