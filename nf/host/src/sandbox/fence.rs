//! Landlock: files by their inode, whatever the tree of mounts says.

use super::files::Grants;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};
use std::os::fd::OwnedFd;

/// The newest interface whose restrictions are asked for; an older kernel gives what it has.
const NEWEST: ABI = ABI::V6;

/// A rule set to be entered by the function's process: the granted files may be read, the program
/// and its loader executed; nothing is written, bound, connected, signalled.
///
/// # Errors
/// A text that says why there is none.
pub(crate) fn ruleset(grants: &Grants) -> Result<OwnedFd, String> {
    match build(grants) {
        Ok(Some(rules)) => Ok(rules),
        Ok(None) => Err("this kernel has no Landlock, or it was not enabled at boot".into()),
        Err(error) => Err(error.to_string()),
    }
}

fn build(grants: &Grants) -> Result<Option<OwnedFd>, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    for grant in &grants.files {
        let mut access = BitFlags::from(AccessFs::ReadFile);
        if grant.executable {
            access |= AccessFs::Execute;
        }
        if grant.directory {
            access |= AccessFs::ReadDir;
        }
        // A file that has gone since is missed by the mounts too, which say so.
        if let Ok(file) = PathFd::new(&grant.path) {
            rules = rules.add_rule(PathBeneath::new(file, access))?;
        }
    }
    Ok(rules.into())
}
