//! Which packets a chain drops at once, and the classes of others, as a table of tests for a
//! machine that can do little more than compare words: a program in the kernel, in front of the
//! chain.
//!
//! Such a machine drops a packet only where the chain is sure to drop it ([`DROP`]), and gives it a
//! class only where the chain would ([`class_of`]). All other packets go to the chain, which
//! classifies them as it does without the table ([`SOFTWARE`]). So the table may
//! leave out what it cannot express, and does so where it would become too large ([`Excluded`]).
//!
//! [`DropTable::run`] defines the machine's behaviour, and its tests compare with it. Before the
//! table the machine reads the headers, and begins only if they are headers that the chain reads,
//! too: whole IPv4 packets, IPv6 packets without extension headers, and frames of other types, all
//! without VLAN tags ([`Start`]).
//!
//! - `table`: the table itself;
//! - `build`: from the decision of a plan to tests; `simplify`: without the needless ones;
//! - `facts`: the facts about a packet before a test;
//! - `search`: long lists of rules, of which a search tree finds the few that may hold.

mod build;
mod facts;
mod search;
mod simplify;
mod table;

pub use table::{
    DEPTH_MAX, DROP, DropTable, ERRORS4, ERRORS6, ETHERNET_LEN, EXTENSIONS, Excluded, ICMP, ICMPV6,
    IPV4, IPV6, Next, REACH, SOFTWARE, Start, TESTS_MAX, Test, VLAN, class_of,
};
