//! Rules of a port (rte_flow): asked for, made, counted, and taken away with their value.

use super::device::Device;
use super::eal::control;
use super::flow_rule::{FlowAction, FlowItem, FlowRule, HEADER_LEN_MAX, ITEMS_MAX};
use super::messages;
use super::sys::{self, TextBuffer};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

const _: () = assert!(HEADER_LEN_MAX == sys::HEADER_LEN_MAX && ITEMS_MAX == sys::ITEMS_MAX);

/// A rule that a port has; it goes with this value.
pub struct Flow {
    device: Arc<Device>,
    flow: NonNull<c_void>,
}

// SAFETY: the pointer is DPDK's name of the rule, which is used under the lock of control calls.
unsafe impl Send for Flow {}

impl Device {
    /// Asks whether the port takes a rule.
    ///
    /// # Errors
    /// It does not; the driver's words.
    pub fn check_flow(&self, rule: &FlowRule) -> Result<(), String> {
        let form = form(rule)?;
        let _control = control();
        let mut room = TextBuffer::new();
        // JUSTIFICATION: a function of the shim.
        // SAFETY: the port is open; the rule and the text are ours.
        match unsafe { sys::tw_flow_check(self.port(), &form, room.text()) } {
            0 => Ok(()),
            _ => Err(words(room)),
        }
    }

    /// Makes a rule.
    ///
    /// # Errors
    /// The port does not take it; the driver's words.
    pub fn make_flow(self: &Arc<Device>, rule: &FlowRule) -> Result<Flow, String> {
        let form = form(rule)?;
        let _control = control();
        let mut room = TextBuffer::new();
        // JUSTIFICATION: a function of the shim.
        // SAFETY: the port is open; the rule and the text are ours.
        let flow = unsafe { sys::tw_flow_make(self.port(), &form, room.text()) };
        match NonNull::new(flow) {
            Some(flow) => Ok(Flow { device: Arc::clone(self), flow }),
            None => Err(words(room)),
        }
    }
}

impl Flow {
    /// Packets that it took, if it counts and the driver says so.
    pub fn packets(&self) -> Option<u64> {
        let _control = control();
        let mut packets = 0;
        let (port, flow) = (self.device.port(), self.flow.as_ptr());
        // JUSTIFICATION: a function of the shim.
        // SAFETY: the port is open and has the rule; the number is ours.
        let result = unsafe { sys::tw_flow_count(port, flow, &mut packets) };
        (result == 0).then_some(packets)
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        let _control = control();
        // JUSTIFICATION: a function of the shim.
        // SAFETY: the port is open and has the rule, which nobody names any more. What fails is
        // gone with the device.
        let _ = unsafe { sys::tw_flow_end(self.device.port(), self.flow.as_ptr()) };
    }
}

/// The driver's words. What it logged is about the same.
fn words(room: TextBuffer) -> String {
    messages::log();
    room.into_string()
}

/// A rule as the shim takes it.
fn form(rule: &FlowRule) -> Result<sys::FlowRule, String> {
    let count = rule.items.len();
    if count == 0 || count > ITEMS_MAX {
        return Err(format!("a rule has 1 to {ITEMS_MAX} headers, not {count}"));
    }
    let none = sys::FlowItem {
        header: 0,
        is_alone: 0,
        spec: [0; HEADER_LEN_MAX],
        mask: [0; HEADER_LEN_MAX],
    };
    let mut items = [none; ITEMS_MAX];
    for (to, from) in items.iter_mut().zip(&rule.items) {
        let FlowItem { header, alone, spec, mask } = *from;
        *to = sys::FlowItem { header, is_alone: alone.into(), spec, mask };
    }
    let (drops, counts, queues, mark) = match rule.action {
        FlowAction::Drop { counts } => (1, counts.into(), 0, None),
        FlowAction::Pass { queues, mark } => (0, 0, queues, mark),
    };
    Ok(sys::FlowRule {
        priority: rule.priority,
        mark: mark.unwrap_or(0),
        queues,
        drops,
        counts,
        marks: mark.is_some().into(),
        count: count as u8,
        items,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_one_to_three_headers() {
        let item = FlowItem {
            header: 4,
            alone: true,
            spec: [7; HEADER_LEN_MAX],
            mask: [9; HEADER_LEN_MAX],
        };
        let of = |count: usize, action| {
            form(&FlowRule { items: vec![item; count], priority: 5, action })
        };
        let pass = FlowAction::Pass { queues: 2, mark: Some(3) };
        for count in [0, 4, 300] {
            assert!(of(count, pass).is_err(), "{count}");
        }
        let rule = of(2, pass).expect("it fits");
        assert_eq!((rule.count, rule.priority, rule.queues), (2, 5, 2));
        assert_eq!((rule.marks, rule.mark, rule.drops, rule.counts), (1, 3, 0, 0));
        assert_eq!((rule.items[1].header, rule.items[1].is_alone), (4, 1));
        assert_eq!((rule.items[1].spec[39], rule.items[2].mask[0]), (7, 0));
        let rule = of(1, FlowAction::Drop { counts: true }).expect("it fits");
        assert_eq!((rule.marks, rule.drops, rule.counts), (0, 1, 1));
    }
}
