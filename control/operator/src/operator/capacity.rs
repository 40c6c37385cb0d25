//! Whether a host has room for its chains, by the planner (docs/plan.md).

use std::collections::BTreeMap;

use thruway_model::Hardware;
use thruway_model::plan::{Answer, Chain, Function, HostEntry, PlanFile, Problem, Run};

use crate::resource::{ChainHost, Demand};

/// Why a host has no room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoRoom {
    /// It is not known what it can do.
    NotCalibrated,
    /// Its description cannot be used.
    Description(String),
    /// The planner finds no placement: percent of the rates that can be served.
    Full(u8),
}

/// Whether a host has room for all of these: names and demands.
///
/// # Errors
/// [`NoRoom`].
pub fn has_room(host: &ChainHost, demands: &BTreeMap<String, Demand>) -> Result<(), NoRoom> {
    if demands.is_empty() {
        return Ok(());
    }
    let of_agent = || host.status.as_ref()?.agent.as_ref()?.hardware.as_deref();
    let Some(text) = host.spec.hardware.as_deref().or_else(of_agent) else {
        return Err(NoRoom::NotCalibrated);
    };
    let wrong = |why: String| NoRoom::Description(why);
    let hardware =
        Hardware::parse("spec.hardware", text).map_err(|error| wrong(error.to_string()))?;
    let available = hardware.cores;
    let cores = host.spec.cores.and_then(|cores| u32::try_from(cores).ok());
    let file = PlanFile {
        headroom: HEADROOM,
        between_sockets: BETWEEN_SOCKETS,
        chains: demands.iter().map(|(name, demand)| planned(name, demand)).collect(),
        hosts: vec![HostEntry {
            name: host.metadata.name.clone().unwrap_or_default(),
            hardware: "agent".into(),
            cores: Some(cores.unwrap_or(available).min(available)),
            memory: None,
        }],
    };
    // All functions have their cycles: nothing is estimated.
    let estimate = |_: &Chain, _: &Hardware| Ok(Vec::new());
    let problem = Problem::new(&file, vec![hardware], &estimate);
    match problem.map_err(|error| wrong(error.to_string()))?.plan() {
        Answer::Plan(_) => Ok(()),
        Answer::None(most) => Err(NoRoom::Full(percent(most.factor))),
    }
}

/// Share of each core that stays free, as in plan files.
const HEADROOM: f64 = 0.2;

/// Cost of lines between sockets, as in plan files.
const BETWEEN_SOCKETS: f64 = 2.0;

/// Packets of a batch, as in plan files.
const BURST: u16 = 32;

#[allow(clippy::cast_precision_loss)]
fn planned(name: &str, demand: &Demand) -> Chain {
    let function = Function {
        name: "chain".to_owned(),
        cycles: Some(demand.cycles as f64),
        working_set: Some(demand.working_set_bytes as f64),
        parallel: true,
        ..Function::default()
    };
    Chain {
        name: name.to_owned(),
        configuration: None,
        variables: BTreeMap::new(),
        traffic: None,
        model: None,
        functions: vec![function],
        rate: demand.packets_per_second as f64,
        packet: f64::from(demand.packet_bytes),
        sessions: 0.0,
        latency_us: demand.latency_us.map(|time| time as f64),
        burst: BURST,
        run: Run::Either,
        parallel: true,
        skew: 0.0,
        share_core: true,
        cross_sockets: false,
        link: None,
        host: None,
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn percent(share: f64) -> u8 {
    (share.clamp(0.0, 1.0) * 100.0) as u8
}
