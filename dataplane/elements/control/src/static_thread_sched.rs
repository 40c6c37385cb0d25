//! StaticThreadSched: says which thread runs which element.

use thruway_element::{
    Arg, ArgErrors, Args, Element, Entry, NOTHING_MORE, Purpose, Replicas, Spec, Topic, Ty,
};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "StaticThreadSched",
        topic: Topic::Control,
        summary: "places elements on threads",
        docs: "Each argument is a pair ELEMENT THREAD: the task of that element (a source, an \
               Unqueue, a device) runs in thread number THREAD, counted from 0; with fewer threads \
               the number is taken around. Thread -1 is none: the element's task and timers do not run, \
               while packets that reach it and its handlers work. The engine reads the pairs before anything runs. Later \
               pairs for the same element count.",
        example: "s :: InfiniteSource(LIMIT 3, STOP true) -> Discard; StaticThreadSched(s 0)",
        ports: "0/0",
        processing: "a/a",
        args: &[Arg::rest("PLACE", Ty::Rule("ELEMENT THREAD"), "which element in which thread")],
        cost: NOTHING_MORE,
        purpose: Purpose::AssignTasks,
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
);

struct StaticThreadSched;

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    for (index, text) in args.rest() {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [_, thread] = words[..] else {
            let message = format!("'{text}' is not a pair; write ELEMENT THREAD");
            return Err(args.rest_error(index, message).into());
        };
        args.parse::<i32>(thread).map_err(|message| args.rest_error(index, message))?;
    }
    Ok(Box::new(StaticThreadSched))
}

impl Element for StaticThreadSched {}
