"""Pod templates in PaddleJobs: which fields they can have, and who tells of others."""
