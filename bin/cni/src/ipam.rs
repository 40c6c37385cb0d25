//! Addresses by another plugin, which is found in `CNI_PATH` and gets the same environment and
//! configuration (CNI specification 1.1, section 4).

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::call::{Call, Verb};
use crate::config::Network;
use crate::error::{CniError, Code};
use crate::result::CniResult;

/// The longest answer, in bytes.
const ANSWER_LEN_MAX: u64 = 1 << 20;

/// The IPAM plugin of a network.
#[derive(Debug)]
pub struct Ipam<'c> {
    program: PathBuf,
    network: &'c Network,
    name: &'c str,
}

impl<'c> Ipam<'c> {
    /// Finds the plugin of a network, if it has one.
    ///
    /// # Errors
    /// It is nowhere in `CNI_PATH`.
    pub fn find(call: &Call, network: &'c Network) -> Result<Option<Ipam<'c>>, CniError> {
        let Some(name) = network.ipam.as_deref() else { return Ok(None) };
        let program = call.path.iter().map(|one| one.join(name)).find(|file| is_program(file));
        let Some(program) = program else {
            let path: Vec<String> = call.path.iter().map(|one| one.display().to_string()).collect();
            let why = format!(
                "the IPAM plugin '{name}' is not in CNI_PATH ({}); install it there",
                path.join(":")
            );
            return Err(CniError::config(why));
        };
        Ok(Some(Ipam { program, network, name }))
    }

    /// Has addresses reserved.
    ///
    /// # Errors
    /// The plugin's, or what it gave is no result with an address.
    pub fn add(&self) -> Result<CniResult, CniError> {
        let answer = self.run(Verb::Add)?;
        let result: CniResult = serde_json::from_slice(&answer)
            .map_err(|error| self.unusable(&format!("it printed no result: {error}")))?;
        if result.ips.is_empty() {
            return Err(self.unusable("it gave no address"));
        }
        Ok(result)
    }

    /// Asks for something that has no result.
    ///
    /// # Errors
    /// The plugin's.
    pub fn ask(&self, verb: Verb) -> Result<(), CniError> {
        self.run(verb).map(drop)
    }

    fn unusable(&self, why: &str) -> CniError {
        CniError::new(Code::Ipam, format!("IPAM plugin '{}': {why}", self.name))
    }

    /// Runs the plugin; what it printed.
    fn run(&self, verb: Verb) -> Result<Vec<u8>, CniError> {
        let failed = |error| self.unusable(&format!("{}: {error}", self.program.display()));
        let mut command = Command::new(&self.program);
        command.env("CNI_COMMAND", verb.word());
        // What it logs goes where this plugin's log goes.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().map_err(failed)?;
        let answer = talk(&mut child, &self.network.text);
        let status = child.wait().map_err(failed)?;
        let answer = answer.map_err(failed)?;
        if status.success() {
            return Ok(answer);
        }
        let error: Result<CniError, _> = serde_json::from_slice(&answer);
        Err(error.unwrap_or_else(|_| {
            let printed = String::from_utf8_lossy(&answer);
            self.unusable(&format!("{status}; it printed '{}'", printed.trim()))
        }))
    }
}

/// Gives a plugin its configuration, and reads its answer.
fn talk(child: &mut Child, configuration: &[u8]) -> std::io::Result<Vec<u8>> {
    let input = child.stdin.take();
    let output = child.stdout.take();
    let mut answer = Vec::new();
    std::thread::scope(|scope| {
        // A plugin that does not read it to the end is none the worse for that.
        scope.spawn(move || input.map(|mut input| input.write_all(configuration)));
        match output {
            Some(output) => output.take(ANSWER_LEN_MAX).read_to_end(&mut answer).map(drop),
            None => Ok(()),
        }
    })?;
    Ok(answer)
}

fn is_program(file: &Path) -> bool {
    let found = std::fs::metadata(file);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
