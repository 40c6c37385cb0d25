//! The control socket that every `thruway run` has, by which its user's tools find it.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use thruway_element::Outside;
use thruway_elements::Instance;
use thruway_engine::Router;
use thruway_port::run_directory;

/// What the command line says of the socket.
#[derive(Debug, Clone, Copy)]
pub struct ControlOptions<'a> {
    /// A file name, `none`, or the run directory.
    pub control: Option<&'a str>,
    /// Directory of the files that handlers' values may name.
    pub files: Option<&'a Path>,
}

/// The socket, if there is to be one. Without a run directory there is none, and the run goes on; a
/// socket that the user named must be there.
pub fn open(router: &Router, wish: ControlOptions<'_>) -> anyhow::Result<Option<Instance>> {
    let files = wish.files.map(|dir| {
        let whole = std::fs::canonicalize(dir).ok().filter(|dir| dir.is_dir());
        whole.ok_or_else(|| anyhow!("--files {}: there is no such directory", dir.display()))
    });
    let outside = Outside { read_only: false, files: files.transpose()? };
    match wish.control {
        Some("none") => Ok(None),
        Some(path) => Instance::open(Path::new(path), router.remote(), outside)
            .map(Some)
            .map_err(|why| anyhow!("--control {why}")),
        None => Ok(open_default(router, outside)
            .map_err(|why| errln!("warning: no control socket: {why}; --control none does without"))
            .ok()),
    }
}

fn open_default(router: &Router, outside: Outside) -> Result<Instance, String> {
    let dir = run_directory::open()
        .map_err(|error| format!("{}: {error}", run_directory::path().display()))?;
    run_directory::sweep();
    let path: PathBuf = dir.join(format!("{}.sock", std::process::id()));
    Instance::open(&path, router.remote(), outside)
}

/// Has the socket serve the configuration that took over.
pub fn follow(instance: &mut Option<Instance>, router: &Router) {
    if let Some(Err(why)) = instance.as_mut().map(|instance| instance.follow(router.remote())) {
        errln!("warning: the control socket ends: {why}");
        *instance = None;
    }
}

/// Removes it.
pub fn close(instance: Option<Instance>) {
    if let Some(Err(why)) = instance.map(Instance::close) {
        errln!("warning: {why}");
    }
}
