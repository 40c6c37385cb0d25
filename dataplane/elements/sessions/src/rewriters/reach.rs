//! References between rewriters: shared mappings and capacities.

use thruway_element::Cx;

use crate::rewriters::rewriter::{Keeper, Rewriter};
use crate::rewriters::store::Store;

/// Longest chain of rewriters each of which shares the capacity of the next.
const KEEPERS_MAX: usize = 16;

impl Rewriter {
    /// Takes the mappings, to be put back.
    #[inline]
    pub(super) fn take(&mut self, cx: &mut Cx<'_>) -> Option<Box<Store>> {
        match self.keeper {
            Keeper::Node(node) => {
                let mut taken = None;
                cx.visit(node, |other, _| {
                    let other = other.downcast_mut::<Rewriter>();
                    taken = other.and_then(|other| other.store.take());
                });
                taken
            }
            _ => self.store.take(),
        }
    }

    #[inline]
    pub(super) fn put(&mut self, cx: &mut Cx<'_>, store: Box<Store>) {
        match self.keeper {
            Keeper::Node(node) => {
                let mut store = Some(store);
                cx.visit(node, |other, _| {
                    if let Some(other) = other.downcast_mut::<Rewriter>() {
                        other.store = store.take();
                    }
                });
            }
            _ => self.store = Some(store),
        }
    }

    /// Works with the mappings, wherever they are.
    pub(super) fn with<T>(
        &mut self,
        cx: &mut Cx<'_>,
        work: impl FnOnce(&mut Rewriter, &mut Store) -> T,
    ) -> Option<T> {
        let mut store = self.take(cx)?;
        let done = work(self, &mut store);
        self.put(cx, store);
        Some(done)
    }

    /// The rewriter called `name`, as `cx`'s element sees it, and what `ask` says of it.
    ///
    /// # Errors
    /// There is none here.
    pub(super) fn find<T>(
        cx: &mut Cx<'_>,
        name: &str,
        ask: impl Fn(&Rewriter) -> T,
    ) -> Result<(u32, T), String> {
        let from = cx.node();
        Rewriter::find_from(cx, from, name, ask)
    }

    fn find_from<T>(
        cx: &mut Cx<'_>,
        from: u32,
        name: &str,
        ask: impl Fn(&Rewriter) -> T,
    ) -> Result<(u32, T), String> {
        let found = cx.find(from, name);
        let node = found.ok_or_else(|| format!("no element named '{name}'"))?;
        let mut said = None;
        cx.visit(node, |other, _| {
            said = other.downcast_mut::<Rewriter>().map(|other| ask(other));
        });
        let said = said.ok_or_else(|| {
            format!(
                "'{name}' is no rewriter that this thread runs: name an IPRewriter or the like, \
                 and have both run by one thread (StaticThreadSched)"
            )
        })?;
        Ok((node, said))
    }

    /// The element that keeps the mappings of the rewriter `name`.
    fn keeper_of(cx: &mut Cx<'_>, name: &str) -> Result<u32, String> {
        let (mut from, mut name) = (cx.node(), name.to_owned());
        for _ in 0..KEEPERS_MAX {
            let (node, next) = Rewriter::find_from(cx, from, &name, |other| other.keeper.clone())?;
            match next {
                Keeper::Own => return Ok(node),
                Keeper::Node(keeper) => return Ok(keeper),
                Keeper::Named(further) => (from, name) = (node, further),
            }
        }
        Err(format!("'{name}' shares the capacity of one that shares its own"))
    }

    /// Joins the rewriters that share the capacity of another one.
    pub(super) fn join(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let Keeper::Named(name) = &self.keeper else { return Ok(()) };
        let node =
            Rewriter::keeper_of(cx, name).map_err(|why| format!("MAPPING_CAPACITY: {why}"))?;
        self.keeper = Keeper::Node(node);
        let limits = self.limits.clone();
        let joined = self.with(cx, |_, store| {
            if store.is_shared() {
                return Err("the other rewriter is run by several threads");
            }
            store.owners.push(limits);
            u16::try_from(store.owners.len() - 1).map_err(|_| "too many rewriters share one")
        });
        let joined = joined.unwrap_or(Err("it is lent"));
        self.owner = joined.map_err(|why| format!("MAPPING_CAPACITY: {why}"))?;
        Ok(())
    }
}
