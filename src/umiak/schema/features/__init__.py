"""The section ``features:`` of a config: its keys, its meaning, and how it is read. No data is needed for it: that is `umiak.data.features`."""
