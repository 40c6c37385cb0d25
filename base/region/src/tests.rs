use super::*;

#[test]
fn zeroed_rounded_and_page_aligned() {
    let region = Region::new(5000, Pages::Normal).expect("a small region");
    assert_eq!(region.len() % mapping::page_len(), 0);
    assert!(region.len() >= 5000);
    assert_eq!(region.as_ptr().as_ptr().addr() % mapping::page_len(), 0);
    assert_eq!(region.pages(), Pages::Normal);
    assert_eq!(region.why_not_huge(), Some(&NoHuge::NotAsked));
    let mut bytes = vec![1; region.len()];
    region.copy_out(0, &mut bytes).expect("the whole region");
    assert!(bytes.iter().all(|&b| b == 0));
}

#[test]
fn refuses_impossible_lengths() {
    for len in [0, usize::MAX, isize::MAX as usize] {
        let error = Region::new(len, Pages::Normal).expect_err("no such mapping");
        assert!(matches!(error, RegionError::BadLength { .. } | RegionError::System { .. }));
    }
}

#[test]
fn copies_every_alignment_and_only_what_was_asked() {
    let region = Region::new(4096, Pages::Normal).expect("a small region");
    for offset in 0..9 {
        for count in 0..26 {
            let blank = [0xEE; 64];
            region.copy_in(0, &blank).expect("within");
            let bytes: Vec<u8> = (0..count).map(|i| i as u8 + 1).collect();
            region.copy_in(offset, &bytes).expect("within");
            let mut oracle = blank;
            oracle[offset..offset + count].copy_from_slice(&bytes);
            let mut all = [0; 64];
            region.copy_out(0, &mut all).expect("within");
            assert_eq!(all, oracle, "offset {offset} count {count}");
            let mut back = vec![0; count];
            region.copy_out(offset, &mut back).expect("within");
            assert_eq!(back, bytes);
        }
    }
}

#[test]
fn copies_outside_are_refused() {
    let region = Region::new(4096, Pages::Normal).expect("a small region");
    let len = region.len();
    assert!(region.copy_in(len - 3, &[0; 4]).is_err());
    assert!(region.copy_in(usize::MAX, &[0; 4]).is_err());
    assert!(region.copy_out(len, &mut [0; 1]).is_err());
    assert!(region.copy_out(len, &mut []).is_ok());
}

#[test]
fn prefer_huge_always_gives_a_region_and_says_which() {
    let region = Region::new(3 << 20, Pages::PreferHuge).expect("falls back");
    match region.pages() {
        Pages::Huge => assert!(region.why_not_huge().is_none() && region.len() == 4 << 20),
        Pages::Normal => assert!(region.why_not_huge().is_some() && region.len() == 3 << 20),
        other => panic!("{other:?} is not an answer"),
    }
}

#[cfg(not(miri))]
#[test]
fn demanded_huge_pages_are_given_or_refused_with_the_remedy() {
    // More than any machine has, so that the refusal is always seen.
    let error = Region::new(1 << 46, Pages::Huge).expect_err("64 TB of huge pages");
    assert!(error.to_string().contains("nr_hugepages"), "{error}");
}

#[cfg(not(miri))]
#[test]
fn sparse_until_touched() {
    let region = Region::new(1 << 30, Pages::Normal).expect("a large region");
    let blocks = || rustix::fs::fstat(region.fd()).expect("stat").st_blocks;
    assert_eq!(blocks(), 0);
    region.copy_in(1 << 29, b"touched").expect("within");
    // At most one huge page of 512-byte blocks.
    assert!((1..=HUGE_PAGE_LEN as i64 / 512).contains(&blocks()), "{}", blocks());
}

#[cfg(not(miri))]
#[test]
fn sealed_and_shared_through_the_descriptor() {
    let region = Region::new(4096, Pages::Normal).expect("a small region");
    assert!(rustix::fs::ftruncate(region.fd(), 0).is_err(), "shrinking must be refused");
    assert!(rustix::fs::ftruncate(region.fd(), 1 << 20).is_err(), "growing must be refused");
    region.copy_in(100, b"hello").expect("within");
    let mut bytes = [0; 5];
    rustix::io::pread(region.fd(), &mut bytes, 100).expect("read through the descriptor");
    assert_eq!(&bytes, b"hello");
}

#[test]
fn moves_and_is_shared_between_threads() {
    let region = std::sync::Arc::new(Region::new(4096, Pages::Normal).expect("a small region"));
    let other = region.clone();
    std::thread::spawn(move || other.copy_in(8, &[7; 8]).expect("within")).join().expect("joined");
    let mut bytes = [0; 8];
    region.copy_out(8, &mut bytes).expect("within");
    assert_eq!(bytes, [7; 8]);
}

#[test]
fn shared_bytes_copy_any_length_between_regions() {
    let [a, b] = [(); 2].map(|()| Region::new(8192, Pages::Normal).expect("a small region"));
    // The interpreter takes the path without assembly, byte by byte: few lengths cover all cases.
    let few = if cfg!(miri) { 5 } else { 200 };
    for len in (0..few).chain([64, 65, 200]) {
        for shift in [0, 1, 14] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + len + shift) as u8).collect();
            let from = a.bytes(64 + shift, len).expect("within");
            from.copy_from(&bytes);
            b.copy_in(0, &[0xee; 512]).expect("within");
            from.copy_across(b.bytes(128, len).expect("within"), len);
            let mut back = vec![0; len + 2];
            b.copy_out(127, &mut back).expect("within");
            assert_eq!((back[0], back[len + 1]), (0xee, 0xee), "len {len} shift {shift}");
            assert_eq!(back[1..=len], bytes, "len {len} shift {shift}");
        }
    }
}

#[test]
fn words_are_shared_and_checked() {
    use thruway_sync::atomic::Ordering;
    let region = Region::new(4096, Pages::Normal).expect("a small region");
    region.word(8).expect("aligned").store(0x0102_0304, Ordering::Relaxed);
    assert_eq!(region.bytes(0, 64).expect("within").read_word(8), 0x0102_0304);
    region.bytes(0, 64).expect("within").write_word(8, 7);
    assert_eq!(region.word(8).expect("aligned").load(Ordering::Relaxed), 7);
    assert!(region.word(6).is_err() && region.word(region.len()).is_err());
}

#[cfg(not(miri))]
#[test]
fn a_region_is_opened_by_its_descriptor_if_it_is_sealed() {
    let region = Region::new(4096, Pages::Normal).expect("a small region");
    let fd = region.fd().try_clone_to_owned().expect("a duplicate");
    let other = Region::open(fd).expect("opened");
    region.copy_in(5, b"seen").expect("within");
    let mut bytes = [0; 4];
    other.copy_out(5, &mut bytes).expect("within");
    assert_eq!(&bytes, b"seen");
    let unsealed = rustix::fs::memfd_create("other", rustix::fs::MemfdFlags::CLOEXEC);
    assert!(matches!(Region::open(unsealed.expect("a memfd")), Err(RegionError::NotSealed)));
}
