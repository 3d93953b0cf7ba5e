"""Configs of PaddleRec 2, whose models and readers are run unchanged: what lies beside a config, and the dictionary that its code gets. A package."""
