//! More bytes, components, collisions or entries never cost less.

use proptest::prelude::*;

use super::*;

/// Each operation with two sets of parameters, the second at least as large.
fn pair() -> impl Strategy<Value = (Operation, Operation)> {
    let sizes = (0_u32..5000, 0_u32..5000);
    let tables = (1_u32..8, 0_u32..8, 0_u64..1 << 24, 0_u64..1 << 24, 0.0..0.5_f64, 0.0..0.5_f64);
    (
        0..OPERATIONS.len(),
        sizes,
        tables,
        prop_oneof![Just(MemoryLevel::L1), Just(MemoryLevel::Memory)],
    )
        .prop_map(|(which, (small, more), (n, n_more, max, max_more, p, p_more), from)| {
            let build = |b: u32, n: u32, max: u64, collision: f64| {
                operation(which, size(b), table(n, b.max(1), max, collision), from)
            };
            (build(small, n, max, p), build(small + more, n + n_more, max + max_more, p + p_more))
        })
}

fn operation(which: usize, b: Size, table: HashTable, from: MemoryLevel) -> Operation {
    match OPERATIONS[which].name {
        "io_mem" => Operation::IoMem { hdr: b, data: b },
        "mem_io" => Operation::MemIo { hdr: b, data: b },
        "parse" => Operation::Parse { b, from },
        "deparse" => Operation::Deparse { b, from },
        "increase" => Operation::Increase { b },
        "decrease" => Operation::Decrease { b },
        "sum" => Operation::Sum { b },
        "checksum" => Operation::Checksum { b, from },
        "inc_checksum" => Operation::IncChecksum { b, from },
        "array_access" => Operation::ArrayAccess { es: b, max: table.max },
        "ht_lookup" => Operation::HtLookup(table),
        "lpm_lookup" => Operation::LpmLookup { b, es: b },
        _ => Operation::CtInsertion(table),
    }
}

proptest! {
    #[test]
    fn more_never_costs_less((small, large) in pair(), frame in 64_u32..1519) {
        let (_, mapping) = host();
        prop_assert_eq!(small.name(), large.name());
        let (less, more) = (mapping.cost(&small, frame), mapping.cost(&large, frame));
        prop_assert!(less.cycles <= more.cycles, "{small}: {less:?}, {large}: {more:?}");
        prop_assert!(less.accesses <= more.accesses, "{small}: {less:?}, {large}: {more:?}");
        prop_assert!(less.cycles.fract() == 0.0 && less.accesses.fract() == 0.0);
    }

    #[test]
    fn longer_frames_never_pass_faster(frame in 64_u32..1518, more in 1_u32..1500) {
        let (hardware, mapping) = host();
        for (name, _) in MODELS {
            let model = Model::find(name).unwrap();
            let at = |frame| {
                let cost = model.cost_by_sockets(&mapping, frame);
                rates(&hardware, &mapping, &model.run, cost, frame)
            };
            let (short, long) = (at(frame), at(frame + more));
            prop_assert!(long.packets() <= short.packets(), "{name}");
            prop_assert!(long.cores <= short.cores && long.memory <= short.memory, "{name}");
        }
    }

    #[test]
    fn shares_mix_between_their_parts(share in 0.0..=1.0_f64, frame in 64_u32..1519) {
        let (_, mapping) = host();
        let rest = 1.0 - share;
        let text = format!(
            "name = \"a\"\ntitle = \"b\"\nsource = \"c\"\n\
             [[part]]\nmodel = \"l2-switch\"\nshare = {share:.9}\n\
             [[part]]\nmodel = \"bng-access\"\nshare = {rest:.9}\n"
        );
        let mix = Model::parse("mix.toml", &text).unwrap().cost(&mapping, frame);
        let cost = |name| Model::find(name).unwrap().cost(&mapping, frame);
        let (low, high) = (cost("l2-switch"), cost("bng-access"));
        let expected = low.cycles * share + high.cycles * rest;
        prop_assert!((mix.cycles - expected).abs() < 1e-4, "{mix:?}");
        prop_assert!(mix.accesses >= low.accesses - 1e-6 && mix.accesses <= high.accesses + 1e-6);
    }

    #[test]
    fn sizes_come_back_as_they_were(bytes in 0_u32..1 << 20, sign: bool, by_frame: bool) {
        let given = match (by_frame, sign) {
            (false, _) => size(bytes),
            (true, true) => Size::frame(i64::from(bytes)),
            (true, false) => Size::frame(-i64::from(bytes)),
        };
        prop_assert_eq!(Size::parse(&given.to_string()), Some(given));
    }

    #[test]
    fn no_text_is_taken_for_a_model_or_panics(text in "\\PC{0,200}", at in 0_usize..600) {
        prop_assert!(Model::parse("any.toml", &text).is_err());
        let mut mutated = MODELS[3].1.to_owned();
        let at = (0..=at).rev().find(|at| mutated.is_char_boundary(*at)).unwrap_or(0);
        mutated.insert_str(at, &text);
        // Whether it is one depends on the text; the answer must come.
        let _ = Model::parse("any.toml", &mutated);
    }
}
