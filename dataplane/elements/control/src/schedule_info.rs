//! ScheduleInfo: how often tasks should run, which this engine decides itself.

use thruway_element::{
    Arg, ArgErrors, Args, Element, Entry, NOTHING_MORE, Replicas, Spec, Topic, Ty,
};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "ScheduleInfo",
        topic: Topic::Control,
        summary: "accepted for Click's sake: tasks of a thread run in turn",
        docs: "Each argument is a pair ELEMENT PARAM: in Click, how often the element's task runs \
               in relation to others. Here tasks of a thread run in turn whatever the value of \
               PARAM, and idle tasks cost next to nothing; the pairs are only checked. Use BURST \
               of an element to have it do more in its turn.",
        example: "s :: InfiniteSource(LIMIT 3, STOP true) -> Discard; ScheduleInfo(s 0.5)",
        ports: "0/0",
        processing: "/",
        args: &[Arg::rest("PARAM", Ty::Rule("ELEMENT PARAM"), "an element and a real number")],
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
);

struct ScheduleInfo;

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    for (index, text) in args.rest() {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [_, param] = words[..] else {
            let message = format!("'{text}' is not a pair; write ELEMENT PARAM");
            return Err(args.rest_error(index, message).into());
        };
        match args.parse::<f64>(param) {
            Ok(0.0..) => {}
            Ok(_) => return Err(args.rest_error(index, format!("{param} is negative")).into()),
            Err(message) => return Err(args.rest_error(index, message).into()),
        }
    }
    Ok(Box::new(ScheduleInfo))
}

impl Element for ScheduleInfo {}
