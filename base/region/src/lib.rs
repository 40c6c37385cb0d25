//! Shared memory regions: memfd, huge pages when there are any.
