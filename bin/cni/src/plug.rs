//! Makes the interface of a pod, and removes what belongs to an attachment.

use rustix::io::Errno;

use crate::call::Call;
use crate::config::{Config, Mode};
use crate::error::{CniError, Code};
use crate::host;
use crate::identity::{Identity, interim_name};
use crate::lock::Lock;
use crate::netlink::{Link, LinkKind, RouteSocket, Sharing, filter};
use crate::pod::PodNamespace;
use crate::port;

/// Where an attachment is: both sides, and its alias.
#[derive(Debug)]
pub struct Sides {
    /// The host's interfaces.
    pub host: RouteSocket,
    /// The pod's interfaces.
    pub inside: RouteSocket,
    /// The pod's namespace.
    pub pod: PodNamespace,
    /// The alias of the attachment's interfaces.
    pub alias: String,
}

fn io(step: &str, error: Errno) -> CniError {
    CniError::io(step, error)
}

impl Sides {
    /// Opens both.
    ///
    /// # Errors
    /// There is no such namespace; this process lacks rights.
    pub fn open(call: &Call, alias: String) -> Result<Sides, CniError> {
        let pod = PodNamespace::open(&call.netns)?;
        let host = host_socket()?;
        let inside = pod.socket()?;
        Ok(Sides { host, inside, pod, alias })
    }

    /// Removes the attachment's interfaces; whether there were any.
    ///
    /// # Errors
    /// The kernel refused it.
    pub fn remove(&mut self) -> Result<bool, CniError> {
        // Both are to be removed, whatever becomes of the other.
        let here = remove_from_host(&mut self.host, &self.alias);
        let there = remove_all(&mut self.inside, |link| link.alias == self.alias);
        Ok(here? | there?)
    }

    /// Makes the pod's interface, without addresses; it is down.
    ///
    /// # Errors
    /// An interface of one of the names is there; the kernel refused something.
    pub fn plug(&mut self, call: &Call, config: &Config) -> Result<Link, CniError> {
        let name = &call.interface;
        match config.mode {
            Mode::Shared(sharing) => self.plug_shared(name, config, sharing)?,
            Mode::Direct => self.plug_direct(name, config)?,
        }
        let link = self.inside.link(name).map_err(|error| io(name, error))?;
        link.ok_or_else(|| CniError::interface(format!("interface '{name}' disappeared")))
    }

    fn plug_shared(
        &mut self,
        name: &str,
        config: &Config,
        sharing: Sharing,
    ) -> Result<(), CniError> {
        let port = port::ensure(&mut self.host, &config.port, config.mtu)?;
        let interim = interim_name('h', &self.alias);
        let kind = LinkKind::Macvlan { lower: port.inner.index, sharing };
        self.host.add_link(&interim, &kind, config.mtu, config.mac).map_err(
            |error| match error {
                Errno::OPNOTSUPP => CniError::interface(
                    "the kernel has no macvlan (CONFIG_MACVLAN), which ports of several pods need; \
                 load it, or use mode \"direct\"",
                ),
                error => io(&format!("an interface at port '{}'", config.port), error),
            },
        )?;
        self.hand_in(&interim, name)
    }

    fn plug_direct(&mut self, name: &str, config: &Config) -> Result<(), CniError> {
        let _lock = Lock::acquire()?;
        if let Some(link) = self.host.link(&config.port).map_err(|error| io(&config.port, error))? {
            return Err(occupied(&link));
        }
        let (inner, outer) = (interim_name('i', &self.alias), interim_name('h', &self.alias));
        let kind = LinkKind::Veth { peer: outer.clone() };
        let step = format!("port '{}'", config.port);
        let failed = |error| io(&step, error);
        self.host.add_link(&inner, &kind, config.mtu, config.mac).map_err(failed)?;
        let end = port::finish_end(&mut self.host, &outer, &config.port, &self.alias)?;
        host::shut(&config.port)?;
        self.host.set_up(end.index).map_err(failed)?;
        self.hand_in(&inner, name)
    }

    /// Marks an interface, and moves it into the pod.
    fn hand_in(&mut self, interim: &str, name: &str) -> Result<(), CniError> {
        let found = self.host.link(interim).map_err(|error| io(interim, error))?;
        let link = found
            .ok_or_else(|| CniError::interface(format!("interface '{interim}' disappeared")))?;
        self.host.set_alias(link.index, &self.alias).map_err(|error| io(interim, error))?;
        self.host.move_link(link.index, &self.pod, name).map_err(|error| match error {
            Errno::EXIST => exists(name),
            error => io(&format!("moving interface '{name}' into the pod"), error),
        })
    }
}

/// The pod has an interface of this name.
pub fn exists(name: &str) -> CniError {
    CniError::environment("CNI_IFNAME", format!("the pod already has an interface '{name}'"))
}

/// A port of one pod that exists.
fn occupied(link: &Link) -> CniError {
    match Identity::of_alias(&link.alias) {
        Some(other) => CniError::new(
            Code::TryAgainLater,
            format!(
                "port '{}' is of mode \"direct\", and container {} has it for its interface '{}'",
                link.name, other.container, other.interface
            ),
        ),
        None => port::foreign(link),
    }
}

/// A socket in this thread's namespace.
///
/// # Errors
/// The system has none.
pub fn host_socket() -> Result<RouteSocket, CniError> {
    RouteSocket::open().map_err(|error| io("netlink", error))
}

/// Removes from the host what belongs to an attachment, complete or not; whether there was any.
///
/// # Errors
/// The kernel refused it.
pub fn remove_from_host(socket: &mut RouteSocket, alias: &str) -> Result<bool, CniError> {
    let interim = [interim_name('h', alias), interim_name('i', alias)];
    remove_all(socket, |link| link.alias == alias || interim.contains(&link.name))
}

/// Removes interfaces; whether there were any.
///
/// # Errors
/// The kernel refused it.
pub fn remove_all(
    socket: &mut RouteSocket,
    belongs: impl Fn(&Link) -> bool,
) -> Result<bool, CniError> {
    let links = socket.links().map_err(|error| io("the list of interfaces", error))?;
    let mut any = false;
    for link in links.iter().filter(|link| belongs(link)) {
        socket.delete_link(link.index).map_err(|error| io(&link.name, error))?;
        any = true;
    }
    Ok(any)
}

/// Removes the filter of a port whose interface is gone.
///
/// # Errors
/// The kernel refused it.
pub fn forget_filter(socket: &mut RouteSocket, port: &str) -> Result<(), CniError> {
    match socket.link(port) {
        Ok(None) => filter::open(port).map_err(|error| io(port, error)),
        Ok(Some(_)) => Ok(()),
        Err(error) => Err(io(port, error)),
    }
}
