"""The command line of `umiak launch`: flags as tables, and what they mean for the job.

own                                       umiak's own flags, and the table of all
paddle, paddle_flags, paddle_servers      those of Paddle's launcher
paddle_old_flags                          those of its older versions
torchrun, torchrun_flags, torchrun_console
addresses                                 of nodes and masters, as flags say them
reading                                   a command line to `LaunchOptions`
"""
