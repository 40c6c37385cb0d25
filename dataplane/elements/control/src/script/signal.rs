//! Signals: names, waiting for them, sending them.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use thruway_element::{Cx, handler_value, text};

/// Signals by the names that a script may use.
const NAMES: [(&str, Signal); 11] = [
    ("ABRT", Signal::ABORT),
    ("ALRM", Signal::ALARM),
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("IO", Signal::IO),
    ("PIPE", Signal::PIPE),
    ("QUIT", Signal::QUIT),
    ("TERM", Signal::TERM),
    ("TSTP", Signal::TSTP),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
];

/// How long a signal to this process may take to end it.
const END: Duration = Duration::from_millis(20);

/// The signal of this name or number.
pub(super) fn parse(text: &str) -> Result<Signal, String> {
    let named = NAMES.iter().find(|(name, _)| *name == text).map(|(_, signal)| *signal);
    let numbered = || Signal::from_named_raw(handler_value("", text).ok()?);
    named.or_else(numbered).ok_or_else(|| format!("'{text}' is not a signal"))
}

/// Has the driver call this element's `run` when one of the signals comes.
pub(super) fn install(cx: &mut Cx<'_>, signals: &[Signal]) -> Result<(), String> {
    let node = cx.node();
    signals.iter().try_for_each(|signal| cx.driver().take_signal(node, signal.as_raw()))
}

/// `kill SIGNAL PID...`. Delivers a signal to this very process that an element waits for directly,
/// without the kernel: so it has arrived before anything else happens.
pub(super) fn kill(cx: &mut Cx<'_>, param: &str) -> Result<String, String> {
    for (process, signal) in targets(param)? {
        let own = process == rustix::process::getpid();
        if own && cx.driver().raise(signal.as_raw()) {
            continue;
        }
        let id = process.as_raw_nonzero();
        kill_process(process, signal).map_err(|error| format!("kill {id}: {error}"))?;
        if own {
            // No element waits for it, so it most likely ends the process: immediately.
            std::thread::sleep(END);
        }
    }
    Ok(String::new())
}

/// Processes and what they are to get.
fn targets(param: &str) -> Result<Vec<(Pid, Signal)>, String> {
    let words = text::split_words(param);
    let (signal, processes) = words.split_first().ok_or("kill: expected SIGNAL PID...")?;
    let signal = parse(signal)?;
    let target = |word: &&str| {
        let process = handler_value::<i32>("kill", word).ok().filter(|process| *process > 0);
        let process = process.and_then(Pid::from_raw);
        process.map(|process| (process, signal)).ok_or(format!("'{word}' is not a process"))
    };
    processes.iter().map(target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!(parse("HUP"), Ok(Signal::HUP));
        assert_eq!(parse("2"), Ok(Signal::INT));
        assert!(parse("FROB").is_err() && parse("999").is_err());
        assert!(targets("").is_err() && targets("HUP x").is_err() && targets("HUP -1").is_err());
        assert_eq!(targets("HUP"), Ok(vec![]));
        let pid = Pid::from_raw(5).unwrap();
        assert_eq!(targets("1 5"), Ok(vec![(pid, Signal::HUP)]));
    }
}
