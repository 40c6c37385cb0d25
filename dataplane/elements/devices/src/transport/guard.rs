//! Admission of peers.

use std::net::Ipv4Addr;

use thruway_element::{ArgErrors, Args, Cx};

/// How long an answer holds for the same address, nanoseconds: tables change, and a datagram of a
/// sender of many is no reason to ask again.
const HOLDS_NS: i64 = 10_000_000;

/// The tables ALLOW and DENY.
#[derive(Default)]
pub(crate) struct Guard {
    allow: Option<String>,
    deny: Option<String>,
    /// The last answer, and until when it holds.
    last: Option<(Ipv4Addr, i64, bool)>,
}

impl Guard {
    /// Of the arguments.
    pub(crate) fn of(args: &Args<'_>) -> Result<Guard, ArgErrors> {
        Ok(Guard { allow: args.opt("ALLOW")?, deny: args.opt("DENY")?, last: None })
    }

    /// Whether the tables are tables of routes.
    pub(super) fn check(&self, cx: &mut Cx<'_>) -> Result<(), String> {
        for (name, table) in [("ALLOW", &self.allow), ("DENY", &self.deny)] {
            let Some(table) = table else { continue };
            let node = cx.node();
            let found = cx.find(node, table);
            let found = found.ok_or_else(|| format!("{name}: no element named '{table}'"))?;
            let spec = cx.spec(found);
            if spec.is_none_or(|spec| spec.name != "DirectIPLookup") {
                let class = cx.describe(found).map_or("", |(_, class)| class);
                return Err(format!(
                    "{name}: '{table}' is a {class}; take an IPRouteTable, such as \
                                    RadixIPLookup"
                ));
            }
        }
        Ok(())
    }

    /// Whether a peer with this address may connect.
    pub(super) fn allows(&mut self, cx: &mut Cx<'_>, address: Ipv4Addr) -> bool {
        let now = cx.now();
        if let Some((last, until, allowed)) = self.last
            && last == address
            && now < until
        {
            return allowed;
        }
        let allowed = has(cx, self.allow.as_ref(), address) == Some(true)
            || has(cx, self.deny.as_ref(), address) == Some(false);
        self.last = Some((address, now.saturating_add(HOLDS_NS), allowed));
        allowed
    }
}

/// Whether a table, if there is one, has a route for the address; `None` if it does not answer.
fn has(cx: &mut Cx<'_>, table: Option<&String>, address: Ipv4Addr) -> Option<bool> {
    let Some(table) = table else { return Some(false) };
    let route = cx.read_handler(&format!("{table}.lookup {address}")).ok()?;
    Some(route.trim() != "-1")
}
