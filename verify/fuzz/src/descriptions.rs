//! Descriptions in TOML: of hosts, traffic, plans and models.

use thruway_model::Hardware;
use thruway_model::paper::Model;
use thruway_model::plan::PlanFile;
use thruway_model::traffic::Description;

use crate::input::text;

/// A host: written and read again it is the same.
pub fn hardware(bytes: &[u8]) {
    if let Ok(hardware) = Hardware::parse("fuzz", &text(bytes)) {
        let written = hardware.to_toml();
        let again = Hardware::parse("fuzz", &written).expect("what was written is right");
        assert_eq!(again.to_toml(), written);
    }
}

/// Traffic: the lines that it becomes are bounded, and as many each time.
pub fn traffic(bytes: &[u8]) {
    if let Ok(description) = Description::parse("fuzz", &text(bytes)) {
        assert_eq!(description.lines(), description.lines());
        assert!(description.sessions() >= 0.0);
    }
}

/// A plan.
pub fn plan(bytes: &[u8]) {
    let _ = PlanFile::parse("fuzz", &text(bytes));
}

/// A model of elementary operations.
pub fn models(bytes: &[u8]) {
    let _ = Model::parse("fuzz", &text(bytes));
}
