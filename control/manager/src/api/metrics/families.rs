//! Metric families of chains, and their samples.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::observed::{self, Observed};
use crate::graph::{ChainGraph, GraphFunction, GraphQueue, GraphSessions};

/// Values of a family's labels besides `chain`, and the sample's value.
type Sample = (Vec<String>, u64);

/// A metric family: one sample or several for each chain. Its labels have few values: a metric has
/// no label that packets determine, and none of each element. Elements that are named are queues
/// and functions, at most 256 for each chain.
struct Family {
    name: &'static str,
    help: &'static str,
    is_counter: bool,
    /// Its labels besides `chain`.
    labels: &'static [&'static str],
    samples: fn(&Observed) -> Vec<Sample>,
}

const fn family(
    (name, help): (&'static str, &'static str),
    is_counter: bool,
    labels: &'static [&'static str],
    samples: fn(&Observed) -> Vec<Sample>,
) -> Family {
    Family { name, help, is_counter, labels, samples }
}

/// The metric that has one sample for all chains.
const ALL_CHAINS: (&str, &str) = ("manager_chains", "Chains that are asked for");

const GAUGE: bool = false;
const COUNTER: bool = true;

/// What the manager itself observes.
const OF_MANAGER: &[Family] = &[
    family(
        ("manager_chain_condition", "Whether a condition of a chain holds"),
        GAUGE,
        &["condition"],
        |chain| {
            let of = chain.status.conditions.iter();
            of.map(|one| (vec![format!("{:?}", one.kind)], u64::from(one.holds))).collect()
        },
    ),
    family(
        (
            "manager_chain_restarts",
            "Times that the data plane was started again after it ended by itself",
        ),
        COUNTER,
        &[],
        |chain| one(u64::from(chain.status.restarts)),
    ),
    family(
        ("manager_chain_stopped", "Whether a chain is declared and not to run"),
        GAUGE,
        &[],
        |chain| one(u64::from(chain.stopped)),
    ),
];

/// What data planes report.
const OF_DATA_PLANES: &[Family] = &[
    family(
        ("chain_answers", "Whether the data plane of a chain that is to run gave its counters"),
        GAUGE,
        &[],
        |chain| if chain.stopped { Vec::new() } else { one(u64::from(chain.seen.is_some())) },
    ),
    family(("chain_cycles", "The data plane's cycle counter"), COUNTER, &[], |chain| {
        of_graph(chain, |graph| one(graph.cycles))
    }),
    family(
        (
            "chain_drops",
            "Packets that did not go on: lost, diverted to another output, or consumed",
        ),
        COUNTER,
        &["class", "reason", "fate"],
        |chain| {
            let of = |(key, packets): ([&str; 3], u64)| (key.map(str::to_owned).to_vec(), packets);
            of_graph(chain, |graph| observed::drops(graph).into_iter().map(of).collect())
        },
    ),
    family(
        (
            "chain_element_packets",
            "Packets that entered elements of a class, or that its sources made",
        ),
        COUNTER,
        &["class"],
        |chain| {
            let of = |(class, packets): (&str, u64)| (vec![class.to_owned()], packets);
            of_graph(chain, |graph| observed::packets(graph).into_iter().map(of).collect())
        },
    ),
    family(
        ("chain_function_batches", "Batches of a function that were timed; one at a time is"),
        COUNTER,
        &["element"],
        |chain| functions(chain, |one| one.batches),
    ),
    family(
        (
            "chain_function_hangs",
            "Times that a function was ended because it had a packet for longer than HANG",
        ),
        COUNTER,
        &["element"],
        |chain| functions(chain, |one| one.hangs),
    ),
    family(
        (
            "chain_function_late_batches",
            "Timed batches that were with a function for 1.05 ms or longer",
        ),
        COUNTER,
        &["element"],
        |chain| functions(chain, |one| one.late_batches),
    ),
    family(
        ("chain_function_received_packets", "Packets that were handed to a function"),
        COUNTER,
        &["element"],
        |chain| functions(chain, |one| Some(one.packets_in)),
    ),
    family(
        ("chain_function_restarts", "Times that a function was started again"),
        COUNTER,
        &["element"],
        |chain| functions(chain, |one| Some(one.restarts)),
    ),
    family(("chain_function_running", "Whether a function runs"), GAUGE, &["element"], |chain| {
        functions(chain, |one| Some(u64::from(one.state == "running")))
    }),
    family(
        ("chain_function_sent_packets", "Packets that left a function"),
        COUNTER,
        &["element"],
        |chain| functions(chain, |one| Some(one.packets_out)),
    ),
    family(("chain_function_slots", "Slots of a function's rings"), GAUGE, &["element"], |chain| {
        functions(chain, |one| one.slots)
    }),
    family(
        ("chain_function_slots_used", "Slots of a function's rings in use"),
        GAUGE,
        &["element"],
        |chain| functions(chain, |one| Some(one.occupancy)),
    ),
    family(
        ("chain_queue_capacity", "Packets that a queue holds at most"),
        GAUGE,
        &["element"],
        |chain| queues(chain, |one| one.capacity),
    ),
    family(("chain_queue_packets", "Packets in a queue"), GAUGE, &["element"], |chain| {
        queues(chain, |one| one.length)
    }),
    family(
        ("chain_received_packets", "Packets that the sources of a thread received or made"),
        COUNTER,
        &["thread"],
        |chain| threads(chain, |graph, at| graph.threads[at].packets),
    ),
    family(("chain_sessions", "Sessions now"), GAUGE, &[], |chain| {
        sessions(chain, |of| Some(of.now))
    }),
    family(
        ("chain_sessions_capacity", "Most sessions of one sort, in all threads"),
        GAUGE,
        &[],
        |chain| sessions(chain, |of| of.capacity),
    ),
    family(
        ("chain_sessions_closed", "Sessions that their protocol or a function ended"),
        COUNTER,
        &[],
        |chain| sessions(chain, |of| Some(of.closed)),
    ),
    family(("chain_sessions_created", "Sessions begun"), COUNTER, &[], |chain| {
        sessions(chain, |of| Some(of.created))
    }),
    family(("chain_sessions_expired", "Sessions that timed out"), COUNTER, &[], |chain| {
        sessions(chain, |of| Some(of.expired))
    }),
    family(
        ("chain_sessions_free", "Sessions of the fullest sort that may still begin"),
        GAUGE,
        &[],
        |chain| sessions(chain, |of| of.free),
    ),
    family(
        ("chain_sessions_refused_packets", "Packets for whose session there was no room"),
        COUNTER,
        &[],
        |chain| sessions(chain, |of| Some(of.refused)),
    ),
    family(
        ("chain_swaps", "Configurations that took over in the data plane's process"),
        COUNTER,
        &[],
        |chain| of_graph(chain, |graph| one(graph.swaps)),
    ),
    family(
        ("chain_thread_idle_cycles", "Cycles in which a thread had nothing to do"),
        COUNTER,
        &["thread"],
        |chain| threads(chain, |graph, at| graph.threads[at].idle_cycles),
    ),
];

/// A sample without labels of its own.
fn one(value: u64) -> Vec<Sample> {
    vec![(Vec::new(), value)]
}

fn of_graph(chain: &Observed, samples: impl Fn(&ChainGraph) -> Vec<Sample>) -> Vec<Sample> {
    chain.graph().map(samples).unwrap_or_default()
}

fn threads(chain: &Observed, value: impl Fn(&ChainGraph, usize) -> u64) -> Vec<Sample> {
    of_graph(chain, |graph| {
        let of = |at: usize| (vec![at.to_string()], value(graph, at));
        (0..graph.threads.len()).map(of).collect()
    })
}

fn sessions(chain: &Observed, value: impl Fn(&GraphSessions) -> Option<u64>) -> Vec<Sample> {
    let value = chain.graph().and_then(|graph| value(graph.sessions.as_ref()?));
    value.map(one).unwrap_or_default()
}

fn queues(chain: &Observed, value: impl Fn(&GraphQueue) -> u64) -> Vec<Sample> {
    of_graph(chain, |graph| {
        let of = |one: &GraphQueue| Some((vec![name(graph, one.element)?], value(one)));
        graph.queues.iter().filter_map(of).collect()
    })
}

fn functions(chain: &Observed, value: impl Fn(&GraphFunction) -> Option<u64>) -> Vec<Sample> {
    of_graph(chain, |graph| {
        let of = |one: &GraphFunction| Some((vec![name(graph, one.element)?], value(one)?));
        graph.functions.iter().filter_map(of).collect()
    })
}

/// Name of an element by its place.
fn name(graph: &ChainGraph, element: usize) -> Option<String> {
    graph.elements.get(element).map(|one| one.name.clone())
}

/// A family with all its samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) is_counter: bool,
    /// Labels and value of each.
    pub(crate) samples: Vec<(Vec<(&'static str, String)>, u64)>,
}

/// What chains are, as tables; those without samples are left out.
pub(super) fn tables(chains: &[Observed]) -> Vec<Table> {
    let of = |family: &Family| {
        let mut samples = Vec::new();
        for chain in chains {
            for (values, value) in (family.samples)(chain) {
                let labels = ["chain"].into_iter().chain(family.labels.iter().copied());
                let values = [chain.name.clone()].into_iter().chain(values);
                samples.push((labels.zip(values).collect(), value));
            }
        }
        let Family { name, help, is_counter, .. } = *family;
        Table { name, help, is_counter, samples }
    };
    let families = OF_MANAGER.iter().chain(OF_DATA_PLANES);
    let count = (Vec::new(), chains.len() as u64);
    let (name, help) = ALL_CHAINS;
    let all = Table { name, help, is_counter: false, samples: vec![count] };
    let some = families.map(of).filter(|table| !table.samples.is_empty());
    [all].into_iter().chain(some).collect()
}

/// What chains are, as families.
#[derive(Debug)]
pub(super) struct Families(Vec<Observed>);

impl Families {
    /// Of these chains.
    pub(super) fn of(chains: Vec<Observed>) -> Families {
        Families(chains)
    }
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let count = ConstGauge::new(i64::try_from(self.0.len()).unwrap_or(i64::MAX));
        let (name, help) = ALL_CHAINS;
        count.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        for family in OF_MANAGER.iter().chain(OF_DATA_PLANES) {
            let kind = if family.is_counter { MetricType::Counter } else { MetricType::Gauge };
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            for chain in &self.0 {
                for (values, value) in (family.samples)(chain) {
                    let own = family.labels.iter().copied().zip(values.iter().map(String::as_str));
                    let labels: Vec<_> = [("chain", &*chain.name)].into_iter().chain(own).collect();
                    let metric = metric.encode_family(&labels)?;
                    match family.is_counter {
                        true => ConstCounter::new(value).encode(metric)?,
                        false => {
                            let value = i64::try_from(value).unwrap_or(i64::MAX);
                            ConstGauge::new(value).encode(metric)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
