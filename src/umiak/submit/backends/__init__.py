"""The places where jobs can run, each behind the protocol of `umiak.submit.backend`."""
