//! Whether two hosts could have spoken as a capture says: what came to one was sent by the other
//! before, as far as it had room. Captures that miss packets, or were made up, are not so; who
//! stands in the middle does not believe them.

use std::collections::BTreeMap;

use super::truth::{ACK, FIN, Flow, RST, SYN, segment};

/// What is known of one direction.
#[derive(Default)]
struct Sender {
    /// Behind what came without a hole.
    next: Option<u32>,
    /// What came beyond, by begin.
    ahead: BTreeMap<u32, u32>,
    /// Where the room of its receiver ends.
    right: Option<u32>,
    /// As its sender offers it.
    scale: Option<u8>,
}

fn is_behind(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl Sender {
    fn take(&mut self, begin: u32, end: u32) {
        let Some(next) = &mut self.next else { return };
        self.ahead.insert(begin, end);
        while let Some((begin, end)) =
            self.ahead.iter().find(|(begin, _)| !is_behind(**begin, *next))
        {
            let (begin, end) = (*begin, *end);
            self.ahead.remove(&begin);
            if is_behind(end, *next) {
                *next = end;
            }
        }
    }
}

/// See the module.
pub fn is_coherent(flow: &Flow, frames: &[Vec<u8>]) -> bool {
    let mut halves = [Sender::default(), Sender::default()];
    let mut numbers: Vec<(usize, usize)> = Vec::new();
    for side in [0, 1] {
        numbers.extend(flow.frames[side].iter().map(|number| (*number, side)));
    }
    numbers.sort_unstable();
    let step = |(number, side): &(usize, usize)| step(&mut halves, *side, &frames[*number]);
    let fits = numbers.iter().map(step).all(|fits| fits == Some(true));
    fits && halves.iter().all(|half| half.next.is_some())
}

/// Whether a frame fits what came before.
fn step(halves: &mut [Sender; 2], side: usize, frame: &[u8]) -> Option<bool> {
    let segment = segment(frame)?;
    let len = segment.payload.len() as u32;
    let is_syn = segment.flags & SYN != 0;
    if segment.flags & RST != 0 || segment.is_routed || is_syn && len > 0 {
        return Some(false);
    }
    let end =
        segment.seq.wrapping_add(len + u32::from(is_syn) + u32::from(segment.flags & FIN != 0));
    if is_syn {
        let half = &mut halves[side];
        if half.next.is_some_and(|_| half.scale != segment.scale) {
            return Some(false);
        }
        half.next.get_or_insert(end);
        half.scale = segment.scale;
    }
    let both = halves.iter().all(|half| half.scale.is_some()) && !is_syn;
    let scale = if both { halves[side].scale? } else { 0 };
    let other = &mut halves[1 - side];
    if segment.flags & ACK != 0 {
        if is_behind(segment.ack, other.next?) {
            return Some(false);
        }
        let right = segment.ack.wrapping_add(u32::from(segment.window) << scale);
        if other.right.is_none_or(|known| is_behind(right, known)) {
            other.right = Some(right);
        }
    } else if !is_syn {
        return Some(false);
    }
    let half = &mut halves[side];
    let bytes_end = segment.seq.wrapping_add(len);
    if len > 0 && half.right.is_none_or(|right| is_behind(bytes_end, right)) {
        return Some(false);
    }
    half.next?;
    half.take(segment.seq, end);
    Some(true)
}
