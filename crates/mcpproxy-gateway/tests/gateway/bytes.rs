//! Arguments, results and lists pass the gateway byte for byte.
