//! The environment of an element while it is built.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::addresses::Addresses;
use crate::paths::Paths;

/// State that the replicas of one element share, made by the first that asks.
#[derive(Default)]
pub struct Shared(Mutex<HashMap<(String, &'static str), SharedValue>>);

type SharedValue = Arc<dyn Any + Send + Sync>;

impl Shared {
    /// The value under (`element`, `key`), made by `make` if there is none. `None` if it is there
    /// with another type.
    pub fn get<T: Send + Sync + 'static>(
        &self,
        element: &str,
        key: &'static str,
        make: impl FnOnce() -> T,
    ) -> Option<Arc<T>> {
        let mut map = self.0.lock();
        let entry =
            map.entry((element.to_owned(), key)).or_insert_with(|| Arc::new(make()) as SharedValue);
        Arc::clone(entry).downcast().ok()
    }
}

/// What surrounds an element while it is built.
pub struct Env<'a> {
    /// The element's name.
    pub name: &'a str,
    /// The class as written, which may be an alias.
    pub class: &'a str,
    /// Names for addresses, from AddressInfo and the interfaces of this host.
    pub addresses: &'a Addresses,
    /// Shared state of replicas.
    pub shared: &'a Shared,
    /// Index of the thread this replica is for.
    pub thread: usize,
    /// Number of threads that reach the element: each has a replica.
    pub threads: usize,
    /// How many of them come before this replica's.
    pub rank: usize,
    /// Describes the paths by which threads reach the element, for error messages.
    pub paths: &'a dyn Paths,
    /// Input ports in use.
    pub inputs: usize,
    /// Output ports in use.
    pub outputs: usize,
}

impl<'a> Env<'a> {
    /// That of an element which one thread reaches, without ports in use.
    pub fn alone(
        name: &'a str,
        class: &'a str,
        addresses: &'a Addresses,
        shared: &'a Shared,
    ) -> Env<'a> {
        Env {
            name,
            class,
            addresses,
            shared,
            thread: 0,
            threads: 1,
            rank: 0,
            paths: &String::new,
            inputs: 0,
            outputs: 0,
        }
    }
}
