//! Mappers: elements that rewriters ask which pattern a new flow goes by.

use std::sync::Arc;

use thruway_element::text::split_words;
use thruway_element::{Addresses, ArgErrors, Declared};
use thruway_sync::atomic::{AtomicU32, Ordering};
use thruway_wire::flow::FiveTuple;

use crate::rewriters::context::{Context, Outputs};
use crate::rewriters::pattern::Pattern;
use crate::rewriters::ring::Ring;
use thruway_elements_support::random::Secret;

/// Class names of mappers.
pub(super) const ROUND_ROBIN: &str = "RoundRobinIPMapper";
/// See [`ROUND_ROBIN`].
pub(super) const THREAD: &str = "ThreadIPMapper";
/// See [`ROUND_ROBIN`].
pub(super) const SOURCE_HASH: &str = "SourceIPHashMapper";

/// How one of the patterns is chosen.
#[derive(Clone, Debug)]
enum By {
    /// Consecutive values; all users share the number of the next one.
    Turn(Arc<AtomicU32>),
    /// The one of this number: that of the thread among those that reach the rewriter.
    Thread(usize),
    /// By the source address.
    Source(Ring),
}

/// A mapper, as a rewriter knows it.
#[derive(Clone, Debug)]
pub(super) struct Mapper {
    by: By,
    choices: Vec<(Pattern, Outputs)>,
}

/// Declares a mapper under its own name, so that rewriters find it wherever they stand.
pub(super) fn declare(
    class: &'static str,
    element: &str,
    args: &[String],
    addresses: &mut Addresses,
) -> Result<(), ArgErrors> {
    let declared = Declared { owner: element.to_owned(), class, texts: args.to_vec() };
    addresses.entry(element).mapper = Some(declared);
    Ok(())
}

impl Mapper {
    /// Reads what a mapper declared.
    ///
    /// # Errors
    /// The error in one of its patterns.
    pub(super) fn parse(declared: &Declared, context: &Context<'_>) -> Result<Mapper, String> {
        let of_pattern =
            |at: usize, why: String| format!("pattern {at} of {}: {why}", declared.class);
        if declared.class != SOURCE_HASH {
            let choices = declared.texts.iter().enumerate().map(|(at, text)| {
                let context = context.within(&declared.owner, at);
                let read = context.pattern_and_outputs(&split_words(text));
                read.map_err(|why| of_pattern(at, why))
            });
            let choices = choices.collect::<Result<Vec<_>, String>>()?;
            if choices.is_empty() {
                return Err("no patterns given".to_owned());
            }
            let by = match declared.class {
                THREAD => By::Thread(context.rank % choices.len()),
                _ => {
                    let next = context.shared.get(&declared.owner, "turn", AtomicU32::default);
                    By::Turn(next.unwrap_or_default())
                }
            };
            return Ok(Mapper { by, choices });
        }
        let (first, rest) = declared.texts.split_first().ok_or("no hash seed given")?;
        let numbers: Vec<u32> = split_words(first)
            .iter()
            .map(|word| context.names.parse(word))
            .collect::<Result<_, String>>()
            .map_err(|why| format!("NNODES SEED: {why}"))?;
        let &[nodes, seed] = &numbers[..] else {
            return Err("expected two numbers first: NNODES SEED".to_owned());
        };
        let (mut choices, mut servers) = (Vec::new(), Vec::new());
        for (at, text) in rest.iter().enumerate() {
            let words = split_words(text);
            let (server, words) =
                words.split_last().ok_or_else(|| of_pattern(at, "empty".into()))?;
            let server: u16 = context
                .names
                .parse(server)
                .map_err(|why| of_pattern(at, format!("bad server ID at its end: {why}")))?;
            servers.push(server);
            let context = context.within(&declared.owner, at);
            choices.push(context.pattern_and_outputs(words).map_err(|why| of_pattern(at, why))?);
        }
        Ok(Mapper { by: By::Source(Ring::new(nodes, seed, &servers)?), choices })
    }

    /// Patterns and where their packets leave.
    pub(super) fn choices(&self) -> &[(Pattern, Outputs)] {
        &self.choices
    }

    /// The rewriting of a new flow.
    pub(super) fn choose(
        &self,
        flow: &FiveTuple<u32>,
        random: &mut Secret,
        mut is_taken: impl FnMut(&FiveTuple<u32>) -> bool,
    ) -> Option<(FiveTuple<u32>, Outputs)> {
        let mut by = |at: usize| {
            let (pattern, outputs) = self.choices.get(at)?;
            Some((pattern.choose(flow, random, &mut is_taken)?, *outputs))
        };
        match &self.by {
            By::Source(ring) => by(ring.server_of(flow.src)),
            By::Thread(number) => by(*number),
            By::Turn(next) => {
                let turns = self.choices.len() as u32;
                (0..turns).find_map(|_| by((next.fetch_add(1, Ordering::Relaxed) % turns) as usize))
            }
        }
    }
}
