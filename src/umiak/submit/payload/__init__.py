"""What travels to the nodes with a job: the launcher as one file, the job's own files, and its data in and out."""
