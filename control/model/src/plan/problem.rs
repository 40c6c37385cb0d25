//! What is to be placed, in numbers: each chain's work on each host.

use crate::Hardware;

use super::hops::Hops;
use super::{Chain, Function, PlanError, PlanFile, Run};

/// What a function costs on a host that the chain has for itself.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionLoad {
    /// The function; of a configuration, the element.
    pub name: String,
    /// Cycles per packet that enters the chain (not: that reaches the function).
    pub cycles: f64,
    /// Bytes of tables and sessions that its packets reach.
    pub working_set: f64,
    /// Cache lines of the working set that a packet which enters the chain needs.
    pub lines: f64,
    /// Bytes of memory that it takes.
    pub memory: f64,
}

/// Reports what the functions of a chain cost on a host, in the order in which packets meet them;
/// or why it cannot. Asked once per chain and host, for chains with a configuration or a model.
pub type Estimator<'a> = dyn Fn(&Chain, &Hardware) -> Result<Vec<FunctionLoad>, String> + 'a;

/// A function of a chain on a host, with where it runs decided.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Work {
    pub load: FunctionLoad,
    /// For an isolated one: the function with the thread that hands packets to it.
    pub served_by: Option<usize>,
    /// Its place in the chain.
    pub position: usize,
}

/// A chain's work on one host: what runs in the process first, then what is isolated.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WorkList {
    pub functions: Vec<Work>,
    /// How many of them run in the process.
    pub in_process: usize,
    /// Cycles per packet of all.
    pub cycles: f64,
    /// Bytes that all of them reach.
    pub working_set: f64,
}

/// A chain, as far as placement sees it.
#[derive(Debug, Clone)]
pub(super) struct Demand {
    pub chain: Chain,
    /// The only host that it may run on.
    pub pinned: Option<usize>,
    /// Whether its flows may be spread.
    pub parallel: bool,
    /// By host.
    pub on: Vec<WorkList>,
}

/// A host, as far as placement sees it.
#[derive(Debug, Clone)]
pub(super) struct Host {
    pub name: String,
    pub hardware: Hardware,
    /// Cores that may be used: the first ones of the host.
    pub cores: usize,
    pub cores_of_socket: usize,
    pub memory: f64,
    /// Bytes of a socket's last cache.
    pub cache: f64,
    /// What a line more from memory instead of from the last cache costs, in cycles.
    pub miss: f64,
    /// What it costs to pass packets on, where the description has it.
    pub hops: Option<Hops>,
}

/// Chains and hosts with their numbers.
#[derive(Debug, Clone)]
pub struct Problem {
    pub(super) demands: Vec<Demand>,
    pub(super) hosts: Vec<Host>,
    /// Most that a core may be loaded: 1 less the headroom.
    pub(super) load_max: f64,
}

impl Problem {
    /// Puts a plan file's chains and hosts into numbers. `hardware` are the descriptions of the
    /// hosts, in their order.
    ///
    /// # Errors
    /// When a description lacks what is needed, or there is no estimate.
    pub fn new(
        file: &PlanFile,
        hardware: Vec<Hardware>,
        estimate: &Estimator<'_>,
    ) -> Result<Problem, PlanError> {
        let pairs = file.hosts.iter().zip(hardware);
        let hosts: Vec<Host> = pairs
            .map(|(entry, hardware)| host(entry, hardware, file.between_sockets))
            .collect::<Result<_, _>>()?;
        file.chains.iter().try_for_each(|chain| known_link(chain, &hosts))?;
        let demands = file.chains.iter().map(|chain| demand(chain, &hosts, estimate));
        let demands = demands.collect::<Result<_, _>>()?;
        Ok(Problem { demands, hosts, load_max: 1.0 - file.headroom })
    }

    /// Reads the hosts' descriptions and puts all into numbers.
    ///
    /// # Errors
    /// As [`Problem::new`], and when a description cannot be read.
    pub fn load(file: &PlanFile, estimate: &Estimator<'_>) -> Result<Problem, PlanError> {
        let read = file.hosts.iter().map(|entry| {
            Hardware::load(&entry.hardware)
                .map_err(|why| PlanError::Hardware { host: entry.name.clone(), why })
        });
        Problem::new(file, read.collect::<Result<_, _>>()?, estimate)
    }

    /// The same with all rates so many times as high.
    pub(super) fn at_rates(&self, factor: f64) -> Problem {
        let mut scaled = self.clone();
        scaled.demands.iter_mut().for_each(|demand| demand.chain.rate *= factor);
        scaled
    }

    /// The least share of a core's cycles that a chain takes on any host.
    pub(super) fn least_cores(&self, chain: usize) -> f64 {
        let demand = &self.demands[chain];
        let on = self.hosts.iter().zip(&demand.on);
        let shares = on.map(|(host, work)| demand.chain.rate * work.cycles / host.clock());
        shares.fold(f64::INFINITY, f64::min)
    }
}

impl Host {
    pub fn clock(&self) -> f64 {
        self.hardware.clock_hz.value
    }

    pub fn socket(&self, core: usize) -> usize {
        core / self.cores_of_socket
    }

    pub fn sockets(&self) -> usize {
        self.cores.div_ceil(self.cores_of_socket)
    }
}

fn host(
    entry: &super::HostEntry,
    hardware: Hardware,
    between_sockets: f64,
) -> Result<Host, PlanError> {
    let location = || format!("host '{}'", entry.name);
    let cores = entry.cores.unwrap_or(hardware.cores);
    if cores > hardware.cores || cores > CORES_MAX {
        let remedy = "give at most the cores of its description, and at most 1024";
        let (field, value) = ("cores".into(), cores.to_string());
        return Err(PlanError::Value { location: location(), field, value, remedy });
    }
    let [.., last_cache, memory] = hardware.levels.as_slice() else {
        let (location, what) = (location(), "caches and memory in its description".into());
        let remedy = "describe at least one cache and the memory, each as a [[levels]] table";
        return Err(PlanError::Missing { location, what, remedy });
    };
    let bytes = entry.memory.unwrap_or(memory.bytes);
    if bytes > memory.bytes {
        let remedy = "give at most the bytes of the last level of its description";
        let (field, value) = ("memory".into(), bytes.to_string());
        return Err(PlanError::Value { location: location(), field, value, remedy });
    }
    let of_socket = hardware.cores.div_ceil(hardware.sockets).max(1);
    Ok(Host {
        name: entry.name.clone(),
        cores: cores as usize,
        cores_of_socket: of_socket as usize,
        memory: bytes,
        cache: last_cache.bytes * f64::from(of_socket),
        miss: (memory.dependent.value - last_cache.dependent.value).max(0.0),
        hops: Hops::of(&hardware, between_sockets),
        hardware,
    })
}

/// A port that no host has is a slip, not something to place around.
fn known_link(chain: &Chain, hosts: &[Host]) -> Result<(), PlanError> {
    let Some(name) = &chain.link else { return Ok(()) };
    if hosts.iter().any(|host| host.hardware.links.contains_key(name)) {
        return Ok(());
    }
    let links = hosts.iter().flat_map(|host| host.hardware.links.keys());
    let known: std::collections::BTreeSet<&str> = links.map(String::as_str).collect();
    Err(PlanError::Unknown {
        location: format!("chain '{}'", chain.name),
        what: "link",
        name: name.clone(),
        known: known.into_iter().collect::<Vec<_>>().join(", "),
    })
}

/// Most cores of a host.
const CORES_MAX: u32 = 1024;

fn demand(chain: &Chain, hosts: &[Host], estimate: &Estimator<'_>) -> Result<Demand, PlanError> {
    let on = hosts.iter().map(|host| {
        let wrong =
            |why| PlanError::Estimate { chain: chain.name.clone(), host: host.name.clone(), why };
        let loads = loads(chain, &host.hardware, estimate).map_err(wrong)?;
        let work = work_list(chain, loads);
        if host.hops.is_none() && work.in_process < work.functions.len() {
            return Err(PlanError::Missing {
                location: format!("host '{}'", host.name),
                what: "between_cores in its description, which isolated functions need".into(),
                remedy: "run thruway calibrate there, or write the table",
            });
        }
        Ok(work)
    });
    Ok(Demand {
        pinned: hosts.iter().position(|host| chain.host.as_ref() == Some(&host.name)),
        parallel: chain.parallel && chain.functions.iter().all(|function| function.parallel),
        on: on.collect::<Result<_, _>>()?,
        chain: chain.clone(),
    })
}

/// What the file says of the functions, over what the estimator does.
fn loads(
    chain: &Chain,
    hardware: &Hardware,
    estimate: &Estimator<'_>,
) -> Result<Vec<FunctionLoad>, String> {
    if chain.configuration.is_none() && chain.model.is_none() {
        return Ok(chain.functions.iter().map(by_hand).collect());
    }
    let mut loads = estimate(chain, hardware)?;
    if loads.is_empty() {
        return Err("it has no functions: packets meet nothing".into());
    }
    for function in &chain.functions {
        let Some(load) = loads.iter_mut().find(|load| load.name == function.name) else {
            let known: Vec<&str> = loads.iter().map(|load| load.name.as_str()).collect();
            return Err(format!("no function '{}': there are {}", function.name, known.join(", ")));
        };
        load.cycles = function.cycles.unwrap_or(load.cycles);
        load.working_set = function.working_set.unwrap_or(load.working_set);
        load.lines = function.lines.unwrap_or(load.lines);
        load.memory = function.memory.unwrap_or(load.memory);
    }
    let numbers = |load: &FunctionLoad| [load.cycles, load.working_set, load.lines, load.memory];
    let possible = |value: &f64| value.is_finite() && *value >= 0.0;
    match loads.iter().find(|load| !numbers(load).iter().all(possible)) {
        Some(load) => Err(format!("the estimate of '{}' is no number from 0 on", load.name)),
        None => Ok(loads),
    }
}

fn by_hand(function: &Function) -> FunctionLoad {
    let working_set = function.working_set.unwrap_or(0.0);
    FunctionLoad {
        name: function.name.clone(),
        cycles: function.cycles.unwrap_or(0.0),
        working_set,
        lines: function.lines.unwrap_or(1.0),
        memory: function.memory.unwrap_or(working_set),
    }
}

/// Name of what hands packets over where no function of a chain runs in the process.
const PORTS: &str = "(ports)";

fn work_list(chain: &Chain, loads: Vec<FunctionLoad>) -> WorkList {
    let isolated = |load: &FunctionLoad| {
        let own = chain.functions.iter().find(|function| function.name == load.name);
        own.and_then(|function| function.run).unwrap_or(chain.run) == Run::Isolated
    };
    let mut inside: Vec<Work> = Vec::new();
    let mut outside: Vec<Work> = Vec::new();
    for (position, load) in loads.into_iter().enumerate() {
        if isolated(&load) {
            let served_by = Some(inside.len().saturating_sub(1));
            outside.push(Work { load, served_by, position });
        } else {
            inside.push(Work { load, served_by: None, position });
        }
    }
    if inside.is_empty() {
        let name = PORTS.to_owned();
        let load = FunctionLoad { name, cycles: 0.0, working_set: 0.0, lines: 0.0, memory: 0.0 };
        inside.push(Work { load, served_by: None, position: 0 });
    }
    let in_process = inside.len();
    let functions: Vec<Work> = inside.into_iter().chain(outside).collect();
    let sum = |of: fn(&FunctionLoad) -> f64| functions.iter().map(|work| of(&work.load)).sum();
    WorkList {
        cycles: sum(|load| load.cycles),
        working_set: sum(|load| load.working_set),
        in_process,
        functions,
    }
}
