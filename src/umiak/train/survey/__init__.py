"""`umiak train --survey DIRECTORY`: which of many configs run here, and why the others don't. A package.

look      every config below a directory, judged without running anything of it
imports   what Python files import, as far as their texts say it
packages  which of that is not installed here
obstacles what of it keeps a plan from being carried out
rows      what came of it, as lines and as data
"""
