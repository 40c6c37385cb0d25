//! Replicas in texts.

use super::*;

fn used(text: &str) -> FunctionUse {
    FunctionUse::parse(text).expect("a use")
}

fn replicas(json: &str) -> ReplicasSpec {
    serde_json::from_str(json).expect("of that form")
}

fn chain(configuration: &str, json: &str) -> ChainSpec {
    ChainSpec {
        configuration: configuration.to_owned(),
        functions: [("words".to_owned(), used("words@2 hug"))].into(),
        replicas: [("words".to_owned(), replicas(json))].into(),
        ..ChainSpec::default()
    }
}

#[test]
fn replicas_are_written_into_the_text_and_its_lines_stay() {
    let text = "c -> nf :: Nf($words,\n  SESSION connection) -> d;\ne -> [1] nf [1] -> f;\n";
    let spec = chain(text, r#"{"count": 2}"#);
    check(&spec).expect("good");
    let mut layouts = at_first(&spec, SystemTime::UNIX_EPOCH);
    let (one, two) = (FunctionName::new("words@1"), FunctionName::new("words@2"));
    let (one, two) = (one.expect("a name"), two.expect("a name"));
    let functions = [(two, FunctionSpec::default())].into();
    let run = Run { spec, functions, ..Run::default() };
    let others = BTreeMap::from([(one, FunctionSpec::default())]);
    let wide = expand(&run, &layouts, &others).expect("written");
    let (first, rest) = wide.spec.configuration.split_once(" -> d;").expect("the rest");
    assert_eq!(rest, "\ne -> [1] nf [1] -> f;\n");
    let replica = |at: u32| {
        format!(
            " r{at} :: Nf($words,   SESSION connection); r{at}[0] -> [0] output; \
             r{at}[1] -> [1] output; balance[{at}] -> [0] r{at}; balance[{}] -> [1] r{at};",
            at + 2
        )
    };
    let expected = format!(
        "c -> nf :: {{ input[0] -> balance :: Balance(METHOD least-queue, WEIGHTS 1 1); \
         input[1] -> [1] balance;{}{} }}",
        replica(0),
        replica(1)
    );
    assert_eq!(first, expected);
    assert!(wide.spec.replicas.is_empty() && wide.spec.functions == run.spec.functions);

    // A version that is not asked for has a variable of its own, and one that none runs has none.
    let slots = &mut layouts.get_mut("words").expect("a layout").slots;
    slots[0].used = used("words@1 hug");
    slots[1].turn(SlotState::Vacant, SystemTime::now());
    let wide = expand(&run, &layouts, &others).expect("written");
    let text = &wide.spec.configuration;
    assert!(text.contains("r0 :: Nf($words_before,") && text.contains("DRAINED 1"), "{text}");
    assert!(text.contains("balance[1] -> [0] v1; balance[3] -> [0] v1;"), "{text}");
    let uses: Vec<_> = wide.spec.functions.into_iter().collect();
    assert_eq!(uses, [("words_before".to_owned(), used("words@1 hug"))]);
}

#[test]
fn what_cannot_be_written_is_refused() {
    let refused = |text: &str| {
        let error = check(&chain(text, "{}")).expect_err(text);
        assert_eq!(error.field, "replicas.words");
        error.message
    };
    for (text, why) in [
        ("a -> b", "no element"),
        ("a -> nf :: Nf(EXEC /bin/true) -> b", "no element"),
        ("a -> nf :: Nf($wordsy) -> b", "no element"),
        ("a -> Nf($words) -> b", "has no name"),
        ("a -> x :: Nf($words) -> y :: Nf($words) -> b", "several"),
        ("a -> { input -> x :: Nf($words) -> output } -> b", "inside of a compound"),
        ("elementclass X { input -> x :: Nf($words) -> output } a -> X -> b", "inside of"),
        ("nf :: Nf($words); a -> [] nf -> b", "write the numbers"),
        ("nf :: Nf($words); a -> [2] nf -> b", "3 inputs"),
        ("nf :: Nf($words);", "0 inputs"),
    ] {
        assert!(refused(text).contains(why), "{text}: {}", refused(text));
    }
    let mut spec = chain("a -> nf :: Nf(${words}) -> b", "{}");
    check(&spec).expect("good");
    spec.variables.insert("words_before".to_owned(), "x".to_owned());
    assert!(check(&spec).expect_err("taken").message.contains("words_before"));
    spec.variables.clear();
    spec.functions.clear();
    assert!(check(&spec).expect_err("no function").message.contains("none of `functions`"));
}
