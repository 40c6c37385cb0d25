//! The control socket of a process, beside those that its configuration has.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use thruway_element::{Outside, Remote};

use super::perform::Rules;
use super::serve::Server;
use crate::acceptor::Acceptor;
use crate::desk::Desk;
use crate::management::Manager;

/// A Unix socket for this user alone, which speaks the protocol of ControlSocket. It costs the
/// threads of packets nothing until a handler is used.
pub struct Instance {
    manager: Option<Manager<Server>>,
    remote: Arc<dyn Remote>,
}

impl Instance {
    /// Listens, and serves the handlers of a router.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn open(
        path: &Path,
        remote: Arc<dyn Remote>,
        outside: Outside,
    ) -> Result<Instance, String> {
        let mut acceptor = Acceptor::own(path.as_os_str().as_bytes().to_vec());
        acceptor.open(Instant::now())?;
        let rules = Rules { outside: Arc::new(outside), proxy: None };
        let server = Server { acceptor, rules, verbose: false, clients: Vec::new() };
        let manager = Some(Manager::start(server, Arc::clone(&remote))?);
        Ok(Instance { manager, remote })
    }

    /// Serves the handlers of another router, which took the first one's place; clients stay.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn follow(&mut self, remote: Arc<dyn Remote>) -> Result<(), String> {
        let server = self.manager.take().and_then(Manager::stop);
        self.remote = Arc::clone(&remote);
        if let Some(server) = server {
            self.manager = Some(Manager::start(server, remote)?);
        }
        Ok(())
    }

    /// Gives the answers that are there, and removes the socket.
    ///
    /// # Errors
    /// Its file cannot be removed.
    pub fn close(mut self) -> Result<(), String> {
        let server = self.manager.take().and_then(Manager::stop);
        server.map_or(Ok(()), |server| server.end(&Desk::last(self.remote)))
    }
}
