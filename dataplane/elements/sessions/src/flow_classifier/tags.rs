//! Tags of a switch or host in front: where they are, and which are trusted.

use thruway_element::{AnnoArg, Arg, ArgErrors, Args, Cx, HandlerError, Ty};
use thruway_flow::manager::Manager;
use thruway_flow::tags::{Generation, TagKind, TagSource, Tags};

/// The argument TAG.
pub(super) const TAG: Arg = Arg::keyword(
    "TAG",
    Ty::Choice(&["vlan", "mpls"]),
    "what carries the class, with INPUT tagged: a VLAN tag, or an MPLS label",
)
.or("vlan");

/// The argument TAG_ANNO.
pub(super) const TAG_ANNO: Arg =
    Arg::keyword("TAG_ANNO", Ty::Anno, "annotation with tags of another host; none if not given");

/// The argument UNKNOWN_TAGS.
pub(super) const UNKNOWN_TAGS: Arg = Arg::keyword(
    "UNKNOWN_TAGS",
    Ty::Choice(&["classify", "drop"]),
    "what happens to a packet with a tag of no trusted class, while some are trusted",
)
.or("classify");

/// Description of the handler 'tags'.
pub(super) const TAGS: &str = "which tags are trusted: none, or the number of their generation; \
    write 'none', or a generation with the fingerprint of the classes that the switch or host in \
    front goes by";

/// Description of the handler 'tag_kind'.
pub(super) const TAG_KIND: &str =
    "what carries tags: none, vlan, mpls, or metadata (of a header between hosts)";

/// Description of the handler 'offloaded'.
pub(super) const OFFLOADED: &str = "packets that a switch in front dropped in place of this element; a \
    number that is written is added to them";

/// The tags that the classifier `node` trusts.
pub(super) fn read(flows: &Manager, node: u32) -> String {
    flows.trusted(node).map_or("none".to_owned(), |generation| generation.to_string())
}

/// What carries the tags.
pub(super) fn kind(tags: Option<Tags>) -> &'static str {
    tags.map_or("none", |tags| tags.source.kind().name())
}

/// The fingerprint of the plan, where packets may have tags.
pub(super) fn known(fingerprint: Option<u64>) -> Result<u64, HandlerError> {
    fingerprint.ok_or_else(|| {
        HandlerError::refused("its packets have no tags: give it INPUT tagged, or TAG_ANNO")
    })
}

/// Trusts other tags, if the switch has the rules of the plan with this fingerprint.
pub(super) fn write(
    cx: &mut Cx<'_>,
    fingerprint: u64,
    tags: Option<Tags>,
    value: &str,
) -> Result<(), HandlerError> {
    let node = cx.node();
    let Some(flows) = cx.flows() else {
        return Err(HandlerError::refused("the configuration is not running"));
    };
    // Where there is a fingerprint, there are tags.
    let kind = tags.map_or(TagKind::Vlan, |tags| tags.source.kind());
    flows.trust(node, trusted(value, fingerprint, kind).map_err(HandlerError::refused)?);
    Ok(())
}

/// Reads what is written to 'tags'.
fn trusted(value: &str, fingerprint: u64, kind: TagKind) -> Result<Option<Generation>, String> {
    let words: Vec<&str> = value.split_whitespace().collect();
    let (generation, of_rules) = match words[..] {
        ["none"] => return Ok(None),
        [generation, of_rules] => (Generation::parse(generation, kind), of_rules),
        _ => (None, ""),
    };
    let Some(generation) = generation else {
        return Err(format!(
            "'{value}' is neither 'none' nor a generation (0 to {}) with a fingerprint",
            kind.generations() - 1
        ));
    };
    match fingerprint.to_string() == of_rules {
        true => Ok(Some(generation)),
        false => Err("the switch or host in front goes by other classes than these: the \
                      configuration has changed; run 'thruway offload apply' with it, or read \
                      'fingerprint' again"
            .to_owned()),
    }
}

/// The arguments TAG, TAG_ANNO and UNKNOWN_TAGS: the tags of packets which, if `in_frames`, have
/// them in their frames.
pub(super) fn tags(args: &Args<'_>, in_frames: bool) -> Result<Option<Tags>, ArgErrors> {
    let anno = args.opt("TAG_ANNO")?.map(|AnnoArg(anno)| anno);
    if anno.is_some_and(|anno| !matches!(anno.size, 2 | 4)) {
        return Err(args.error("TAG_ANNO", "tags have two bytes: such as VLAN_TCI").into());
    }
    // In the order of the argument's words.
    let in_frame = [TagSource::Vlan, TagSource::Mpls][args.choice("TAG")?];
    let refuse_unknown = args.choice("UNKNOWN_TAGS")? == 1;
    let source = match (in_frames, anno) {
        (true, None) => in_frame,
        (true, Some(_)) => {
            let why =
                "packets have the tags of a switch (INPUT tagged) or of another host, not both";
            return Err(args.error("TAG_ANNO", why).into());
        }
        (false, _) if in_frame == TagSource::Mpls => {
            return Err(args.error("TAG", "labels are in frames: give INPUT tagged, too").into());
        }
        (false, Some(anno)) => TagSource::Anno(anno),
        (false, None) if refuse_unknown => {
            let why = "its packets have no tags: give INPUT tagged or TAG_ANNO, too";
            return Err(args.error("UNKNOWN_TAGS", why).into());
        }
        (false, None) => return Ok(None),
    };
    Ok(Some(Tags { source, refuse_unknown }))
}
