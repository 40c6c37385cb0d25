//! Routers for configurations of tests.

use thruway_element::Registry;
use thruway_engine::{Options, Router};
use thruway_lang::{NoLibraries, Source, Variables, load};

use super::REGISTRY;

/// A router for this text.
#[allow(dead_code, reason = "a test may have elements of its own")]
pub fn router(text: &str, options: &Options) -> Router {
    router_of(&REGISTRY, text, options)
}

/// The same, with the elements of a registry.
pub fn router_of(registry: &'static Registry, text: &str, options: &Options) -> Router {
    let loaded = load(Source::new("test", text), registry, &Variables::new(), &NoLibraries)
        .unwrap_or_else(|wrong| panic!("{}", wrong.render(false)));
    let mut router = Router::new(loaded.graph, loaded.checked, registry, options)
        .unwrap_or_else(|wrong| panic!("{wrong:?}"));
    router.initialize().unwrap_or_else(|wrong| panic!("{wrong:?}"));
    router
}
