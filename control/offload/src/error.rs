//! Why a switch does not have the rules that are wanted.

/// Most rules of a port: each has a priority of its own.
pub const RULES_MAX: usize = 50_000;

/// Why rules are not as wanted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name that would mean something else in a rule.
    #[error("'{0}' is no name of a bridge or port: letters, digits, '.', '_', '-', ':' and '/'")]
    Name(String),
    /// The program is missing.
    #[error("ovs-ofctl cannot be run ({0}): install Open vSwitch (Debian: openvswitch-switch)")]
    Program(std::io::Error),
    /// The rules cannot be written for `ovs-ofctl`.
    #[error("a temporary file cannot be written: {0}")]
    File(std::io::Error),
    /// The switch refused, or is not there.
    #[error("{bridge}: {message}")]
    Switch {
        /// Its name.
        bridge: String,
        /// What `ovs-ofctl` said.
        message: String,
    },
    /// The switch has other rules.
    #[error("the switch has other rules:\n{0}")]
    Differs(String),
    /// More rules than priorities.
    #[error("{count} rules: Open vSwitch gets at most {RULES_MAX} of a port; give a lower limit")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// The option of Geneve has another length, or there is no field left for it.
    #[error("{bridge}: {message}")]
    Option {
        /// The switch.
        bridge: String,
        /// What is in the way, and the remedy.
        message: String,
    },
    /// Rules of others come first.
    #[error(
        "{bridge}: {count} rules of others for packets of '{port}' come first (the first: {first}): \
         give them priorities below {lowest}, or take them away"
    )]
    Foreign {
        /// The switch.
        bridge: String,
        /// The port.
        port: String,
        /// How many.
        count: usize,
        /// One of them.
        first: String,
        /// The lowest priority of these rules.
        lowest: usize,
    },
}
