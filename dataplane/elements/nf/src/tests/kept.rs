//! What a function leaves as it was, the host does not take back.

use thruway_exchange::{Location, Storage};
use thruway_nf_abi::{Ring, flag};

use super::Stage;

#[test]
fn what_a_function_says_it_kept_is_the_hosts_own() {
    let mut stage = Stage::new(&["OUTPUTS 2"]);
    stage.push(&[b"one", b"two"]);
    stage.works(|head, bytes| head.output = u8::from(bytes == b"two"));
    // It lies: it has changed the second, and where it lies.
    let mut head = stage.storage.head(Ring::Primary, 1);
    assert_ne!(head.flags & flag::KEPT, 0);
    stage.storage.copy_in(Location::Slot(Ring::Primary, 1), head.start.into(), b"bad");
    head.start += 1;
    head.len += 7;
    stage.storage.set_head(Ring::Primary, 1, head);
    let [zero, one] = <[_; 2]>::try_from(stage.run()).unwrap();
    assert_eq!((zero, one), (vec![b"one".to_vec()], vec![b"two".to_vec()]));
    // The next round of the ring, changed.
    stage.push(&[b"one"]);
    stage.works(|_, bytes| bytes.make_ascii_uppercase());
    assert_eq!(stage.run()[0], [b"ONE".to_vec()]);
}
