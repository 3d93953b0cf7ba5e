"""Programs that run in processes of their own, because what they try may hang or crash."""
