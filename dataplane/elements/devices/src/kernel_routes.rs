//! KernelRoutes: routes of the host's kernel, for a routing daemon to announce.

use std::any::Any;
use std::net::IpAddr;

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, HandlerError, Handlers, HotSwap, Ip6Prefix, IpPrefix,
    NOTHING_MORE, Replicas, Spec, Topic, Ty, handler_value,
};
use thruway_port::host_routes::{HostRoute, HostRoutes};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<KernelRoutes>(
    Spec {
        name: "KernelRoutes",
        topic: Topic::Devices,
        summary: "adds routes to this host's kernel, for a routing daemon to announce",
        docs: "While the handler active is true, the kernel's routing table has a route for each \
               PREFIX. A routing daemon on this host announces them (FRR: 'redistribute kernel' of \
               its BGP), so that routers send traffic for PREFIX to this host. The handler is \
               usually called by another element: Replicate by its SERVE and RETIRE, BFD by its UP \
               and DOWN.\n\n\
               The routes lead to an interface of this element (a TUN device). The kernel removes \
               it, and with it the routes, when the process ends, also when it is killed: so a \
               daemon withdraws the routes of a data plane that died. A hot swap keeps \
               whether they are there; as long as NAME, TABLE and METRIC stay, the same \
               interface goes on. Packets that the kernel sends to the interface are lost. They are those that FromDevice reads, too, on a host that \
               forwards packets.\n\n\
               TABLE is the routing table, 254 the main one. METRIC is the routes' metric, which \
               FRR announces as the MED of BGP: of two hosts that both announce a prefix, the \
               router takes the lower one. Needs the right to administer the network \
               (CAP_NET_ADMIN).",
        example: "KernelRoutes(192.0.2.0/28, 2001:db8::/64, NAME service0, ACTIVE true)",
        ports: "0/0",
        args: &[
            Arg::rest("PREFIX", Ty::Rule("IP/LENGTH"), "a prefix of either version"),
            Arg::keyword("ACTIVE", Ty::Bool, "whether the routes are there from the start")
                .or("false"),
            Arg::keyword("METRIC", Ty::UInt, "the routes' metric; 0: the kernel's default").or("0"),
            Arg::keyword("TABLE", Ty::UInt, "number of the routing table").or("254"),
            Arg::keyword(
                "NAME",
                Ty::Str,
                "name of the interface; the kernel's choice if not given",
            ),
        ],
        cost: NOTHING_MORE,
        replicas: Replicas::OneThread("the host has one set of routes"),
        ..Spec::DEFAULT
    },
    build,
)
.with_hot_swap::<KernelRoutes>();

#[derive(Handlers)]
#[handler(
    both, name = "active", "whether the routes are there; true adds them, false removes them",
    get = self.is_active, write = self.write_active(value)
)]
#[handler(
    read, name = "dev_name", "the interface's name",
    get = self.routes.as_ref().map_or("", HostRoutes::name).to_owned()
)]
struct KernelRoutes {
    prefixes: Vec<HostRoute>,
    is_active: bool,
    options: Options,
    routes: Option<HostRoutes>,
    /// A predecessor's with other options, until this configuration runs.
    other: Option<Box<Kept>>,
    /// What the kernel refused of a predecessor's routes.
    refused: Option<String>,
}

/// Which routes of the kernel they are.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Options {
    name: String,
    table: u32,
    metric: u32,
}

/// What goes to the successor in a hot swap: the routes stay while it takes over.
struct Kept {
    options: Options,
    prefixes: Vec<HostRoute>,
    is_active: bool,
    routes: HostRoutes,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let mut prefixes = Vec::new();
    for (index, text) in args.rest() {
        prefixes.push(prefix(args, text).map_err(|why| args.rest_error(index, why))?);
    }
    if prefixes.is_empty() {
        return Err(ArgErrors::whole("write at least one PREFIX, as 192.0.2.0/28"));
    }
    let table: u32 = args.get("TABLE")?;
    if table == 0 {
        return Err(args.error("TABLE", "0 is no table; the main one is 254").into());
    }
    Ok(Box::new(KernelRoutes {
        prefixes,
        is_active: args.get("ACTIVE")?,
        options: Options {
            name: args.text("NAME").unwrap_or_default().to_owned(),
            table,
            metric: args.get("METRIC")?,
        },
        routes: None,
        other: None,
        refused: None,
    }))
}

/// A prefix of either version, without host bits.
fn prefix(args: &Args<'_>, text: &str) -> Result<HostRoute, String> {
    let (written, network, len): (IpAddr, IpAddr, u8) =
        if let Ok(prefix) = args.parse::<Ip6Prefix>(text) {
            (prefix.addr.into(), prefix.network().into(), prefix.length)
        } else if let Ok(prefix) = args.parse::<IpPrefix>(text) {
            let len = prefix.length().ok_or("the mask is not contiguous; write ADDRESS/LENGTH")?;
            (prefix.addr.into(), prefix.network().into(), len)
        } else {
            return Err(format!("'{text}': expected IP/LENGTH"));
        };
    match written == network {
        true => Ok(HostRoute { net: network, len }),
        false => Err(format!("'{text}' has bits behind its length; write {network}/{len}")),
    }
}

impl KernelRoutes {
    fn write_active(&mut self, value: &str) -> Result<(), HandlerError> {
        let is_wanted = handler_value::<bool>("active", value.trim())?;
        self.set(is_wanted).map_err(HandlerError::refused)
    }

    /// Adds or removes all routes, and says what the kernel refused.
    fn set(&mut self, wanted: bool) -> Result<(), String> {
        let Some(routes) = &mut self.routes else { return Err("there is no interface".into()) };
        self.is_active = wanted;
        for prefix in &self.prefixes {
            let done = if wanted { routes.add(prefix) } else { routes.remove(prefix) };
            done.map_err(|error| format!("route to {}/{}: {error}", prefix.net, prefix.len))?;
        }
        Ok(())
    }
}

impl Element for KernelRoutes {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(why) = self.refused.take() {
            return Err(why);
        }
        if self.routes.is_some() {
            return Ok(());
        }
        let Options { name, table, metric } = &self.options;
        let routes = HostRoutes::open(name, *table, *metric);
        self.routes = Some(routes.map_err(|error| error.to_string())?);
        if self.other.is_some() {
            cx.set_timer(0, cx.now());
        }
        if self.is_active { self.set(true) } else { Ok(()) }
    }

    /// The configuration runs: a predecessor's routes elsewhere go.
    fn timer(&mut self, _cx: &mut Cx<'_>, _token: u32) {
        self.other = None;
    }
}

impl HotSwap for KernelRoutes {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        if let Some(other) = self.other.take() {
            return Some(other);
        }
        let routes = self.routes.take()?;
        let (options, prefixes) = (self.options.clone(), self.prefixes.clone());
        Some(Box::new(Kept { options, prefixes, is_active: self.is_active, routes }))
    }

    /// Goes on with the interface, and with whether its routes are there: that follows from the
    /// host's role, not from the configuration.
    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(mut kept) = state.downcast::<Kept>() else { return };
        self.is_active = kept.is_active;
        if kept.options != self.options {
            self.other = Some(kept);
            return;
        }
        let gone = kept.prefixes.iter().filter(|old| !self.prefixes.contains(old));
        let removed = gone.map(|prefix| kept.routes.remove(prefix)).find_map(Result::err);
        self.routes = Some(kept.routes);
        let added = if self.is_active { self.set(true) } else { Ok(()) };
        self.refused = removed.map(|error| error.to_string()).or(added.err());
    }
}
