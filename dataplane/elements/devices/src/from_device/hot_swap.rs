//! A FromDevice of a new configuration takes over the port of the old one, with the packets that it
//! has received.

use std::any::Any;

use thruway_element::{HotSwap, Resize};

use super::super::device_in::DeviceIn;
use super::super::short_cuts::PortShortCuts;
use super::{FromDevice, Source};

impl HotSwap for FromDevice {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        self.short_cuts = None;
        if let Some(inherited) = self.shared_port.give_back(self.rank) {
            return Some(inherited);
        }
        if let Some(first) = self.first_former.take() {
            return Some(first);
        }
        match std::mem::replace(&mut self.source, Source::Nothing) {
            // With what it has received meanwhile.
            Source::Live(live) => Some(live),
            other => {
                self.source = other;
                None
            }
        }
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(live) = state.downcast::<DeviceIn>() else { return };
        match self.source {
            Source::Closed(_) => self.shared_port.inherit(self.rank, live),
            // The configuration that was to replace this one could not be initialised.
            _ => {
                self.short_cuts =
                    self.options.short_cut.then(|| PortShortCuts::of_device(&live)).flatten();
                self.source = Source::Live(live);
            }
        }
    }
}

impl Resize for FromDevice {
    fn join(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(live) = state.downcast::<DeviceIn>() {
            self.shared_port.inherit(self.rank, live);
        }
    }

    fn separate(&mut self) -> Vec<Box<dyn Any + Send>> {
        let mut rest = self.shared_port.give_rest_back(self.rank);
        if let Source::Live(live) = &mut self.source
            && live.is_changing()
        {
            rest = live.former();
            self.first_former = (!rest.is_empty()).then(|| Box::new(rest.remove(0)));
        }
        rest.into_iter().map(|live| Box::new(live) as Box<dyn Any + Send>).collect()
    }
}
