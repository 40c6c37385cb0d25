//! Tags of a switch in front: which are trusted.

use thruway_element::{Cx, HandlerError};
use thruway_flow::manager::Manager;
use thruway_flow::tags::Generation;

/// What the handler 'tags' is.
pub(super) const TAGS: &str = "which tags of a switch are trusted: none, even or odd; write 'none', or \
    'even' or 'odd' with the fingerprint of the classes that the switch has rules for";

/// What the handler 'offloaded' is.
pub(super) const OFFLOADED: &str = "packets that a switch in front dropped in place of this element; a \
    number that is written is added to them";

/// The tags that the classifier `node` trusts.
pub(super) fn read(flows: &Manager, node: u32) -> String {
    flows.trusted(node).map_or("none", Generation::name).to_owned()
}

/// The fingerprint of the plan, where packets may have tags.
pub(super) fn known(fingerprint: Option<u64>) -> Result<u64, HandlerError> {
    fingerprint
        .ok_or_else(|| HandlerError::refused("its packets have no tags: give it INPUT tagged"))
}

/// Trusts other tags, if the switch has the rules of the plan with this fingerprint.
pub(super) fn write(cx: &mut Cx<'_>, fingerprint: u64, value: &str) -> Result<(), HandlerError> {
    let node = cx.node();
    let Some(flows) = cx.flows() else {
        return Err(HandlerError::refused("the configuration is not running"));
    };
    flows.trust(node, trusted(value, fingerprint).map_err(HandlerError::refused)?);
    Ok(())
}

/// Reads what is written to 'tags'.
fn trusted(value: &str, fingerprint: u64) -> Result<Option<Generation>, String> {
    let words: Vec<&str> = value.split_whitespace().collect();
    let (generation, of_rules) = match words[..] {
        ["none"] => return Ok(None),
        [generation, of_rules] => (Generation::parse(generation), of_rules),
        _ => (None, ""),
    };
    let Some(generation) = generation else {
        return Err(format!("'{value}' is neither 'none' nor 'even' or 'odd' with a fingerprint"));
    };
    match fingerprint.to_string() == of_rules {
        true => Ok(Some(generation)),
        false => Err("the switch has rules for other classes than these: the configuration has \
                      changed; run 'thruway offload apply' with it"
            .to_owned()),
    }
}
