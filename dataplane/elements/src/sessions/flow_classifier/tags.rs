//! Tags of a switch in front: which are trusted.

use thruway_element::{Cx, HandlerError, Input};
use thruway_flow::manager::Manager;
use thruway_flow::plan::Plan;
use thruway_flow::tags::Generation;

/// What the handler 'tags' is.
pub(super) const TAGS: &str = "which tags of a switch are trusted: none, even or odd; write 'none', or 'even' or \
                    'odd' with the fingerprint of the classes that the switch has rules for";

/// What the handler 'offloaded' is.
pub(super) const OFFLOADED: &str = "packets that a switch in front dropped in place of this element; a number that is \
                         written is added to them";

/// The tags that the classifier `node` trusts.
pub(super) fn read(flows: &Manager, node: u32) -> String {
    flows.trusted(node).map_or("none", Generation::name).to_owned()
}

/// Trusts other tags, if the switch has the rules of this plan.
pub(super) fn write(cx: &mut Cx<'_>, input: Input, value: &str) -> Result<(), HandlerError> {
    let node = cx.node();
    let Some(flows) = cx.flows() else {
        return Err(HandlerError::refused("the configuration is not running"));
    };
    let tags = trusted(value, flows.plan()).map_err(HandlerError::refused)?;
    if input != Input::Tagged {
        return Err(HandlerError::refused("its packets have no tags: give it INPUT tagged"));
    }
    flows.trust(node, tags);
    Ok(())
}

/// Reads what is written to 'tags'.
fn trusted(value: &str, plan: &Plan) -> Result<Option<Generation>, String> {
    let words: Vec<&str> = value.split_whitespace().collect();
    let (generation, fingerprint) = match words[..] {
        ["none"] => return Ok(None),
        [generation, fingerprint] => (Generation::parse(generation), fingerprint),
        _ => (None, ""),
    };
    let Some(generation) = generation else {
        return Err(format!("'{value}' is neither 'none' nor 'even' or 'odd' with a fingerprint"));
    };
    match plan.fingerprint().to_string() == fingerprint {
        true => Ok(Some(generation)),
        false => Err("the switch has rules for other classes than these: the configuration has \
                      changed; run 'thruway offload apply' with it"
            .to_owned()),
    }
}
