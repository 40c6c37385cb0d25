//! PokeHandlers: writes handlers at given times.

use thruway_element::{
    Arg, ArgError, ArgErrors, Args, Cx, Element, Entry, NOTHING_MORE, Nanos, Replicas, Spec, Topic,
    Ty,
};

use thruway_elements_support::call::Call;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "PokeHandlers",
        topic: Topic::Control,
        summary: "writes handlers at given times",
        docs: "Executes its arguments, one after the other: a time is a wait; ELEMENT.HANDLER \
               VALUE writes VALUE to a handler; quit asks the driver to stop; loop begins anew \
               (there must be a wait before it). What goes wrong is reported and the next argument \
               done. Script can do all of this and more.",
        example: "s :: InfiniteSource(ACTIVE false) -> Discard;\n\
                  PokeHandlers(s.active true, 0.1, quit)",
        ports: "0/0",
        processing: "/",
        args: &[Arg::rest("STEP", Ty::Rule("TIME, HANDLER VALUE, quit or loop"), "what to do")],
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
);

const TIMER: u32 = 0;

#[derive(Debug)]
enum Step {
    Wait(i64),
    Write(Call),
    Quit,
    Loop,
}

struct PokeHandlers {
    steps: Vec<Step>,
    next: usize,
}

fn step(args: &Args<'_>, index: usize, text: &str) -> Result<Step, ArgError> {
    let wrong = |message: String| args.rest_error(index, message);
    match text {
        "quit" | "stop" => Ok(Step::Quit),
        "loop" => Ok(Step::Loop),
        _ => match args.parse::<Nanos>(text) {
            Ok(Nanos(ns)) if ns < 0 => Err(wrong(format!("'{text}' is no time to wait"))),
            Ok(Nanos(ns)) => Ok(Step::Wait(ns)),
            Err(_) => Call::parse(text)
                .filter(|_| text.contains('.'))
                .map(Step::Write)
                .ok_or_else(|| wrong(format!("'{text}' is no time and no ELEMENT.HANDLER VALUE"))),
        },
    }
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let mut steps = Vec::new();
    let mut waits = false;
    for (index, text) in args.rest() {
        let step = step(args, index, text)?;
        waits |= matches!(step, Step::Wait(1..));
        if matches!(step, Step::Loop) && !waits {
            return Err(args.rest_error(index, "a loop without a wait would never end").into());
        }
        steps.push(step);
    }
    Ok(Box::new(PokeHandlers { steps, next: 0 }))
}

impl Element for PokeHandlers {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let now = cx.now();
        cx.set_timer(TIMER, now);
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        while let Some(step) = self.steps.get(self.next) {
            self.next += 1;
            match step {
                Step::Wait(ns) => {
                    let at = cx.now().saturating_add(*ns);
                    return cx.set_timer(TIMER, at);
                }
                Step::Write(call) => call.write(cx),
                Step::Quit => return cx.stop(),
                Step::Loop => self.next = 0,
            }
        }
    }
}
