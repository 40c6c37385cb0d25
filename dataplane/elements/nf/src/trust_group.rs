//! TrustGroup: a declaration of functions that trust each other.

use thruway_element::{
    Addresses, Arg, ArgError, ArgErrors, Element, Entry, NOTHING_MORE, Purpose, Replicas, Spec,
    Topic, Ty, text,
};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "TrustGroup",
        topic: Topic::Nf,
        summary: "declares a group of isolated functions that trust each other",
        docs: "Functions (Nf) with MODE group and GROUP NAME share one region of FRAMES frames: \
               a packet is copied when it enters the group and when it leaves it, and not between \
               members. Each member can read and change all packets that are in the group; \
               nobody else can. A packet that finds no free frame is dropped by its Nf.\n\
               The frames are shared out evenly among the threads that run members.",
        example: "TrustGroup(tenant, FRAMES 2048)",
        ports: "0/0",
        args: &[
            Arg::required("NAME", Ty::Str, "name by which members call it"),
            Arg::keyword("FRAMES", Ty::UInt, "frames of its region").or("4096"),
        ],
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        purpose: Purpose::GroupTrust,
        ..Spec::DEFAULT
    },
    |args| {
        let name: String = args.get("NAME")?;
        if name.is_empty() {
            return Err(args.error("NAME", "is empty: give the group a name").into());
        }
        frames(&name, args.text("FRAMES").unwrap_or("4096"))
            .map_err(|message| args.error("FRAMES", message))?;
        Ok(Box::new(TrustGroup))
    },
)
.declaring(declare);

/// Most frames of a group.
const FRAMES_MAX: u32 = 1 << 20;

struct TrustGroup;

impl Element for TrustGroup {}

/// The number of frames that FRAMES says, for a group called so.
fn frames(name: &str, text: &str) -> Result<u32, String> {
    if name.is_empty() {
        return Err("a group needs a name".into());
    }
    match text.trim().parse() {
        Ok(frames @ 2..=FRAMES_MAX) => Ok(frames),
        _ => Err(format!("'{text}' is not a number of frames: 2 to {FRAMES_MAX}")),
    }
}

fn declare(name: &str, args: &[String], names: &mut Addresses) -> Result<(), ArgErrors> {
    let (mut group, mut count) = (None, "4096");
    for arg in args {
        match arg.split_once(char::is_whitespace) {
            Some(("FRAMES", value)) => count = value,
            Some(("NAME", value)) => group = Some(text::unquote_text(value.trim())),
            _ => group = Some(text::unquote_text(arg)),
        }
    }
    // What is wrong is told, with its place, when the element is built.
    if let (Some(group), Ok(frames)) = (&group, frames(group.as_deref().unwrap_or(""), count)) {
        let scope = name.rsplit_once('/').map_or(String::new(), |(outer, _)| format!("{outer}/"));
        let entry = names.entry(&format!("{scope}{group}"));
        if entry.group_frames.replace(frames).is_some() {
            let message = format!("there are two groups called '{group}': rename one");
            return Err(ArgError { index: Some(0), message }.into());
        }
    }
    Ok(())
}
