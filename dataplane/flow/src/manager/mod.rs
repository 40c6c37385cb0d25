//! The flow manager of one thread: it looks at each packet once, finds its class and its session,
//! and writes both into the packet's metadata; functions behind it find their state from there.
//!
//! A batch goes through in three passes, so that the cache misses of its packets overlap: parse,
//! classify and read the key of each; look all keys up; then touch each session. Rare events (a
//! session begins or ends) happen in the third.

mod answer;
mod change_log;
mod classes;
mod counts;
mod endings;
mod entry;
mod filter;
mod flow_manager;
mod headers;
mod http;
mod images;
mod level;
mod list;
mod numbers;
mod owners;
mod ownership;
mod passing;
mod reader;
mod reply_headers;
mod settings;
mod shared_records;
mod short_cuts;
mod state;
mod sweep;
mod tagged;
mod takeover;
mod thread_set;
mod work;

pub use answer::NoAnswer;
pub use change_log::{Change, ChangeMark};
pub use counts::{ClassCounts, Counts};
pub use endings::EndedSession;
pub use entry::{Input, Refusal};
pub use filter::Filter;
pub use flow_manager::Manager;
pub use headers::{Kind, ParsedHeaders, parse_ethernet, parse_ip};
pub use images::{Installed, SessionImage};
pub use level::Bounds;
pub use list::{Cursor, Ends, Flow};
pub use reader::Key;
pub use settings::{Settings, TICK_NS};
pub use shared_records::{SharedFlowsByLevel, shared_flows_of};
pub use short_cuts::{CANDIDATE_LEN, Candidate, Numbers, ShortCutTable, ShortCuts};
pub use state::{AccessByLevel, At};
pub use thread_set::{HandoffCounts, THREADS_MAX, ThreadSet};
