//! What a model of elementary operations costs, as a function of a chain.

use crate::Hardware;
use crate::paper::{Mapping, Model};

use super::{Chain, FunctionLoad};

/// Bytes of a frame's check sequence, which models count and plan files do not.
const CHECK_SEQUENCE: f64 = 4.0;

impl Chain {
    /// The one function that the chain's model is, on a host; its accesses to memory are given as
    /// cycles. `None` for a chain without a model.
    ///
    /// # Errors
    /// When there is no such model, or the host's description lacks constants that it needs.
    pub fn modelled(&self, hardware: &Hardware) -> Option<Result<Vec<FunctionLoad>, String>> {
        let file = self.model.as_ref()?;
        let load = || {
            let model = Model::find(&file.display().to_string()).map_err(|why| why.to_string())?;
            let mapping = Mapping::of(hardware, &hardware.name).map_err(|why| why.to_string())?;
            let cost = model.cost(&mapping, (self.packet + CHECK_SEQUENCE).round() as u32);
            let memory = cost.accesses * mapping.memory_seconds() * hardware.clock_hz.value;
            Ok(vec![FunctionLoad {
                name: model.name,
                cycles: cost.cycles + memory,
                working_set: 0.0,
                lines: 0.0,
                memory: 0.0,
            }])
        };
        Some(load())
    }
}
