//! The operator and its agents against a real kube-apiserver and etcd, with real managers and data
//! planes: `./check cluster`.

#[path = "../../../../bench/src/namespace.rs"]
#[allow(dead_code)]
mod namespace;

mod chart;
mod cluster;
mod faults;
mod functions;
mod life;
mod page;
mod process;
mod refusals;
mod rights;
mod scale;
mod server;
mod storm;
mod traffic;
