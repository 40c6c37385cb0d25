//! The rules, on this repository. A failure lists every place with what to do.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use thruway_structure::{
    Problem, Tree, capabilities, catalog, circles, class_names, compatibility, doc_examples,
    layers, prose, rooms, sizes, steps, texts, words,
};

static TREE: LazyLock<Tree> = LazyLock::new(Tree::of_repository);

#[track_caller]
fn none(problems: Vec<Problem>) {
    let list: Vec<String> = problems.iter().map(Problem::to_string).collect();
    assert!(list.is_empty(), "{} problems:\n\n{}\n", list.len(), list.join("\n"));
}

#[test]
fn the_tree_is_seen() {
    assert!(TREE.crates().len() > 10, "{:?}", TREE.crates());
    assert!(TREE.sources().count() > 100);
}

#[test]
fn examples_are_run_where_there_are_some() {
    none(doc_examples::contradictions(&TREE));
}

#[test]
fn dependencies_point_down() {
    none(layers::upward(&TREE.crates()));
}

#[test]
fn what_must_not_meet_does_not() {
    let crates = TREE.crates();
    for (from, _, _) in layers::APART {
        assert!(crates.iter().any(|one| one.name == *from), "no crate {from}: correct APART");
    }
    none(layers::forbidden_contacts(&crates));
}

#[test]
fn language_engine_and_commands_know_no_class() {
    for sources in class_names::WITHOUT.iter().chain(class_names::ONLY_IN_TEXTS) {
        assert!(TREE.sources().any(|(path, _)| path.starts_with(sources)), "no {sources}");
    }
    none(class_names::named(&TREE));
}

/// With `THRUWAY_CIRCLES=lower` in the environment the list loses what is in no circle any more.
#[test]
fn modules_form_no_circles() {
    let found = circles::circles(&TREE);
    let text = TREE.text(circles::KNOWN).expect("the list of known circles");
    if std::env::var("THRUWAY_CIRCLES").is_ok_and(|word| word == "lower") {
        let head = text.lines().take_while(|line| line.starts_with('#'));
        let head: String = head.map(|line| format!("{line}\n")).collect();
        let known = circles::still_known(found.clone(), &circles::known(text));
        let lowered = head + &circles::list(&known);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(circles::KNOWN);
        fs::write(path, &lowered).expect("the list is written");
        // What is new is no better for that.
        return none(circles::problems(&found, &circles::known(&lowered)));
    }
    none(circles::problems(&found, &circles::known(text)));
}

/// With `THRUWAY_WORDS=lower` in the environment the counts are brought down to what is found.
#[test]
fn names_are_the_fields_words() {
    let retired = words::retired(TREE.text(words::RETIRED).expect("the list of retired words"));
    let crates = TREE.crates();
    for directory in &retired.crates {
        assert!(crates.iter().any(|one| one.directory == *directory), "no crate {directory}");
    }
    let found = words::findings(&TREE, &retired);
    let text = TREE.text(words::KNOWN).expect("the list of leftovers");
    if std::env::var("THRUWAY_WORDS").is_ok_and(|word| word == "lower") {
        let head = text.lines().take_while(|line| line.starts_with('#'));
        let head: String = head.map(|line| format!("{line}\n")).collect();
        let lowered = head + &words::lowered(&found, &words::known(text));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(words::KNOWN);
        fs::write(path, &lowered).expect("the list is written");
        return none(words::problems(&found, &words::known(&lowered), &retired));
    }
    none(words::problems(&found, &words::known(text), &retired));
}

#[test]
fn crate_roots_forbid_unsafe_code() {
    none(rooms::unforbidden(&TREE));
}

#[test]
fn unsafe_code_keeps_to_its_rooms_and_is_justified() {
    none(rooms::unsafe_locations(&TREE));
}

#[test]
fn atomics_come_from_the_facade() {
    none(rooms::raw_atomics(&TREE));
}

/// With `THRUWAY_SIZES=lower` in the environment the list is brought down to what is found.
#[test]
fn files_and_functions_keep_their_size() {
    let found = sizes::oversized(&TREE);
    let text = TREE.text(sizes::EXCEPTIONS).expect("the list of exceptions");
    let listed = sizes::exceptions(text);
    if std::env::var("THRUWAY_SIZES").is_ok_and(|word| word == "lower") {
        let mut lines: Vec<String> =
            text.lines().filter(|line| line.starts_with('#')).map(str::to_owned).collect();
        for (name, allowed) in &listed {
            if let Some(now) = found.get(name) {
                lines.push(format!("{name} {}", now.min(allowed)));
            }
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(sizes::EXCEPTIONS);
        fs::write(path, lines.join("\n") + "\n").expect("the list is written");
        return;
    }
    none(sizes::problems(&found, &listed));
}

#[test]
fn lines_fit_a_page() {
    none(sizes::wide(&TREE));
}

#[test]
fn elements_are_documented() {
    none(catalog::undocumented());
}

#[test]
fn replicas_are_what_elements_say() {
    none(catalog::impossible_replicas());
}

#[test]
fn entries_register_what_their_elements_can() {
    none(capabilities::unregistered(&TREE));
    none(capabilities::unlike());
    none(capabilities::nameless_figures());
    assert!(capabilities::unbuilt().len() < 20, "{:?}", capabilities::unbuilt());
}

#[test]
fn examples_are_correct_configurations() {
    none(catalog::wrong_examples());
}

#[test]
fn example_configurations_are_correct() {
    none(catalog::wrong_configurations(&TREE));
}

#[test]
fn elements_have_their_file_and_golden_test() {
    none(catalog::misplaced(&TREE));
}

#[test]
fn lists_of_elements_are_sorted() {
    none(catalog::unsorted());
}

#[test]
fn nothing_names_a_network_host() {
    none(texts::hosts(&TREE));
}

#[test]
fn merges_left_no_conflicts() {
    none(texts::conflicts(&TREE));
}

#[test]
fn every_crate_is_on_the_code_map() {
    none(texts::unmapped(&TREE));
}

#[test]
fn links_between_pages_hold() {
    none(texts::dangling(&TREE));
}

#[test]
fn sentences_of_pages_are_short() {
    none(prose::long_sentences(&TREE));
}

#[test]
fn functions_that_a_packet_passes_are_there() {
    none(steps::missing(&TREE));
}

#[test]
fn decisions_are_numbered_and_listed() {
    none(prose::decisions(&TREE));
}

/// With `THRUWAY_PAGES=write` in the environment the page is written, and the list loses the
/// reasons of elements that are there by now.
#[test]
fn the_page_on_clicks_elements_is_current() {
    if std::env::var("THRUWAY_PAGES").is_ok_and(|word| word == "write") {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let list = TREE.text(compatibility::LIST).expect("the list of names");
        let list = compatibility::without_old_reasons(list);
        let page = compatibility::page(&TREE, &list);
        fs::write(root.join(compatibility::LIST), list).expect("the list is written");
        fs::write(root.join(compatibility::PAGE), page).expect("the page is written");
        return;
    }
    none(compatibility::problems(&TREE));
}
