//! The catalog and the benches' own elements.

use thruway_element::{Entry, Registry};
use thruway_elements::CATALOG;

use super::{flow, kills, stream, threads};

const OWN: [&[&Entry]; 4] = [flow::ELEMENTS, kills::ELEMENTS, stream::ELEMENTS, threads::ELEMENTS];
const LISTS: usize = CATALOG.0.len() + OWN.len();

static ALL: [&[&Entry]; LISTS] = {
    let mut lists = [OWN[0]; LISTS];
    let mut at = 0;
    while at < LISTS {
        lists[at] = if at < OWN.len() { OWN[at] } else { CATALOG.0[at - OWN.len()] };
        at += 1;
    }
    lists
};

/// See the module.
pub static REGISTRY: Registry = Registry(&ALL);
