//! TSCClock: what the clocks of the threads are at.

use thruway_element::{
    Alias, ArgErrors, Args, Cx, Element, Entry, Handler, HandlerError, Handlers, NOTHING_MORE,
    Replicas, Spec, Topic,
};
use thruway_elements_support::dialect::ignored;
use thruway_packet::cycles;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "TSCClock",
        aliases: &[Alias { name: "JiffieClock", summary: "the same; time is never coarser here" }],
        topic: Topic::Control,
        summary: "reports the state of the cycle counter clocks",
        docs: "Every thread has a clock by the processor's cycle counter, which finds its rate, is \
               tried, runs, and is corrected once a second by the system's clock; where the \
               counter is not to be relied upon, the system's clock takes its place. `thruway run` \
               takes it by itself, with this element or without; with --clock system, and with \
               `thruway click`, time is the system's. So the element installs nothing, and \
               FastClick's arguments have no effect. Its handlers show what a thread's clock is \
               at; those that are of a thread take its number, 0 if there is none.",
        example: "TSCClock; InfiniteSource(LIMIT 1, STOP true) -> Discard",
        ports: "0/0",
        processing: "/",
        args: &[
            ignored("BASE"),
            ignored("INSTALL"),
            ignored("MINPRECISION"),
            ignored("NOWAIT"),
            ignored("READ"),
            ignored("VERBOSE"),
        ],
        handlers: &[
            Handler::read("now", "the time of this round, nanoseconds since the epoch"),
            Handler::read("cycles", "the cycle counter"),
            Handler::read(
                "phase",
                "`stabilising`, `synchronising`, `running`, or `system` and why",
            ),
            Handler::read("cycles_hz", "cycles per second that the clock goes by; 0 before it ran"),
            Handler::read(
                "error",
                "nanoseconds that the system's clock was ahead at the last look",
            ),
            Handler::read("looks", "corrections by the system's clock"),
            Handler::read("jumps", "times that it jumped to the system's time"),
            Handler::read("late", "times that no thread read the clock for too long"),
            Handler::read("failures", "times that a phase failed, or the counter"),
        ],
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<TscClock>();

/// What the router's handler `statistics` reports on a clock, behind its thread's number.
const FIELDS: [&str; 7] = ["phase", "cycles_hz", "error", "looks", "jumps", "late", "failures"];

struct TscClock;

fn build(_args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(TscClock))
}

impl Element for TscClock {}

impl Handlers for TscClock {
    fn read_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "now" => Ok(cx.now().to_string()),
            "cycles" => Ok(cycles().to_string()),
            _ => {
                let field = FIELDS.iter().position(|field| *field == name);
                let field = field.ok_or_else(|| HandlerError::no_read(name))?;
                let thread = match param.trim() {
                    "" => "0",
                    thread => thread,
                };
                let statistics = cx.read_handler("statistics")?;
                let value = of_thread(&statistics, thread, field);
                value.ok_or_else(|| HandlerError::refused(format!("there is no thread '{thread}'")))
            }
        }
    }
}

/// A field of what is reported on a thread's clock.
fn of_thread(statistics: &str, thread: &str, field: usize) -> Option<String> {
    let clock = |line: &str| -> Option<String> {
        let mut words = line.strip_prefix("clock\t")?.split('\t');
        (words.next()? == thread).then_some(())?;
        words.nth(field).map(str::to_owned)
    };
    statistics.lines().find_map(clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_thread() {
        let statistics = "time\t1\t2\nclock\t0\trunning\t2400000000\t-7\t3\t4\t5\t6\n\
                    clock\t10\tsystem\t0\t0\t0\t0\t0\t0\nelement\tclock\tTSCClock\t0\t0\t0\n";
        let of = |thread| {
            (0..FIELDS.len())
                .map(|at| of_thread(statistics, thread, at).unwrap_or("-".into()))
                .collect()
        };
        let zero: Vec<String> = of("0");
        assert_eq!(zero, ["running", "2400000000", "-7", "3", "4", "5", "6"]);
        let ten: Vec<String> = of("10");
        assert_eq!(ten[..2], ["system", "0"]);
        assert_eq!((of_thread(statistics, "1", 0), of_thread(statistics, "x", 0)), (None, None));
        assert_eq!(of_thread(statistics, "0", 7), None);
    }
}
