//! The role that each operation needs: said here, and nowhere else.

use crate::access::Role;
use crate::access::Role::{Administer, Operate, View};

/// Method, path and role of each operation of the API. An operation that is not here cannot be
/// served.
pub const ROLES: &[(&str, &str, Role)] = &[
    ("GET", "/metrics", View),
    ("GET", "/openapi.json", View),
    ("GET", "/v1/chains", View),
    ("GET", "/v1/chains/{name}", View),
    ("PUT", "/v1/chains/{name}", Operate),
    ("DELETE", "/v1/chains/{name}", Operate),
    ("GET", "/v1/chains/{name}/diff", View),
    ("GET", "/v1/chains/{name}/estimate", View),
    ("GET", "/v1/chains/{name}/explanation", View),
    // These trace the data plane, and show content of packets.
    ("POST", "/v1/chains/{name}/capture", Operate),
    ("POST", "/v1/chains/{name}/examples", Operate),
    ("GET", "/v1/chains/{name}/generations", View),
    ("GET", "/v1/chains/{name}/generations/{generation}", View),
    ("GET", "/v1/chains/{name}/graph", View),
    ("GET", "/v1/chains/{name}/handlers/{handler}", View),
    ("PUT", "/v1/chains/{name}/handlers/{handler}", Operate),
    ("GET", "/v1/chains/{name}/log", View),
    ("POST", "/v1/chains/{name}/rollback", Operate),
    ("GET", "/v1/events", View),
    // They name executables.
    ("GET", "/v1/functions", View),
    ("GET", "/v1/functions/{name}", View),
    ("PUT", "/v1/functions/{name}", Administer),
    ("DELETE", "/v1/functions/{name}", Administer),
    ("GET", "/v1/functions/{name}/diff", View),
    ("GET", "/v1/functions/{name}/generations", View),
    ("GET", "/v1/functions/{name}/generations/{generation}", View),
    ("POST", "/v1/functions/{name}/rollback", Administer),
    ("GET", "/v1/groups", View),
    ("GET", "/v1/groups/{name}", View),
    ("PUT", "/v1/groups/{name}", Operate),
    ("DELETE", "/v1/groups/{name}", Operate),
    ("GET", "/v1/groups/{name}/diff", View),
    ("GET", "/v1/groups/{name}/generations", View),
    ("GET", "/v1/groups/{name}/generations/{generation}", View),
    ("POST", "/v1/groups/{name}/rollback", Operate),
    ("GET", "/v1/hosts", View),
    ("GET", "/v1/hosts/{name}", View),
    ("GET", "/v1/hosts/{name}/checkup", View),
    ("GET", "/v1/tokens", Administer),
    ("POST", "/v1/tokens", Administer),
    ("DELETE", "/v1/tokens/{name}", Administer),
];

/// The role that an operation needs, if there is such an operation.
pub fn role_of(method: &str, path: &str) -> Option<Role> {
    let found = ROLES.iter().find(|(one, of, _)| *one == method && *of == path);
    found.map(|(_, _, role)| *role)
}
