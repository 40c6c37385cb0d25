//! Tags of a switch in front: which are trusted.

use thruway_element::{AnnoArg, ArgErrors, Args, Cx, HandlerError, Input};
use thruway_flow::manager::Manager;
use thruway_flow::tags::Generation;
use thruway_packet::Anno;

/// Description of the handler 'tags'.
pub(super) const TAGS: &str = "which tags are trusted: none, even or odd; write 'none', or \
    'even' or 'odd' with the fingerprint of the classes that the switch or host in front goes by";

/// Description of the handler 'offloaded'.
pub(super) const OFFLOADED: &str = "packets that a switch in front dropped in place of this element; a \
    number that is written is added to them";

/// The tags that the classifier `node` trusts.
pub(super) fn read(flows: &Manager, node: u32) -> String {
    flows.trusted(node).map_or("none", Generation::name).to_owned()
}

/// The fingerprint of the plan, where packets may have tags.
pub(super) fn known(fingerprint: Option<u64>) -> Result<u64, HandlerError> {
    fingerprint.ok_or_else(|| {
        HandlerError::refused("its packets have no tags: give it INPUT tagged, or TAG_ANNO")
    })
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
        false => Err("the switch or host in front goes by other classes than these: the \
                      configuration has changed; run 'thruway offload apply' with it, or read \
                      'fingerprint' again"
            .to_owned()),
    }
}

/// The argument TAG_ANNO: where another host's tags are.
pub(super) fn anno(args: &Args<'_>, input: Input) -> Result<Option<Anno>, ArgErrors> {
    let tag_anno = args.opt("TAG_ANNO")?.map(|AnnoArg(anno)| anno);
    if tag_anno.is_some_and(|anno| !matches!(anno.size, 2 | 4)) {
        return Err(args.error("TAG_ANNO", "tags have two bytes: such as VLAN_TCI").into());
    }
    if tag_anno.is_some() && input == Input::Tagged {
        let why = "packets have the tags of a switch (INPUT tagged) or of another host, not both";
        return Err(args.error("TAG_ANNO", why).into());
    }
    Ok(tag_anno)
}
