//! System tests: real interfaces in network namespaces, and a real full disk. As root; skipped, and
//! said so, for others, unless THRUWAY_REQUIRE_PRIVILEGES=1.

mod bridge;
mod disk;
mod floods;
mod generator;
mod hosts;
mod notes;
mod sending;
mod sockets;
mod xdp;
