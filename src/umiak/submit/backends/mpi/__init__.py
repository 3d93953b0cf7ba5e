"""mpirun, Open MPI's or MPICH's: one launcher on every host of a list."""
