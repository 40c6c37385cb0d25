//! The program `thruway-manager`; see the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// Out of memory, the process says so and ends; see its text.
#[global_allocator]
static HEAP: thruway_region::Heap = thruway_region::Heap;

fn main() -> ExitCode {
    thruway_manager_program::program()
}
