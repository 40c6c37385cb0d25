//! Script and DriverManager: a small language that controls a configuration.

mod calling;
mod deferred;
mod expr;
mod format;
mod functions;
mod integer;
mod kind;
mod machine;
mod output;
mod own;
mod parse;
mod signal;
mod variables;

use thruway_element::{
    Alias, Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Handlers,
    NOTHING_MORE, Purpose, Replicas, Run, Spec, Threading, Topic, Ty, reasons,
};
use thruway_packet::{Batch, Packet};

use self::deferred::ANSWER;
use self::kind::{Kind, kind};
use self::machine::{Machine, RunState};
use self::parse::{Ending, Insn};
use thruway_elements_support::random::Random;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Script",
        aliases: &[Alias {
            name: "DriverManager",
            summary: "a Script of TYPE DRIVER: it decides on requests to stop",
        }],
        topic: Topic::Control,
        summary: "runs a script that controls the configuration",
        docs: DOCS,
        example: "c :: Counter; InfiniteSource(LIMIT 5, STOP true) -> c -> Discard; \
                  DriverManager(pause, print \"packets: $(c.count)\")",
        ports: "-/-",
        processing: "ah/ah",
        args: &[
            Arg::rest(
                "INSTRUCTION",
                Ty::Rule("instruction"),
                "instructions, executed in this order",
            ),
            Arg::keyword(
                "TYPE",
                Ty::Choice(&["ACTIVE", "PASSIVE", "PACKET", "PROXY", "DRIVER", "SIGNAL SIGNO..."]),
                "when the script runs",
            ),
        ],
        drops: Unwanted::DROPS,
        handlers: HANDLERS,
        threading: Threading::Task,
        changes: Changes::Nothing,
        cost: NOTHING_MORE,
        replicas: Replicas::Apart(
            "steps and handlers are run in one thread; packets go through the script of their \
             thread, with variables of its own",
        ),
        purpose: Purpose::SendUnasked,
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<Script>();

const DOCS: &str = "\
Each argument is an instruction; they are done one after the other. In their texts `$x` stands for \
a variable and `$(handler args)` for a read handler's answer, of this element where it has such a \
handler. Forms that end in q (setq, initq, exportq, printq, printnq, readq, writeq, returnq, errorq) \
take one layer of quotes off.

set VAR TEXT; init VAR TEXT (once, at the beginning); export VAR [TEXT] (init, and VAR becomes a \
read handler); print [>FILE|>>FILE] [TEXT|HANDLER] (to standard output; printn without a newline); \
save HANDLER FILE and append HANDLER FILE; read HANDLER [ARGS] (to standard error); write HANDLER \
[VALUE] ($? is 0 when it worked); pause [N] or wait_step [N] (until the handler step was written N \
times); wait TIME (or until a step); label L; goto L [CONDITION]; loop; end; exit; stop (asks the \
driver to stop); return [VALUE]; error [MESSAGE]. goto also knows begin, end, exit, stop and error.

TYPE ACTIVE runs when the configuration starts; PASSIVE when the handler run is called, with $args, \
$1, $2, ... and $#; PACKET for every packet, with $input, and the value returned is the output \
(end: output 0; exit: none); PROXY for any handler, with $0 and $write; DRIVER decides about \
stops: each request to stop is a step, and the driver stops when the script ends; SIGNAL when one \
of the signals (names or numbers) comes to the process, again after each end; while a script waits \
for SIGINT or SIGTERM, these do not stop the router. The default is PACKET where there are ports, else ACTIVE.

A script that makes a million jumps without blocking is stopped, and so is one with a text \
beyond a mebibyte, or with texts that, without blocking, add up to 256 mebibytes.

What a control socket's client gave the script (run, set, PROXY) names files for it only where that \
socket's clients may name files (see ControlSocket); what the script's own text names is not confined.";

const HANDLERS: &[Handler] = &[
    Handler::write("step", "goes on past a blocking instruction; N for several"),
    Handler::write("goto", "goes on at a label"),
    Handler::both("run", "runs the script from its beginning; the value is its $args")
        .with_effect(),
    Handler::read("add", "the sum of numbers"),
    Handler::read("sub", "the first number less the others"),
    Handler::read("mul", "the product of numbers"),
    Handler::read("div", "the first number over the others"),
    Handler::read("idiv", "the same, cut to an integer"),
    Handler::read("mod", "the remainder of two integers"),
    Handler::read("rem", "the remainder of two numbers"),
    Handler::read("neg", "the negative of a number"),
    Handler::read("abs", "the absolute value of a number"),
    Handler::read("ceil", "the least integer that is not below a number"),
    Handler::read("floor", "the greatest integer that is not above a number"),
    Handler::read("round", "the integer next to a number; of two, the one further from 0"),
    Handler::read("min", "the least of numbers"),
    Handler::read("max", "the greatest of numbers"),
    Handler::read("avg", "the mean of numbers"),
    Handler::read("count", "how many numbers there are"),
    Handler::read("popcount", "how many numbers are not 0"),
    Handler::read("gt_vec", "how many numbers are above the first"),
    Handler::read("eq", "whether two values are equal, as numbers or else as texts"),
    Handler::read("ne", "whether two values differ"),
    Handler::read("lt", "whether the first value is less"),
    Handler::read("gt", "whether the first value is greater"),
    Handler::read("le", "whether the first value is not greater"),
    Handler::read("ge", "whether the first value is not less"),
    Handler::read("not", "the opposite of a bool"),
    Handler::read("and", "whether all bools are true"),
    Handler::read("or", "whether one of the bools is true"),
    Handler::read("nand", "whether one of the bools is false"),
    Handler::read("nor", "whether all bools are false"),
    Handler::read("if", "the second value if the first is true, else the third"),
    Handler::read("in", "whether the first word is among the others"),
    Handler::read("first", "the first word"),
    Handler::read("sprintf", "a format string with its arguments put in"),
    Handler::read("random", "a random integer: below N, or from N1 to N2").with_effect(),
    Handler::read("now", "the present time, seconds"),
    Handler::read("now_steady", "the present time, seconds"),
    Handler::read("length", "bytes of the parameter"),
    Handler::read("unquote", "the parameter with one layer of quotes taken off"),
    Handler::read("htons", "a 16-bit number in network byte order"),
    Handler::read("htonl", "a 32-bit number in network byte order"),
    Handler::read("ntohs", "a 16-bit number in host byte order"),
    Handler::read("ntohl", "a 32-bit number in host byte order"),
    Handler::read("readable", "whether all handlers named can be read"),
    Handler::read("writable", "whether all handlers named can be written"),
    Handler::read("cat", "a file's text").private(),
    Handler::read("catq", "a file's text, quoted").private(),
    Handler::read("kill", "sends a signal to processes: SIGNO PID...").private().with_effect(),
    Handler::read("get", "a variable's value"),
    Handler::write("set", "sets a variable: VAR VALUE"),
    Handler::read("shift", "takes the first word off a variable (args)").with_effect(),
];

reasons! {
    /// Why a packet goes no further.
    enum Unwanted {
        Script = "script": "the script named no output for it",
    }
}

/// Timer: an active script begins.
const START: u32 = 0;
struct Script {
    machine: Machine,
    /// This element decides about stops.
    managing: bool,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let (kind, signals) = kind(args)?;
    let mut instructions: Vec<(usize, &str)> = args.rest().collect();
    let last = if kind == Kind::Driver { Ending::Stop } else { Ending::End };
    if instructions.is_empty() && kind == Kind::Driver {
        // The first stop stops.
        instructions.push((0, "pause"));
    }
    let program = parse::parse(instructions.into_iter(), Insn::End(last)).map_err(|wrong| {
        ArgErrors(wrong.into_iter().map(|(at, why)| args.rest_error(at, why)).collect())
    })?;
    let machine = Machine::new(program, kind, signals);
    Ok(Box::new(Script { machine, managing: false }))
}

impl Script {
    /// Makes steps on the element's own account and reports what went wrong.
    fn step(&mut self, cx: &mut Cx<'_>, steps: i64) {
        self.machine.execute(cx, steps);
        let errors = std::mem::take(&mut self.machine.errors);
        if !errors.is_empty() {
            let declaration = machine::declaration(cx);
            let text = errors.join("\n").replace('\n', "\n  ");
            cx.log(&format!("While executing '{declaration}':\n  {text}"));
        }
        if self.machine.state == RunState::Ended(Ending::Stop) {
            self.release(cx);
            cx.stop();
        }
    }

    /// Leaves stops to the driver again.
    fn release(&mut self, cx: &mut Cx<'_>) {
        if std::mem::take(&mut self.managing) {
            let node = cx.node();
            // Giving up cannot fail.
            let _ = cx.driver().manage_stops(node, false);
        }
    }

    /// A step on behalf of the driver: when the script has ended, so has the run.
    fn driver_step(&mut self, cx: &mut Cx<'_>, steps: i64) {
        self.step(cx, steps);
        if self.managing && self.machine.state != RunState::Blocked {
            self.release(cx);
            cx.stop();
        }
    }

    fn packet(&mut self, cx: &mut Cx<'_>, port: usize, packet: Packet) {
        self.machine.set_variable("input", port.to_string());
        self.machine.restart();
        self.step(cx, 0);
        match self.machine.returned().trim().parse::<usize>() {
            Ok(port) if port < cx.outputs() => cx.emit(port, packet),
            _ => cx.drop(Unwanted::Script, packet),
        }
    }
}

impl Element for Script {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.machine.random = Random::from_seed(cx.now() as u64 ^ u64::from(cx.node()));
        self.machine.init(cx);
        if let Some(error) = self.machine.errors.first() {
            return Err(error.clone());
        }
        match self.machine.kind {
            Kind::Driver => {
                let node = cx.node();
                cx.driver().manage_stops(node, true)?;
                self.managing = true;
                cx.set_timer(START, cx.now());
            }
            Kind::Active => cx.set_timer(START, cx.now()),
            Kind::Signal => signal::install(cx, &self.machine.signals)?,
            Kind::Passive | Kind::Packet | Kind::Proxy => {}
        }
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        match (token, self.machine.kind) {
            // Of an instruction that was done by other means meanwhile.
            (ANSWER, _) if self.machine.deferred.is_empty() => {}
            (START | ANSWER, Kind::Driver) => self.driver_step(cx, 0),
            (START | ANSWER, _) => self.step(cx, 0),
            _ => self.step(cx, 1),
        }
        if self.managing && self.machine.state != RunState::Blocked {
            // It ended by itself: the next stop counts, or one that came meanwhile.
            self.release(cx);
            if cx.driver().pending_stops(false) > 0 {
                cx.stop();
            }
        }
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        let mut stepped = false;
        while self.managing && cx.driver().pending_stops(true) > 0 {
            self.driver_step(cx, 1);
            stepped = true;
        }
        // The script's writes may have given others something to do.
        if stepped { Run::Again } else { Run::Idle }
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        // Scripts are slow anyway: a list for each batch does no harm.
        let packets: Vec<Packet> = batch.drain().collect();
        for packet in packets {
            self.packet(cx, port, packet);
        }
    }
}

impl Handlers for Script {
    fn read_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        self.machine.read_own(cx, name, param)
    }

    fn write_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        self.machine.write_own(cx, name, value)?;
        if self.managing && self.machine.state == RunState::Ended(Ending::Stop) {
            self.release(cx);
            cx.stop();
        }
        Ok(())
    }
}
