//! The devices by which a configuration meets the host, and the users of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use thruway_element::Args;
use thruway_port::tap::Tap;

/// What FromHost, ToHost and ToHostSniffers of a configuration know of each other.
#[derive(Default)]
pub(super) struct Hosts(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Devices that a FromHost makes.
    declared: BTreeSet<String>,
    /// Device as written, if one is, and whether only sniffers are to see what goes there.
    uses: Vec<(Option<String>, bool)>,
    open: BTreeMap<String, Arc<Tap>>,
}

impl Known {
    /// The device that an element without a name of one means: the only one there is.
    fn only(&self) -> Option<&String> {
        self.declared.first().filter(|_| self.declared.len() == 1)
    }
}

impl Hosts {
    /// Those of the configuration that is being built.
    pub(super) fn of(args: &Args<'_>) -> Arc<Hosts> {
        // Elements have names; the empty one is free for what belongs to none.
        args.env().shared.get("", "hosts", Hosts::default).expect("one type per key")
    }

    /// A FromHost makes this device.
    pub(super) fn declare(&self, device: &str) {
        self.0.lock().declared.insert(device.to_owned());
    }

    /// A ToHost writes to this device, or to the only one.
    pub(super) fn uses(&self, device: Option<&str>, for_sniffers: bool) {
        self.0.lock().uses.push((device.map(str::to_owned), for_sniffers));
    }

    /// Whether only sniffers are to see what is written to a device. To be asked once all elements
    /// are built.
    ///
    /// # Errors
    /// Both they and the stack are to.
    pub(super) fn is_hidden(&self, device: &str) -> Result<bool, String> {
        let known = self.0.lock();
        let there = |for_sniffers: bool| {
            known.uses.iter().any(|(name, sniffers)| {
                let name = name.as_ref().or_else(|| known.only());
                name.is_some_and(|name| name == device) && *sniffers == for_sniffers
            })
        };
        match (there(true), there(false)) {
            (true, true) => Err(format!(
                "'{device}': a ToHost gives packets to the host's stack there, and a \
                 ToHostSniffers must not; give ToHostSniffers a device of its own"
            )),
            (for_sniffers, _) => Ok(for_sniffers),
        }
    }

    /// The device that an element means, and whether a FromHost makes it. To be asked once all
    /// elements are built.
    ///
    /// # Errors
    /// It names none, and there is none or more than one.
    pub(super) fn meant(&self, device: Option<&str>) -> Result<(String, bool), String> {
        let known = self.0.lock();
        match device.or_else(|| known.only().map(String::as_str)) {
            Some(device) => Ok((device.to_owned(), known.declared.contains(device))),
            None => Err(format!("DEVNAME is missing, and {}", self.list(&known))),
        }
    }

    /// What FromHosts there are, for messages.
    pub(super) fn there_are(&self) -> String {
        self.list(&self.0.lock())
    }

    fn list(&self, known: &Known) -> String {
        let names: Vec<&str> = known.declared.iter().map(String::as_str).collect();
        match names.as_slice() {
            [] => "there is no FromHost".to_owned(),
            names => format!("there are FromHosts of {}", names.join(", ")),
        }
    }

    /// A FromHost has opened its device.
    pub(super) fn opened(&self, device: &str, tap: &Arc<Tap>) {
        self.0.lock().open.insert(device.to_owned(), Arc::clone(tap));
    }

    /// An open device; `open` is called if there is none yet.
    ///
    /// # Errors
    /// Those of `open`.
    pub(super) fn get_or_open(
        &self,
        device: &str,
        open: impl FnOnce() -> Result<Tap, String>,
    ) -> Result<Arc<Tap>, String> {
        let mut known = self.0.lock();
        if let Some(tap) = known.open.get(device) {
            return Ok(Arc::clone(tap));
        }
        let tap = Arc::new(open()?);
        known.open.insert(device.to_owned(), Arc::clone(&tap));
        Ok(tap)
    }

    /// An open device.
    pub(super) fn get(&self, device: &str) -> Option<Arc<Tap>> {
        self.0.lock().open.get(device).map(Arc::clone)
    }
}
