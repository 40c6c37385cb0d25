//! `thruway worker`: the process of an isolated part of a configuration.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use thruway_elements::{HOST, Host};
use thruway_engine::{Options, Router};
use thruway_exchange::{Attached, attach};
use thruway_lang::{NoLibraries, Source, Variables};
use thruway_nf_abi::features::Offer;
use thruway_nf_abi::message::{Hello, Wake};
use thruway_packet::Memory;
use thruway_region::Pages;

use crate::load;

/// Packets of usual size that a part may hold at a time: 16 MB, of what the process may use.
const FRAMES: u32 = 8192;

/// Runs the command.
pub fn main() -> ExitCode {
    let (offer, name) = (Offer::ONE_WORKER, Hello::name_from("thruway worker"));
    let hello = Hello { wake: Wake::Eventfd, outputs: 1, scratch_len: 0, stream: 0, offer, name };
    let mut attached = match attach(&hello) {
        Ok(attached) => attached,
        Err(error) => {
            errln!("thruway worker: {error}");
            return ExitCode::FAILURE;
        }
    };
    let text = match attached.configuration() {
        Ok(text) => text,
        Err(error) => return fail(&attached, &error.to_string()),
    };
    // A process without rights may make no file, not even one in memory.
    if let Err(error) = Memory::configure(FRAMES, Pages::Private) {
        return fail(&attached, &format!("no memory for packets: {error}; raise MEMORY"));
    }
    let host: Arc<Host> = Arc::new(Mutex::new(Some(attached)));
    match router(text, &host) {
        Ok(mut router) => {
            let outcome = router.run();
            for error in &outcome.errors {
                errln!("thruway worker: {error}");
            }
            // What a panic of the only thread would end the process with.
            if outcome.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(101) }
        }
        Err(why) => {
            let attached = host.lock().unwrap_or_else(PoisonError::into_inner).take();
            attached.map_or(ExitCode::FAILURE, |attached| fail(&attached, &why))
        }
    }
}

/// The part as a router, ready to run; its one element IsolatedPorts then reports to the host.
fn router(text: String, host: &Arc<Host>) -> Result<Router, String> {
    let given = Arc::clone(host);
    let options = Options {
        provide: Some(Arc::new(move |shared| {
            shared.get(HOST.0, HOST.1, || Arc::clone(&given));
        })),
        ..Options::default()
    };
    let source = Source::new("isolated part", text);
    let error = |failure: load::Failure| failure.pretty.render(false);
    let (mut router, _) =
        load::build(source, &Variables::new(), &NoLibraries, &options).map_err(error)?;
    load::initialize(&mut router).map_err(error)?;
    Ok(router)
}

/// Shows the host why it cannot begin.
fn fail(attached: &Attached, why: &str) -> ExitCode {
    errln!("thruway worker: {why}");
    // A host that is gone needs no report.
    let _ = attached.failed(why);
    ExitCode::FAILURE
}
