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
    /// Whether the region is that of members that go on, whose threads have all frames.
    is_adopted: bool,
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

    /// Takes over the region of a member whose function goes on in this configuration: functions
    /// that begin anew share it. Called before [`Shared::frames`]. False if the group has another
    /// region already: then that function must begin anew, too.
    pub fn adopt(&self, thread: usize, frames: &Arc<Frames>) -> bool {
        self.with(|made| {
            let region = made.region.get_or_insert_with(|| frames.region.clone());
            if !region.is_same(&frames.region) {
                return false;
            }
            made.is_adopted = true;
            let own = made.frames.entry(thread).or_insert_with(|| Arc::clone(frames));
            Arc::ptr_eq(own, frames)
        })
    }

    /// The frames that a thread hands out: its even share, or half of those that the thread with
    /// most does not use.
    pub fn frames(&self, thread: usize) -> Result<Arc<Frames>, String> {
        self.with(|made| {
            if let Some(frames) = made.frames.get(&thread) {
                return Ok(Arc::clone(frames));
            }
            if made.is_adopted {
                let lender = made.frames.values().max_by_key(|frames| frames.free_count());
                let lent = lender.and_then(Frames::lent).map(Arc::new);
                let lent = lent.ok_or_else(|| {
                    let name = &self.group.name;
                    format!("no frame of group '{name}' is free for thread {thread}: try again")
                })?;
                made.frames.insert(thread, Arc::clone(&lent));
                return Ok(lent);
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

#[cfg(test)]
mod tests {
    use thruway_nf_abi::Token;

    use super::*;

    fn shared(threads: usize) -> Shared {
        let group = Group { name: "g".to_owned(), frames: 64 };
        let shape = LinkShape { token: Token::Descriptor, ..LinkShape::DEFAULT };
        let made = Made { threads: (0..threads).collect(), ..Made::default() };
        Shared { group, shape, made: Mutex::new(made) }
    }

    #[test]
    fn members_that_begin_anew_share_the_region_of_those_that_go_on() {
        let before = shared(2);
        let [zero, one] = [0, 1].map(|thread| before.frames(thread).unwrap());
        let after = shared(2);
        assert!(after.adopt(0, &zero) && after.adopt(1, &one));
        // Another member of the same thread; it has the frames of that one.
        assert!(after.adopt(0, &zero));
        assert!(Arc::ptr_eq(&after.frames(0).unwrap(), &zero));
        assert!(Arc::ptr_eq(&after.frames(1).unwrap(), &one));
        // A function with another region must begin anew.
        assert!(!after.adopt(0, &shared(1).frames(0).unwrap()));
    }

    #[test]
    fn a_thread_without_members_before_gets_frames_of_another_and_gives_them_back() {
        let before = shared(1);
        let zero = before.frames(0).unwrap();
        let after = shared(2);
        assert!(after.adopt(0, &zero));
        let one = after.frames(1).unwrap();
        assert!(one.region.is_same(&zero.region));
        assert_eq!((zero.free_count(), one.free_count()), (32, 32));
        drop((one, after));
        assert_eq!(zero.free_count(), 64, "the configuration did not run");
    }

    #[test]
    fn without_a_free_frame_there_is_an_error() {
        let before = shared(1);
        let zero = before.frames(0).unwrap();
        let lent: Vec<_> = std::iter::from_fn(|| crate::framed::Frames::lent(&zero)).collect();
        assert_eq!((zero.free_count(), lent.len()), (1, 6));
        let after = shared(2);
        assert!(after.adopt(0, &zero));
        assert!(after.frames(1).unwrap_err().contains("no frame of group 'g' is free"));
    }
}
