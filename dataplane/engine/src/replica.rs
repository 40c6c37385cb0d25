//! Elements as the entries of their classes know them.

use thruway_element::{Element, Entry, FlowEntry, Settings, StreamMember};

use crate::build::Elements;
use crate::layout::Layout;

/// An element as its class's entry knows it.
#[derive(Clone, Copy)]
pub(crate) struct Replica<'a> {
    pub entry: &'static Entry,
    pub element: &'a dyn Element,
}

impl<'a> Replica<'a> {
    /// The user's settings of the flow manager, at an element where classification begins.
    pub fn settings(self) -> Option<Settings> {
        self.entry.flow_entry(self.element).map(FlowEntry::settings)
    }

    /// Its role in streams.
    pub fn stream_member(self) -> Option<&'a dyn StreamMember> {
        self.entry.stream_member(self.element)
    }
}

impl Layout {
    /// One of an element's replicas, if there is any.
    pub(crate) fn replica<'a>(&self, all: &'a [Elements], node: usize) -> Option<Replica<'a>> {
        let element = all.iter().find_map(|elements| elements[node].as_deref())?;
        Some(Replica { entry: self.entries[node]?, element })
    }

    /// Does something with all replicas of an element.
    pub(crate) fn for_each_member(
        &self,
        replicas: &mut [Elements],
        node: u32,
        what: impl Fn(&mut dyn StreamMember),
    ) {
        let node = node as usize;
        let Some(entry) = self.entries[node] else { return };
        for element in replicas.iter_mut().filter_map(|all| all[node].as_deref_mut()) {
            entry.stream_member_mut(element).into_iter().for_each(&what);
        }
    }
}
