//! What a host of a pair does.

/// What this host does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Serves traffic, and sends its sessions.
    Active,
    /// Has sent its last record: packets go to the other host, which is to serve.
    SwitchingOver {
        /// The stream over which it did.
        stream: u64,
        /// How long it waits for the other one to begin.
        until: i64,
    },
    /// Installs sessions of the other host.
    Backup,
}

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Role::Active => "active",
            Role::SwitchingOver { .. } => "switching-over",
            Role::Backup => "backup",
        }
    }
}
