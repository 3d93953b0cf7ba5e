module umiak-testbed/pause

go 1.26.0
