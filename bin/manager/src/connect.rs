//! Which manager a command talks to: this host's, or one on the network.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use thruway_manager::api::default_path;
use thruway_manager::client::{Client, Server};
use thruway_manager::tls::{self, Identity};
use thruway_port::run_directory;

/// Longest file of a token, in bytes.
const TOKEN_LEN_MAX: u64 = 4096;

/// Options that locate the manager.
#[derive(Args)]
pub struct ServerArgs {
    /// Unix socket of the manager [default: manager/api.sock in the run directory]
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "server")]
    socket: Option<PathBuf>,
    /// Manager on the network: https://HOST:PORT
    #[arg(long, value_name = "URL", global = true, requires = "ca")]
    server: Option<String>,
    /// Authority of the manager's certificate, or that certificate itself (PEM)
    #[arg(long, value_name = "FILE", global = true, requires = "server")]
    ca: Option<PathBuf>,
    /// File with the token for the manager on the network, private to this user (mode 0600)
    #[arg(long, value_name = "FILE", global = true, requires = "server")]
    token_file: Option<PathBuf>,
    /// Client certificate (PEM), instead of a token
    #[arg(long, value_name = "FILE", global = true, requires = "client_key")]
    client_certificate: Option<PathBuf>,
    /// Key of the client certificate (PEM), private to this user (mode 0600)
    #[arg(long, value_name = "FILE", global = true, requires = "client_certificate")]
    client_key: Option<PathBuf>,
}

impl ServerArgs {
    /// The socket, of this host's manager.
    pub fn socket(&self) -> PathBuf {
        let socket = self.socket.clone();
        socket.unwrap_or_else(|| default_path(&run_directory::path()))
    }

    /// Whether the options select a manager on the network.
    pub fn is_remote(&self) -> bool {
        self.server.is_some()
    }

    /// A client of the manager.
    pub fn client(&self) -> anyhow::Result<Client> {
        let (Some(url), Some(ca)) = (&self.server, &self.ca) else {
            return Ok(Client::new(&self.socket()));
        };
        let identity = match (&self.client_certificate, &self.client_key) {
            (Some(certificate), Some(key)) => {
                Some(Identity { certificate: certificate.clone(), key: key.clone() })
            }
            _ => None,
        };
        let token = self.token_file.as_deref().map(read_token).transpose()?;
        if token.is_none() && identity.is_none() {
            bail!("{url}: name --token-file FILE, or --client-certificate and --client-key");
        }
        let config = tls::client(ca, identity.as_ref())?;
        let server = Server::new(url, config, token).map_err(anyhow::Error::msg)?;
        Ok(Client::of_server(server))
    }
}

/// Reads a token from a file that only this user can read.
fn read_token(path: &Path) -> anyhow::Result<String> {
    let name = || path.display().to_string();
    let found = fs::metadata(path).with_context(name)?;
    if !found.is_file() || found.len() > TOKEN_LEN_MAX {
        bail!("{}: it is no file with a token", path.display());
    }
    if found.mode() & 0o077 != 0 {
        bail!("{}: other users can read it; chmod 600 it", path.display());
    }
    let text = fs::read_to_string(path).with_context(name)?;
    let token = text.trim();
    if token.is_empty() || token.contains(char::is_whitespace) {
        bail!("{}: it is no file with one token", path.display());
    }
    Ok(token.to_owned())
}
