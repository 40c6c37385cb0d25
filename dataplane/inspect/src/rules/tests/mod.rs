//! Tests of reading and of evaluating.

pub(super) mod random;

use proptest::prelude::*;

use crate::rules::buffer::Buffer;
use crate::rules::eval::Scratch;
use crate::rules::variables::Variables;
use crate::rules::view::{View, Views};
use crate::rules::{Reason, Rule, RuleSet, naive};

/// One view for every buffer.
struct Same<'a>(View<'a>);

impl Views for Same<'_> {
    fn view(&self, _buffer: Buffer) -> Option<View<'_>> {
        Some(self.0)
    }
}

/// Whether a payload is as these options want it.
fn matches(options: &str, payload: &[u8]) -> bool {
    let text = format!("alert tcp any any -> any any ({options} sid:1;)");
    let set = RuleSet::load(text.as_bytes(), &Variables::usual()).unwrap_or_else(|errors| {
        panic!("{options}: {}", errors[0]);
    });
    let views = Same(View::new(payload));
    let outcome = set.rules()[0].evaluate(&views, &mut Scratch::default());
    assert_eq!(
        outcome.matched,
        naive::evaluate(&set.rules()[0].parts, &views).matched,
        "{options}"
    );
    outcome.matched
}

#[test]
fn options_mean_what_is_written() {
    for (options, payload, wanted) in [
        ("content:\"abc\";", "xabcx", true),
        ("content:\"aBc\";", "xabcx", false),
        ("content:\"aBc\"; nocase;", "xABCx", true),
        ("content:!\"abc\";", "xabcx", false),
        ("content:!\"abc\";", "", true),
        ("content:\"a|62 0D|c\\;\\\"\\\\\";", "ab\rc;\"\\", true),
        ("content:\"b\"; offset:2;", "abab", true),
        ("content:\"b\"; offset:2; depth:1;", "abab", false),
        ("content:\"b\"; depth:2;", "xb", true),
        ("content:\"b\"; depth:1;", "xb", false),
        ("content:\"b\"; startswith;", "ab", false),
        ("content:\"b\"; endswith;", "ab", true),
        ("content:\"b\"; endswith;", "abb", true),
        ("content:\"b\"; endswith;", "ba", false),
        ("content:\"a\"; content:\"b\"; distance:1;", "ab", false),
        ("content:\"a\"; content:\"b\"; distance:1;", "axb", true),
        ("content:\"a\"; content:\"b\"; within:1;", "ab", true),
        ("content:\"a\"; content:\"b\"; within:1;", "axb", false),
        ("content:\"a\"; content:\"b\"; distance:1; within:1;", "axb", true),
        ("content:\"ab\"; content:\"b\"; distance:-1;", "ab", true),
        ("content:\"ab\"; content:\"b\"; distance:-1; within:1;", "ab", true),
        // The first a is too far, the second is not.
        ("content:\"a\"; content:\"b\"; within:2;", "axxaxb", true),
        ("content:\"a\"; content:\"b\"; distance:0; content:\"c\"; within:1;", "abxbc", true),
        ("content:\"a\"; content:!\"b\"; within:2;", "axb", false),
        ("content:\"a\"; content:!\"b\"; within:1;", "axb", true),
        ("content:\"a\"; content:!\"b\"; within:1; content:\"c\"; distance:0;", "abaxc", true),
        ("content:\"a\"; content:!\"b\"; content:\"c\"; distance:0;", "ac", true),
        ("content:\"c\"; content:\"a\";", "ac", true),
        ("content:\"ab\"; depth:20; content:\"ab\"; distance:0;", "ab", false),
        ("content:\"a\"; isdataat:2,relative;", "axx", true),
        ("content:\"a\"; isdataat:2,relative;", "ax", false),
        ("content:\"a\"; isdataat:!1,relative;", "xa", true),
        ("isdataat:2;", "xxx", true),
        ("isdataat:2;", "xx", false),
        ("content:\"a\"; byte_test:1,>,4,0,relative;", "a\x05", true),
        ("content:\"a\"; byte_test:1,>,5,0,relative;", "a\x05", false),
        ("byte_test:2,=,258,1;", "x\x01\x02", true),
        ("byte_test:2,=,513,1,little;", "x\x01\x02", true),
        ("byte_test:1,!&,1,0;", "\x02", true),
        ("byte_test:1,&,0x03,0;", "\x02", true),
        ("byte_test:3,=,123,0,string,dec;", "123", true),
        ("byte_test:4,=,31,0,string,hex;", "0x1f", true),
        ("byte_test:2,=,3,0,bitmask 0xff00;", "\x03\x09", true),
        ("byte_jump:1,0; content:\"b\"; within:1;", "\x02xxb", true),
        ("byte_jump:1,0; content:\"b\"; within:1;", "\x01xxb", false),
        (
            "content:\"a\"; byte_jump:1,0,relative,from_beginning; content:\"b\"; within:1;",
            "xba\x01",
            true,
        ),
        ("byte_jump:1,0,align,post_offset 1; content:\"b\"; within:1;", "\x01xxxxxb", true),
        ("byte_jump:1,0,multiplier 2; content:\"b\"; within:1;", "\x02xxxxb", true),
        ("byte_jump:1,0;", "\x07", false),
        ("pcre:\"/a.c/\";", "abc", true),
        ("pcre:!\"/a.c/\";", "abc", false),
        ("pcre:\"/A.C/i\";", "abc", true),
        ("content:\"a\"; pcre:\"/^c/R\";", "abac", true),
        ("content:\"a\"; pcre:\"/^b/R\"; content:\"c\"; within:1;", "acabc", true),
        ("pcre:\"/a+/\"; content:\"b\"; within:1;", "aaxab", true),
        ("content:\"x\"; pcre:!\"/a/R\";", "axax", true),
    ] {
        assert_eq!(matches(options, payload.as_bytes()), wanted, "{options} on {payload:?}");
    }
}

/// What must be refused, and words of the reason.
#[test]
fn mistakes_are_told() {
    for (text, word) in [
        ("alert tcp any any -> any any", "'('"),
        ("alert tcp any any -> any any (sid:1;", "')'"),
        ("alert tcp any any -> any (sid:1;)", "6 words"),
        ("log tcp any any -> any any (sid:1;)", "'log'"),
        ("alert sctp any any -> any any (sid:1;)", "'sctp'"),
        ("alert tcp any any <- any any (sid:1;)", "'<-'"),
        ("alert tcp [1.2.3.4 any -> any any (sid:1;)", "words"),
        ("alert tcp 1.2.3 any -> any any (sid:1;)", "'1.2.3'"),
        ("alert tcp any 99999 -> any any (sid:1;)", "'99999'"),
        ("alert tcp $NOWHERE any -> any any (sid:1;)", "$NOWHERE"),
        ("alert tcp any any -> any any (msg:\"x\";)", "no sid"),
        ("alert tcp any any -> any any (sid:0;)", "sid: '0'"),
        ("alert tcp any any -> any any (sid:1; sid:2;)", "twice"),
        ("alert tcp any any -> any any (sid:1)", "no ';'"),
        ("alert tcp any any -> any any (msg:\"x; sid:1;)", "quote"),
        ("alert tcp any any -> any any (foo:1; sid:1;)", "'foo'"),
        ("alert tcp any any -> any any (content:\"\"; sid:1;)", "empty"),
        ("alert tcp any any -> any any (content:\"|6|\"; sid:1;)", "odd"),
        ("alert tcp any any -> any any (content:\"|6x|\"; sid:1;)", "'x'"),
        ("alert tcp any any -> any any (content:\"|61\"; sid:1;)", "bar"),
        ("alert tcp any any -> any any (content:\"a\\b\"; sid:1;)", "'\\b'"),
        ("alert tcp any any -> any any (content:\"abc\"; depth:2; sid:1;)", "depth is less"),
        ("alert tcp any any -> any any (content:\"abc\"; within:2; sid:1;)", "within is less"),
        ("alert tcp any any -> any any (content:\"a\"; depth:2; within:2; sid:1;)", "contradict"),
        ("alert tcp any any -> any any (content:\"a\"; offset:x; sid:1;)", "'x'"),
        ("alert tcp any any -> any any (offset:1; content:\"a\"; sid:1;)", "no content"),
        (
            "alert tcp any any -> any any (content:\"a\"; fast_pattern:0,2; sid:1;)",
            "more than there",
        ),
        (
            "alert tcp any any -> any any (content:\"a\"; fast_pattern; content:\"b\"; fast_pattern; sid:1;)",
            "several",
        ),
        ("alert udp any any -> any any (content:\"a\"; http_uri; sid:1;)", "http.uri with udp"),
        (
            "alert http any any -> any any (flow:to_client; content:\"a\"; http_uri; sid:1;)",
            "both sides",
        ),
        ("alert tcp any any -> any any (flow:to_client,to_server; sid:1;)", "contradicts"),
        ("alert tcp any any -> any any (flow:sideways; sid:1;)", "flow:sideways"),
        ("alert tcp any any -> any any (pcre:\"/(/\"; sid:1;)", "pcre"),
        ("alert tcp any any -> any any (pcre:\"/a/q\"; sid:1;)", "pcre flag q"),
        ("alert tcp any any -> any any (pcre:\"/(?=a)/\"; sid:1;)", "lookaround"),
        ("alert tcp any any -> any any (threshold: type limit, count 1; sid:1;)", "wants track"),
        ("alert tcp any any -> any any (flags:Q; sid:1;)", "'Q'"),
        ("alert tcp any any -> any any (dsize:x; sid:1;)", "'x'"),
        ("alert tcp any any -> any any (byte_test:9,>,1,0; sid:1;)", "8 bytes"),
        ("alert tcp any any -> any any (nocase:1; sid:1;)", "no value"),
    ] {
        let errors = RuleSet::load(text.as_bytes(), &Variables::usual()).unwrap_err();
        let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(messages.iter().any(|it| it.contains(word)), "{text}: {messages:?}");
        assert!(messages.iter().all(|it| it.starts_with("line 1")), "{messages:?}");
    }
}

/// All that is wrong in a file is reported, in order; leniently, the rest is loaded.
#[test]
fn files_are_loaded_or_not() {
    let file = b"# a comment\n\
        alert tcp any any -> any any (content:\"a\"; sid:1;)\n\
        alert tcp any any -> any any (content:\"b\"; foo; bar; sid:2;)\n\
        alert tcp any any -> any any (content:\"c\"; sid:1;)\n\
        alert tcp any any -> any any (content:\"d\"; \\\n  sid:3;)\n\
        alert tcp any any -> any any (content:\"\xff\"; sid:4;)\n";
    let errors = RuleSet::load(file, &Variables::usual()).unwrap_err();
    let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "line 3 (sid 2): 'foo' is not supported: no such option is served",
            "line 3 (sid 2): 'bar' is not supported: no such option is served",
            "line 4 (sid 1): sid 1 belongs to the rule of line 2",
            "line 7: is not UTF-8; write other bytes as hex",
        ]
    );
    let loaded = RuleSet::load_lenient(file, &Variables::usual());
    assert_eq!(loaded.refused, 3);
    let sids: Vec<u32> = loaded.set.rules().iter().map(|rule| rule.about.sid).collect();
    assert_eq!(sids, [1, 3]);
    assert!(matches!(loaded.errors[0].reason, Reason::Unsupported { .. }));
}

#[test]
fn large_things_are_refused() {
    let rule = |options: &str| format!("alert tcp any any -> any any ({options} sid:1;)");
    for options in [
        format!("content:\"{}\";", "a".repeat(3000)),
        "content:\"a\";".repeat(200),
        "priority:1;".repeat(1000),
        format!("pcre:\"/{}/\";", "a".repeat(9000)),
        format!("msg:\"{}\";", "a".repeat(70_000)),
        "pcre:\"/((a{100}){100}){100}/\";".to_owned(),
        format!("flowbits:isset,{};", vec!["a"; 100].join("|")),
    ] {
        let errors = RuleSet::load(rule(&options).as_bytes(), &Variables::usual()).unwrap_err();
        assert!(matches!(errors[0].reason, Reason::TooLarge(_)), "{}", errors[0]);
    }
}

/// An expression for which every place is a beginning, on bytes that make it look far each time,
/// ends, and counts as matched.
#[test]
fn expensive_expressions_end() {
    let text = "alert tcp any any -> any any (pcre:\"/a.*z/s\"; content:\"q\"; within:1; sid:1;)";
    let set = RuleSet::load(text.as_bytes(), &Variables::usual()).unwrap();
    let mut payload = vec![b'a'; 60_000];
    payload.push(b'z');
    let outcome = set.rules()[0].evaluate(&Same(View::new(&payload)), &mut Scratch::default());
    assert!(outcome.exhausted && outcome.fires());
}

/// The rule that the page about rules shows.
#[test]
fn the_rule_of_the_documentation_is_good() {
    let page = include_str!("../../../../../docs/rules.md");
    let lines = page.lines().skip_while(|line| !line.starts_with("    drop"));
    let rule: String =
        lines.take_while(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect();
    let set = RuleSet::load(rule.as_bytes(), &Variables::usual()).unwrap();
    assert_eq!(set.rules()[0].about.sid, 1_000_001);
}

proptest! {
    #[test]
    fn what_is_printed_is_read(text in random::rule()) {
        let rule = Rule::parse(&text).unwrap_or_else(|(_, why)| panic!("{text}: {why:?}"));
        let printed = rule.to_string();
        prop_assert_eq!(Rule::parse(&printed), Ok(rule), "{}", printed);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(alert|drop) (tcp|http) \\PC{0,8} -> any any \\(\\PC{0,60}\\)") {
        if let Ok(rule) = Rule::parse(&text) {
            prop_assert_eq!(Rule::parse(&rule.to_string()), Ok(rule));
        }
    }

    #[test]
    fn the_evaluator_is_the_oracle(
        parts in random::parts(true), bytes in random::bytes(40), base in 0u64..20, since in 0usize..40,
        fresh: bool,
    ) {
        let text = format!("alert tcp any any -> any any ({parts} sid:1;)");
        let set = RuleSet::load(text.as_bytes(), &Variables::usual()).unwrap();
        let views = Same(View { bytes: &bytes, base, since: since.min(bytes.len()), fresh });
        let real = set.rules()[0].evaluate(&views, &mut Scratch::default());
        let wanted = naive::evaluate(&set.rules()[0].parts, &views);
        prop_assert_eq!((real.matched, real.fires()), (wanted.matched, wanted.fires()), "{}", parts);
    }
}
