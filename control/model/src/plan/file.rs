//! Plan files: what is to run, and where it may.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::{DeTable, DeValue};

use super::PlanError;
use crate::file_error;

/// A plan file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// Share of each core's cycles that stays free.
    #[serde(default = "default_headroom")]
    pub headroom: f64,
    /// How many times as long as within a socket a line takes between sockets.
    #[serde(default = "default_between_sockets")]
    pub between_sockets: f64,
    /// What is to run.
    #[serde(default, rename = "chain")]
    pub chains: Vec<Chain>,
    /// Where it may run.
    #[serde(default, rename = "host")]
    pub hosts: Vec<HostEntry>,
}

/// Functions that packets pass one after the other, and how many packets.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// What people call it.
    pub name: String,
    /// A configuration; its elements are the functions, with estimated costs.
    #[serde(default)]
    pub configuration: Option<PathBuf>,
    /// Values for the configuration's variables.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// What the configuration receives: a capture, or a description of flows that ends in .toml.
    #[serde(default)]
    pub traffic: Option<PathBuf>,
    /// A model instead of a configuration: a file that ends in .toml, or one of the paper's by
    /// name.
    #[serde(default)]
    pub model: Option<PathBuf>,
    /// The functions by hand; of a configuration or model, what is to be otherwise.
    #[serde(default, rename = "function")]
    pub functions: Vec<Function>,
    /// Packets a second that enter.
    pub rate: f64,
    /// Bytes of a packet, from the Ethernet header on, without check sequence.
    pub packet: f64,
    /// Sessions that are open at a time.
    #[serde(default)]
    pub sessions: f64,
    /// The longest that a packet may take, in microseconds.
    #[serde(default)]
    pub latency_us: Option<f64>,
    /// Packets that are handled together.
    #[serde(default = "default_burst")]
    pub burst: u16,
    /// Where its functions run that do not say otherwise.
    #[serde(default)]
    pub run: Run,
    /// Whether its flows may be spread over several cores that each do the whole chain.
    #[serde(default = "yes")]
    pub parallel: bool,
    /// How much more than its share the busiest of these cores gets: 0.1 is a tenth more.
    #[serde(default)]
    pub skew: f64,
    /// Whether a core of it may also serve other chains.
    #[serde(default = "yes")]
    pub share_core: bool,
    /// Whether its packets may go from one socket to another.
    #[serde(default)]
    pub cross_sockets: bool,
    /// The port of the host that its packets come in by, out of the description's links.
    #[serde(default)]
    pub link: Option<String>,
    /// The only host that it may run on.
    #[serde(default)]
    pub host: Option<String>,
}

/// Where a function runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Run {
    /// In the process that forwards.
    InProcess,
    /// In a process of its own.
    Isolated,
    /// As costs less: in the process.
    #[default]
    Either,
}

/// A function of a chain, as far as the file describes it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// What people call it; of a configuration, the element's name.
    pub name: String,
    /// Cycles per packet that enters the chain, alone on a host.
    #[serde(default)]
    pub cycles: Option<f64>,
    /// Bytes of tables and sessions that its packets reach.
    #[serde(default)]
    pub working_set: Option<f64>,
    /// Cache lines of the working set that a packet needs; 1 if not said.
    #[serde(default)]
    pub lines: Option<f64>,
    /// Bytes of memory that it takes; its working set if not said.
    #[serde(default)]
    pub memory: Option<f64>,
    /// Where it runs; as the chain if not said.
    #[serde(default)]
    pub run: Option<Run>,
    /// False for one that must see all packets of the chain: then the chain is not spread.
    #[serde(default = "yes")]
    pub parallel: bool,
}

/// A host of a plan file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostEntry {
    /// What people call it.
    pub name: String,
    /// File of its description.
    pub hardware: PathBuf,
    /// Cores that chains may have; all of the description if not said.
    #[serde(default)]
    pub cores: Option<u32>,
    /// Bytes that chains may have; the last level of the description if not said.
    #[serde(default)]
    pub memory: Option<f64>,
}

fn yes() -> bool {
    true
}

fn default_burst() -> u16 {
    32
}

fn default_headroom() -> f64 {
    0.2
}

fn default_between_sockets() -> f64 {
    2.0
}

/// Most chains, functions of a chain, and hosts of a file.
const ENTRIES_MAX: usize = 256;
/// Largest number of bytes, packets a second, sessions or cycles taken.
const NUMBER_MAX: f64 = 1e15;

impl PlanFile {
    /// Reads a plan from a file; paths in it are relative to it.
    ///
    /// # Errors
    /// When there is none, it is not one, or it has impossible values.
    pub fn load(path: &Path) -> Result<PlanFile, PlanError> {
        let text = file_error::read(path)?;
        let mut plan = PlanFile::parse(&path.display().to_string(), &text)?;
        let beside = path.parent().unwrap_or(Path::new(""));
        for host in &mut plan.hosts {
            host.hardware = beside.join(&host.hardware);
        }
        for chain in &mut plan.chains {
            // A model without ending is one of the paper's.
            let model = chain.model.iter_mut().filter(|file| file.extension().is_some());
            for file in chain.configuration.iter_mut().chain(model) {
                *file = beside.join(&*file);
            }
        }
        Ok(plan)
    }

    /// Reads a plan; `path` is what errors call it.
    ///
    /// # Errors
    /// When the text is none, or has impossible values.
    pub fn parse(path: &str, text: &str) -> Result<PlanFile, PlanError> {
        let plan: PlanFile = file_error::parse(path, text)?;
        let check = Check { path, text };
        check.whole(&plan)?;
        Ok(plan)
    }
}

/// A step of a path to a value: a field, or one of a list.
#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    At(usize),
}

use Step::{At, Field};

/// Looks for values that cannot be, and knows where they stand.
struct Check<'a> {
    path: &'a str,
    text: &'a str,
}

impl Check<'_> {
    fn whole(&self, plan: &PlanFile) -> Result<(), PlanError> {
        let within = (0.0..1.0).contains(&plan.headroom);
        self.that(within, &[Field("headroom")], plan.headroom, "give a share, as 0.2")?;
        let far = (1.0..=100.0).contains(&plan.between_sockets);
        let remedy = "give how many times as long it takes, 1 to 100";
        self.that(far, &[Field("between_sockets")], plan.between_sockets, remedy)?;
        for (what, count) in [("chain", plan.chains.len()), ("host", plan.hosts.len())] {
            let remedy = "give 1 to 256 [[chain]] and [[host]] tables";
            self.that((1..=ENTRIES_MAX).contains(&count), &[Field(what)], count, remedy)?;
        }
        let names = plan.chains.iter().map(|chain| chain.name.as_str());
        self.names(&[Field("chain")], names)?;
        self.names(&[Field("host")], plan.hosts.iter().map(|host| host.name.as_str()))?;
        for (at, host) in plan.hosts.iter().enumerate() {
            let field = |name| [Field("host"), At(at), Field(name)];
            let cores = host.cores.unwrap_or(1);
            self.that(cores > 0, &field("cores"), cores, "a host has at least one")?;
            self.positive(&field("memory"), host.memory.unwrap_or(1.0))?;
        }
        plan.chains.iter().enumerate().try_for_each(|(at, chain)| self.chain(plan, at, chain))
    }

    fn chain(&self, plan: &PlanFile, at: usize, chain: &Chain) -> Result<(), PlanError> {
        let field = |name| [Field("chain"), At(at), Field(name)];
        self.positive(&field("rate"), chain.rate)?;
        let remedy = "give bytes without the check sequence, 14 to 65536";
        let frame = (14.0..=65536.0).contains(&chain.packet);
        self.that(frame, &field("packet"), chain.packet, remedy)?;
        self.number(&field("sessions"), chain.sessions)?;
        self.positive(&field("latency_us"), chain.latency_us.unwrap_or(1.0))?;
        let burst = (1..=256).contains(&chain.burst);
        self.that(burst, &field("burst"), chain.burst, "give 1 to 256 packets")?;
        let skew = (0.0..=100.0).contains(&chain.skew);
        self.that(skew, &field("skew"), chain.skew, "give 0 to 100, as 0.1 for a tenth more")?;
        if let Some(host) = &chain.host
            && plan.hosts.iter().all(|one| one.name != *host)
        {
            let names = plan.hosts.iter().map(|host| host.name.as_str()).collect();
            return Err(self.unknown(&field("host"), host, names));
        }
        self.functions(at, chain)
    }

    fn functions(&self, at: usize, chain: &Chain) -> Result<(), PlanError> {
        let here = [Field("chain"), At(at)];
        let sources = u8::from(chain.configuration.is_some()) + u8::from(chain.model.is_some());
        let by_hand = sources == 0;
        if sources > 1 || (by_hand && chain.functions.is_empty()) {
            let remedy = "give a configuration, or a model, or [[chain.function]] tables with \
                          cycles";
            return Err(self.missing(&here, "one source of its functions", remedy));
        }
        let count = chain.functions.len();
        let list = [Field("chain"), At(at), Field("function")];
        self.that(count <= ENTRIES_MAX, &list, count, "give at most 256 functions")?;
        self.names(&list, chain.functions.iter().map(|function| function.name.as_str()))?;
        for (of, function) in chain.functions.iter().enumerate() {
            let field = |name| [Field("chain"), At(at), Field("function"), At(of), Field(name)];
            let here = [Field("chain"), At(at), Field("function"), At(of)];
            if by_hand && function.cycles.is_none() {
                let remedy = "give cycles per packet, as cycles = 120";
                return Err(self.missing(&here, "cycles", remedy));
            }
            let numbers = [
                ("cycles", function.cycles),
                ("working_set", function.working_set),
                ("lines", function.lines),
                ("memory", function.memory),
            ];
            for (name, value) in numbers {
                self.number(&field(name), value.unwrap_or(0.0))?;
            }
        }
        Ok(())
    }

    fn names<'n>(
        &self,
        list: &[Step<'_>],
        names: impl Iterator<Item = &'n str>,
    ) -> Result<(), PlanError> {
        let mut seen = std::collections::BTreeSet::new();
        for (at, name) in names.enumerate() {
            let field = [list, &[At(at), Field("name")]].concat();
            self.that(!name.is_empty(), &field, "''", "give it a name")?;
            self.that(seen.insert(name), &field, format!("'{name}' again"), "give another name")?;
        }
        Ok(())
    }

    fn positive(&self, field: &[Step<'_>], value: f64) -> Result<(), PlanError> {
        let fine = value > 0.0 && value <= NUMBER_MAX;
        self.that(fine, field, value, "give a number above 0, at most 1e15")
    }

    fn number(&self, field: &[Step<'_>], value: f64) -> Result<(), PlanError> {
        let fine = (0.0..=NUMBER_MAX).contains(&value);
        self.that(fine, field, value, "give a number from 0 to 1e15")
    }

    fn that(
        &self,
        fine: bool,
        field: &[Step<'_>],
        value: impl ToString,
        remedy: &'static str,
    ) -> Result<(), PlanError> {
        if fine {
            return Ok(());
        }
        Err(PlanError::Value {
            location: self.location(field),
            field: dotted(field),
            value: value.to_string(),
            remedy,
        })
    }

    fn missing(&self, field: &[Step<'_>], what: &str, remedy: &'static str) -> PlanError {
        let what = format!("{what} in {}", dotted(field));
        PlanError::Missing { location: self.location(field), what, remedy }
    }

    fn unknown(&self, field: &[Step<'_>], name: &str, known: Vec<&str>) -> PlanError {
        PlanError::Unknown {
            location: self.location(field),
            what: "host",
            name: name.to_owned(),
            known: known.join(", "),
        }
    }

    /// `plan.toml:12`: the line of a value, or of the nearest table around it.
    fn location(&self, field: &[Step<'_>]) -> String {
        let offset = DeTable::parse(self.text).map_or(0, |root| {
            let (start, table) = (root.span().start, root.into_inner());
            offset(&DeValue::Table(table), start, field)
        });
        let line = self.text.get(..offset).map_or(0, |before| before.matches('\n').count()) + 1;
        format!("{}:{line}", self.path)
    }
}

/// Where a value begins in the text; `here` if it is not there.
fn offset(value: &DeValue<'_>, here: usize, path: &[Step<'_>]) -> usize {
    let Some((step, rest)) = path.split_first() else { return here };
    let next = match *step {
        Field(name) => value.get(name),
        At(index) => value.get(index),
    };
    // An array of tables has no place of its own: its entries have.
    next.map_or(here, |next| offset(next.get_ref(), next.span().start.max(here), rest))
}

/// `chain[2].rate`, counted from 1.
fn dotted(field: &[Step<'_>]) -> String {
    let mut text = String::new();
    for step in field {
        match step {
            Field(name) if text.is_empty() => text += name,
            Field(name) => text += &format!(".{name}"),
            At(index) => text += &format!("[{}]", index + 1),
        }
    }
    text
}
