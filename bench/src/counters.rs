//! The processor's event counters, where the machine gives them.

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

/// Instructions and cache misses of this thread in user space; or why not.
pub struct Counters {
    open: Result<Pair, String>,
}

struct Pair {
    instructions: Counter,
    cache_misses: Counter,
}

impl Counters {
    /// Asks the system for them.
    pub fn open() -> Counters {
        let open = |kind: Hardware| Builder::new().kind(kind).build();
        let pair = open(Hardware::INSTRUCTIONS).and_then(|instructions| {
            Ok(Pair { instructions, cache_misses: open(Hardware::CACHE_MISSES)? })
        });
        Counters { open: pair.map_err(|error| explain(&error)) }
    }

    /// Why there are none, if so.
    pub fn missing(&self) -> Option<&str> {
        self.open.as_ref().err().map(String::as_str)
    }

    /// Begins to count from zero.
    pub fn start(&mut self) {
        let Ok(pair) = &mut self.open else { return };
        let started = [&mut pair.instructions, &mut pair.cache_misses]
            .into_iter()
            .try_for_each(|counter| counter.reset().and_then(|()| counter.enable()));
        if let Err(error) = started {
            self.open = Err(explain(&error));
        }
    }

    /// Instructions and cache misses since the start.
    pub fn stop(&mut self) -> (Option<u64>, Option<u64>) {
        let Ok(pair) = &mut self.open else { return (None, None) };
        let read = |counter: &mut Counter| {
            counter.disable().and_then(|()| counter.read()).map_err(|error| explain(&error))
        };
        match (read(&mut pair.instructions), read(&mut pair.cache_misses)) {
            (Ok(instructions), Ok(misses)) => (Some(instructions), Some(misses)),
            (Err(error), _) | (_, Err(error)) => {
                self.open = Err(error);
                (None, None)
            }
        }
    }
}

fn explain(error: &std::io::Error) -> String {
    let remedy = match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "lower /proc/sys/kernel/perf_event_paranoid to 2 or run as root"
        }
        _ => "this machine gives none (virtual machines often do not)",
    };
    format!("no hardware counters: {}; {remedy}", thruway::load::plain(error))
}
