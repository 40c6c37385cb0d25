//! Uses of a class by the language, the engine and the commands.

use thruway_payload::Layer;

/// The use of a class by the language, the engine or a command, besides packets and handlers. They
/// find the class by this, and know no class by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Nothing: it is an element as others are.
    Ordinary,
    /// It sorts packets between context links (`~>`): the language puts one behind each output that
    /// has such links.
    DispatchLinks,
    /// Its arguments, pairs `ELEMENT THREAD`, place tasks in threads.
    AssignTasks,
    /// Packets leave by the output that has the number of their thread, modulo the number of
    /// outputs.
    SwitchThreads(ThreadNumber),
    /// It begins contexts of this layer: behind it packets have content of the layer.
    BeginContext(Layer),
    /// It ends contexts of this layer.
    EndContext(Layer),
    /// It makes no packets and takes none: commands connect ports to it that must not be left.
    FillPorts,
    /// It passes all packets on as they are.
    PassOn,
    /// All packets go through the output (or where it pulls, the input) of its argument's number.
    FixedSwitch,
    /// It pulls from its inputs in an order of its own.
    Schedule,
    /// The same, with an argument for each input.
    ScheduleByArguments,
    /// It copies packets to all of its outputs.
    CopyToAll,
    /// The configuration sends packets here that it has no use for.
    Discard,
    /// The element has inputs, and also sends packets that it did not receive: answers, renewals.
    SendUnasked,
    /// It receives packets from the device that its first argument names.
    ReceiveFromDevice,
    /// It sends packets to the device that its first argument names.
    SendToDevice,
    /// It connects configurations that one command joined and another takes apart.
    LinkConfigurations,
    /// Its arguments name the elements that run in processes of their own.
    IsolateNamed,
    /// It runs a function in a process of its own, and exchanges packets with it.
    RunProcess,
    /// By it packets enter and leave in such a process.
    EnterProcess,
    /// It represents an element that runs in such a process, and answers its handlers.
    StandForIsolated,
    /// It declares functions that trust one another.
    GroupTrust,
}

/// How an element that has an output for each thread numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadNumber {
    /// As the run does.
    OfAll,
    /// Among the threads that reach the element.
    OfReaching,
}
