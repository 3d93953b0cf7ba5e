"""What becomes of a job, one function per question: failures, restarts, success, clean-up, ports, gangs.
Deciders only.
"""
