//! Arguments and handlers that an element's struct declares.

use thruway_element::{
    Access, Addresses, AnnoArg, ArgErrors, ArgRule, Args, Arguments, Bandwidth, Calls, Cx, Driver,
    Element, Entry, Env, Flows, Handler, HandlerError, Handlers, Host, Merge, Nanos, Outbox,
    Shared, Spec, Threads, Ty, Wiring,
};
use thruway_packet::{Anno, Batch};

/// Not less than nothing.
fn not_negative(Nanos(time): Nanos) -> Result<i64, String> {
    if time < 0 { Err("must not be negative".into()) } else { Ok(time) }
}

/// Fields that several elements have.
#[derive(Arguments, Handlers)]
#[handler(like = TURNED)]
#[handler(like = LIGHT, name = "light", get = if self.active { "on" } else { "off" })]
struct Switched {
    /// whether it works
    #[arg(keyword, or = "true")]
    #[handler(both, "whether it works now")]
    active: bool,
    #[part]
    turns: Turns,
}

const LIGHT: Handler = Handler::read("light", "on or off");
const TURNED: Handler = Handler::read("turned", "how often it was turned");

#[derive(Arguments)]
struct Turns {
    turned: u32,
}

impl Handlers for Turns {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "turned" => Ok(self.turned.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }
}

#[derive(Arguments, Handlers)]
#[arg(keyword, name = "OLD", checked = u8, or = "3", "accepted for Click's sake")]
#[handler(write, name = "reset", "sets count to zero", run = self.count = 0)]
struct Everything {
    /// 0 to
    /// 255
    #[arg(required)]
    #[handler(both, then = self.count += 1)]
    color: u8,
    /// the annotation
    #[arg(optional, as = AnnoArg, or = "PAINT")]
    anno: Anno,
    /// packets held, 1 to 8
    #[arg(optional, name = "SIZE", range = 1..=8, or = "2")]
    room: usize,
    #[part]
    switched: Switched,
    /// how long
    #[arg(keyword, via = not_negative, or = "0")]
    #[handler(both, name = "delay_ns", get = format!("{} ns", self.delay))]
    delay: i64,
    /// bytes a second
    #[arg(keyword, as = Bandwidth, else = 7)]
    rate: u64,
    /// text that may be missing
    #[arg(keyword)]
    label: Option<String>,
    /// what remains
    #[arg(rest, ty = Ty::Any)]
    #[new(args.rest().map(|(_, text)| text.to_owned()).collect())]
    rest: Vec<String>,
    /// changes of color
    #[handler(sum)]
    #[handler(read, name = "doubled", "twice the count and the parameter",
        read = self.double(param))]
    #[handler(write, name = "add", "adds to count", write = self.add(value))]
    count: u64,
    #[arg(keyword, name = "UNUSED", unread, ty = Ty::Bool, "makes no difference")]
    #[arg(keyword, name = "SCALE", value = usize, or = "1", range = 1.., doc = SCALE)]
    #[new(vec![0; room * scale])]
    #[handler(both, numbered, name = "byte0", "a byte of the buffer")]
    buffer: Vec<u8>,
}

const SCALE: &str = "the buffer has so many bytes for each packet";

impl Everything {
    fn double(&self, param: &str) -> Result<String, HandlerError> {
        match param {
            "" => Err(HandlerError::refused("give a parameter")),
            _ => Ok(format!("{} {param}", 2 * self.count)),
        }
    }

    fn add(&mut self, value: &str) -> Result<(), HandlerError> {
        self.count += thruway_element::handler_value::<u64>("add", value)?;
        Ok(())
    }
}

impl Element for Everything {}

static ENTRY: Entry =
    Entry::of::<Everything>(Spec { name: "Everything", ports: "0/0", ..Spec::DEFAULT });

/// Nothing at all.
#[derive(Arguments, Handlers)]
struct Nothing;

fn made(texts: &[&str]) -> Result<Everything, ArgErrors> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    with_env(|env| Everything::from_args(&Args::sort(&ENTRY.spec, &texts, env)?))
}

fn with_env<T>(f: impl FnOnce(&Env<'_>) -> T) -> T {
    f(&Env::alone("tested", "Everything", &Addresses::default(), &Shared::default()))
}

fn wrong(texts: &[&str]) -> Vec<String> {
    let errors = made(texts).err().expect("something is wrong");
    errors.0.into_iter().map(|error| error.message).collect()
}

#[test]
fn arguments_are_listed_in_the_order_of_fields() {
    let names: Vec<&str> = ENTRY.spec.args.iter().map(|arg| arg.name).collect();
    let all = [
        "OLD", "COLOR", "ANNO", "SIZE", "ACTIVE", "DELAY", "RATE", "LABEL", "REST", "UNUSED",
        "SCALE",
    ];
    assert_eq!(names, all);
    let arg = |name| *ENTRY.spec.arg(name).unwrap();
    assert_eq!((arg("COLOR").rule, arg("COLOR").ty), (ArgRule::Required, Ty::UInt));
    assert_eq!((arg("COLOR").doc, arg("COLOR").default), ("0 to 255", ""));
    assert_eq!((arg("ANNO").ty, arg("ANNO").default), (Ty::Anno, "PAINT"));
    assert_eq!((arg("DELAY").ty, arg("RATE").ty), (Ty::Time, Ty::Bandwidth));
    assert_eq!((arg("LABEL").ty, arg("REST").rule), (Ty::Str, ArgRule::Rest));
    assert_eq!((arg("SCALE").doc, arg("SCALE").default), (SCALE, "1"));
    assert_eq!((arg("OLD").doc, arg("OLD").default), ("accepted for Click's sake", "3"));
    assert!(Nothing::ARGS.is_empty() && Nothing::HANDLERS.is_empty());
    with_env(|env| Nothing::from_args(&Args::sort(&Spec::DEFAULT, &[], env).unwrap())).unwrap();
}

#[test]
fn values_are_read() {
    let all = made(&["5", "4/1", "3", "x", "y", "DELAY 2ms", "RATE 8kbps", "ACTIVE 0"]).unwrap();
    assert_eq!((all.color, all.anno.offset, all.room, all.buffer.len()), (5, 4, 3, 3));
    assert_eq!((all.delay, all.rate, all.switched.active), (2_000_000, 1_000, false));
    assert_eq!((all.label, all.rest.len()), (None, 2));
    let few = made(&["5", "LABEL \"a b\""]).unwrap();
    assert_eq!((few.anno, few.room, few.rate), (Anno::PAINT, 2, 7));
    assert_eq!(made(&["5", "SIZE 3", "SCALE 4", "UNUSED maybe"]).unwrap().buffer.len(), 12);
    assert_eq!((few.label.as_deref(), few.switched.active), (Some("a b"), true));
}

#[test]
fn all_errors_are_reported_at_once() {
    assert_eq!(wrong(&[]), ["missing argument COLOR: 0 to 255 (unsigned integer)"]);
    let all = wrong(&["256", "PAINT", "9", "DELAY -1", "OLD x", "SCALE 0", "ACTIVE maybe"]);
    assert_eq!(
        all,
        [
            "OLD: 'x' is not an integer",
            "COLOR: 256 is out of range; it must be from 0 to 255",
            "SIZE: must be from 1 to 8",
            "ACTIVE: 'maybe' is not a bool; write true or false",
            "DELAY: must not be negative",
            "SCALE: must be at least 1",
        ]
    );
}

/// An engine that does nothing.
struct Idle;

impl Host for Idle {
    fn pull(&mut self, _: &mut Outbox, _: (u32, usize), _: usize, _: &mut Batch) {}
    fn set_timer(&mut self, _: u32, _: u32, _: i64) {}
    fn clear_timer(&mut self, _: u32, _: u32) {}
    fn watch(&mut self, _: std::os::fd::RawFd, _: Option<std::os::fd::OwnedFd>) {}
    fn log(&mut self, _: &str) {}
}

impl Wiring for Idle {
    fn inputs(&self, _: u32) -> usize {
        0
    }
}

impl Threads for Idle {}
impl Calls for Idle {}
impl Driver for Idle {}
impl Flows for Idle {}

#[test]
fn handlers_are_listed_and_answered() {
    let list: Vec<(&str, Access, Merge)> =
        ENTRY.spec.handlers.iter().map(|one| (one.name, one.access, one.merge)).collect();
    let both = |name| (name, Access::ReadWrite, Merge::First);
    let expected = [
        ("reset", Access::Write, Merge::First),
        both("color"),
        ("turned", Access::Read, Merge::First),
        ("light", Access::Read, Merge::First),
        both("active"),
        both("delay_ns"),
        ("count", Access::Read, Merge::Sum),
        ("doubled", Access::Read, Merge::First),
        ("add", Access::Write, Merge::First),
        both("byte0"),
    ];
    assert_eq!(list, expected);
    let doc = |name| ENTRY.spec.handler(name).map(|one: &Handler| one.doc).unwrap();
    assert_eq!((doc("color"), doc("active")), ("0 to 255", "whether it works now"));

    let mut element: Box<dyn Element> = Box::new(made(&["5"]).unwrap());
    let (mut out, mut host) = (Outbox::default(), Idle);
    let mut cx = Cx::new(0, &mut out, &mut host);
    let mut read = |name, param| ENTRY.read(&mut *element, &mut cx, name, param);
    assert_eq!(read("color", ""), Ok("5".into()));
    assert_eq!(read("active", ""), Ok("true".into()));
    assert_eq!((read("light", ""), read("delay_ns", "")), (Ok("on".into()), Ok("0 ns".into())));
    assert_eq!(read("doubled", ""), Err(HandlerError::refused("give a parameter")));
    assert_eq!(read("reset", ""), Err(HandlerError::no_read("reset")));
    assert_eq!(read("anno", ""), Err(HandlerError::no_read("anno")));
    assert_eq!((read("byte1", ""), read("turned", "")), (Ok("0".into()), Ok("0".into())));
    assert_eq!(read("byte2", ""), Err(HandlerError::no_read("byte2")));
    let mut write = |name, value| ENTRY.write(&mut *element, &mut cx, name, value);
    assert_eq!(write("color", "6"), Ok(()));
    assert_eq!(write("add", "10"), Ok(()));
    assert_eq!(write("active", "false"), Ok(()));
    assert_eq!(write("delay_ns", "3us"), Ok(()));
    let refused = |why: &str| Err(HandlerError::refused(why));
    assert_eq!(write("delay_ns", "-3us"), refused("delay_ns: must not be negative"));
    let range = "color: 999 is out of range; it must be from 0 to 255";
    assert_eq!(write("color", "999"), refused(range));
    assert_eq!(write("byte1", "7"), Ok(()));
    assert_eq!(write("byte2", "7"), Err(HandlerError::no_write("byte2")));
    assert_eq!(write("count", "1"), Err(HandlerError::no_write("count")));
    let mut read = |name, param| ENTRY.read(&mut *element, &mut cx, name, param).unwrap();
    assert_eq!((read("color", ""), read("active", "")), ("6".into(), "false".into()));
    assert_eq!((read("byte0", ""), read("byte1", "")), ("0".into(), "7".into()));
    assert_eq!((read("delay_ns", ""), read("doubled", "!")), ("3000 ns".into(), "22 !".into()));
    ENTRY.write(&mut *element, &mut cx, "reset", "").unwrap();
    assert_eq!(ENTRY.read(&mut *element, &mut cx, "count", ""), Ok("0".into()));
}
