//! NSHForward: where packets go on their service path.

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Operation, Replicas, Spec, Topic, Ty, Verdict,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::Header;
use thruway_wire::nsh::{DEFAULT_TTL, NshHeader, PATH_MAX};

use crate::nsh_decap::{NoService, service_header};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "NSHForward",
        topic: Topic::Hops,
        summary: "sorts packets by service path and index",
        docs: "Expects packets that begin with a network service header (RFC 8300). STEP, the number \
               of functions that worked on the packet here, is subtracted from the service index; \
               the time to live is counted down by one. Then the packet leaves by the output of \
               the first LOCATION that fits: PATH/INDEX, PATH for any other index of it, or '-' for \
               all. The header, metadata of others included, stays as it is otherwise.\n\n\
               An index that would become 0 or less, a time to live that is used up, wrong headers, packets of \
               operation and maintenance (O bit), and packets that fit no LOCATION are \
               dropped.",
        example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
                  -> NSHEncap(5, 255) -> f :: NSHForward(5/254, -, STEP 1) -> Print(next) -> Discard; \
                  f[1] -> Discard",
        ports: "1/-",
        processing: "h/h",
        straight: true,
        args: &[
            Arg::rest("LOCATION", Ty::Rule("PATH[/INDEX]"), "what an output gets"),
            Arg::keyword("STEP", Ty::UInt, "functions that worked on packets here, 0 to 255")
                .or("0"),
        ],
        drops: NoService::DROPS,
        cost: &[
            Operation::HeaderParse.once(),
            Operation::HeaderWrite.once(),
            Operation::Sort.once(),
        ],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

/// Most locations: an output is a byte's worth of search steps away.
const LOCATIONS_MAX: usize = 4096;

/// By path and index, with outputs; sorted.
#[derive(Default)]
struct Locations {
    /// Path and index as they stand in the header.
    exact: Vec<(u32, usize)>,
    /// Paths.
    paths: Vec<(u32, usize)>,
    rest: Option<usize>,
}

fn lookup(sorted: &[(u32, usize)], key: u32) -> Option<usize> {
    sorted.binary_search_by_key(&key, |(key, _)| *key).ok().map(|at| sorted[at].1)
}

impl Locations {
    fn add(&mut self, text: &str, output: usize) -> Result<(), String> {
        let text = text.trim();
        if text == "-" {
            self.rest.get_or_insert(output);
            return Ok(());
        }
        let (path, index) = match text.split_once('/') {
            Some((path, index)) => (path.trim(), Some(index.trim())),
            None => (text, None),
        };
        let number = path.parse().ok().filter(|path| *path <= PATH_MAX);
        let path: u32 =
            number.ok_or_else(|| format!("'{path}' is no service path, 0 to {PATH_MAX}"))?;
        let (list, key) = match index {
            None => (&mut self.paths, path),
            Some(index) => {
                let number = index.parse::<u8>().ok().filter(|index| *index > 0);
                let number =
                    number.ok_or_else(|| format!("'{index}' is no service index, 1 to 255"))?;
                (&mut self.exact, path << 8 | u32::from(number))
            }
        };
        match list.binary_search_by_key(&key, |(key, _)| *key) {
            Ok(_) => Err(format!("'{text}' is there twice")),
            Err(at) => {
                list.insert(at, (key, output));
                Ok(())
            }
        }
    }

    #[inline]
    fn output(&self, service_path: u32) -> Option<usize> {
        let exact = lookup(&self.exact, service_path);
        exact.or_else(|| lookup(&self.paths, service_path >> 8)).or(self.rest)
    }
}

struct NshForward {
    locations: Locations,
    step: u8,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let (mut locations, mut errors) = (Locations::default(), ArgErrors::default());
    let rest: Vec<(usize, &str)> = args.rest().collect();
    if rest.is_empty() || rest.len() > LOCATIONS_MAX {
        let why = format!("needs 1 to {LOCATIONS_MAX} locations: PATH/INDEX, PATH or -");
        return Err(ArgErrors::whole(why));
    }
    for (output, (at, text)) in rest.iter().enumerate() {
        let added = locations.add(text, output);
        errors.take(added.map_err(|why| args.rest_error(*at, why)));
    }
    let outputs = args.env().outputs;
    if errors.0.is_empty() && rest.len() > outputs {
        let why = format!("{} locations need as many outputs, not {outputs}", rest.len());
        errors.0.extend(ArgErrors::whole(why).0);
    }
    let step = errors.take(args.get("STEP"));
    match step {
        Some(step) if errors.0.is_empty() => Ok(Box::new(NshForward { locations, step })),
        _ => Err(errors),
    }
}

/// The time to live after one more hop; `None` when there was none left. 0 stands for one more
/// than the most (RFC 8300 section 2.2).
#[inline]
fn next_ttl(ttl: u8) -> Option<u8> {
    match ttl {
        0 => Some(DEFAULT_TTL),
        1 => None,
        ttl => Some(ttl - 1),
    }
}

impl NshForward {
    #[inline]
    fn forward(&self, packet: &mut Packet) -> Result<usize, NoService> {
        let (header, _) = service_header(packet.data())?;
        let index = header.index().checked_sub(self.step).filter(|index| *index > 0);
        let index = index.ok_or(NoService::Index)?;
        let ttl = next_ttl(header.ttl()).ok_or(NoService::Ttl)?;
        let service_path = header.service_path() & !0xff | u32::from(index);
        let output = self.locations.output(service_path).ok_or(NoService::Path)?;
        let (header, _) = NshHeader::view_mut(packet.data_mut()).map_err(|_| NoService::Short)?;
        header.set_ttl(ttl);
        header.set_service_path(service_path);
        Ok(output)
    }
}

impl Element for NshForward {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| match self.forward(packet) {
            Ok(0) => Verdict::Pass,
            Ok(output) => Verdict::To(output),
            Err(why) => Verdict::drop(why),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_elements_rig::Rig;

    #[test]
    fn wrong_locations() {
        let error = |texts: &[&str], outputs| match Rig::new(&ENTRY, texts, outputs) {
            Ok(_) => panic!("taken: {texts:?}"),
            Err(errors) => errors.to_string(),
        };
        assert!(error(&["5/0"], 1).contains("'0' is no service index, 1 to 255"));
        assert!(error(&["16777216"], 1).contains("no service path"));
        assert!(error(&["5/1", "5/1"], 2).contains("'5/1' is there twice"));
        assert!(error(&[], 1).contains("needs 1 to"));
        assert!(error(&["5", "6"], 1).contains("as many outputs"));
    }

    #[test]
    fn indexes_and_hops_count_down() {
        let mut rig = Rig::new(&ENTRY, &["5/3", "5", "STEP 2"], 2).unwrap();
        let mut go = |index: u8, ttl: u8| {
            let mut header = NshHeader::new(2, 0, 1, (5, index)).unwrap();
            header.set_ttl(ttl);
            let mut bytes = [0; 8];
            header.emit(&mut bytes).unwrap();
            let out = rig.push([Packet::new(&bytes).unwrap()]);
            let at = out.iter().position(|packets| !packets.is_empty())?;
            let (header, _) = NshHeader::parse(out[at][0].data()).unwrap();
            Some((at, header.index(), header.ttl()))
        };
        assert_eq!(go(5, 63), Some((0, 3, 62)));
        assert_eq!(go(6, 0), Some((1, 4, 63)));
        assert_eq!(go(5, 2), Some((0, 3, 1)));
        assert_eq!((go(5, 1), go(2, 9), go(1, 9), go(0, 9)), (None, None, None, None));
        let drops = rig.drops();
        assert_eq!((drops[NoService::Ttl as usize], drops[NoService::Index as usize]), (1, 3));
    }

    proptest! {
        /// As a list that is looked through in order: exact locations, then paths, then the rest.
        #[test]
        fn as_a_list(
            all in prop::collection::btree_set((0u32..4, prop::option::of(1u8..4)), 1..10),
            has_rest: bool, path in 0u32..5, index in 1u8..5,
        ) {
            let all: Vec<_> = all.into_iter().collect();
            let mut locations = Locations::default();
            for (output, (path, index)) in all.iter().enumerate() {
                let text = index.map_or(path.to_string(), |index| format!("{path}/{index}"));
                locations.add(&text, output).unwrap();
            }
            if has_rest {
                locations.add("-", all.len()).unwrap();
            }
            let find = |wanted| all.iter().position(|location| *location == wanted);
            let plain = find((path, Some(index))).or_else(|| find((path, None)));
            let plain = plain.or(has_rest.then_some(all.len()));
            prop_assert_eq!(locations.output(path << 8 | u32::from(index)), plain);
        }
    }
}
