"""`umiak.run`: a function or a script as a job under `umiak launch`, from Python and from notebooks;
and `umiak.place`, submission.

run        the call itself, as the caller sees it
launcher   the launcher's process, which ends with the caller
worker     the process of one rank, which calls the function
exchange   functions and results as files that only this user can write
options    keyword options to flags of `umiak launch`
results    what comes back
places     `umiak.place`: submitted jobs
"""
