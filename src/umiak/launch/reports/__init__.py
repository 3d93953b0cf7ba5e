"""What a launch tells people: the console, log files, failures in words. A package."""
