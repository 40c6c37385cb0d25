//! Starts isolated network functions, hands them their regions, and supervises them.
//!
//! A function is a stranger's program. It runs as an unprivileged process that has a control socket
//! ([`CONTROL_FD`]) and nothing else of the machine: no files but its own program and libraries, no
//! network, no other processes, no rights, few system calls. Over the socket it says hello and
//! gets its regions (`nf/abi`, messages); a thread watches over it from then on.
//!
//! ```no_run
//! use thruway_nf_host::{Function, FunctionSpec, Program};
//!
//! let mut spec = FunctionSpec::new(Program::new("/opt/functions/firewall"));
//! spec.order.limits.memory_bytes = 64 << 20;
//! spec.order.limits.cpus = vec![1];
//! let function = Function::start(spec)?;
//! let mut seen = 0;
//! // A Master thread, in every round:
//! if function.generation() != seen {
//!     // Reclaim the old link's slots, if there was one; then:
//!     if let Some(host) = function.take_link(0) {
//!         seen = host.generation;
//!         // host.link, host.doorbell: for thruway_exchange::Master
//!     }
//! }
//! println!("{}", function.status().sandbox.expect("it runs"));
//! # Ok::<(), thruway_nf_host::HostError>(())
//! ```
//!
//! | part | what it is |
//! |---|---|
//! | `sandbox` | what keeps a process apart, and the [`SandboxReport`] that says which of it is in force |
//! | `machine` | the same as a virtual machine: QEMU, and an agent in it ([`Machine`]) |
//! | `process` | [`Process`]: a process in its sandbox: its output, CPU time, end |
//! | `line` | what messages mean, and the order in which they may come |
//! | `life` | the states of a function, as a pure machine: [`State`], [`Patience`], [`Backoff`] |
//! | `pin` | Workers of one function on CPUs of their own |
//! | `wiring` | the regions of one generation: [`HostLink`] |
//! | `keeper` | the supervisor thread: does what `life` says; a second thread starts processes |
//! | `starvation` | whether a function that gives nothing back had a processor to work with |
//! | `spec`, `status`, `call` | what a function is to be, what is known of it, calls of its handlers |
//! | `shared` | what the supervisor and an element share: the present generation, commands |
//! | `function` | [`Function`]: what an element holds |
//! | `vm` | [`VmPool`]: machines with standard drivers, supervised as functions are: one serves, one may wait |
//!
//! What must stay true:
//!
//! - **Nothing is skipped silently.** Each [`Measure`] is applied, or missing with a reason;
//!   [`Isolation::Strict`] makes a missing one an error that names the remedy.
//! - **Between clone and execve nothing allocates, locks or panics**: the new process is a copy of
//!   a host with many threads (`sandbox/child.rs`).
//! - **What a function may see is decided here**: its program's headers name a loader and libraries
//!   but no places outside the directories of libraries.
//! - **A process dies with the thread that started it**: one that starts all processes of its
//!   [`Function`], and lives longer than they do.
//! - **A function cannot keep its supervisor busy**: messages, output and answers are bounded.
//! - **Nothing here is on the packet path** but [`Function::generation`], an atomic load.

mod call;
mod error;
mod exit;
mod function;
mod keeper;
mod life;
mod line;
mod machine;
mod pin;
mod process;
mod sandbox;
mod shared;
mod spec;
mod starvation;
mod status;
mod vm;
mod wiring;

pub use call::CallError;
pub use error::HostError;
pub use exit::Exit;
pub use function::{Begun, Function};
pub use life::{Backoff, Patience, State};
pub use machine::{Acceleration, Machine, StandardOrder};
pub use process::Process;
pub use sandbox::{
    CONTROL_FD, Isolation, Limits, Measure, NOBODY, Order, Outcome, Program, SandboxReport, USERS,
    USERS_FIRST, allowed_calls, own_user,
};
pub use spec::FunctionSpec;
pub use status::Status;
pub use vm::{VmPool, VmReporter, VmSpec, Wire};
pub use wiring::HostLink;
