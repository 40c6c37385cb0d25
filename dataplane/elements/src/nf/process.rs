//! Functions as processes: what `nf/host` offers, as the element asks for it.

use std::sync::Arc;

use thruway_exchange::GroupRegion;

use super::backend::Function;
use super::settings::Settings;

/// Starts the function's process and waits until it has attached.
pub(super) fn start(
    _settings: &Settings,
    _group: Option<GroupRegion>,
) -> Result<Arc<dyn Function>, String> {
    Err("not yet".into())
}
