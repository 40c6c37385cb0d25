//! Words behind a version under loom: every interleaving, and what weak memory allows.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p thruway-sync --test loom`
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use thruway_sync::SeqWords;
use thruway_sync::atomic::{AtomicU64, Ordering};

/// Two writers of pairs; a reader never sees half of one.
#[test]
fn pairs_are_whole() {
    loom::model(|| {
        let words = Arc::new(SeqWords::new([0, 0]));
        let writers: Vec<_> = (1..3u64)
            .map(|number| {
                let words = words.clone();
                thread::spawn(move || {
                    words.try_write(|words| {
                        words.set(0, number);
                        words.set(1, number);
                    })
                })
            })
            .collect();
        if let Some((first, second)) = words.read(|words| (words.get(0), words.get(1))) {
            assert_eq!(first, second);
        }
        let written = writers.into_iter().filter_map(|writer| writer.join().unwrap()).count();
        assert!(written >= 1, "one of two writers comes first");
        let last = words.read(|words| (words.get(0), words.get(1))).expect("nobody writes");
        assert!(last.0 == last.1 && last.0 != 0);
    });
}

/// Writers that read what is there lose no increment that they were told was done.
#[test]
fn increments_add_up() {
    loom::model(|| {
        let words = Arc::new(SeqWords::new([0]));
        let other = words.clone();
        let add = |words: &SeqWords<1>| {
            words.try_write(|words| {
                let before = words.get(0);
                words.set(0, before + 1);
            })
        };
        let thread = thread::spawn(move || u64::from(add(&other).is_some()));
        let mine = u64::from(add(&words).is_some());
        let done = mine + thread.join().unwrap();
        assert_eq!(words.read(|words| words.get(0)), Some(done));
    });
}

/// Who is refused by a writer, or sees new words, sees what the writer did before: a link that was
/// taken away first is seen to be away.
#[test]
fn what_was_before_a_write_is_seen() {
    loom::model(|| {
        let link = Arc::new(AtomicU64::new(1));
        let words = Arc::new(SeqWords::new([1]));
        let (their_link, their_words) = (link.clone(), words.clone());
        let thread = thread::spawn(move || {
            their_link.store(0, Ordering::Relaxed);
            their_words.try_write(|words| words.set(0, 2)).expect("one writer");
        });
        if link.load(Ordering::Acquire) == 1 && words.read(|words| words.get(0)) != Some(1) {
            // Either the version was odd when it was loaded first, or it changed under way; a
            // second look at the words meets a finished or an unfinished writer, never the old one.
            if words.read(|words| words.get(0)).is_none_or(|word| word == 2) {
                assert_eq!(link.load(Ordering::Acquire), 0);
            }
        }
        thread.join().unwrap();
    });
}
