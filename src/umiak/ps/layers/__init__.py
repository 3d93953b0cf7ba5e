"""What `umiak.ps.paddle` and `umiak.ps.torch` have in common. Adapters, without a framework."""
