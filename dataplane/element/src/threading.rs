//! Requirements of an element on the threads of a run.

/// Requirements of an element on the threads of a run. The engine assigns threads, tasks and rings
/// by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threading {
    /// Nothing: it runs to completion in every thread that brings it packets or pulls them.
    RunToCompletion,
    /// One thread calls its task ([`crate::Element::run`]): where the user or the engine places it.
    Task,
    /// One thread calls its task, which only pulls at the inputs: where packets are pushed, no
    /// thread does.
    PullTask,
    /// As [`Threading::PullTask`]; and if several threads push packets, each of them calls the task
    /// of its replica, to send the packets that other replicas passed to it.
    SharedPullTask,
    /// Every thread that reaches it calls the task of its replica.
    TaskPerThread,
    /// A stage of a pipeline begins: hands all packets off to the thread that the user or the
    /// engine assigns ([`crate::Cx::handoff`]), which processes them from there on.
    Pipeline,
    /// It hands packets to its replicas in other threads ([`crate::Cx::handoff`]).
    Handoff,
    /// It hands packets to the threads that have their sessions. Its handlers answer for the table
    /// of a thread: it has a replica in each thread where another element of this sort has one.
    SessionHandoff,
}

impl Threading {
    /// Whether it has a task, even if only where packets are pulled.
    pub const fn has_task(self) -> bool {
        use Threading::{Pipeline, PullTask, SharedPullTask, Task, TaskPerThread};
        matches!(self, Task | PullTask | SharedPullTask | TaskPerThread | Pipeline)
    }

    /// Whether the task has nothing to do where packets are pushed.
    pub const fn task_only_pulls(self) -> bool {
        matches!(self, Threading::PullTask | Threading::SharedPullTask)
    }

    /// Whether it hands packets to replicas in other threads.
    pub const fn hands_off(self) -> bool {
        matches!(self, Threading::Pipeline | Threading::Handoff | Threading::SessionHandoff)
    }
}
