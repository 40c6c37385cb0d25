//! A ToDevice of a new configuration goes on with the interface of the old one.

use std::any::Any;

use thruway_element::{HotSwap, Resize};

use super::{DeviceOut, Sink, ToDevice};

impl HotSwap for ToDevice {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        if let Some(inherited) = self.inherited.take() {
            return Some(inherited);
        }
        match std::mem::replace(&mut self.sink, Sink::Nothing) {
            Sink::Live(mut live) if live.goes_on() => {
                self.flush(&mut live);
                self.sink = Sink::HandedOver(live.name().to_owned());
                Some(live)
            }
            other => {
                self.sink = other;
                None
            }
        }
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(live) = state.downcast::<DeviceOut>() else { return };
        match self.sink {
            Sink::Interface(_) => self.inherited = Some(live),
            // The configuration that was to replace this one could not be initialised.
            _ => self.sink = Sink::Live(live),
        }
    }
}

impl Resize for ToDevice {
    /// One socket is enough for a replica: what the other one had was sent, or waits there to be.
    fn join(&mut self, state: Box<dyn Any + Send>) {
        self.others.push(state);
    }

    fn separate(&mut self) -> Vec<Box<dyn Any + Send>> {
        std::mem::take(&mut self.others)
    }
}
