"""From a config and an environment to who does what."""
