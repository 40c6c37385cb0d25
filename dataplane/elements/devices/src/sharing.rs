//! Which threads read an interface.

use thruway_element::{Arg, ArgErrors, Args, Share, Ty, text};
use thruway_port::interface;

use super::mode::PortRequest;
use super::port_spec::{Direction, PortSpec};

/// Highest number of a thread that can be named, and of threads.
const THREADS_MAX: usize = 256;

pub(super) const THREADS: Arg =
    Arg::keyword("THREADS", Ty::Rule("threads: 0-1,3"), "the threads that read it, and no others");
pub(super) const MAXTHREADS: Arg =
    Arg::keyword("MAXTHREADS", Ty::UInt, "threads that read it at most; as many as there are");
pub(super) const THREADOFFSET: Arg =
    Arg::keyword("THREADOFFSET", Ty::UInt, "threads before this one do not read it").or("0");
pub(super) const NUMA: Arg =
    Arg::keyword("NUMA", Ty::Bool, "whether only threads of its NUMA node read it, if any are")
        .or("true");

/// The threads that the user allows; of the device nothing is said.
pub(super) fn allowed(args: &Args<'_>) -> Result<Share, ArgErrors> {
    let threads = args.text("THREADS").map_or(Ok(Vec::new()), numbers);
    let threads = threads.map_err(|message| args.error("THREADS", message))?;
    let most: Option<usize> = args.opt("MAXTHREADS")?;
    if most == Some(0) {
        return Err(args.error("MAXTHREADS", "must be at least 1").into());
    }
    if !threads.is_empty() && (most.is_some() || args.given("THREADOFFSET")) {
        let why = "says which threads; leave MAXTHREADS and THREADOFFSET out";
        return Err(args.error("THREADS", why).into());
    }
    Ok(Share { threads, most, first: args.get("THREADOFFSET")?, node: None })
}

/// The threads that may read the port: those that the user allows, one for each of its queues at
/// most.
pub(super) fn shares(args: &Args<'_>) -> Result<Share, ArgErrors> {
    let share = allowed(args)?;
    let name = match PortSpec::of(args, Direction::In)? {
        PortSpec::Interface(name) => name,
        PortSpec::Capture(_) | PortSpec::Nothing => {
            return Ok(Share { most: Some(1), ..share });
        }
    };
    let queues = PortRequest::of_input(args)?.readers_max(&name);
    let most = [share.most, queues].into_iter().flatten().min();
    let node = if args.get("NUMA")? { interface::node(&name) } else { None };
    Ok(Share { most, node, ..share })
}

/// The threads of a list: `0-2,5`.
fn numbers(list: &str) -> Result<Vec<usize>, String> {
    let wrong = || {
        format!(
            "'{list}' is no list of threads; write 0, 0-2 or 0,2-3: there are {THREADS_MAX} at \
             most, counted from 0"
        )
    };
    text::numbers(list, THREADS_MAX - 1).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_threads() {
        assert_eq!(numbers("0").unwrap(), [0]);
        assert_eq!(numbers("0-2, 5").unwrap(), [0, 1, 2, 5]);
        for wrong in ["", "a", "3-1", "1-", "-1", "0,,1", "256", "0-99999999999", "1 2"] {
            assert!(numbers(wrong).is_err(), "{wrong}");
        }
    }
}
