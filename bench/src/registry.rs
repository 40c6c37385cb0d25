//! The catalog and the benches' own elements.

use thruway::load::{self, Libraries};
use thruway_element::{Entry, Registry};
use thruway_elements::CATALOG;
use thruway_engine::{Options, Router};
use thruway_lang::{Source, Variables};

use super::flow::ELEMENTS as FLOW;
use super::kills::ELEMENTS as KILLS;
use super::moves::elements::ELEMENTS as MOVES;
use super::stream::ELEMENTS as STREAM;
use super::threads::ELEMENTS as THREADS;

const OWN: [&[&Entry]; 5] = [FLOW, KILLS, MOVES, STREAM, THREADS];
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

/// The router of a configuration, initialized; `name` is its text's in errors.
///
/// # Errors
/// What is wrong with the text, with its place.
pub fn router(name: impl Into<String>, text: String, options: &Options) -> anyhow::Result<Router> {
    let readable = |failure: load::Failure| anyhow::anyhow!("{}", failure.pretty.render(false));
    let source = (Source::new(name, text), &REGISTRY);
    let built = load::build_of(source, &Variables::new(), &Libraries::new(""), options);
    let (mut router, _) = built.map_err(readable)?;
    load::initialize(&mut router).map_err(readable)?;
    Ok(router)
}
