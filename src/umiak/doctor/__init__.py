"""`umiak doctor`: finds out why it does not work, on this machine and on a place.

    values     verdicts      what a check says: ok, warning, problem, skipped, with reason and hint
               request       what the job would use: hosts, master, ports, devices
               facts         what was measured, one value for each check
               checks        the table of all checks
    deciders   judging/      facts in, findings out
               report        findings as a table and as JSON
    adapters   gathering/    facts, measured
               running       all checks at once, each with its time limit
    programs   trials/       what runs in processes of its own: importing a framework, a collective

No framework is imported in the doctor's own process: one that hangs or crashes is a finding, and no end of the doctor.
"""
