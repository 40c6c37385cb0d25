//! What is wrong with arguments, as the user is told it.

use super::{ENTRY, Rig};

#[test]
fn wrong_arguments_name_the_remedy() {
    for (texts, why) in [
        (&["/no/such/program"][..], "there is no program '/no/such/program'"),
        (&["/etc/passwd"], "chmod +x"),
        (&["/bin"], "is not a file"),
        (&["/bin/true", "SLOTS 100"], "SLOTS: 100 is not a number of slots: a power of two"),
        (&["/bin/true", "SLOTS 16"], "WORKER_THRESHOLD: 32 is not below SLOTS (16)"),
        (&["/bin/true", "SLOTS 64", "MASTER_THRESHOLD 100"], "or give SLOTS 128"),
        (&["/bin/true", "AUX_SLOTS 3"], "AUX_SLOTS: 3 is not"),
        (&["/bin/true", "MODE group"], "GROUP NAME"),
        (&["/bin/true", "MODE group", "GROUP g"], "TrustGroup(g"),
        (&["/bin/true", "GROUP g"], "needs MODE group"),
        (&["/bin/true", "MODE grouped"], "isolated, group"),
        (&["/bin/true", "MEMORY 5"], "at least 1M"),
        (&["/bin/true", "CPUS x"], "CPUS \"1 2\""),
        (&["/bin/true", "OUTPUTS 1"], "2 outputs are connected"),
        (&["/bin/true", "OUTPUTS 1000"], "1 to 256"),
    ] {
        let error = Rig::new(&ENTRY, texts, 2).err().expect(why).to_string();
        assert!(error.contains(why), "{texts:?}: {error}");
    }
}
