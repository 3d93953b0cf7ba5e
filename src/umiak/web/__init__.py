"""HTTP servers of umiak: messages, connections, who may ask, TLS. The dashboard and `umiak serve` stand on it."""
