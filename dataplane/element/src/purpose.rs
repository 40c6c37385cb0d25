//! What the language and the engine use a class for.

use thruway_payload::Layer;

/// What the language or the engine uses elements of a class for, besides packets and handlers. They
/// find the class by this, and know no class by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Nothing: it is an element as others are.
    Ordinary,
    /// It sorts packets between context links (`~>`): the language puts one behind each output that
    /// has such links.
    DispatchLinks,
    /// Its arguments, pairs `ELEMENT THREAD`, place tasks in threads.
    PlaceTasks,
    /// Packets leave by the output that has the number of their thread, modulo the number of
    /// outputs.
    SwitchThreads(ThreadNumber),
    /// It begins contexts of this layer: behind it packets have content of the layer.
    BeginContext(Layer),
    /// It ends contexts of this layer.
    EndContext(Layer),
}

/// How an element that has an output for each thread numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadNumber {
    /// As the run does.
    OfAll,
    /// Among the threads that reach the element.
    OfReaching,
}
