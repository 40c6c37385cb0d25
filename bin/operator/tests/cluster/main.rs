//! The operator and its agents against a real kube-apiserver and etcd, with real managers and data
//! planes: `./check cluster`.

#[path = "../../../../bench/src/namespace.rs"]
#[allow(dead_code)]
mod namespace;

mod chart;
mod cluster;
mod drain;
mod faults;
mod functions;
mod life;
#[path = "../../../../bench/src/takeover/networks.rs"]
mod networks;
mod page;
mod process;
mod refusals;
mod rights;
mod scale;
mod server;
mod storm;
mod traffic;
