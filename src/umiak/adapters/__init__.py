"""The only input and output, without any policy: sockets, processes, files, clocks, devices."""
