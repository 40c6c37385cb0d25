//! IPRewriterPatterns: names for patterns of rewriters.

use std::sync::Arc;

use thruway_element::text::split_words;
use thruway_element::{
    Addresses, Arg, ArgError, ArgErrors, Args, Declared, Element, Entry, NOTHING_MORE, Replicas,
    Spec, Topic, Ty,
};

use crate::rewriters::pattern::Pattern;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "IPRewriterPatterns",
        topic: Topic::Rewriters,
        summary: "gives names to patterns of rewriters",
        docs: "Each argument is a name and a pattern, NAME SADDR SPORT DADDR DPORT or NAME SADDR \
               DADDR (see IPRewriter, IPAddrRewriter): INPUTSPECs and mappers may then write the \
               name for it. Ports that follow each other ('#') do so over all users of the name. A \
               name may be given once, and counts within the compound element where it is given.",
        example: "IPRewriterPatterns(nat 192.0.2.1 1024-65535# - -); \
                  FromIPSummaryDump(-, STOP true) -> CheckIPHeader \
                  -> IPRewriter(pattern nat 0 0) -> IPPrint -> Discard",
        ports: "0/0",
        processing: "/",
        args: &[Arg::rest("NAME", Ty::Rule("NAME PATTERN"), "a name and its pattern")],
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
)
.declaring(declare);

struct IpRewriterPatterns;

impl Element for IpRewriterPatterns {}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let names = args.names();
    let wrong = |(index, text): (usize, &str)| {
        let words = split_words(text);
        let (name, pattern) = words.split_first()?;
        let why = Pattern::parse(pattern, &names, Arc::default()).err()?;
        Some(args.rest_error(index, format!("{name}: {why}")))
    };
    let errors: Vec<ArgError> = args.rest().filter_map(wrong).collect();
    if errors.is_empty() { Ok(Box::new(IpRewriterPatterns)) } else { Err(ArgErrors(errors)) }
}

fn declare(element: &str, args: &[String], addresses: &mut Addresses) -> Result<(), ArgErrors> {
    let scope = element.rfind('/').map_or("", |end| &element[..=end]);
    let mut errors = Vec::new();
    for (index, text) in args.iter().enumerate() {
        let words = split_words(text);
        let Some((name, pattern)) = words.split_first() else { continue };
        let full = format!("{scope}{name}");
        let entry = &mut addresses.entry(&full).pattern;
        if entry.is_some() {
            let message = format!("pattern '{name}' is there already: give each name once");
            errors.push(ArgError { index: Some(index), message });
            continue;
        }
        let texts = pattern.iter().map(|word| (*word).to_owned()).collect();
        *entry = Some(Declared { owner: full, class: ENTRY.spec.name, texts });
    }
    if errors.is_empty() { Ok(()) } else { Err(ArgErrors(errors)) }
}
