//! Who owns a frame: pools, batches, metadata.
