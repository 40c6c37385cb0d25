//! Requests and responses.

/// Which of the two a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// From client to server.
    #[default]
    Request,
    /// From server to client.
    Response,
}
