//! What both hosts must have in common.

use thruway_element::Cx;

/// A description of the replicated data that both hosts compare: classes and functions of sessions.
pub(super) fn chain(cx: &mut Cx<'_>) -> Result<String, String> {
    let Some(flows) = cx.flows() else {
        return Err("needs a FlowClassifier: there are no sessions".into());
    };
    let levels = 0..flows.plan().levels.len() as u8;
    let mut text = format!("classes {:016x}", flows.plan().fingerprint());
    let mut nodes: Vec<u32> = Vec::new();
    for level in levels {
        let table = &flows.plan().levels[usize::from(level)];
        if !flows.is_replicable(level) {
            return Err(format!(
                "sessions '{}' of {} cannot be replicated: only 'connection' can, in one thread and \
                 without coarser sessions (pair, source)",
                table.session, table.family
            ));
        }
        text += &format!("; {} {}:", table.family, table.session);
        for node in flows.functions(level) {
            text += &format!(" {node}");
            nodes.push(node);
        }
    }
    for node in nodes {
        let (name, class) = cx.describe(node).unwrap_or_default();
        let function = format!("{name} :: {class}");
        text += &format!("; {node} {function}");
        if !cx.transfers().are_possible(node) {
            return Err(format!(
                "sessions of '{function}' cannot be replicated: only those of NAT and \
                 StatefulFirewall can"
            ));
        }
    }
    Ok(text)
}
