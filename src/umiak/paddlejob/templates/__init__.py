"""Pod templates in PaddleJobs: which fields they can have, who tells of others, and which launcher they start."""
