//! Regions of trust groups, shared by their members' elements.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use thruway_element::{ArgError, Args};
use thruway_exchange::GroupRegion;
use thruway_nf_abi::LinkShape;
use thruway_region::Pages;

use super::framed::Frames;
use super::settings::Group;

/// One group of a configuration.
pub(super) struct Shared {
    group: Group,
    shape: LinkShape,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    /// Threads that run members.
    threads: Vec<usize>,
    region: Option<GroupRegion>,
    frames: HashMap<usize, Arc<Frames>>,
}

impl Shared {
    /// The group of the element that is being built; all members' frames must be alike.
    pub fn of(args: &Args<'_>, group: &Group, shape: &LinkShape) -> Result<Arc<Shared>, ArgError> {
        let key = format!("TrustGroup {}", group.name);
        let make = || Shared { group: group.clone(), shape: *shape, made: Mutex::default() };
        let Some(shared) = args.env().shared.get(&key, "group", make) else {
            return Err(args.error("GROUP", "is in use for something else"));
        };
        let alike = |a: &LinkShape, b: &LinkShape| {
            (a.packet_len_max, a.headroom) == (b.packet_len_max, b.headroom)
        };
        if !alike(&shared.shape, shape) {
            let why = format!(
                "members of a group have frames of one size: give SLOT_SIZE {} and HEADROOM {} as \
                 the others of '{}'",
                shared.shape.packet_len_max, shared.shape.headroom, group.name
            );
            return Err(args.error("GROUP", why));
        }
        shared.with(|made| {
            if !made.threads.contains(&args.env().thread) {
                made.threads.push(args.env().thread);
            }
        });
        Ok(shared)
    }

    fn with<T>(&self, f: impl FnOnce(&mut Made) -> T) -> T {
        f(&mut self.made.lock().unwrap_or_else(|poison| poison.into_inner()))
    }

    /// The frames that a thread hands out: its even share.
    pub fn frames(&self, thread: usize) -> Result<Arc<Frames>, String> {
        self.with(|made| {
            if let Some(frames) = made.frames.get(&thread) {
                return Ok(Arc::clone(frames));
            }
            let region = match &made.region {
                Some(region) => region.clone(),
                None => GroupRegion::create(&self.shape, self.group.frames, Pages::Normal)
                    .map_err(|error| {
                        format!("no region for group '{}': {error}", self.group.name)
                    })?,
            };
            made.region = Some(region.clone());
            let share = self.group.frames / made.threads.len().max(1) as u32;
            if share == 0 {
                let (name, threads) = (&self.group.name, made.threads.len());
                return Err(format!(
                    "{threads} threads share the frames of group '{name}': give it more FRAMES"
                ));
            }
            let nth = made.threads.iter().position(|known| *known == thread).unwrap_or(0) as u32;
            let frames = Arc::new(Frames::new(region, nth * share, share));
            made.frames.insert(thread, Arc::clone(&frames));
            Ok(frames)
        })
    }
}
