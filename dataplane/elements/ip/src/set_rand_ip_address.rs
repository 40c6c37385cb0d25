//! SetRandIPAddress: a random address of a prefix into the destination annotation.

use std::net::Ipv4Addr;

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handlers, IpPrefix, Operation, Replicas,
    Spec, Topic, Ty,
};
use thruway_packet::Batch;

use thruway_elements_support::random::{self, Random, seed_of};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<SetRandIpAddress>(
    Spec {
        name: "SetRandIPAddress",
        topic: Topic::Ip,
        summary: "sets the destination annotation to random addresses",
        docs: "Sets the destination annotation of every packet to an address of PREFIX, drawn \
               evenly. With a LIMIT that is not negative the addresses come from as many that are \
               drawn once, at the start. Two runs with one SEED draw the same.",
        example: "InfiniteSource(LENGTH 4, LIMIT 1, STOP true) -> SetRandIPAddress(10.0.0.0/8) \
                  -> StoreIPAddress(0) -> Print -> Discard",
        straight: true,
        args: &[
            Arg::required("PREFIX", Ty::IpPrefix, "prefix of the addresses"),
            Arg::optional("LIMIT", Ty::Int, "number of different addresses; -1 for all").or("-1"),
            Arg::keyword("SEED", Ty::UInt, "where the sequence of draws begins"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Random.once(), Operation::Annotate.once()],
        replicas: Replicas::Apart("each draws numbers of its own"),
        ..Spec::DEFAULT
    },
    build,
);

/// Most addresses that are drawn at the start: 4 MiB.
const MAX_LIMIT: i64 = 1 << 20;

#[derive(Handlers)]
struct SetRandIpAddress {
    prefix: IpPrefix,
    random: Random,
    /// where the sequence of draws began
    #[handler(read)]
    seed: u64,
    /// The addresses drawn at the start; empty to draw for each packet.
    drawn: Vec<[u8; 4]>,
}

fn draw(random: &mut Random, prefix: IpPrefix) -> [u8; 4] {
    let (addr, mask) = (prefix.addr.to_bits(), prefix.mask.to_bits());
    // The upper half of a draw.
    Ipv4Addr::from_bits(addr & mask | (random.next_u64() >> 32) as u32 & !mask).octets()
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let limit: i64 = args.get("LIMIT")?;
    if limit > MAX_LIMIT {
        return Err(args.error("LIMIT", format!("must be at most {MAX_LIMIT}")).into());
    }
    let prefix = args.get("PREFIX")?;
    let seed = seed_of(args)?;
    let mut random = random::of_element(args, seed);
    let drawn = (0..limit.max(0)).map(|_| draw(&mut random, prefix)).collect();
    Ok(Box::new(SetRandIpAddress { prefix, random, seed, drawn }))
}

impl Element for SetRandIpAddress {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            let at = self.drawn.len() as u64;
            packet.set_dst_ip(match at {
                0 => draw(&mut self.random, self.prefix),
                n => self.drawn[self.random.below(n) as usize],
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use thruway_elements_rig::Rig;
    use thruway_packet::Packet;

    fn addresses(texts: &[&str]) -> Vec<[u8; 4]> {
        let mut rig = Rig::new(&ENTRY, texts, 1).unwrap();
        let packets = (0..1000).map(|_| Packet::new(&[]).unwrap());
        rig.push(packets)[0].iter().map(Packet::dst_ip).collect()
    }

    #[test]
    fn of_the_prefix_and_as_many_as_asked_for() {
        let all = addresses(&["10.1.0.0/16", "SEED 3"]);
        assert!(all.iter().all(|addr| addr[..2] == [10, 1]));
        assert!(all.iter().collect::<HashSet<_>>().len() > 900);
        assert_eq!(all, addresses(&["10.1.0.0/16", "SEED 3"]));
        let few = addresses(&["10.1.0.0/16", "5"]);
        assert!((2..=5).contains(&few.iter().collect::<HashSet<_>>().len()));
        assert!(Rig::new(&ENTRY, &["10.1.0.0/16", "2000000"], 1).is_err());
    }
}
